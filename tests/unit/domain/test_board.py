from typing import Any

import pytest

from runyard.domain.board import Board, Offer
from runyard.domain.effective_spec import Owner


def _stack(*offers: tuple[Owner, Any]) -> Board:
    board = Board()
    for owner, value in offers:
        board.put(("replicas",), Offer(value, owner, owner))
    return board


@pytest.mark.parametrize(
    ("offers", "messages"),
    [
        ([("you", 1), ("profile", 2)], ["profile sets 2; 1 from you is ignored"]),
        ([("you", 1), ("profile", 1)], []),
        ([("you", 1), ("profile", 1), ("policy", 2)], ["policy sets 2; 1 from you is ignored"]),
        ([("you", 1), ("profile", 2), ("policy", 3)], ["profile sets 2; 1 from you is ignored"]),
        ([("profile", 1), ("policy", 2)], []),
        ([("function", 1), ("you", 2)], []),
        ([("function", 1), ("you", 2), ("policy", 3)], ["policy sets 3; 2 from you is ignored"]),
        ([("function", 1), ("you", 1), ("policy", 2)], ["policy sets 2; 1 from you is ignored"]),
    ],
)
def test_user_is_warned_once_when_an_admins_value_replaces_theirs(
    offers: list[tuple[Owner, Any]], messages: list[str]
) -> None:
    board = _stack(*offers)
    assert [warning.message for warning in board.warnings] == messages
    assert {(warning.code, warning.path) for warning in board.warnings} <= {("override", ("replicas",))}


def test_leaf_names_what_it_replaced_when_values_differ() -> None:
    (leaf,) = _stack(("function", 1), ("you", 2), ("profile", 2), ("policy", 3)).iter_leaves()
    assert (leaf.value, leaf.owner) == (3, "policy")
    assert [(other.by, other.value) for other in leaf.replaced] == [("profile", 2), ("you", 2), ("function", 1)]
