"""The same tests on each engine: `store` is an empty store, `database` the URL of an empty database."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest

from runyard.store import SqlStore, open_store, tables, upgrade
from tests.postgres import postgres
from tests.sqlite_databases import create_sqlite

__all__ = ["postgres"]

ENGINES = ("sqlite", "postgresql")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Which one it is."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def postgres_shared() -> list[str]:
    """The URL of the database that tests use one after the other, once there is one."""
    return []


@pytest.fixture
async def database(engine: str, request: pytest.FixtureRequest, tmp_path: Path, postgres_shared: list[str]) -> str:
    """The URL of a database with tables and nothing in them."""
    if engine == "sqlite":
        return await create_sqlite(tmp_path / "runyard.db")
    server = request.getfixturevalue("postgres")
    if not postgres_shared:
        url = server.create_database()
        await upgrade(url)
        postgres_shared.append(url)
    await empty_tables(postgres_shared[0])
    return postgres_shared[0]


async def empty_tables(url: str) -> None:
    """As if it were new, but for the ids of the installation: quicker than a new database."""
    connection = await asyncpg.connect(url)
    emptied = [table.name for table in tables.metadata.sorted_tables if table is not tables.meta]
    await connection.execute(
        f"TRUNCATE {', '.join(emptied)} RESTART IDENTITY; DELETE FROM meta WHERE name NOT IN ('installation', 'epoch')"
    )
    await connection.close()


@pytest.fixture
async def store(database: str) -> AsyncIterator[SqlStore]:
    """An empty store."""
    opened = await open_store(database)
    yield opened
    await opened.close()


@pytest.fixture
async def replicas(engine: str, store: SqlStore, database: str) -> AsyncIterator[list[SqlStore]]:
    """As many stores on one database as the engine allows processes, up to two."""
    if engine == "sqlite":
        yield [store]
        return
    second = await open_store(database)
    yield [store, second]
    await second.close()
