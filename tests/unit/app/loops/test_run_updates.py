from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runyard.app.engine import EngineRefusal, EngineUnavailable, Observation
from runyard.app.loops.assignments import make_assignment
from runyard.app.loops.deadlines import Deadline
from runyard.app.loops.run_updates import (
    NAME_NOTE,
    clear_engine_failure,
    find_failing_since,
    hand_over,
    record_engine_failure,
    record_observation,
    request_stop,
    settle,
    stop_without_anchor,
    store_found_anchor,
)
from runyard.app.model import Run
from runyard.app.ports import UNCHANGED
from runyard.app.rules import RecordedRules
from runyard.app.runs import NOTES, Change
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from tests.unit.app.run_world import JOB, SERVICE, START, World, issue_token, make_run


def decide_hand_over(run: Run) -> Change | None:
    return hand_over("u", engine="memory", now=START, check_in=timedelta(seconds=30))(run)


@pytest.mark.parametrize("state", ["READY", "RESUME"])
def test_run_is_pending_with_its_anchor_when_it_is_handed_over(state: str) -> None:
    change = decide_hand_over(make_run("r1", state=state))
    assert change is not None
    (move,) = change.moves
    assert (move.state, move.reason, move.message) == ("PENDING", "engine.released", "handed to the engine `memory`")
    assert (change.values["anchor_uid"], change.due_in) == ("u", timedelta(seconds=30))


def test_run_is_looked_at_by_its_first_deadline_when_that_is_near() -> None:
    change = decide_hand_over(make_run("r1", effective={**JOB, "pending_timeout": 5, "timeout": 60}))
    assert change is not None
    assert change.due_in == timedelta(seconds=5)


@pytest.mark.parametrize("state", ["READY", "PENDING"])
def test_stable_name_is_to_be_taken_when_a_service_is_handed_over_or_has_waited_for_room(state: str) -> None:
    named = {**SERVICE, "service_name": "api"}
    for effective, is_noted in ((named, True), (SERVICE, False)):
        change = decide_hand_over(make_run("r1", state=state, effective=effective))
        assert change is not None
        assert (NAME_NOTE in change.values["status"].get(NOTES, {})) is is_noted


@pytest.mark.parametrize("fields", [{"state": "STOP", "desired": "stop"}, {"desired": "stop"}, {"state": "RUNNING"}])
def test_only_the_anchor_is_stored_when_the_run_is_not_waiting_for_it(fields: dict[str, Any]) -> None:
    change = decide_hand_over(make_run("r1", **fields))
    assert change is not None
    assert (change.moves, change.values) == ((), {"anchor_uid": "u"})


def test_nothing_is_stored_when_the_run_has_another_anchor() -> None:
    assert decide_hand_over(make_run("r1", anchor_uid="old")) is None


def test_stop_is_requested_as_a_new_generation_when_a_deadline_has_passed() -> None:
    deadline = Deadline(reason=Reason.TIMEOUT_RUN, message="too long")
    change = request_stop(deadline)(make_run("r1", state="RUNNING", desired_generation=3))
    assert change is not None
    assert (change.moves, change.values["desired"], change.values["desired_generation"]) == ((), "stop", 4)
    assert (change.values["reason"], change.values["message"]) == ("timeout.run", "too long")


@pytest.mark.parametrize("fields", [{"state": "RUNNING", "desired": "stop"}, {"state": "COMPLETED"}])
def test_deadline_changes_nothing_when_the_run_is_stopping_or_has_ended(fields: dict[str, Any]) -> None:
    deadline = Deadline(reason=Reason.TIMEOUT_RUN, message="too long")
    assert request_stop(deadline)(make_run("r1", **fields)) is None


def test_first_anchor_stays_when_another_is_found() -> None:
    assert store_found_anchor("new")(make_run("r1", anchor_uid="old")) is None


@pytest.mark.parametrize(("state", "uid"), [("STOP", "u"), ("READY", None)])
def test_run_does_not_become_stopped_when_it_has_an_anchor_or_nobody_stopped_it(state: str, uid: str | None) -> None:
    assert stop_without_anchor(make_run("r1", state=state, anchor_uid=uid)) is None


async def test_assignments_differ_when_an_id_is_used_again(world: World) -> None:
    runs = [make_run("r1", uid="one"), make_run("r1", uid="another")]
    made = [make_assignment(world.core, run, issue_token=issue_token, rules=RecordedRules()) for run in runs]
    assert [(assignment.run_id, assignment.run_uid) for assignment in made] == [("r1", "one"), ("r1", "another")]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, {}), ('{"auths": {"r.example": {"username": "ada", "password": "x"}}}', {"r.example": "ada"})],
)
async def test_engine_reads_the_registries_of_the_project_when_it_has_some(
    world: World, value: str | None, expected: dict[str, str]
) -> None:
    await store_registries(world, value)
    assignment = make_assignment(world.core, make_run("r1"), issue_token=issue_token, rules=RecordedRules())
    found = await assignment.access.read_registries()
    assert {host: login.user for host, login in found.items()} == expected


async def test_run_is_refused_when_its_registries_were_stored_unchecked(world: World) -> None:
    await store_registries(world, "hunter2")
    assignment = make_assignment(world.core, make_run("r1"), issue_token=issue_token, rules=RecordedRules())
    with pytest.raises(EngineRefusal) as refused:
        await assignment.access.read_registries()
    assert (refused.value.code, "hunter2" in str(refused.value)) == ("registries.unreadable", False)


async def store_registries(world: World, value: str | None) -> None:
    if value is not None:
        async with world.store.begin() as unit:
            await unit.secrets.put(world.core.vault.seal(make_run("r1").project, "DOCKER_AUTH_CONFIG", 1, value))
            await unit.commit()


def test_second_life_stays_unsettled_when_the_first_one_is_settled_late() -> None:
    run = make_run("r1", state="STOPPED", desired="stop", desired_generation=4, place="memory/a")
    assert settle(run, now=START, generation=2) is None
    assert settle(run, now=START, generation=4) is not None


def test_deadline_counts_from_the_last_release_when_there_were_several() -> None:
    earlier = {NOTES: {"pending_until": START.isoformat()}}
    run = make_run("r1", state="RESUME", effective={**SERVICE, "pending_timeout": 60}, status=earlier)
    change = decide_hand_over(run)
    assert change is not None
    assert change.values["status"][NOTES] == {"pending_until": (START + timedelta(seconds=60)).isoformat()}


def test_run_stays_as_it_is_when_its_anchor_is_still_held() -> None:
    run = make_run("r1", state="PENDING", anchor_uid="u", reason="engine.released")
    seen = Observation(run_uid=run.uid, uid="u", seen=Seen.HELD, version=1, generation=1)
    assert record_observation(seen, now=START)(run) is None


def test_stop_is_not_repeated_earlier_when_something_else_is_reported() -> None:
    run = make_run("r1", state="STOP", desired="stop", anchor_uid="u")
    seen = Observation(
        run_uid=run.uid, uid="u", seen=Seen.RUNNING, version=1, generation=1, details={"pods": [{"name": "r1-0"}]}
    )
    change = record_observation(seen, now=START)(run)
    assert change is not None
    assert (change.moves, change.due_in) == ((), UNCHANGED)


def test_ended_run_keeps_the_reason_for_its_end_when_calls_for_its_settlement_fail() -> None:
    error = EngineUnavailable(Reason.KUBE_PERMISSIONS, "cannot settle")
    decide = record_engine_failure(error, now=START, where=None)
    ended = make_run("r1", state="ERROR", reason="memory.exceeded", message="it took 2 GiB")
    change = decide(ended)
    assert change is not None
    assert change.values.keys() == {"status"}
    failing = replace(ended, **change.values)
    assert find_failing_since(failing) == START
    assert decide(failing) is None
    note = failing.status["reconcile"]["failing"]
    assert (note["told"], note["cleanup"]) == ("kube.permissions", "cannot settle")
    assert clear_engine_failure(failing) == {"status": {}}
    completed = decide(replace(ended, state="COMPLETED", reason=None, message=None))
    assert completed is not None
    assert completed.values.keys() == {"status"}


def test_ended_run_keeps_the_message_of_its_end_when_its_settlement_fails_for_a_reason_of_the_same_code() -> None:
    ended = make_run("r1", state="ERROR", reason="admission.refused", message="the image is not allowed")
    for words in ("a webhook denied it", "another webhook denied it"):
        change = record_engine_failure(EngineRefusal(Reason.ADMISSION_REFUSED, words), now=START, where=None)(ended)
        assert change is not None
        assert change.values.keys() == {"status"}
        ended = replace(ended, **change.values)
        assert ended.status["reconcile"]["failing"]["cleanup"] == words
    assert clear_engine_failure(ended)["message"] == "the image is not allowed"
