"""The engines and stores of the contract tests, and servers of one's own."""

from collections.abc import AsyncIterator

import pytest

from runyard.store import SqlStore, open_store
from tests.contract.store.conftest import (
    database,
    engine,
    postgres_shared,
    store,
)
from tests.postgres import Postgres, postgres

__all__ = ["database", "engine", "postgres", "postgres_shared", "store"]


@pytest.fixture
async def pair(postgres: Postgres) -> AsyncIterator[tuple[SqlStore, SqlStore]]:
    """Two processes on one PostgreSQL."""
    url = postgres.create_database()
    first, second = await open_store(url), await open_store(url)
    yield first, second
    await second.close()
    await first.close()
