"""Migrations: forward, in one transaction, on a database that may hold data."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from runyard.store.connections import make_postgresql_engine, make_sqlite_engine
from runyard.store.driver_errors import translate_errors
from runyard.store.errors import StoreError
from runyard.store.lockfile import take_file
from runyard.store.schema import SchemaStatus, read_schema
from runyard.store.urls import DatabaseUrl, PostgresUrl, SqliteUrl, parse_url

_SCRIPTS = Path(__file__).parent / "migrations"
# Two servers that start at once on one empty database: the second waits, and finds it done.
_LOCKED_MILLISECONDS = 10_000
_TAKE_TURNS = "SELECT pg_advisory_xact_lock(7301998245006120455)"


async def upgrade(url: str) -> SchemaStatus:
    """Bring a database to this release's tables; what it was before. Idempotent; nothing is kept of a failed one.

    Raises `FutureSchema` and `ForeignSchema` for databases that it must not touch, and `StoreLocked` where a server
    is using a SQLite database.
    """
    place = parse_url(url)
    if not isinstance(place, SqliteUrl):
        return await migrate(place)
    lock = take_file(place.path)
    try:
        return await migrate(place)
    finally:
        lock.release()


async def migrate(url: DatabaseUrl, *, more_scripts: Sequence[Path] = ()) -> SchemaStatus:
    """The same under the lock of the caller. `more_scripts`: folders with scripts that follow ours."""
    before = await read_schema(url)
    before.check_upgradable()
    if before.state == "current" and not more_scripts:
        return before
    with translate_errors(url.shown):
        if isinstance(url, SqliteUrl):
            await asyncio.to_thread(_migrate_sqlite, url, more_scripts)
        else:
            await _migrate_postgresql(url, more_scripts)
    return before


def make_config(more_scripts: Sequence[Path] = ()) -> Config:
    """What alembic needs to know; no file of settings takes part."""
    config = Config()
    config.set_main_option("script_location", _escape(_SCRIPTS))
    config.set_main_option("path_separator", "newline")
    folders = [_SCRIPTS / "versions", *more_scripts]
    config.set_main_option("version_locations", "\n".join(_escape(folder) for folder in folders))
    return config


def _migrate_sqlite(url: SqliteUrl, more_scripts: Sequence[Path]) -> None:
    # A script that rebuilds a table drops the old one, and with foreign keys that would delete what refers to it.
    engine = make_sqlite_engine(
        url, begin="BEGIN IMMEDIATE", has_foreign_keys=False, locked_milliseconds=_LOCKED_MILLISECONDS
    )
    try:
        with engine.begin() as connection:
            _run_scripts(connection, more_scripts)
    finally:
        engine.dispose()


async def _migrate_postgresql(url: PostgresUrl, more_scripts: Sequence[Path]) -> None:
    engine = make_postgresql_engine(url, size=1, settings={"application_name": "runyard db upgrade"})
    try:
        async with engine.begin() as connection:
            await connection.execute(text(_TAKE_TURNS))
            await connection.run_sync(_run_scripts, more_scripts)
    finally:
        await engine.dispose()


def _run_scripts(connection: Connection, more_scripts: Sequence[Path]) -> None:
    config = make_config(more_scripts)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
        raise StoreError("the upgrade would leave rows that refer to nothing; nothing was changed")


def _escape(path: Path) -> str:
    return str(path).replace("%", "%%")
