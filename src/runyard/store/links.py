"""A connection with its transaction, as a unit of work holds it: how work gets to the database, and who waits for it.

SQLite answers in microseconds, and a hop to a thread and back costs more than most statements do. So they run where
the unit of work runs; what could hold up everybody else goes to a thread: the commit, which waits for the disk,
deletions, and reads that turn out to be long. PostgreSQL is asked over the network, and awaited.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Literal, Protocol, TypeVar, cast

from sqlalchemy import Connection, Engine, exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

T = TypeVar("T")
Work = Callable[[Connection], T]
Sort = Literal["read", "write", "long"]

# How long a read may keep everybody waiting before it is begun again on a thread, and how often that is looked at.
PATIENCE_SECONDS = 0.005
STEPS_BETWEEN_LOOKS = 2_000
# How long a program other than this one may hold the file: while everybody waits, and while a thread does.
SHORT_WAIT_MILLISECONDS = 50
LONG_WAIT_MILLISECONDS = 10_000


class Link(Protocol):
    """Begins its transaction with the first work; without any, nothing was ever connected."""

    async def run(self, work: Work[T], sort: Sort) -> T:
        """Do it inside the transaction. `long`: a write that may take its time."""

    async def commit(self) -> None:
        """Keep everything."""

    async def close(self) -> None:
        """Undo what was not committed, and give the connection back."""


class Links(Protocol):
    """Where links come from."""

    @property
    def is_sqlite(self) -> bool:
        """Whether one writer at a time is the rule anyway."""

    def make(self) -> Link:
        """A new one, not connected yet."""

    async def dispose(self) -> None:
        """End the connections."""


class SqliteLinks:
    """Connections to SQLite, so many at a time; who comes later waits here, in order, and not on SQLite's lock."""

    is_sqlite = True

    def __init__(self, engine: Engine, *, size: int, wait_seconds: float) -> None:
        self.engine = engine
        self.turns = asyncio.Semaphore(size)
        self.wait_seconds = wait_seconds
        self.threads = ThreadPoolExecutor(max_workers=size, thread_name_prefix="store")

    def make(self) -> "SqliteLink":
        """A new one, not connected yet."""
        return SqliteLink(self)

    async def take_turn(self) -> None:
        """Wait for one of the connections."""
        if not self.turns.locked():
            await self.turns.acquire()
            return
        try:
            async with asyncio.timeout(self.wait_seconds):
                await self.turns.acquire()
        except TimeoutError as error:
            raise exc.TimeoutError("all connections are taken") from error

    async def dispose(self) -> None:
        """End the connections."""
        self.engine.dispose()
        self.threads.shutdown()


class SqliteLink:
    """`Link` to SQLite."""

    def __init__(self, links: SqliteLinks) -> None:
        self._links = links
        self._connection: Connection | None = None

    async def run(self, work: Work[T], sort: Sort) -> T:
        """Do it inside the transaction; here and now, unless it takes long."""
        connection = await self._connect()
        if sort == "long":
            return await self._run_on_thread(lambda: work(connection))
        if sort == "write":
            # Not to be interrupted: that would undo the whole transaction.
            return work(connection)
        return await self._read(connection, work)

    async def commit(self) -> None:
        """Keep everything."""
        if self._connection is not None:
            await self._run_on_thread(self._connection.commit)

    async def close(self) -> None:
        """Undo what was not committed, and give the connection back."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._links.turns.release()

    async def _connect(self) -> Connection:
        if self._connection is None:
            await self._links.take_turn()
            try:
                self._connection = await self._begin()
            except BaseException:
                self._links.turns.release()
                raise
        return self._connection

    async def _begin(self) -> Connection:
        connection = self._links.engine.connect()
        try:
            try:
                connection.begin()
            except exc.OperationalError as error:
                # Some other program writes to the file.
                if not _is_locked(error):
                    raise
                await self._run_on_thread(lambda: _begin_patiently(connection))
        except BaseException:
            connection.close()
            raise
        return connection

    async def _read(self, connection: Connection, work: Work[T]) -> T:
        driver = _get_driver(connection)
        until = perf_counter() + PATIENCE_SECONDS
        driver.set_progress_handler(lambda: perf_counter() > until, STEPS_BETWEEN_LOOKS)
        try:
            return work(connection)
        except exc.OperationalError as error:
            if getattr(error.orig, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
                raise
        finally:
            driver.set_progress_handler(None, 0)
        return await self._run_on_thread(lambda: work(connection))

    async def _run_on_thread(self, work: Callable[[], T]) -> T:
        """Even who is cancelled leaves only when the thread is done: two must never have one connection."""
        future = asyncio.get_running_loop().run_in_executor(self._links.threads, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                try:
                    await asyncio.wait([future])
                except asyncio.CancelledError:
                    continue
            raise


class PostgresqlLinks:
    """Connections to PostgreSQL; the pool of the engine makes who comes later wait."""

    is_sqlite = False

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    def make(self) -> "PostgresqlLink":
        """A new one, not connected yet."""
        return PostgresqlLink(self.engine)

    async def dispose(self) -> None:
        """End the connections."""
        await self.engine.dispose()


class PostgresqlLink:
    """`Link` to PostgreSQL."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._connection: AsyncConnection | None = None

    async def run(self, work: Work[T], sort: Sort) -> T:  # noqa: ARG002 - the server does all sorts in its own time
        """Do it inside the transaction. The first work is begun again where the connection was lost while it rested:
        nothing was done in it yet. To try every connection before would cost as much as three statements.
        """
        if self._connection is not None:
            return await self._connection.run_sync(work)
        try:
            return await self._begin_with(work)
        except exc.DBAPIError as error:
            if not error.connection_invalidated:
                raise
        await self.close()
        return await self._begin_with(work)

    async def commit(self) -> None:
        """Keep everything."""
        if self._connection is not None:
            await self._connection.commit()

    async def close(self) -> None:
        """Undo what was not committed, and give the connection back."""
        if self._connection is not None:
            # Whoever is cancelled twice still gives the connection back.
            await asyncio.shield(asyncio.create_task(self._connection.close()))
            self._connection = None

    async def _begin_with(self, work: Work[T]) -> T:
        self._connection = await self._engine.connect()
        return await self._connection.run_sync(work)


def _get_driver(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.dbapi_connection)


def _is_locked(error: exc.OperationalError) -> bool:
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _begin_patiently(connection: Connection) -> None:
    driver = _get_driver(connection)
    driver.execute(f"PRAGMA busy_timeout = {LONG_WAIT_MILLISECONDS}")
    try:
        connection.begin()
    finally:
        driver.execute(f"PRAGMA busy_timeout = {SHORT_WAIT_MILLISECONDS}")
