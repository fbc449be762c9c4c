import pytest

from runyard.app.errors import Forbidden, Missing
from runyard.app.model import Principal
from runyard.app.runs.stop import stop_run
from runyard.domain.lifecycle import FINAL, State
from tests.unit.app.run_world import ADA, World

STOPPABLE = ["CREATED", "BUILT", "READY", "PENDING", "RUNNING"]


@pytest.mark.parametrize("passes", range(1, 4))
async def test_run_ends_stopped_when_it_is_stopped_at_any_time(world: World, passes: int) -> None:
    await world.submit()
    await world.settle(passes=passes)
    run_request = await stop_run(world.core, ADA, "p", "r1")
    assert (run_request.state, run_request.desired, run_request.desired_generation) == ("STOP", "stop", 2)
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, run.message, run.due_at) == ("STOPPED", "user.stop", "stopped by ada", None)
    assert (await world.history())[-2].actor == "ada"


@pytest.mark.parametrize("state", STOPPABLE)
async def test_run_is_stopped_at_once_when_there_is_no_engine(bare_world: World, state: str) -> None:
    await bare_world.submit(state=state)
    stopped = await stop_run(bare_world.core, ADA, "p", "r1", words="the project closes")
    said = (stopped.state, stopped.reason, stopped.message, stopped.due_at)
    assert said == ("STOPPED", "user.stop", "stopped by ada: the project closes", None)
    assert (await bare_world.states())[-2:] == ["STOP", "STOPPED"]
    assert [entry.action for entry in await bare_world.audit()] == ["run.stop"]


async def test_run_is_stopped_and_settled_at_once_when_no_engine_ever_got_it(world: World) -> None:
    await world.submit()
    stopped = await stop_run(world.core, ADA, "p", "r1")
    assert (stopped.state, stopped.place, stopped.due_at) == ("STOPPED", None, None)
    assert (stopped.settled_at, stopped.is_log_complete) == (world.clock.now(), True)
    await world.settle()
    assert await world.get() == stopped
    assert world.engine.things == {}


async def test_local_run_is_stopped_at_once_when_there_is_an_engine(world: World) -> None:
    await world.submit(is_local=True, state="RUNNING")
    assert (await stop_run(world.core, ADA, "p", "r1")).state == "STOPPED"


async def test_second_stop_changes_nothing_when_the_first_is_under_way(world: World) -> None:
    await world.submit()
    await world.settle()
    first = await stop_run(world.core, ADA, "p", "r1")
    assert await stop_run(world.core, ADA, "p", "r1") == first
    await world.settle()
    assert await world.states() == ["CREATED", "READY", "PENDING", "RUNNING", "STOP", "STOPPED"]


@pytest.mark.parametrize("state", [*sorted(FINAL), State.DELETING])
async def test_run_stays_as_it_is_when_it_has_ended(world: World, state: State) -> None:
    run = await world.submit(state=state)
    assert await stop_run(world.core, ADA, "p", "r1") == run
    assert await world.audit() == []


@pytest.mark.parametrize(("project", "run_id"), [("p", "r2"), ("q", "r1")])
async def test_run_is_missing_when_it_is_not_there_or_another_projects(world: World, project: str, run_id: str) -> None:
    await world.submit()
    with pytest.raises(Missing):
        await stop_run(world.core, ADA, project, run_id)


async def test_token_of_a_run_is_refused_when_it_names_another(world: World) -> None:
    await world.submit()
    with pytest.raises(Forbidden, match="run r2 alone"):
        await stop_run(world.core, Principal(name="ada", run_id="r2", project="p", via="run"), "p", "r1")


async def test_generation_counts_on_when_a_run_is_stopped(world: World) -> None:
    """By it the engine, and whoever observes, tell what was asked before the stop from what comes after it."""
    run = await world.submit()
    stopping = await stop_run(world.core, ADA, "p", "r1")
    assert (stopping.desired, stopping.desired_generation) == ("stop", run.desired_generation + 1)
