"""A connection in one transaction, and the differences between the engines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Delete,
    Executable,
    RowMapping,
    Table,
    bindparam,
    func,
    select,
)

from runyard.app.document_thread import is_large
from runyard.store.columns import is_storable_name
from runyard.store.driver_errors import translate_errors
from runyard.store.errors import ReadOnly, UnstorableText
from runyard.store.expressions import Insert, is_one_of, make_insert
from runyard.store.notifications import make_payloads, send_notifications
from runyard.store.transactions import T, Transaction, Work, WorkKind

MANY_ROWS = 100
Parameters = Mapping[str, Any] | None
_LOCK, _LOCK_SHARED = (
    select(take(bindparam("key", type_=BigInteger())))
    for take in (func.pg_advisory_xact_lock, func.pg_advisory_xact_lock_shared)
)


class Session:
    """Shared by the repositories of one unit of work. Translates errors of the drivers.

    Frequent statements are built once, with parameters: building one takes longer than executing it.
    """

    def __init__(
        self, transaction: Transaction, *, is_sqlite: bool, shown_url: str, is_read_only: bool = False, origin: str = ""
    ) -> None:
        self._transaction = transaction
        self._shown_url = shown_url
        self._is_read_only = is_read_only
        self._is_over = False
        self._origin = origin
        self._changed_runs: set[str] = set()
        self.is_sqlite = is_sqlite
        """Whether the database has a single writer."""

    async def fetch_all(
        self, statement: Executable, parameters: Parameters = None, *, is_long: bool = False
    ) -> Sequence[RowMapping]:
        """All rows; on a thread if that is known to take long. None if no database can store a text in a condition."""
        self._check_open()
        try:
            return await self._run(
                lambda connection: _fetch(connection, statement, parameters), "long" if is_long else "read"
            )
        except UnstorableText:
            return ()

    async def fetch_one(self, statement: Executable, parameters: Parameters = None) -> RowMapping | None:
        """The first row, or None."""
        rows = await self.fetch_all(statement, parameters)
        return rows[0] if rows else None

    async def fetch_value(self, statement: Executable, parameters: Parameters = None) -> Any:
        """The first column of the first row, or None."""
        row = await self.fetch_one(statement, parameters)
        return None if row is None else next(iter(row.values()))

    async def write(self, statement: Executable, parameters: Parameters = None, *, documents: Any = None) -> int:
        """Returns the number of rows. Raises `UnstorableText`, except for deletions, which then match nothing.

        Large documents among its values make the statement long.
        """
        self._check_writable()
        work_kind: WorkKind = "long" if is_large(documents) else _work_kind_of(statement)
        try:
            return await self._run(lambda connection: connection.execute(statement, parameters).rowcount, work_kind)
        except UnstorableText:
            if isinstance(statement, Delete):
                return 0
            raise

    async def write_all(self, statement: Executable, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute a statement for many rows."""
        self._check_writable()
        if parameters := [dict(row) for row in rows]:
            work_kind: WorkKind = "long" if len(parameters) > MANY_ROWS else "write"
            # One row is not sent as a batch, which takes longer.
            given = parameters if len(parameters) > 1 else parameters[0]
            await self._run(lambda connection: connection.execute(statement, given), work_kind)

    async def write_returning(
        self, statement: Executable, parameters: Parameters = None, *, documents: Any = None
    ) -> Sequence[RowMapping]:
        """Execute a statement with RETURNING; large documents among its values make it long."""
        self._check_writable()
        work_kind: WorkKind = "long" if is_large(documents) else _work_kind_of(statement)
        try:
            return await self._run(lambda connection: _fetch(connection, statement, parameters), work_kind)
        except UnstorableText:
            if isinstance(statement, Delete):
                return ()
            raise

    def insert_into(self, table: Table) -> Insert:
        """An insert with `on_conflict_do_…`."""
        return make_insert(table, is_sqlite=self.is_sqlite)

    async def lock(self, name: str, *, is_shared: bool = False) -> None:
        """Take a lock of that name until the end of the unit of work, exclusive or shared (advisory lock).

        SQLite has a single writer: there the write transaction itself is the lock.
        """
        self._check_writable()
        if self.is_sqlite:
            await self._run(lambda _: None, "write")
            return
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        key = int.from_bytes(digest, "big", signed=True)
        await self.fetch_all(_LOCK_SHARED if is_shared else _LOCK, {"key": key})

    def is_one_of(self, column: ColumnElement[Any], values: Iterable[str]) -> ColumnElement[bool]:
        """Whether the column, a `Name`, is one of the values, however many."""
        return is_one_of(column, sorted(filter(is_storable_name, values)), is_sqlite=self.is_sqlite)

    def make_notification(self, run_uid: str) -> str:
        """The payload that notifies other processes of this run, for `notifications.notify_row`."""
        return next(make_payloads(self._origin, [run_uid]))

    def note_changed_runs(self, run_uids: Iterable[str]) -> None:
        """Other processes are to be notified of these runs, in this transaction. Only PostgreSQL has others."""
        if not self.is_sqlite:
            self._changed_runs.update(run_uids)

    async def commit(self, *, meanwhile: Callable[[], None] | None = None) -> None:
        """Commit and end the session. `meanwhile` is called once the commit has begun."""
        self._check_open()
        if self._changed_runs:
            changed, origin = self._changed_runs, self._origin
            await self._run(lambda connection: send_notifications(connection, origin, changed), "write")
        with translate_errors(self._shown_url):
            await self._transaction.commit(meanwhile=meanwhile)
        self.end()

    def end(self) -> None:
        """End the session; every later statement raises."""
        self._is_over = True

    async def _run(self, work: Work[T], work_kind: WorkKind) -> T:
        with translate_errors(self._shown_url):
            return await self._transaction.run(work, work_kind)

    def _check_open(self) -> None:
        if self._is_over:
            raise RuntimeError("this unit of work has ended")

    def _check_writable(self) -> None:
        self._check_open()
        if self._is_read_only:
            raise ReadOnly("write in a read-only unit of work")


def _fetch(connection: Connection, statement: Executable, parameters: Parameters) -> Sequence[RowMapping]:
    return connection.execute(statement, parameters).mappings().all()


def _work_kind_of(statement: Executable) -> WorkKind:
    """Deletions are long: they affect an unknown number of rows."""
    return "long" if isinstance(statement, Delete) else "write"
