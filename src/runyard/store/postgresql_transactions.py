"""PostgreSQL is asked over the network, and awaited."""

import asyncio

from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from runyard.store.transactions import T, Work, WorkKind


class PostgresqlTransactionFactory:
    """Connections to PostgreSQL; the pool of the engine makes who comes later wait."""

    is_sqlite = False

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    def make(self) -> "PostgresqlTransaction":
        """A new one, not connected yet."""
        return PostgresqlTransaction(self.engine)

    async def dispose(self) -> None:
        """End the connections."""
        await self.engine.dispose()


class PostgresqlTransaction:
    """`Transaction` to PostgreSQL."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._connection: AsyncConnection | None = None

    async def run(self, work: Work[T], work_kind: WorkKind) -> T:  # noqa: ARG002 - the server does all sorts in its own time
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
