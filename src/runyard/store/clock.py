"""The database's clock as a SQL expression, so that a lease is checked in the statement that writes."""

from datetime import datetime
from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from runyard.store.columns import UtcTime


class DatabaseNow(FunctionElement[datetime]):
    """The time when the row is evaluated, not the start of the transaction."""

    inherit_cache = True
    type = UtcTime()
    name = "database_now"


@compiles(DatabaseNow, "postgresql")
def _render_for_postgresql(_element: DatabaseNow, _compiler: Any, **_options: Any) -> str:
    return "clock_timestamp()"


@compiles(DatabaseNow, "sqlite")
def _render_for_sqlite(_element: DatabaseNow, _compiler: Any, **_options: Any) -> str:
    # In microseconds, like the columns; SQLite's clock has milliseconds.
    return "(CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)"
