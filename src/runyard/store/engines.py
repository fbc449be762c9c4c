"""How connections are made and what they are set to."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import URL, Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from runyard.store.errors import WrongUrl
from runyard.store.urls import DatabaseUrl, PostgresUrl, SqliteUrl

READERS = 4
CONNECTIONS = 10
WAIT_SECONDS = 30.0
CONNECT_SECONDS = 10.0
# No statement of ours takes that long; a server that has gone silent does.
STATEMENT_SECONDS = 60.0

_SQLITE_SETTINGS = (
    "PRAGMA busy_timeout = 10000",
    "PRAGMA journal_mode = WAL",
    # An acknowledged commit is on the disk, not only in the page cache.
    "PRAGMA synchronous = FULL",
)
_POSTGRESQL_SETTINGS = {
    "application_name": "runyard",
    "lock_timeout": "30s",
    # A process that stands still in the middle of a transaction must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "60s",
}
# What the administrator made stronger stays; what was made weaker than the promise of `commit` does not.
_KEEP_COMMITS = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)


def make_engines(url: DatabaseUrl) -> tuple[AsyncEngine, AsyncEngine]:
    """For writing and for reading; nothing is connected yet."""
    if isinstance(url, SqliteUrl):
        return (
            make_sqlite_engine(url, begin="BEGIN IMMEDIATE", size=1),
            make_sqlite_engine(url, begin="BEGIN", size=READERS, settings=("PRAGMA query_only = ON",)),
        )
    writer = make_postgresql_engine(url)
    return writer, writer.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def make_sqlite_engine(
    url: SqliteUrl, *, begin: str, size: int = 1, settings: tuple[str, ...] = (), has_foreign_keys: bool = True
) -> AsyncEngine:
    """One writer is all that SQLite lets write, so writers wait for their turn here, in order, and not on its lock."""
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(url.path)),
        poolclass=AsyncAdaptedQueuePool,
        pool_size=size,
        max_overflow=0,
        pool_timeout=WAIT_SECONDS,
        hide_parameters=True,
    )
    foreign_keys = f"PRAGMA foreign_keys = {'ON' if has_foreign_keys else 'OFF'}"

    @event.listens_for(engine.sync_engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        cursor = connection.cursor()
        for setting in (*_SQLITE_SETTINGS, foreign_keys, *settings):
            cursor.execute(setting)
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def make_postgresql_engine(
    url: PostgresUrl, *, size: int = CONNECTIONS, settings: Mapping[str, str] = _POSTGRESQL_SETTINGS
) -> AsyncEngine:
    """The driver reads the URL itself, as libpq would; a connection is tried before it is used again."""
    try:
        engine = create_async_engine(
            "postgresql+asyncpg://",
            connect_args={
                "dsn": url.dsn,
                "timeout": CONNECT_SECONDS,
                "command_timeout": STATEMENT_SECONDS,
                "server_settings": dict(settings),
            },
            pool_size=size,
            max_overflow=0,
            pool_timeout=WAIT_SECONDS,
            pool_pre_ping=True,
            hide_parameters=True,
        )
    except ModuleNotFoundError as error:
        raise WrongUrl("PostgreSQL needs a driver that is not installed: pip install 'runyard[postgres]'") from error

    @event.listens_for(engine.sync_engine, "connect")
    def keep_commits(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(_KEEP_COMMITS)
        cursor.close()

    return engine
