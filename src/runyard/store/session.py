"""A connection inside one transaction, with what differs between the engines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Delete, Executable, RowMapping, Table, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from runyard.store.columns import JsonText, Name, Reference
from runyard.store.errors import ReadOnly, Unstorable
from runyard.store.failures import translate_errors

Insert = sqlite.Insert | postgresql.Insert


class Session:
    """What the repositories of one unit of work share. Errors leave it as ours."""

    def __init__(self, connection: AsyncConnection, *, shown_url: str, is_read_only: bool = False) -> None:
        self._connection = connection
        self._shown_url = shown_url
        self._is_read_only = is_read_only
        self._is_over = False

    @property
    def is_sqlite(self) -> bool:
        """Whether one writer at a time is the rule anyway."""
        return self._connection.dialect.name == "sqlite"

    async def fetch_all(self, statement: Executable) -> Sequence[RowMapping]:
        """All rows; none where a text in a condition is such that no database could hold it."""
        self._check_open()
        try:
            with translate_errors(self._shown_url):
                return (await self._connection.execute(statement)).mappings().all()
        except Unstorable:
            return ()

    async def fetch_one(self, statement: Executable) -> RowMapping | None:
        """The first row, or None; a text that no database could hold finds none."""
        rows = await self.fetch_all(statement)
        return rows[0] if rows else None

    async def fetch_value(self, statement: Executable) -> Any:
        """The first column of the first row, or None."""
        row = await self.fetch_one(statement)
        return None if row is None else next(iter(row.values()))

    async def write(self, statement: Executable) -> int:
        """How many rows it wrote. Raises `Unstorable` for a text that cannot be kept; to delete such finds none."""
        self._check_writable()
        try:
            with translate_errors(self._shown_url):
                return (await self._connection.execute(statement)).rowcount
        except Unstorable:
            if isinstance(statement, Delete):
                return 0
            raise

    async def write_all(self, statement: Executable, rows: Iterable[Mapping[str, Any]]) -> None:
        """The same statement for many rows."""
        self._check_writable()
        if parameters := [dict(row) for row in rows]:
            with translate_errors(self._shown_url):
                await self._connection.execute(statement, parameters)

    async def write_returning(self, statement: Executable) -> Sequence[RowMapping]:
        """The rows that it wrote, or deleted."""
        self._check_writable()
        try:
            with translate_errors(self._shown_url):
                return (await self._connection.execute(statement)).mappings().all()
        except Unstorable:
            if isinstance(statement, Delete):
                return ()
            raise

    def insert_into(self, table: Table) -> Insert:
        """An insert that knows `on_conflict_do_…`."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    async def lock(self, name: str, *, is_shared: bool = False) -> None:
        """Until the end of the unit of work nobody else passes here with that name, but for sharers among themselves.

        SQLite writes one by one anyway.
        """
        self._check_writable()
        if not self.is_sqlite:
            digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            key = int.from_bytes(digest, "big", signed=True)
            take: Callable[..., Any] = func.pg_advisory_xact_lock_shared if is_shared else func.pg_advisory_xact_lock
            await self.fetch_all(select(take(literal(key, BigInteger()))))

    def contains(self, column: ColumnElement[Any], part: str) -> ColumnElement[bool]:
        """Whether the text in the column has that part, letter for letter."""
        find: Callable[..., Any] = func.instr if self.is_sqlite else func.strpos
        return find(column, literal(part, Reference())) > 0  # type: ignore[no-any-return]

    def is_one_of(self, column: ColumnElement[Any], values: Iterable[str]) -> ColumnElement[bool]:
        """Whether it is among them, however many they are."""
        known = sorted(values)
        if self.is_sqlite:
            return column.in_(select(func.json_each(literal(known, JsonText())).table_valued("value").c.value))
        return column == func.any(literal(known, postgresql.ARRAY(Name())))

    async def commit(self) -> None:
        """Keep everything; the session is over."""
        self._check_open()
        with translate_errors(self._shown_url):
            await self._connection.commit()
        self.end()

    def end(self) -> None:
        """Nothing can be asked or written any more."""
        self._is_over = True

    def _check_open(self) -> None:
        if self._is_over:
            raise RuntimeError("this unit of work is over: it was committed or left")

    def _check_writable(self) -> None:
        self._check_open()
        if self._is_read_only:
            raise ReadOnly("this unit of work was begun for reading, and something was to be written")
