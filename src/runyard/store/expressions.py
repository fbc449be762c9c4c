"""SQL expressions that differ between the engines."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, Table, bindparam, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from runyard.store.columns import JsonText, Name, Reference

Insert = sqlite.Insert | postgresql.Insert


def make_insert(table: Table, *, is_sqlite: bool) -> Insert:
    """An insert with `on_conflict_do_…`."""
    return sqlite.insert(table) if is_sqlite else postgresql.insert(table)


def contains(column: ColumnElement[Any], part: str, *, is_sqlite: bool) -> ColumnElement[bool]:
    """Whether the column contains the text, case-sensitively."""
    find: Callable[..., Any] = func.instr if is_sqlite else func.strpos
    return find(column, literal(part, Reference())) > 0  # type: ignore[no-any-return]


def is_one_of(column: ColumnElement[Any], values: list[str] | str, *, is_sqlite: bool) -> ColumnElement[bool]:
    """Whether the column is one of the values. Uses a single parameter for any number of them; may be its name."""
    kind = JsonText() if is_sqlite else postgresql.ARRAY(Name())
    known = bindparam(values, type_=kind) if isinstance(values, str) else literal(values, kind)
    if is_sqlite:
        return column.in_(select(func.json_each(known).table_valued("value").c.value))
    return column == func.any(known)
