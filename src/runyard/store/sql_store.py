"""The store: opens a database and hands out units of work."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

from runyard import store
from runyard.store.connections import make_read_only_factory, make_transaction_factory
from runyard.store.driver_errors import translate_errors
from runyard.store.errors import StoreUnavailable
from runyard.store.lockfile import ProcessLock, take_file
from runyard.store.notifications import Listener
from runyard.store.schema import read_schema
from runyard.store.session import Session
from runyard.store.transactions import TransactionFactory
from runyard.store.unit_of_work import SqlUnitOfWork
from runyard.store.urls import DatabaseUrl, SqliteUrl, parse_url


async def open_store(url: str, *, is_upgrading: bool = False) -> "SqlStore":
    """Open `sqlite:///path` or `postgresql://…`. Creates the tables of an empty database; refuses an old schema.

    With `is_upgrading` an old schema is migrated first. Raises a `StoreError` that says what to do: `WrongUrl`,
    `StoreLocked`, `StoreUnavailable`, `OldSchema`, `FutureSchema`, `ForeignSchema`.
    """
    place = parse_url(url)
    if not isinstance(place, SqliteUrl):
        await _ensure_schema(place, is_upgrading=is_upgrading)
        writer, reader = make_transaction_factory(place)
        origin = token_hex(8)
        listener = Listener(place, origin=origin)
        return SqlStore(writer=writer, reader=reader, shown_url=place.shown, origin=origin, listener=listener)
    lock = take_file(place.path)
    try:
        await _ensure_schema(place, is_upgrading=is_upgrading)
        writer, reader = make_transaction_factory(place)
        store = SqlStore(writer=writer, reader=reader, shown_url=place.shown, path=place.path, lock=lock)
        await _end_leases(store)
    except BaseException:
        lock.release()
        raise
    return store


async def open_read_only(url: str) -> "SqlStore":
    """Open a database for reading only, also while a server uses it. Raises a `StoreError`, also if it is empty."""
    place = parse_url(url)
    status = await read_schema(place)
    if status.state == "empty":
        raise StoreUnavailable(f"{place.shown} is empty or does not exist: nothing to read")
    status.check_usable()
    factory = make_read_only_factory(place)
    return SqlStore(writer=factory, reader=factory, shown_url=place.shown)


class SqlStore:
    """`app.ports.Store`. Made by `open_store`."""

    def __init__(
        self,
        *,
        writer: TransactionFactory,
        reader: TransactionFactory,
        shown_url: str,
        path: Path | None = None,
        lock: ProcessLock | None = None,
        origin: str = "",
        listener: Listener | None = None,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._path = path
        self._lock = lock
        self._origin = origin
        self._listener = listener
        self.shown_url = shown_url

    @property
    def is_shared(self) -> bool:
        """Whether other processes may use the database; SQLite has one."""
        return not self._writer.is_sqlite

    async def find_free_bytes(self) -> int | None:
        """What the disk of the file has left for this process; None for PostgreSQL."""
        if self._path is None:
            return None
        try:
            disk = await asyncio.to_thread(os.statvfs, self._path)
        except OSError as error:
            raise StoreUnavailable(f"{self.shown_url}: its disk cannot be asked: {error}") from error
        # File systems keep a reserve that only root may use.
        return (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize

    @asynccontextmanager
    async def begin(self, *, is_read_only: bool = False, is_urgent: bool = False) -> AsyncIterator[SqlUnitOfWork]:
        """A unit of work; its transaction begins with the first statement. A read-only one sees one snapshot and never
        waits for writers. On SQLite an urgent one goes before all others that wait.

        A task that holds one for writing must not begin a second: on SQLite that is a deadlock.
        """
        factory = self._reader if is_read_only else self._writer
        transaction = factory.make(is_urgent=is_urgent)
        session = Session(
            transaction,
            is_sqlite=factory.is_sqlite,
            shown_url=self.shown_url,
            is_read_only=is_read_only,
            origin=self._origin,
        )
        try:
            yield SqlUnitOfWork(session)
        finally:
            session.end()
            with translate_errors(self.shown_url):
                await transaction.close()

    async def listen(self) -> AsyncIterator[Sequence[str]]:
        """Batches of uids of runs that other processes changed; empty: some may have been missed. Never ends."""
        if self._listener is None:
            await asyncio.Event().wait()
            return
        async for batch in self._listener.listen():
            yield batch

    async def close(self) -> None:
        """Give connections back, and the database to other processes. Idempotent."""
        await self._reader.dispose()
        await self._writer.dispose()
        if self._lock is not None:
            self._lock.release()


async def _end_leases(store: SqlStore) -> None:
    """End the leases that a killed process left behind: its lock on the file is gone, so it is dead."""
    async with store.begin() as work:
        if await work.runs.end_leases(None):
            await work.commit()


async def _ensure_schema(url: DatabaseUrl, *, is_upgrading: bool) -> None:
    status = await read_schema(url)
    if status.state == "empty" or (is_upgrading and status.state == "old"):
        await store.migrate(url)
    else:
        status.check_usable()
