"""Creates connections and sets them up."""

import sqlite3
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool

from runyard.store.errors import WrongUrl
from runyard.store.postgresql_transactions import PostgresqlTransactionFactory
from runyard.store.sqlite_transactions import SqliteTransactionFactory, get_driver
from runyard.store.transactions import TransactionFactory
from runyard.store.urls import DatabaseUrl, PostgresUrl, SqliteUrl

READERS = 4
WRITERS = 6
WAIT_SECONDS = 30.0
CONNECT_SECONDS = 10.0
# Longer than any of our statements; only an unresponsive server takes that long.
STATEMENT_SECONDS = 60.0

_SQLITE_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    # A commit is on the disk when it returns, not only in the page cache.
    "PRAGMA synchronous = FULL",
)
_POSTGRESQL_SETTINGS = {
    "application_name": "runyard",
    "lock_timeout": "30s",
    # A frozen process must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "60s",
}
# Keeps a stronger setting of the administrator, but not one that is weaker than what `commit` promises.
_KEEP_COMMITS = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
_READ_ONE_STATE = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


def make_transaction_factory(url: DatabaseUrl) -> tuple[TransactionFactory, TransactionFactory]:
    """The factories for writing and for reading; does not connect yet."""
    if isinstance(url, SqliteUrl):
        # SQLite allows one writer.
        writer = make_sqlite_engine(url, begin="BEGIN IMMEDIATE")
        reader = make_sqlite_engine(url, begin="BEGIN", size=READERS, settings=("PRAGMA query_only = ON",))
        return (
            SqliteTransactionFactory(writer, size=1, wait_seconds=WAIT_SECONDS),
            SqliteTransactionFactory(reader, size=READERS, wait_seconds=WAIT_SECONDS),
        )
    # Set per connection: setting it per transaction would cost a statement each.
    reading = make_postgresql_engine(url, size=READERS, is_reading=True)
    return PostgresqlTransactionFactory(make_postgresql_engine(url)), PostgresqlTransactionFactory(reading)


def make_read_only_factory(url: DatabaseUrl) -> TransactionFactory:
    """The factory for a program that reads a database which a server may be using. Nothing is written to its files."""
    if isinstance(url, PostgresUrl):
        return PostgresqlTransactionFactory(make_postgresql_engine(url, size=1, is_reading=True))
    engine = make_sqlite_engine(url, begin="BEGIN", locked_milliseconds=int(WAIT_SECONDS * 1000), is_read_only=True)
    return SqliteTransactionFactory(engine, size=1, wait_seconds=WAIT_SECONDS)


def make_sqlite_engine(
    url: SqliteUrl,
    *,
    begin: str,
    size: int = 1,
    settings: tuple[str, ...] = (),
    has_foreign_keys: bool = True,
    locked_milliseconds: int = 0,
    is_read_only: bool = False,
) -> Engine:
    """Connections for use by one thread at a time, not always the same one.

    By default they do not wait for a program that locks the file, which would block the event loop.
    """
    mode = {"database": f"file:{quote(str(url.path))}", "query": {"mode": "ro", "uri": "true"}}
    engine = create_engine(
        URL.create("sqlite+pysqlite", **(mode if is_read_only else {"database": str(url.path)})),
        connect_args={"check_same_thread": False},
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=0,
        # The most recently used connection has the pages and statements in memory.
        pool_use_lifo=True,
        hide_parameters=True,
    )
    waiting = f"PRAGMA busy_timeout = {locked_milliseconds}"
    foreign_keys = f"PRAGMA foreign_keys = {'ON' if has_foreign_keys else 'OFF'}"

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions by itself
        cursor = connection.cursor()
        # A connection for reading cannot change the journal mode.
        for setting in (waiting, *(() if is_read_only else _SQLITE_SETTINGS), foreign_keys, *settings):
            cursor.execute(setting)
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        # Directly on the driver, for every transaction begins here: SQLAlchemy takes three times as long.
        try:
            get_driver(connection).execute(begin)
        except sqlite3.OperationalError as error:
            raise exc.OperationalError(begin, None, error) from error

    return engine


def make_postgresql_engine(
    url: PostgresUrl,
    *,
    size: int = WRITERS,
    settings: Mapping[str, str] = _POSTGRESQL_SETTINGS,
    is_reading: bool = False,
) -> AsyncEngine:
    """The driver parses the URL itself, like libpq."""
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
            # The most recently used connection has the statements prepared.
            pool_use_lifo=True,
            pool_timeout=WAIT_SECONDS,
            hide_parameters=True,
        )
    except ModuleNotFoundError as error:
        raise WrongUrl("PostgreSQL needs a driver that is not installed: pip install 'runyard[postgres]'") from error

    # By a statement: connection poolers may drop the settings above.
    statement = _READ_ONE_STATE if is_reading else _KEEP_COMMITS

    @event.listens_for(engine.sync_engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        # Directly on the driver: the end of an SQLAlchemy transaction would undo the setting.
        connection.run_async(lambda driver: driver.execute(statement))

    return engine
