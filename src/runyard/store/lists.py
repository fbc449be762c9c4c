"""Pages of entities and of runs: filters, order, and how many there are in all."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Select, Table, func, select, true

from runyard.app.ports import Query, Span
from runyard.store import tables
from runyard.store.columns import LARGEST
from runyard.store.derived_columns import VERSIONED_TYPES, find_base
from runyard.store.expressions import contains, is_one_of
from runyard.store.session import Session
from runyard.store.totals import can_total, read_total

SORTABLE = {
    "created": "created_at",
    "updated": "updated_at",
    "name": "name",
    "kind": "kind",
    "project": "project",
    "state": "state",
    "id": "id",
    "user": "user",
}
# Seldom the same again, and of any size.
_VARIED = ("visible_projects", "visible_to", "q", "name", "labels", "created", "updated")
_EXACT = ("kind", "user", "state", "task", "action")


async def fetch_page(
    session: Session, table: Table, query: Query, *, columns: Sequence[ColumnElement[Any]]
) -> tuple[Sequence[RowMapping], int]:
    """The rows of one page in order, and the number of all that match."""
    make = _make_statements if any(getattr(query, name) for name in _VARIED) else _keep_statements
    page, count = make(table, query, tuple(columns), session.is_sqlite)
    rows = await session.fetch_all(page)
    if rows and len(rows) < query.size:
        return rows, query.page * query.size + len(rows)
    if table is tables.runs and can_total(query):
        return rows, await read_total(session, query)
    return rows, await session.fetch_value(count) or 0


def _make_statements(
    table: Table,
    query: Query,
    columns: tuple[ColumnElement[Any], ...],
    is_sqlite: bool,  # noqa: FBT001 - a part of the key of the cache
) -> tuple[Select[Any], Select[Any]]:
    """For a page, and for how many there are."""
    conditions = list(_iter_conditions(table, query, is_sqlite=is_sqlite))
    page = (
        select(*columns)
        .where(*conditions)
        .order_by(*_iter_order(table, query))
        .limit(query.size)
        .offset(min(query.page * query.size, LARGEST))
    )
    return page, select(func.count()).select_from(table).where(*conditions)


# Who looks at a list looks at it again: to make the statements takes longer than to execute them.
_keep_statements = lru_cache(maxsize=128)(_make_statements)


def _iter_conditions(table: Table, query: Query, *, is_sqlite: bool) -> Iterator[ColumnElement[bool]]:
    """What a row must be to be in the list."""
    columns = table.c
    is_of_runs = table is tables.runs
    if not is_of_runs:
        yield columns.type == query.type
        if query.versions == "latest" and query.type in VERSIONED_TYPES:
            yield columns.is_latest == true()
    if query.project is not None:
        yield columns.project == query.project
    if query.visible_projects is not None:
        of_projects = columns.id if query.type == "project" else columns.project
        is_visible = is_one_of(of_projects, sorted(query.visible_projects), is_sqlite=is_sqlite)
        yield is_visible if query.visible_to is None else is_visible | (columns.user == query.visible_to)
    if query.name is not None:
        is_contained = query.type == "project"
        part = contains(columns.name, query.name, is_sqlite=is_sqlite)
        yield part if is_contained else columns.name == query.name
    if query.q:
        yield contains(columns.search, query.q.casefold(), is_sqlite=is_sqlite)
    for name in _EXACT:
        if (wanted := getattr(query, name)) is not None:
            yield columns[name] == wanted
    yield from _iter_reference_conditions(table, query)
    for label in query.labels:
        yield _has_label(table, query.type, label)
    yield from _iter_span_conditions(columns.created_at, query.created)
    yield from _iter_span_conditions(columns.updated_at, query.updated)


def _iter_order(table: Table, query: Query) -> Iterator[ColumnElement[Any]]:
    """As asked, or newest first; the id decides between equals, in the direction of the last column.

    So one index serves both directions, and the first of a name is the one that `find_latest` finds.
    """
    sort = query.sort or (("created", "desc"),)
    for name, direction in sort:
        column = table.c[_get_sort_column(name)]
        yield column.desc() if direction == "desc" else column.asc()
    if all(name != "id" for name, _ in sort):
        yield table.c.id.desc() if sort[-1][1] == "desc" else table.c.id.asc()


def _get_sort_column(name: str) -> str:
    if name not in SORTABLE:
        raise ValueError(f"lists cannot be sorted by {name}; they can by {', '.join(SORTABLE)}")
    return SORTABLE[name]


def _iter_reference_conditions(table: Table, query: Query) -> Iterator[ColumnElement[bool]]:
    for name in ("function", "workflow"):
        reference = getattr(query, name)
        if reference is not None:
            is_exact = find_base(reference) != reference
            yield table.c[name if is_exact else f"{name}_base"] == reference


def _iter_span_conditions(column: ColumnElement[Any], span: Span | None) -> Iterator[ColumnElement[bool]]:
    since, until = span or (None, None)
    if since is not None:
        yield column >= since
    if until is not None:
        yield column <= until


def _has_label(table: Table, entity_type: str, label: str) -> ColumnElement[bool]:
    labels = tables.labels.c
    return table.c.id.in_(select(labels.id).where(labels.type == entity_type, labels.label == label))
