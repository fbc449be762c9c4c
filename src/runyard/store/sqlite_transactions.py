"""Transactions on SQLite. Short statements run on the event loop: a hop to a thread costs more than most of them.

Everything that could block the loop runs on a thread: commits, which wait for the disk, deletions, reads that turn out
to be long, and waiting for another program that has locked the file.
"""

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import cast

from sqlalchemy import Connection, Engine, exc

from runyard.store.errors import StoreUnavailable
from runyard.store.transactions import T, Work, WorkKind

# How long a unit of work may block the event loop. After that a read is restarted on a thread, and other tasks run
# after a statement.
PATIENCE_SECONDS = 0.005
# The same for an urgent one, between its statements: while thousands of tasks wait, each turn of the event loop takes
# long, and an urgent unit of work would wait for one after nearly every statement.
URGENT_PATIENCE_SECONDS = 0.04
STEPS_BETWEEN_LOOKS = 2_000
# How long to wait for another program that has locked the file.
LOCKED_SECONDS = 10.0
_LOOK_SECONDS = 0.01
# How long closing waits for units of work under way.
CLOSING_SECONDS = 5.0


class Turns:
    """A semaphore whose waiters are served in order (FIFO), the urgent ones before all others."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    @property
    def is_free(self) -> bool:
        """Whether nobody has to wait."""
        return self._free > 0

    async def acquire(self, *, is_urgent: bool = False) -> None:
        """Wait for a turn."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._urgent if is_urgent else self._others
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.release()  # it was given together with the cancellation
            raise

    def release(self) -> None:
        """Give a turn back: to who waits, or to the next who comes."""
        for waiting in (self._urgent, self._others):
            while waiting:
                turn = waiting.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1


class SqliteTransactionFactory:
    """Connections to SQLite, limited in number. Others wait here in order, not on SQLite's lock."""

    is_sqlite = True

    def __init__(self, engine: Engine, *, size: int, wait_seconds: float) -> None:
        self.engine = engine
        self._size = size
        self._turns = Turns(size)
        self._wait_seconds = wait_seconds
        self._threads = ThreadPoolExecutor(max_workers=size, thread_name_prefix="store")
        self._closing = asyncio.Lock()
        self._is_closed = False

    def make(self, *, is_urgent: bool = False) -> "SqliteTransaction":
        """A new transaction, not connected yet."""
        return SqliteTransaction(self, is_urgent=is_urgent)

    async def take_turn(self, *, is_urgent: bool = False) -> None:
        """Wait for a connection."""
        self._check_open()
        if self._turns.is_free:
            await self._turns.acquire()
            return
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._turns.acquire(is_urgent=is_urgent)
        except TimeoutError as error:
            raise exc.TimeoutError("all connections are taken") from error

    def give_turn(self) -> None:
        """Return a connection."""
        self._turns.release()

    async def run_on_thread(self, work: Callable[[], T], *, interrupt: Callable[[], None] | None = None) -> T:
        """Run on a thread. Returns only when it is done, even if cancelled: a connection has one user at a time."""
        self._check_open()
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if interrupt is not None:
                interrupt()
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            raise

    async def dispose(self) -> None:
        """Wait for the units of work that are under way, but not for ever; then end the connections. Idempotent."""
        async with self._closing:
            if self._is_closed:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_SECONDS):
                    for _ in range(self._size):
                        await self._turns.acquire()
            self._is_closed = True
            await asyncio.to_thread(self._threads.shutdown)
            self.engine.dispose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")


class SqliteTransaction:
    """`Transaction` on SQLite."""

    def __init__(self, factory: SqliteTransactionFactory, *, is_urgent: bool = False) -> None:
        self._factory = factory
        self._is_urgent = is_urgent
        self._patience_seconds = URGENT_PATIENCE_SECONDS if is_urgent else PATIENCE_SECONDS
        self._connection: Connection | None = None
        self._runs_since = 0.0

    async def run(self, work: Work[T], work_kind: WorkKind) -> T:
        """Run it inside the transaction, on the event loop unless it takes long."""
        connection = self._connection or await self._connect()
        if work_kind == "long":
            return await self._run_on_thread(connection, work)
        if work_kind == "read":
            result = await self._read(connection, work)
        else:
            # Not interruptible: that would roll back the whole transaction.
            result = work(connection)
        if time.perf_counter() - self._runs_since > self._patience_seconds:
            await asyncio.sleep(0)
            self._runs_since = time.perf_counter()
        return result

    async def commit(self, *, meanwhile: Callable[[], None] | None = None) -> None:
        """Commit. `meanwhile` is called when the thread has begun, not before: to begin, the thread needs the
        interpreter's lock, and would wait for it until the event loop has done all of that work.
        """
        if self._connection is not None:
            await self._factory.run_on_thread(partial(_commit, self._connection, meanwhile, asyncio.get_running_loop()))
        elif meanwhile is not None:
            meanwhile()

    async def close(self) -> None:
        """Roll back what was not committed, and return the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            finally:
                self._factory.give_turn()

    async def _connect(self) -> Connection:
        await self._factory.take_turn(is_urgent=self._is_urgent)
        engine = self._factory.engine
        try:
            try:
                self._connection = _begin(engine)
            except exc.OperationalError as error:
                if not _is_locked(error):
                    raise
                self._connection = await self._factory.run_on_thread(lambda: _while_locked(lambda: _begin(engine)))
        except BaseException:
            self._factory.give_turn()
            raise
        self._runs_since = time.perf_counter()
        return self._connection

    async def _read(self, connection: Connection, work: Work[T]) -> T:
        driver = get_driver(connection)
        until = time.perf_counter() + PATIENCE_SECONDS
        driver.set_progress_handler(lambda: time.perf_counter() > until, STEPS_BETWEEN_LOOKS)
        try:
            return work(connection)
        except exc.OperationalError as error:
            if not _is_interrupted(error) and not _is_locked(error):
                raise
        finally:
            driver.set_progress_handler(None, 0)
        return await self._run_on_thread(connection, work)

    async def _run_on_thread(self, connection: Connection, work: Work[T]) -> T:
        driver = get_driver(connection)
        return await self._factory.run_on_thread(
            lambda: _while_locked(lambda: work(connection)), interrupt=driver.interrupt
        )


def _commit(connection: Connection, meanwhile: Callable[[], None] | None, loop: asyncio.AbstractEventLoop) -> None:
    if meanwhile is not None:
        loop.call_soon_threadsafe(meanwhile)
    connection.commit()


def _begin(engine: Engine) -> Connection:
    connection = engine.connect()
    try:
        connection.begin()
    except BaseException:
        connection.close()
        raise
    return connection


def _while_locked(work: Callable[[], T]) -> T:
    """Retry on a thread while another program has locked the file, up to `LOCKED_SECONDS`."""
    until = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            return work()
        except exc.OperationalError as error:
            if not _is_locked(error) or time.monotonic() > until:
                raise
        time.sleep(_LOOK_SECONDS)


def get_driver(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection."""
    return cast("sqlite3.Connection", connection.connection.dbapi_connection)


def _is_locked(error: exc.OperationalError) -> bool:
    # The last byte of an extended code is the primary code.
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _is_interrupted(error: exc.OperationalError) -> bool:
    return getattr(error.orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT
