from typing import Any

import pytest

from runyard.app.loops.assignments import make_assignment
from runyard.app.loops.deadlines import Deadline
from runyard.app.loops.run_updates import mark_released, request_stop, stop_without_anchor, store_anchor
from runyard.domain.reasons import Reason
from tests.unit.app.run_world import START, World, issue_token, make_run


def test_release_counts_when_it_is_of_the_generation_that_is_wanted_now() -> None:
    run = make_run("r1", state="RESUME", desired_generation=3)
    assert mark_released(1, "memory")(run) is None
    assert mark_released(2, "memory")(run) is None
    change = mark_released(3, "memory")(run)
    assert change is not None
    (move,) = change.moves
    assert (move.state, move.reason, move.message) == ("PENDING", "engine.released", "handed to the engine `memory`")


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "STOP", "STOPPED", "ERROR"])
def test_release_changes_nothing_when_the_run_is_not_waiting_for_it(state: str) -> None:
    assert mark_released(1, "memory")(make_run("r1", state=state)) is None


def test_stop_is_requested_as_a_new_generation_when_a_deadline_has_passed() -> None:
    deadline = Deadline(at=START, reason=Reason.TIMEOUT_RUN, message="too long")
    change = request_stop(deadline)(make_run("r1", state="RUNNING", desired_generation=3))
    assert change is not None
    assert (change.moves, change.values["desired"], change.values["desired_generation"]) == ((), "stop", 4)
    assert (change.values["reason"], change.values["message"]) == ("timeout.run", "too long")


@pytest.mark.parametrize("fields", [{"state": "RUNNING", "desired": "stop"}, {"state": "COMPLETED"}])
def test_deadline_changes_nothing_when_the_run_is_stopping_or_has_ended(fields: dict[str, Any]) -> None:
    deadline = Deadline(at=START, reason=Reason.TIMEOUT_RUN, message="too long")
    assert request_stop(deadline)(make_run("r1", **fields)) is None


def test_first_anchor_stays_when_another_is_found() -> None:
    assert store_anchor("new")(make_run("r1", anchor_uid="old")) is None


@pytest.mark.parametrize(("state", "uid"), [("STOP", "u"), ("READY", None)])
def test_run_does_not_become_stopped_when_it_has_an_anchor_or_nobody_stopped_it(state: str, uid: str | None) -> None:
    assert stop_without_anchor(make_run("r1", state=state, anchor_uid=uid)) is None


async def test_assignments_differ_when_an_id_is_used_again(world: World) -> None:
    runs = [make_run("r1", uid="one"), make_run("r1", uid="another")]
    made = [make_assignment(world.core, run, issue_token=issue_token) for run in runs]
    assert [(assignment.run_id, assignment.run_uid) for assignment in made] == [("r1", "one"), ("r1", "another")]
