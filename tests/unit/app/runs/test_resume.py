from typing import Any

import pytest

from runyard.app.errors import NotPossible
from runyard.app.runs.resume import resume_run
from runyard.app.runs.stop import stop_run
from tests.unit.app.run_world import ADA, JOB, SERVICE, World


@pytest.mark.parametrize("action", ["serve", "deploy"])
async def test_service_goes_on_with_the_same_anchor_when_it_is_resumed(world: World, action: str) -> None:
    await world.submit(effective={**SERVICE, "action": action})
    await world.settle()
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    stopped = await world.get()
    resumed = await resume_run(world.core, ADA, "p", "r1")
    assert (resumed.state, resumed.desired, resumed.reason) == ("RESUME", "run", "user.resume")
    assert await resume_run(world.core, ADA, "p", "r1") == resumed
    await world.settle()
    run = await world.get()
    assert (run.state, run.anchor_uid) == ("RUNNING", stopped.anchor_uid)
    assert (await world.states())[-4:] == ["STOPPED", "RESUME", "PENDING", "RUNNING"]


async def test_service_gets_its_first_anchor_when_it_was_stopped_before_it_had_one(world: World) -> None:
    await world.submit(effective=SERVICE)
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert world.engine.made == {}
    await resume_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert (await world.get()).state == "RUNNING"


async def test_service_is_lost_when_its_anchor_went_while_it_was_stopped(world: World) -> None:
    await world.submit(effective=SERVICE)
    await world.settle()
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    world.engine.lose("r1")
    await resume_run(world.core, ADA, "p", "r1")
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason) == ("ERROR", "run.lost")


async def test_service_stops_when_it_is_stopped_while_it_resumes(world: World) -> None:
    await world.submit(effective=SERVICE)
    await world.settle()
    for act in (stop_run, resume_run, stop_run):
        await act(world.core, ADA, "p", "r1")
        if act is stop_run:
            await world.settle()
    assert (await world.get()).state == "STOPPED"


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"effective": JOB, "state": "STOPPED"}, "resume.kind", "a job cannot be resumed"),
        ({"effective": None, "state": "STOPPED"}, "resume.kind", "a job cannot be resumed"),
        ({"effective": SERVICE, "state": "RUNNING"}, "resume.state", "this one is RUNNING"),
        ({"effective": SERVICE, "state": "COMPLETED"}, "resume.state", "this one is COMPLETED"),
        ({"effective": SERVICE, "state": "STOPPED", "is_local": True}, "resume.local", "the client executes this run"),
    ],
)
async def test_reason_is_told_when_it_cannot_be_resumed(
    world: World, fields: dict[str, Any], code: str, words: str
) -> None:
    await world.submit(**fields)
    with pytest.raises(NotPossible, match=words) as caught:
        await resume_run(world.core, ADA, "p", "r1")
    assert caught.value.code == code


async def test_resume_is_refused_when_there_is_no_engine(bare_world: World) -> None:
    await bare_world.submit(effective=SERVICE, state="STOPPED")
    with pytest.raises(NotPossible, match="no engine"):
        await resume_run(bare_world.core, ADA, "p", "r1")
