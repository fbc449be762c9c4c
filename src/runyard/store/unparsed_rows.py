"""Rows whose documents are selected as text, and parsed only when somebody takes the entity."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Text, type_coerce

from runyard.app.model import Entity
from runyard.app.unparsed_entities import Unparsed
from runyard.store.columns import JsonText

Columns = tuple[ColumnElement[Any], ...]
Make = Callable[[Mapping[str, Any]], Entity]


@cache
def as_text(columns: Columns) -> Columns:
    """The columns, documents as text. Cached because statements are kept by their columns."""
    return tuple(
        type_coerce(column, Text()).label(column.key) if isinstance(column.type, JsonText) else column
        for column in columns
    )


def list_unparsed(rows: Sequence[RowMapping], columns: Columns, make: Make) -> tuple[Unparsed, ...]:
    """The rows of `as_text(columns)`. `make` gets the values by name, with documents parsed."""
    documents = {str(column.key): column.type for column in columns if isinstance(column.type, JsonText)}

    def parse(row: RowMapping) -> Entity:
        return make({name: documents[name].parse(row[name]) if name in documents else row[name] for name in row})

    return tuple(
        Unparsed(
            id=row["id"],
            uid=row.get("uid", row["id"]),
            characters=sum(len(row[name] or "") for name in documents),
            parse=partial(parse, row),
        )
        for row in rows
    )
