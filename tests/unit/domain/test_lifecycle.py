from itertools import product

import pytest

from runyard.domain.lifecycle import State, can_follow, is_final
from tests.lifecycle_table import FOLLOWERS, may_follow


def test_table_has_every_state_when_it_is_compared_with_the_wire() -> None:
    assert list(FOLLOWERS) == [state.value for state in State]


@pytest.mark.parametrize("can_resume", [True, False])
@pytest.mark.parametrize(("before", "after"), list(product(State, State)))
def test_state_follows_another_when_the_table_says_so(before: State, after: State, can_resume: bool) -> None:
    expected = may_follow(before.value, after.value, can_resume=can_resume)
    assert can_follow(before, after, can_resume=can_resume) is expected


def test_service_is_not_resumed_when_nobody_says_that_it_can_be() -> None:
    assert not can_follow(State.STOPPED, State.RESUME)


def test_states_are_final_when_the_work_has_ended_or_the_run_goes() -> None:
    assert [state.value for state in State if is_final(state)] == [
        "COMPLETED",
        "ERROR",
        "STOPPED",
        "DELETING",
        "DELETED",
    ]
