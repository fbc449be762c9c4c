"""The store: hands out units of work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from runyard.app.ports import PrunedRows
from runyard.store.driver_errors import translate_errors
from runyard.store.lockfile import ProcessLock
from runyard.store.retention import prune
from runyard.store.session import Session
from runyard.store.transactions import TransactionFactory
from runyard.store.unit_of_work import SqlUnitOfWork


class SqlStore:
    """`app.ports.Store`. Made by `open_store`."""

    def __init__(
        self, *, writer: TransactionFactory, reader: TransactionFactory, shown_url: str, lock: ProcessLock | None = None
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._lock = lock
        self.shown_url = shown_url

    @asynccontextmanager
    async def begin(self, *, is_read_only: bool = False) -> AsyncIterator[SqlUnitOfWork]:
        """A unit of work, which begins when it is first asked. For reading it sees one state of everything, and
        waits for nobody.

        A task that holds one for writing must not begin a second: on SQLite it would wait for itself.
        """
        factory = self._reader if is_read_only else self._writer
        transaction = factory.make()
        session = Session(transaction, is_sqlite=factory.is_sqlite, shown_url=self.shown_url, is_read_only=is_read_only)
        try:
            yield SqlUnitOfWork(session)
        finally:
            session.end()
            with translate_errors(self.shown_url):
                await transaction.close()

    async def prune(self, now: datetime, *, runs_before: datetime | None, audit_before: datetime | None) -> PrunedRows:
        """Delete runs that ended, and audit entries written, before those times; None deletes nothing."""
        return await prune(self, now, runs_before=runs_before, audit_before=audit_before)

    async def close(self) -> None:
        """Give connections back, and the database to other processes. Idempotent."""
        await self._reader.dispose()
        await self._writer.dispose()
        if self._lock is not None:
            self._lock.release()
