"""The database's clock as a SQL expression, so that a lease is checked in the statement that writes."""

from datetime import datetime
from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from runyard.store.columns import UtcTime

# In microseconds, like the columns; SQLite's clock has milliseconds.
_SQLITE_NOW = "(CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)"


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
    return _SQLITE_NOW


class DatabaseTimeIn(FunctionElement[datetime]):
    """That many seconds after `DatabaseNow`; the argument is a float."""

    inherit_cache = True
    type = UtcTime()
    name = "database_time_in"


@compiles(DatabaseTimeIn, "postgresql")
def _render_later_for_postgresql(element: DatabaseTimeIn, compiler: Any, **options: Any) -> str:
    return f"(clock_timestamp() + make_interval(secs => {compiler.process(element.clauses, **options)}))"


@compiles(DatabaseTimeIn, "sqlite")
def _render_later_for_sqlite(element: DatabaseTimeIn, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"({_SQLITE_NOW} + CAST(ROUND({seconds} * 1000000) AS INTEGER))"
