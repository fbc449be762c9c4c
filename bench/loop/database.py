"""A second connection to the database under measurement: it reads what was stored, and copies rows."""

import asyncio
import sqlite3
from typing import Any, Protocol
from urllib.parse import urlsplit

import asyncpg  # type: ignore[import-untyped]


class Database(Protocol):
    """A connection of the bench's own, outside the store."""

    async def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement that reads."""

    async def execute(self, statement: str) -> None:
        """Execute a statement that writes; waits for the writer of the store."""

    async def close(self) -> None:
        """Close the connection."""


class _Sqlite:
    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)

    async def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement).fetchall()

    async def execute(self, statement: str) -> None:
        # On a thread: the writer that it may wait for needs the event loop.
        await asyncio.to_thread(self._connection.execute, statement)

    async def close(self) -> None:
        self._connection.close()


class _Postgresql:
    def __init__(self, connection: "asyncpg.Connection") -> None:
        self._connection = connection

    async def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(statement)]

    async def execute(self, statement: str) -> None:
        await self._connection.execute(statement)

    async def close(self) -> None:
        await self._connection.close()


async def connect(url: str) -> Database:
    """Connect to `sqlite:///path` or `postgresql://…`."""
    if url.startswith("sqlite"):
        return _Sqlite(urlsplit(url).path)
    return _Postgresql(await asyncpg.connect(url))
