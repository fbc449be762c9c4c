from datetime import datetime, timedelta
from typing import Any

import pytest

from runyard.app.loops.deadlines import find_due, find_passed, note_deadlines
from runyard.domain.lifecycle import State
from tests.unit.app.run_world import JOB, SERVICE, START, make_run

LATER = START + timedelta(hours=1)


def note(effective: dict[str, Any] | None) -> dict[str, Any]:
    """The notes of a run that was released at START, as they are stored."""
    made = note_deadlines(make_run("r1", effective=effective), released_at=START)
    return {name: value for name, value in made.items() if value is not None}


def after(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("limits", "reason", "seconds"),
    [
        ({"pending_timeout": 60, "timeout": 30}, "timeout.run", 30),
        ({"pending_timeout": 30, "timeout": 60}, "timeout.pending", 30),
    ],
)
def test_earliest_deadline_counts_when_there_are_two(limits: dict[str, int], reason: str, seconds: int) -> None:
    run = make_run("r1", state="PENDING", effective={**JOB, **limits})
    notes = note({**JOB, **limits})
    assert find_due(notes, State.PENDING) == after(seconds)
    assert find_passed(run, notes, now=after(seconds - 1)) is None
    passed = find_passed(run, notes, now=after(seconds))
    assert passed is not None
    assert passed.reason == reason


def test_message_names_the_field_and_its_value_when_a_deadline_has_passed() -> None:
    effective = {**JOB, "pending_timeout": 60}
    passed = find_passed(make_run("r1", state="PENDING", effective=effective), note(effective), now=LATER)
    assert passed is not None
    assert passed.message == "the run waited for its resources longer than pending_timeout: 1m"
    effective = {**JOB, "timeout": 90}
    passed = find_passed(make_run("r1", state="RUNNING", effective=effective), note(effective), now=LATER)
    assert passed is not None
    assert passed.message == "the job took longer than timeout: 90s"
    passed = find_passed(make_run("r1", state="PENDING", effective=effective), note(effective), now=LATER)
    assert passed is not None
    assert passed.message == "the job took longer than timeout: 90s; it had not started, and the time it waits counts"


@pytest.mark.parametrize(
    ("state", "effective"),
    [
        (State.RUNNING, {**JOB, "pending_timeout": 60}),
        (State.PENDING, {**SERVICE, "timeout": 60}),
        (State.PENDING, JOB),
        (State.PENDING, None),
    ],
)
def test_there_is_no_deadline_when_none_applies(state: State, effective: dict[str, Any] | None) -> None:
    assert find_due(note(effective), state) is None
    assert find_passed(make_run("r1", state=state, effective=effective), note(effective), now=LATER) is None
