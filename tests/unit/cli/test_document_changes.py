"""What differs between two documents."""

import pytest

from runyard.cli.document_changes import list_changes, to_row


def test_fields_are_compared_by_their_dotted_names_when_one_side_is_nested() -> None:
    before = {"resources.mem": {"max": "64Gi", "default": "256Mi"}, "image": {"allowed": ["a", "b"]}}
    after = {"resources": {"mem": {"max": "4Gi", "default": "256Mi"}}, "image": {"allowed": ["a"]}, "timeout": {}}
    assert list_changes(before, after) == [
        {"field": "resources.mem.max", "before": "64Gi", "after": "4Gi"},
        {"field": "image.allowed", "before": ["a", "b"], "after": ["a"]},
        {"field": "timeout", "after": {}},
    ]
    assert list_changes(after, after) == []


def test_mappings_in_lists_are_compared_by_their_place_when_they_differ() -> None:
    before = {"tolerations": [{"key": "a"}, {"key": "b"}]}
    after = {"tolerations": [{"key": "a"}, {"key": "c"}, {"key": "d"}]}
    assert [change["field"] for change in list_changes(before, after)] == ["tolerations[1].key", "tolerations[2].key"]


@pytest.mark.parametrize(
    ("change", "cells"),
    [
        ({"field": "a", "before": None, "after": True}, ("a", "null", "true")),
        ({"field": "a", "after": "x"}, ("a", "-", "x")),
        ({"field": "a", "before": ["x"]}, ("a", '["x"]', "-")),
    ],
)
def test_sides_are_shown_as_they_are_written_when_listed(change: dict[str, object], cells: tuple[str, ...]) -> None:
    assert tuple(to_row(change).values()) == cells
