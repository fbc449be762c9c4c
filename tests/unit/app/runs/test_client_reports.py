from dataclasses import replace
from typing import Any

import pytest

from runyard.app.errors import Conflict, Forbidden, NotPossible
from runyard.app.model import Principal
from runyard.app.runs.client_reports import report_run
from runyard.app.runs.stop import stop_run
from runyard.spec.problems import Refused
from tests.unit.app.run_world import ADA, World

OWN = Principal(name="ada", run_id="r1", project="p", via="run")


def document(status: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"kind": "container+job:run", "id": "r1", "project": "p", "status": status or {}, **fields}


async def test_results_are_taken_and_the_rest_is_kept_when_a_remote_run_is_reported(world: World) -> None:
    await world.submit(status={"service": {"url": "ours:80"}, "k8s": {"job": {}}})
    said = {
        "state": "COMPLETED",
        "outputs": {"model": "store://p/model/m"},
        "results": {"n": 1},
        "metrics": {"loss": [0.1]},
        "service": {"url": "evil:80"},
        "k8s": {"pod": "forged"},
        "transitions": [],
        "reason": "forged",
        "reconcile": {"version": 99},
        "strange": 1,
        "message": "stale",
    }
    metadata = {"labels": ["x"], "name": "other", "description": "d"}
    run = await report_run(world.core, ADA, "p", "r1", document(said, spec={"image": "evil"}, metadata=metadata))
    assert run.state == "READY"
    assert run.spec == {"task": "container+job://p/t1"}
    assert run.status == {
        "service": {"url": "ours:80"},
        "k8s": {"job": {}},
        "outputs": {"model": "store://p/model/m"},
        "results": {"n": 1},
        "metrics": {"loss": [0.1]},
    }
    assert run.metadata == {"project": "p", "name": "r1", "labels": ["x"], "description": "d"}
    assert run.message is None
    [entry] = await world.audit()
    assert (entry.action, entry.details) == ("run.report", {"ignored_state": "COMPLETED"})


async def test_message_is_kept_and_told_when_the_run_itself_reports_and_then_fails(world: World) -> None:
    run = await world.submit()
    await world.settle()
    own = replace(OWN, run_uid=run.uid)
    await report_run(world.core, own, "p", "r1", document({"message": "ValueError: on purpose"}))
    world.engine.finish("r1", phase="failed", message="exit code 1")
    await world.settle()
    assert (await world.get()).message == "ValueError: on purpose (exit code 1)"


async def test_token_of_a_run_is_refused_when_it_reports_on_another(world: World) -> None:
    await world.submit("r2")
    with pytest.raises(Forbidden):
        await report_run(world.core, OWN, "p", "r2", document(id="r2"))


async def test_token_of_a_run_is_refused_when_its_id_was_used_again(world: World) -> None:
    await world.submit()
    with pytest.raises(Forbidden, match="this token was issued for another run than r1"):
        await report_run(world.core, replace(OWN, run_uid="earlier"), "p", "r1", document())


async def test_nothing_is_written_when_nothing_is_new(world: World) -> None:
    run = await world.submit()
    assert await report_run(world.core, ADA, "p", "r1", document({"state": "PENDING"})) == run
    assert await world.audit() == []


async def test_writer_is_told_when_it_looked_at_another_revision(world: World) -> None:
    await world.submit()
    run = await report_run(world.core, ADA, "p", "r1", document({"results": {"n": 1}}), expected_revision=1)
    assert run.revision == 2
    with pytest.raises(Conflict):
        await report_run(world.core, ADA, "p", "r1", document({"results": {"n": 2}}), expected_revision=1)


@pytest.mark.parametrize(
    "fields", [{"id": "r2"}, {"name": "x"}, {"kind": "a+run"}, {"project": "q"}, {"metadata": {"project": "q"}}]
)
async def test_document_is_refused_when_it_names_something_else(world: World, fields: dict[str, Any]) -> None:
    await world.submit()
    with pytest.raises(Refused):
        await report_run(world.core, ADA, "p", "r1", {**document(), **fields})


async def test_loop_is_not_disturbed_when_a_report_comes_in_between(world: World) -> None:
    async def report(point: str) -> None:
        if point == "list_anchors":
            await report_run(world.core, ADA, "p", "r1", document({"results": {"at": str(len(world.engine.made))}}))

    await world.submit()
    world.engine.at = report
    await world.settle()
    run = await world.get()
    assert (run.state, run.status["results"]) == ("RUNNING", {"at": "1"})


async def test_client_drives_the_run_when_it_is_local(world: World) -> None:
    await world.submit(is_local=True, state="CREATED", spec={"task": "container+job://p/t1", "local_execution": True})
    for state in ("BUILT", "READY", "RUNNING", "RUNNING"):
        said = document({"state": state}, spec={"task": "evil", "source": {"handler": "main"}})
        run = await report_run(world.core, ADA, "p", "r1", said)
        assert run.state == state
    assert run.spec == {
        "task": "container+job://p/t1",
        "local_execution": True,
        "source": {"handler": "main"},
    }
    done = {"state": "COMPLETED", "outputs": {"a": 1}, "results": {"b": 2}, "service": {"url": "evil"}, "own": 3}
    run = await report_run(world.core, ADA, "p", "r1", document(done))
    assert (run.state, run.status) == ("COMPLETED", {"outputs": {"a": 1}, "results": {"b": 2}, "own": 3})
    assert await world.states() == ["CREATED", "BUILT", "READY", "RUNNING", "COMPLETED"]


async def test_message_is_the_clients_when_its_local_run_fails(world: World) -> None:
    await world.submit(is_local=True, state="RUNNING")
    run = await report_run(world.core, ADA, "p", "r1", document({"state": "ERROR", "message": "on purpose"}))
    assert (run.state, run.reason, run.message) == ("ERROR", "client.error", "on purpose")


async def test_stale_state_changes_nothing_when_a_local_run_was_stopped(world: World) -> None:
    await world.submit(is_local=True, state="RUNNING")
    await stop_run(world.core, ADA, "p", "r1")
    run = await report_run(world.core, ADA, "p", "r1", document({"state": "COMPLETED", "results": {"n": 1}}))
    assert (run.state, run.status["results"]) == ("STOPPED", {"n": 1})


@pytest.mark.parametrize("state", ["STOP", "STOPPED", "RESUME", "DELETING", "UPLOADING"])
async def test_state_is_refused_when_it_is_not_the_clients_to_set(world: World, state: str) -> None:
    await world.submit(is_local=True, state="RUNNING")
    with pytest.raises(NotPossible, match="allowed: CREATED"):
        await report_run(world.core, ADA, "p", "r1", document({"state": state}))
