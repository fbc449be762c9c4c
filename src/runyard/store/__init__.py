"""The store: persistence in SQLite or PostgreSQL. Implements `app.ports.Store`.

Start in `sql_store.py` (`open_store`), then `unit_of_work.py`. One repository per module, all on a `Session`. Tables
and indexes are in `tables.py`, their migrations in `migrations/`. SQLAlchemy Core, no ORM. May import `app.model`,
`app.ports`, `domain.lifecycle`, `domain.outcomes` and `domain.reasons`; owns sqlalchemy, alembic and asyncpg.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runyard.store.backups import backup, restore
    from runyard.store.errors import StoreError, StoreUnavailable
    from runyard.store.migrator import migrate, upgrade
    from runyard.store.schema import SchemaStatus, read_status
    from runyard.store.sql_store import SqlStore, open_read_only, open_store
    from runyard.store.urls import show_url

__all__ = [
    "SchemaStatus",
    "SqlStore",
    "StoreError",
    "StoreUnavailable",
    "backup",
    "migrate",
    "open_read_only",
    "open_store",
    "read_status",
    "restore",
    "show_url",
    "upgrade",
]

# Loaded on first use: a server whose schema is current never loads alembic.
_HOMES = {
    "SchemaStatus": "schema",
    "SqlStore": "sql_store",
    "StoreError": "errors",
    "StoreUnavailable": "errors",
    "backup": "backups",
    "migrate": "migrator",
    "open_read_only": "sql_store",
    "open_store": "sql_store",
    "read_status": "schema",
    "restore": "backups",
    "show_url": "urls",
    "upgrade": "migrator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"runyard.store.{_HOMES[name]}"), name)
