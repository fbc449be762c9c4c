"""Reads the schema revision of a database, without alembic and without writing."""

import asyncio
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal
from urllib.parse import quote

from sqlalchemy import text

from runyard.store.connections import make_postgresql_engine
from runyard.store.driver_errors import translate_errors
from runyard.store.errors import ForeignSchema, FutureSchema, OldSchema
from runyard.store.urls import DatabaseUrl, PostgresUrl, SqliteUrl, parse_url

VERSION_TABLE = "alembic_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStatus:
    """The schema status of a database. `pending` are the revisions that an upgrade would apply, in order."""

    state: Literal["empty", "current", "old", "future", "foreign"]
    revision: str | None
    head: str
    pending: tuple[str, ...]
    shown_url: str

    def check_usable(self) -> None:
        """Raises `OldSchema`, or what `check_upgradable` raises."""
        self.check_upgradable()
        if self.state == "old":
            raise OldSchema(
                f"{self.shown_url} is at revision {self.revision} and this release works with {self.head}: "
                "make a backup, then run `runyard db upgrade`"
            )

    def check_upgradable(self) -> None:
        """Raises `FutureSchema` or `ForeignSchema` for databases that this release must not change."""
        if self.state == "future":
            raise FutureSchema(
                f"{self.shown_url} is at revision {self.revision}, which this release does not know (it knows up to "
                f"{self.head}): a newer release made it; it was left untouched"
            )
        if self.state == "foreign":
            raise ForeignSchema(f"{self.shown_url} holds tables that are not Runyard's; it was left untouched")


async def read_status(url: str) -> SchemaStatus:
    """Read the schema status. Writes nothing; a missing SQLite file counts as an empty database."""
    return await read_schema(parse_url(url))


async def read_schema(url: DatabaseUrl) -> SchemaStatus:
    """The same for a parsed URL."""
    if isinstance(url, SqliteUrl):
        tables, revisions = await asyncio.to_thread(_read_sqlite, url)
    else:
        tables, revisions = await _read_postgresql(url)
    return _classify(tables, revisions, shown_url=url.shown)


def list_known_revisions() -> list[str]:
    """The revisions of this release, oldest first, from the names of the scripts."""
    names = (entry.name for entry in files("runyard.store.migrations.versions").iterdir())
    return sorted(name[1:].partition("_")[0] for name in names if name.startswith("r") and name.endswith(".py"))


def _classify(tables: Collection[str], revisions: Collection[str], *, shown_url: str) -> SchemaStatus:
    known = list_known_revisions()
    revision = ", ".join(sorted(revisions)) or None
    pending: tuple[str, ...] = ()
    state: Literal["empty", "current", "old", "future", "foreign"]
    if revision is None:
        # An interrupted first migration leaves only the table of versions.
        state = "foreign" if set(tables) - {VERSION_TABLE} else "empty"
        pending = tuple(known) if state == "empty" else ()
    elif revision not in known:
        state = "future"
    else:
        pending = tuple(known[known.index(revision) + 1 :])
        state = "old" if pending else "current"
    return SchemaStatus(state=state, revision=revision, head=known[-1], pending=pending, shown_url=shown_url)


def _read_sqlite(url: SqliteUrl) -> tuple[set[str], set[str]]:
    if not url.path.exists() or url.path.stat().st_size == 0:
        return set(), set()
    try:
        connection = sqlite3.connect(f"file:{quote(str(url.path))}?mode=ro", uri=True, timeout=10)
        try:
            rows = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
            tables = {name for (name,) in rows}
            revisions = set()
            if VERSION_TABLE in tables:
                revisions = {name for (name,) in connection.execute("SELECT version_num FROM alembic_version")}
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise ForeignSchema(f"{url.shown} cannot be read as a database: {error}; it was left untouched") from error
    return tables, revisions


async def _read_postgresql(url: PostgresUrl) -> tuple[set[str], set[str]]:
    engine = make_postgresql_engine(url, size=1)
    try:
        with translate_errors(url.shown):
            async with engine.connect() as connection:
                found = await connection.execute(
                    text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
                )
                tables = set(found.scalars())
                if VERSION_TABLE not in tables:
                    return tables, set()
                versions = await connection.execute(text("SELECT version_num FROM alembic_version"))
                return tables, set(versions.scalars())
    finally:
        await engine.dispose()
