from datetime import timedelta
from typing import Any

import pytest

from runyard.app.loops.deadlines import find_deadline, has_timeouts
from runyard.app.model import Transition
from runyard.domain.lifecycle import State
from tests.unit.app.run_world import JOB, SERVICE, START, make_run


def _move(sequence: int, state: State, *, seconds: int) -> Transition:
    at = START + timedelta(seconds=seconds)
    return Transition(sequence=sequence, state=state, at=at, actor="system", reason=None, message=None)


RELEASED = [_move(1, State.READY, seconds=0), _move(2, State.PENDING, seconds=10)]


@pytest.mark.parametrize(
    ("limits", "reason", "seconds"),
    [
        ({"pending_timeout": 60, "timeout": 30}, "timeout.run", 40),
        ({"pending_timeout": 30, "timeout": 60}, "timeout.pending", 40),
    ],
)
def test_earliest_deadline_counts_when_there_are_two(limits: dict[str, int], reason: str, seconds: int) -> None:
    deadline = find_deadline(make_run("r1", state="PENDING", effective={**JOB, **limits}), RELEASED)
    assert deadline is not None
    assert (deadline.reason, deadline.at) == (reason, START + timedelta(seconds=seconds))


@pytest.mark.parametrize("name", ["pending_timeout", "timeout"])
def test_deadline_counts_from_the_last_release_when_there_were_several(name: str) -> None:
    history = [*RELEASED, _move(3, State.STOP, seconds=20), _move(4, State.PENDING, seconds=100)]
    deadline = find_deadline(make_run("r1", state="PENDING", effective={**JOB, name: 60}), history)
    assert deadline is not None
    assert deadline.at == START + timedelta(seconds=160)


def test_message_names_the_field_and_its_value_when_a_deadline_is_found() -> None:
    run = make_run("r1", state="PENDING", effective={**JOB, "pending_timeout": 60})
    deadline = find_deadline(run, RELEASED)
    assert deadline is not None
    assert deadline.message == "the run waited for its resources longer than pending_timeout: 1m"
    deadline = find_deadline(make_run("r1", state="RUNNING", effective={**JOB, "timeout": 90}), RELEASED)
    assert deadline is not None
    assert deadline.message == "the job took longer than timeout: 90s"


@pytest.mark.parametrize(
    ("state", "effective"),
    [
        ("RUNNING", {**JOB, "pending_timeout": 60}),
        ("PENDING", {**SERVICE, "timeout": 60}),
        ("PENDING", JOB),
        ("PENDING", None),
    ],
)
def test_there_is_no_deadline_when_none_applies(state: str, effective: dict[str, Any] | None) -> None:
    assert find_deadline(make_run("r1", state=state, effective=effective), RELEASED) is None


def test_there_is_no_deadline_when_the_run_was_never_released() -> None:
    run = make_run("r1", effective={**JOB, "pending_timeout": 60, "timeout": 60})
    assert find_deadline(run, RELEASED[:1]) is None


@pytest.mark.parametrize(
    ("effective", "expected"),
    [({**JOB, "timeout": 1}, True), ({**JOB, "pending_timeout": 1}, True), (JOB, False), (None, False)],
)
def test_run_has_timeouts_when_its_spec_sets_one(effective: dict[str, Any] | None, expected: bool) -> None:
    assert has_timeouts(make_run("r1", effective=effective)) is expected
