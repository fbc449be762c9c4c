"""Keys of entities and runs: for sorting, and for a budget in bytes, before a document is read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Table, Text, func, type_coerce

from runyard.app.list_query import Query
from runyard.app.ports import EntityKey, KeyPage
from runyard.store import tables
from runyard.store.lists import fetch_page
from runyard.store.session import Session

_FIELDS = ("id", "name", "kind", "created_at", "updated_at")


def _make_columns(table: Table) -> Sequence[ColumnElement[Any]]:
    # JSON is stored as ASCII, so a character is a byte.
    size = func.length(type_coerce(table.c.metadata, Text)).label("metadata_bytes")
    return (*(table.c[name] for name in _FIELDS), size)


# Made once: the columns are a part of the key under which statements are kept.
_COLUMNS: Mapping[Table, Sequence[ColumnElement[Any]]] = {
    table: _make_columns(table) for table in (tables.entities, tables.runs)
}


async def fetch_keys(session: Session, table: Table, query: Query) -> KeyPage:
    """`find_keys` of `app.ports.Entities` and `app.ports.Runs`."""
    rows = await fetch_page(session, table, replace(query, most_bytes=None), columns=_COLUMNS[table])
    return KeyPage(tuple(EntityKey(type=query.type, **row) for row in rows.content), rows.total)
