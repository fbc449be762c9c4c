"""Transactions on PostgreSQL, with asyncpg."""

import asyncio
from collections.abc import Callable

from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from runyard.store.transactions import T, Work, WorkKind


class PostgresqlTransactionFactory:
    """Connections to PostgreSQL, limited by the pool of the engine."""

    is_sqlite = False

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    def make(self, *, is_urgent: bool = False) -> "PostgresqlTransaction":  # noqa: ARG002 - there are many writers
        """A new transaction, not connected yet."""
        return PostgresqlTransaction(self.engine)

    async def dispose(self) -> None:
        """Close the connections."""
        await self.engine.dispose()


class PostgresqlTransaction:
    """`Transaction` on PostgreSQL."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._connection: AsyncConnection | None = None

    async def run(self, work: Work[T], work_kind: WorkKind) -> T:  # noqa: ARG002 - the server does all sorts in its own time
        """Run it inside the transaction. The first work is retried if an idle connection turns out to be lost; nothing
        was done yet. Testing every connection first would cost as much as three statements.
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

    async def commit(self, *, meanwhile: Callable[[], None] | None = None) -> None:
        """Commit. `meanwhile` is to start tasks only: it is called just before the request is sent."""
        if meanwhile is not None:
            meanwhile()
        if self._connection is not None:
            await self._connection.commit()

    async def close(self) -> None:
        """Roll back what was not committed, and return the connection."""
        if self._connection is not None:
            # Returns the connection even if cancelled twice.
            await asyncio.shield(asyncio.create_task(self._connection.close()))
            self._connection = None

    async def _begin_with(self, work: Work[T]) -> T:
        self._connection = await self._engine.connect()
        return await self._connection.run_sync(work)
