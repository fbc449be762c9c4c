from itertools import product

import pytest

from runyard.domain.lifecycle import FINAL, GONE, State
from runyard.domain.outcomes import ENDED, Desired, Lane, Outcome, Seen, Step, choose_lane, choose_step, judge
from tests.lifecycle_table import may_follow

ACTIVE = [state for state in State if state not in FINAL | GONE]


@pytest.mark.parametrize(
    ("state", "has_anchor", "step"),
    [
        (State.CREATED, False, Step.MAKE_READY),
        (State.BUILT, False, Step.MAKE_READY),
        (State.READY, False, Step.ANCHOR),
        (State.READY, True, Step.RELEASE),
        (State.RESUME, False, Step.ANCHOR),
        (State.RESUME, True, Step.RELEASE),
        (State.PENDING, True, Step.WATCH),
        (State.RUNNING, True, Step.WATCH),
        (State.COMPLETED, True, Step.NOTHING),
        (State.ERROR, False, Step.NOTHING),
        (State.STOPPED, True, Step.NOTHING),
        (State.DELETED, True, Step.NOTHING),
    ],
)
def test_step_brings_the_run_on_when_it_should_run(state: State, has_anchor: bool, step: Step) -> None:
    assert choose_step(state, desired="run", has_anchor=has_anchor, is_settled=True) is step


@pytest.mark.parametrize(("state", "has_anchor"), [*product(ACTIVE, [True, False])])
def test_step_ends_the_run_when_it_should_stop(state: State, has_anchor: bool) -> None:
    assert choose_step(state, desired="stop", has_anchor=has_anchor, is_settled=True) is Step.STOP


@pytest.mark.parametrize(("state", "has_anchor"), [*product(State, [True, False])])
def test_step_removes_when_the_run_should_go(state: State, has_anchor: bool) -> None:
    assert choose_step(state, desired="delete", has_anchor=has_anchor, is_settled=True) is Step.REMOVE


@pytest.mark.parametrize(("state", "has_anchor"), [*product(sorted(FINAL), [True, False])])
def test_nothing_is_done_when_the_run_has_ended(state: State, has_anchor: bool) -> None:
    assert choose_step(state, desired="stop", has_anchor=has_anchor, is_settled=True) is Step.NOTHING


@pytest.mark.parametrize(
    ("seen", "state", "reason"),
    [
        (Seen.RUNNING, State.RUNNING, None),
        (Seen.SUCCEEDED, State.COMPLETED, None),
        (Seen.FAILED, State.ERROR, "run.failed"),
        (Seen.STOPPED, State.ERROR, "run.stopped_outside"),
        (Seen.ABSENT, State.ERROR, "run.lost"),
    ],
)
def test_state_is_what_is_seen_when_the_run_should_run(seen: Seen, state: State, reason: str | None) -> None:
    outcome = judge(State.PENDING, seen, desired="run", reason=None, message=None)
    assert outcome is not None
    assert (outcome.state, outcome.reason) == (state, reason)


def test_engine_has_the_last_word_on_why_when_it_says_something() -> None:
    outcome = judge(State.RUNNING, Seen.FAILED, desired="run", reason="memory.out", message="ask for 12Gi")
    assert outcome == Outcome(state=State.ERROR, reason="memory.out", message="ask for 12Gi")


@pytest.mark.parametrize("seen", Seen)
def test_run_is_stopped_once_nothing_is_at_work_when_it_was_told_to(seen: Seen) -> None:
    outcome = judge(State.STOP, seen, desired="stop", reason="user.stop", message=None)
    assert outcome == (Outcome(state=State.STOPPED, reason="user.stop") if seen in ENDED else None)


@pytest.mark.parametrize(("state", "seen"), [*product([State.PENDING, State.RUNNING], Seen)])
def test_overdue_run_fails_unless_it_made_it_when_it_has_ended(state: State, seen: Seen) -> None:
    outcome = judge(state, seen, desired="stop", reason="timeout.run", message=None)
    if seen not in ENDED:
        assert outcome is None
    else:
        assert outcome is not None
        assert outcome.state is (State.COMPLETED if seen is Seen.SUCCEEDED else State.ERROR)


@pytest.mark.parametrize(("state", "seen", "desired"), [*product(State, Seen, ["run", "stop"])])
def test_no_outcome_goes_back_when_anything_is_seen_in_any_state(state: State, seen: Seen, desired: str) -> None:
    outcome = judge(state, seen, desired=desired, reason=None, message=None)  # type: ignore[arg-type]
    assert outcome is None or may_follow(state, outcome.state)


@pytest.mark.parametrize(
    ("state", "desired", "lane"),
    [
        (State.CREATED, "run", Lane.CREATE),
        (State.BUILT, "run", Lane.CREATE),
        (State.READY, "run", Lane.CREATE),
        (State.RESUME, "run", Lane.CREATE),
        (State.PENDING, "run", Lane.WATCH),
        (State.RUNNING, "run", Lane.WATCH),
        (State.READY, "stop", Lane.STOP),
        (State.RUNNING, "stop", Lane.STOP),
        (State.STOP, "stop", Lane.STOP),
        (State.RUNNING, "delete", Lane.STOP),
        (State.DELETING, "delete", Lane.STOP),
        (State.COMPLETED, "run", Lane.SETTLE),
        (State.ERROR, "stop", Lane.SETTLE),
        (State.STOPPED, "stop", Lane.SETTLE),
    ],
)
def test_lane_is_by_state_and_wish_when_it_is_chosen(state: State, desired: Desired, lane: Lane) -> None:
    assert choose_lane(state, desired=desired, has_anchor=True) is lane


def test_anchor_is_still_to_be_created_when_a_pending_run_has_none() -> None:
    assert choose_lane(State.PENDING, desired="run", has_anchor=False) is Lane.CREATE
    assert choose_step(State.PENDING, desired="run", has_anchor=False, is_settled=False) is Step.ANCHOR
    assert choose_step(State.PENDING, desired="stop", has_anchor=False, is_settled=False) is Step.STOP
