"""Forward migrations with alembic, in one transaction."""

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
# If two servers start on one empty database, the second waits for the first.
_LOCKED_MILLISECONDS = 10_000
_TAKE_TURNS = "SELECT pg_advisory_xact_lock(7301998245006120455)"


async def upgrade(url: str) -> SchemaStatus:
    """Migrate a database to this release; returns its previous status. Idempotent; rolls back on failure.

    Raises `FutureSchema` and `ForeignSchema` for databases that it must not change, and `StoreLocked` while a server
    uses a SQLite database.
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
    """The same, under the lock of the caller. `more_scripts`: directories with further scripts."""
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
    """The configuration of alembic, without a file."""
    config = Config()
    config.set_main_option("script_location", _escape(_SCRIPTS))
    config.set_main_option("path_separator", "newline")
    folders = [_SCRIPTS / "versions", *more_scripts]
    config.set_main_option("version_locations", "\n".join(_escape(folder) for folder in folders))
    return config


def _migrate_sqlite(url: SqliteUrl, more_scripts: Sequence[Path]) -> None:
    # A script that rebuilds a table drops the old one; with foreign keys on, that would delete dependent rows.
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
