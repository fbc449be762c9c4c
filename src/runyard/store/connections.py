"""How connections are made and what they are set to."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool

from runyard.store.errors import WrongUrl
from runyard.store.postgresql_transactions import PostgresqlTransactionFactory
from runyard.store.sqlite_transactions import SqliteTransactionFactory
from runyard.store.transactions import TransactionFactory
from runyard.store.urls import DatabaseUrl, PostgresUrl, SqliteUrl

READERS = 4
WRITERS = 6
WAIT_SECONDS = 30.0
CONNECT_SECONDS = 10.0
# No statement of ours takes that long; a server that has gone silent does.
STATEMENT_SECONDS = 60.0

_SQLITE_SETTINGS = (
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
_READ_ONE_STATE = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


def make_transaction_factory(url: DatabaseUrl) -> tuple[TransactionFactory, TransactionFactory]:
    """For writing and for reading; nothing is connected yet."""
    if isinstance(url, SqliteUrl):
        # One writer is all that SQLite lets write.
        writer = make_sqlite_engine(url, begin="BEGIN IMMEDIATE")
        reader = make_sqlite_engine(url, begin="BEGIN", size=READERS, settings=("PRAGMA query_only = ON",))
        return (
            SqliteTransactionFactory(writer, size=1, wait_seconds=WAIT_SECONDS),
            SqliteTransactionFactory(reader, size=READERS, wait_seconds=WAIT_SECONDS),
        )
    # What connections are for is said when they are made: to say it for every transaction costs as much as a statement.
    reading = make_postgresql_engine(url, size=READERS, is_reading=True)
    return PostgresqlTransactionFactory(make_postgresql_engine(url)), PostgresqlTransactionFactory(reading)


def make_sqlite_engine(
    url: SqliteUrl,
    *,
    begin: str,
    size: int = 1,
    settings: tuple[str, ...] = (),
    has_foreign_keys: bool = True,
    locked_milliseconds: int = 0,
) -> Engine:
    """Connections that one thread at a time uses, but not always the same one.

    By default they do not wait for a program that holds the file: the event loop would wait with them.
    """
    engine = create_engine(
        URL.create("sqlite+pysqlite", database=str(url.path)),
        connect_args={"check_same_thread": False},
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=0,
        hide_parameters=True,
    )
    waiting = f"PRAGMA busy_timeout = {locked_milliseconds}"
    foreign_keys = f"PRAGMA foreign_keys = {'ON' if has_foreign_keys else 'OFF'}"

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        cursor = connection.cursor()
        for setting in (waiting, *_SQLITE_SETTINGS, foreign_keys, *settings):
            cursor.execute(setting)
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def make_postgresql_engine(
    url: PostgresUrl,
    *,
    size: int = WRITERS,
    settings: Mapping[str, str] = _POSTGRESQL_SETTINGS,
    is_reading: bool = False,
) -> AsyncEngine:
    """The driver reads the URL itself, as libpq would."""
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
            # The one that was used last: it has the statements prepared.
            pool_use_lifo=True,
            pool_timeout=WAIT_SECONDS,
            hide_parameters=True,
        )
    except ModuleNotFoundError as error:
        raise WrongUrl("PostgreSQL needs a driver that is not installed: pip install 'runyard[postgres]'") from error

    # By statement and not among the settings above, which a pooler may leave out in silence.
    statement = _READ_ONE_STATE if is_reading else _KEEP_COMMITS

    @event.listens_for(engine.sync_engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        # Straight to the driver: inside a transaction of SQLAlchemy's, its end would undo the setting.
        connection.run_async(lambda driver: driver.execute(statement))

    return engine
