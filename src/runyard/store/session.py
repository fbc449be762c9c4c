"""A connection inside one transaction, with what differs between the engines."""

from collections.abc import Iterable, Mapping, Sequence
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

from runyard.store.driver_errors import translate_errors
from runyard.store.errors import ReadOnly, UnstorableText
from runyard.store.expressions import Insert, is_one_of, make_insert
from runyard.store.transactions import T, Transaction, Work, WorkKind

MANY_ROWS = 100
Parameters = Mapping[str, Any] | None
_LOCK, _LOCK_SHARED = (
    select(take(bindparam("key", type_=BigInteger())))
    for take in (func.pg_advisory_xact_lock, func.pg_advisory_xact_lock_shared)
)


class Session:
    """What the repositories of one unit of work share. Errors leave it as ours.

    Statements that are executed often are made once, with parameters: to make one takes longer than to execute it.
    """

    def __init__(
        self, transaction: Transaction, *, is_sqlite: bool, shown_url: str, is_read_only: bool = False
    ) -> None:
        self._transaction = transaction
        self._shown_url = shown_url
        self._is_read_only = is_read_only
        self._is_over = False
        self.is_sqlite = is_sqlite
        """Whether one writer at a time is the rule anyway."""

    async def fetch_all(self, statement: Executable, parameters: Parameters = None) -> Sequence[RowMapping]:
        """All rows; none where a text in a condition is such that no database could hold it."""
        self._check_open()
        try:
            return await self._run(lambda connection: _fetch(connection, statement, parameters), "read")
        except UnstorableText:
            return ()

    async def fetch_one(self, statement: Executable, parameters: Parameters = None) -> RowMapping | None:
        """The first row, or None; a text that no database could hold finds none."""
        rows = await self.fetch_all(statement, parameters)
        return rows[0] if rows else None

    async def fetch_value(self, statement: Executable, parameters: Parameters = None) -> Any:
        """The first column of the first row, or None."""
        row = await self.fetch_one(statement, parameters)
        return None if row is None else next(iter(row.values()))

    async def write(self, statement: Executable, parameters: Parameters = None) -> int:
        """How many rows it wrote. Raises `UnstorableText` for a text that cannot be kept; to delete such finds none."""
        self._check_writable()
        try:
            return await self._run(
                lambda connection: connection.execute(statement, parameters).rowcount, _work_kind_of(statement)
            )
        except UnstorableText:
            if isinstance(statement, Delete):
                return 0
            raise

    async def write_all(self, statement: Executable, rows: Iterable[Mapping[str, Any]]) -> None:
        """The same statement for many rows."""
        self._check_writable()
        if parameters := [dict(row) for row in rows]:
            work_kind: WorkKind = "long" if len(parameters) > MANY_ROWS else "write"
            await self._run(lambda connection: connection.execute(statement, parameters), work_kind)

    async def write_returning(self, statement: Executable, parameters: Parameters = None) -> Sequence[RowMapping]:
        """The rows that it wrote, or deleted."""
        self._check_writable()
        try:
            return await self._run(
                lambda connection: _fetch(connection, statement, parameters), _work_kind_of(statement)
            )
        except UnstorableText:
            if isinstance(statement, Delete):
                return ()
            raise

    def insert_into(self, table: Table) -> Insert:
        """An insert that knows `on_conflict_do_…`."""
        return make_insert(table, is_sqlite=self.is_sqlite)

    async def lock(self, name: str, *, is_shared: bool = False) -> None:
        """Until the end of the unit of work nobody else passes here with that name, but for sharers among themselves.

        SQLite writes one by one anyway: there it is enough to have begun.
        """
        self._check_writable()
        if self.is_sqlite:
            await self._run(lambda _: None, "write")
            return
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        key = int.from_bytes(digest, "big", signed=True)
        await self.fetch_all(_LOCK_SHARED if is_shared else _LOCK, {"key": key})

    def is_one_of(self, column: ColumnElement[Any], values: Iterable[str]) -> ColumnElement[bool]:
        """Whether it is among them, however many they are."""
        return is_one_of(column, sorted(values), is_sqlite=self.is_sqlite)

    async def commit(self) -> None:
        """Keep everything; the session is over."""
        self._check_open()
        with translate_errors(self._shown_url):
            await self._transaction.commit()
        self.end()

    def end(self) -> None:
        """Nothing can be asked or written any more."""
        self._is_over = True

    async def _run(self, work: Work[T], work_kind: WorkKind) -> T:
        with translate_errors(self._shown_url):
            return await self._transaction.run(work, work_kind)

    def _check_open(self) -> None:
        if self._is_over:
            raise RuntimeError("this unit of work is over: it was committed or left")

    def _check_writable(self) -> None:
        self._check_open()
        if self._is_read_only:
            raise ReadOnly("this unit of work was begun for reading, and something was to be written")


def _fetch(connection: Connection, statement: Executable, parameters: Parameters) -> Sequence[RowMapping]:
    return connection.execute(statement, parameters).mappings().all()


def _work_kind_of(statement: Executable) -> WorkKind:
    """Only deletions take along an unknown number of rows, of their own and of those that refer to them."""
    return "long" if isinstance(statement, Delete) else "write"
