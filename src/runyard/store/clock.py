"""The database's clock as a part of a statement, so that a lease is judged where it is written."""

from datetime import datetime
from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from runyard.store.columns import UtcTime


class DatabaseNow(FunctionElement[datetime]):
    """The instant at which the row is looked at, not the beginning of the transaction."""

    inherit_cache = True
    type = UtcTime()
    name = "database_now"


@compiles(DatabaseNow, "postgresql")
def _render_for_postgresql(_element: DatabaseNow, _compiler: Any, **_options: Any) -> str:
    return "clock_timestamp()"


@compiles(DatabaseNow, "sqlite")
def _render_for_sqlite(_element: DatabaseNow, _compiler: Any, **_options: Any) -> str:
    # Microseconds like the columns; SQLite's own clock counts milliseconds.
    return "(CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)"
