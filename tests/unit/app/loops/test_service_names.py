"""The stable name of a service: the engine is told to take it once the run is ready, until it has done so."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from runyard.app.engine import Assignment, EngineRefusal, EngineUnavailable, NamedServices
from runyard.app.runs import NOTES
from runyard.app.runs.resume import resume_run
from runyard.app.runs.stop import stop_run
from runyard.domain.reasons import Reason
from tests.engines.memory import MemoryEngine
from tests.unit.app.run_world import ADA, SERVICE, START, World

NAMED = {**SERVICE, "service_name": "api"}


class NamingEngine(MemoryEngine):
    """`app.engine.NamedServices`; says which runs took their name, and can fail before."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[str, int]] = []
        """Id and generation."""
        self.before_take: Callable[[], None] = lambda: None

    async def take_service_name(self, assignment: Assignment, uid: str) -> None:
        """Note it."""
        assert self._get(assignment.run_id).phase == "running"
        assert (uid, assignment.created_at) == (self._get(assignment.run_id).anchor.uid, START)
        self.before_take()
        self.taken.append((assignment.run_id, assignment.generation))


@pytest.fixture
def naming(world: World) -> NamingEngine:
    """The engine of the world, instead of the usual one."""
    engine = NamingEngine()
    assert isinstance(engine, NamedServices)
    world.engine, world.core = engine, replace(world.core, engine=engine)
    return engine


async def test_name_is_taken_once_when_the_run_is_ready(world: World, naming: NamingEngine) -> None:
    await world.submit(effective=NAMED)
    await world.look()
    assert ((await world.get()).state, naming.taken) == ("PENDING", [])
    await world.settle()
    await world.settle()
    run = await world.get()
    assert (run.state, naming.taken) == ("RUNNING", [("r1", 1)])
    assert NOTES not in run.status


async def test_name_is_taken_at_once_when_the_run_becomes_ready(world: World, naming: NamingEngine) -> None:
    await world.submit(effective=NAMED)
    await world.look()
    naming.tick()
    await world.look()  # without `make_due`: nothing but the observation makes it due
    assert naming.taken == [("r1", 1)]


async def test_name_is_taken_later_when_the_server_dies_in_between(world: World, naming: NamingEngine) -> None:
    def die() -> None:
        raise RuntimeError("the process is gone")

    naming.before_take = die
    await world.submit(effective=NAMED)
    await world.settle()
    assert ((await world.get()).state, naming.taken) == ("RUNNING", [])
    naming.before_take = lambda: None
    await world.settle()
    assert naming.taken == [("r1", 1)]


async def test_name_is_taken_later_when_the_engine_cannot_be_reached(world: World, naming: NamingEngine) -> None:
    def fail() -> None:
        raise EngineUnavailable(Reason.ENGINE_FAILED, "no answer")

    naming.before_take = fail
    await world.submit(effective=NAMED)
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, naming.taken) == ("RUNNING", "engine.failed", [])
    naming.before_take = lambda: None
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, naming.taken) == ("RUNNING", None, [("r1", 1)])


async def test_run_goes_on_and_says_why_when_a_stranger_has_its_name(world: World, naming: NamingEngine) -> None:
    def refuse() -> None:
        raise EngineRefusal(Reason.ANCHOR_TAKEN, "not created by Runyard")

    naming.before_take = refuse
    await world.submit(effective=NAMED)
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, naming.taken) == ("RUNNING", "anchor.taken", [])
    naming.before_take = lambda: None
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, naming.taken) == ("RUNNING", None, [("r1", 1)])


async def test_name_is_taken_again_when_the_run_is_resumed(world: World, naming: NamingEngine) -> None:
    await world.submit(effective=NAMED)
    await world.settle()
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    await resume_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert (await world.get()).state == "RUNNING"
    assert naming.taken == [("r1", 1), ("r1", 3)]


@pytest.mark.parametrize("effective", [SERVICE, {**NAMED, "action": "deploy"}])
async def test_no_name_is_taken_when_the_run_has_none(
    world: World, naming: NamingEngine, effective: dict[str, str]
) -> None:
    await world.submit(effective=effective)
    await world.settle()
    assert ((await world.get()).state, naming.taken) == ("RUNNING", [])


async def test_run_waits_for_nothing_when_the_engine_has_no_names(world: World) -> None:
    assert not isinstance(world.engine, NamedServices)
    await world.submit(effective=NAMED)
    await world.settle()
    run = await world.get()
    assert run.state == "RUNNING"
    assert NOTES not in run.status
