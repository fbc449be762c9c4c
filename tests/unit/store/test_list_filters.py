"""A list filter is declared once, in `Query`: conditions and totals follow."""

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Table

from runyard.app.list_query import LIST_FILTERS, FilterKind, Query
from runyard.store import tables
from runyard.store.lists import _make_statements
from runyard.store.totals import can_total

UNFILTERED = {
    *("type", "project", "visible_projects", "visible_to", "versions", "sort", "page", "size"),
    *("is_brief", "is_summary", "is_without_documents", "is_unparsed", "most_bytes"),
}
"""Fields of a query that are not filters: what is listed, for whom, and which page of it."""
VALUES: dict[FilterKind, Any] = {
    FilterKind.EXACT: "x",
    FilterKind.NAME: "x",
    FilterKind.SEARCH: "x",
    FilterKind.REFERENCE: "python://p/f:f1",
    FilterKind.LABELS: ("x",),
    FilterKind.SPAN: (datetime(2026, 1, 1, tzinfo=UTC), None),
}


def make_query(entity_type: str, name: str) -> Query:
    return Query(type=entity_type, **{name: VALUES[LIST_FILTERS[name]]})


def test_field_is_a_filter_when_it_is_not_named_as_something_else() -> None:
    assert {field.name for field in fields(Query)} - UNFILTERED == set(LIST_FILTERS)


@pytest.mark.parametrize("name", LIST_FILTERS)
@pytest.mark.parametrize(("table", "entity_type"), [(tables.runs, "run"), (tables.entities, "function")])
def test_page_and_count_are_narrowed_when_a_filter_is_set(table: Table, entity_type: str, name: str) -> None:
    plain = _make_statements(table, Query(type=entity_type), (table.c.id,), True)
    filtered = _make_statements(table, make_query(entity_type, name), (table.c.id,), True)
    for without, with_filter in zip(plain, filtered, strict=True):
        assert len(str(with_filter.whereclause)) > len(str(without.whereclause))


@pytest.mark.parametrize("name", LIST_FILTERS)
def test_totals_are_not_used_when_a_filter_is_set(name: str) -> None:
    assert can_total(Query(type="run", project="p", visible_projects=frozenset({"p"})))
    assert not can_total(make_query("run", name))


def test_totals_are_not_used_when_some_runs_are_seen_for_their_user() -> None:
    assert not can_total(Query(type="run", visible_projects=frozenset({"p"}), visible_to="ada"))
