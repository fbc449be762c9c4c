"""A second connection to the database under measurement: it reads what was stored, and copies rows."""

import sqlite3
from typing import Any, Protocol
from urllib.parse import urlsplit

import asyncpg  # type: ignore[import-untyped]


class Database(Protocol):
    """A connection of the bench's own, outside the store."""

    async def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""

    async def close(self) -> None:
        """Close the connection."""


class _Sqlite:
    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)

    async def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement).fetchall()

    async def close(self) -> None:
        self._connection.close()


class _Postgresql:
    def __init__(self, connection: "asyncpg.Connection") -> None:
        self._connection = connection

    async def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(statement)]

    async def close(self) -> None:
        await self._connection.close()


async def connect(url: str) -> Database:
    """Connect to `sqlite:///path` or `postgresql://…`."""
    if url.startswith("sqlite"):
        return _Sqlite(urlsplit(url).path)
    return _Postgresql(await asyncpg.connect(url))
