"""Pages of entities and of runs: filters, order, and how many there are in all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, assert_never

from sqlalchemy import ColumnElement, RowMapping, Select, Table, func, select, true, tuple_

from runyard.app.list_query import SORT_FIELDS, FilterKind, Query, Span
from runyard.store import tables
from runyard.store.columns import LARGEST
from runyard.store.derived_columns import VERSIONED_TYPES, find_base
from runyard.store.expressions import contains, is_one_of
from runyard.store.largest_documents import SMALL_BYTES, read_largest
from runyard.store.session import MANY_ROWS, Session
from runyard.store.totals import can_total, read_total

_SORT_COLUMNS = dict(zip(SORT_FIELDS, SORT_FIELDS, strict=True)) | {"created": "created_at", "updated": "updated_at"}
LARGE_BYTES = 100 * SMALL_BYTES
"""Pages that may have more are read on a thread: unless they stay text, their JSON is parsed when they are fetched."""
_CACHED_KINDS = (FilterKind.EXACT, FilterKind.REFERENCE)
"""Filters whose statements are worth keeping: the values of others are seldom the same again, and of any size."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One page: its rows in order, how many match in all, and how many a page of this list has."""

    content: Sequence[RowMapping]
    total: int
    size: int


async def fetch_page(session: Session, table: Table, query: Query, *, columns: Sequence[ColumnElement[Any]]) -> Rows:
    """One page, shorter if `most_bytes` asks for it. Pages that may be large are read on a thread."""
    if query.most_bytes is None:
        is_long = query.size >= MANY_ROWS
    else:
        largest = await read_largest(session, query)
        query = replace(query, size=max(1, min(query.size, query.most_bytes // largest)), most_bytes=None)
        is_long = largest * query.size > LARGE_BYTES
    make = _keep_statements if _is_cacheable(query) else _make_statements
    page, count = make(table, query, tuple(columns), session.is_sqlite)
    rows = await session.fetch_all(page, is_long=is_long)
    if rows and len(rows) < query.size:
        total = query.page * query.size + len(rows)
    elif table is tables.runs and can_total(query):
        total = await read_total(session, query)
    else:
        total = await session.fetch_value(count) or 0
    return Rows(rows, total, query.size)


def _is_cacheable(query: Query) -> bool:
    is_of_all = query.visible_projects is None and query.visible_to is None
    return is_of_all and all(kind in _CACHED_KINDS for _, kind in query.find_filters())


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
    for name, kind in query.find_filters():
        yield from _iter_filter_conditions(table, query, name, kind, is_sqlite=is_sqlite)


def _iter_filter_conditions(
    table: Table, query: Query, name: str, kind: FilterKind, *, is_sqlite: bool
) -> Iterator[ColumnElement[bool]]:
    """What one filter asks of a row."""
    columns, wanted = table.c, getattr(query, name)
    match kind:
        case FilterKind.EXACT:
            yield columns[name] == wanted
        case FilterKind.NAME if query.type == "project":
            yield contains(columns[name], wanted, is_sqlite=is_sqlite)
        case FilterKind.NAME:
            yield columns[name] == wanted
        case FilterKind.SEARCH:
            yield contains(columns.search, wanted.casefold(), is_sqlite=is_sqlite)
        case FilterKind.REFERENCE:
            is_exact = find_base(wanted) != wanted
            yield columns[name if is_exact else f"{name}_base"] == wanted
        case FilterKind.LABELS:
            for label in wanted:
                yield _has_label(table, query, label)
        case FilterKind.SPAN:
            yield from _iter_span_conditions(columns[f"{name}_at"], wanted)
        case _:
            assert_never(kind)


def _iter_order(table: Table, query: Query) -> Iterator[ColumnElement[Any]]:
    """As asked, or newest first. The id decides between equals, then the project, in the direction of the last column.

    So one index serves both directions, and the first of a name is the one that `find_latest` finds.
    """
    sort = query.sort or (("created", "desc"),)
    for name, direction in sort:
        column = table.c[_get_sort_column(name)]
        yield column.desc() if direction == "desc" else column.asc()
    # Ids are unique in a project only.
    ties = ("id",) if query.project is not None or query.type == "project" else ("id", "project")
    for tie in ties:
        if all(name != tie for name, _ in sort):
            yield table.c[tie].desc() if sort[-1][1] == "desc" else table.c[tie].asc()


def _get_sort_column(name: str) -> str:
    if name not in _SORT_COLUMNS:
        raise ValueError(f"lists cannot be sorted by {name}; they can by {', '.join(SORT_FIELDS)}")
    return _SORT_COLUMNS[name]


def _iter_span_conditions(column: ColumnElement[Any], span: Span) -> Iterator[ColumnElement[bool]]:
    since, until = span
    if since is not None:
        yield column >= since
    if until is not None:
        yield column <= until


def _has_label(table: Table, query: Query, label: str) -> ColumnElement[bool]:
    labels = tables.labels.c
    is_labelled = labels.type == query.type, labels.label == label
    if query.project is not None:
        return table.c.id.in_(select(labels.id).where(*is_labelled, labels.project == query.project))
    named = select(labels.project, labels.id).where(*is_labelled)
    return tuple_(table.c.project, table.c.id).in_(named)
