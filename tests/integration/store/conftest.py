"""The engines and stores of the contract tests, and servers of one's own."""

from tests.contract.store.conftest import (
    database,
    engine,
    postgres_shared,
    sqlite_template,
    store,
)
from tests.postgres import postgres

__all__ = ["database", "engine", "postgres", "postgres_shared", "sqlite_template", "store"]
