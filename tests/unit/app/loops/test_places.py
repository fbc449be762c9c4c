"""A run lives in one place; a server that acts elsewhere neither declares it lost nor forgets it."""

from dataclasses import replace
from datetime import timedelta

from runyard.app.loops.pace import Pace
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from tests.engines.memory import MemoryEngine
from tests.unit.app.run_world import ADA, World, reach_phase, running, until


def move(world: World, place: str) -> MemoryEngine:
    """The server is started again with an engine of another place."""
    engine = MemoryEngine(place)
    world.core = replace(world.core, engine=engine)
    return engine


async def has(world: World, *, reason: str | None) -> bool:
    return (await world.get()).reason == reason


async def test_place_is_stored_before_anything_exists_when_a_run_is_taken_up(world: World) -> None:
    seen = []

    async def look(point: str) -> None:
        if point == "ensure_project":
            seen.append((await world.get()).place)

    await world.submit()
    world.engine.at = look
    await world.look()
    assert seen == ["memory/a"]


async def test_run_waits_and_names_both_places_when_the_server_acts_elsewhere(world: World) -> None:
    await world.submit()
    await world.settle()
    other = move(world, "b")
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason) == ("STOP", "place.other")
    assert run.message == (
        "the run belongs to memory/a, and this server's engine is memory/b: it waits for a server with that engine"
    )
    assert (other.made, [thing.phase for thing in world.engine.things.values()]) == ({}, ["running"])

    world.core = replace(world.core, engine=world.engine)
    await world.make_loop().wake_waiting()
    await world.settle()
    stopped = await world.get()
    assert (stopped.state, stopped.reason) == ("STOPPED", "user.stop")


async def test_running_run_is_not_lost_when_the_server_acts_elsewhere(world: World) -> None:
    await world.submit(effective={"kind": "container", "action": "job", "image": "busybox", "timeout": 60})
    await world.settle()
    move(world, "b")
    world.turn(timedelta(hours=1))
    await world.settle()
    assert ((await world.get()).state, (await world.get()).reason) == ("RUNNING", "place.other")


async def test_deletion_is_not_forgotten_when_the_server_acts_elsewhere(world: World) -> None:
    await world.submit()
    await world.settle()
    move(world, "b")
    await delete_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert ((await world.get()).state, (await world.get()).reason) == ("DELETING", "place.other")
    world.core = replace(world.core, engine=world.engine)
    await world.make_loop().wake_waiting()
    await world.settle()
    assert await world.find() is None
    assert world.engine.things == {}


async def test_run_is_taken_up_anywhere_when_nothing_exists_for_it(world: World) -> None:
    await world.submit()
    other = move(world, "b")
    await world.look()
    assert (await world.get()).place == "memory/b"
    assert len(other.made) == 1


async def test_run_is_stopped_at_once_when_nothing_exists_for_it(world: World) -> None:
    await world.submit()
    stopped = await stop_run(world.core, ADA, "p", "r1")
    assert stopped.state == "STOPPED"
    assert await world.look() == 0
    assert world.engine.made == {}


async def test_waiting_run_is_acted_on_when_a_server_starts_at_its_place(world: World) -> None:
    await world.submit()
    await world.settle()
    move(world, "b")
    await stop_run(world.core, ADA, "p", "r1")
    world.make_due()
    await world.look()
    assert (await world.get()).reason == "place.other"
    world.core = replace(world.core, engine=world.engine)
    async with running(world.make_loop(pace=Pace(poll_seconds=600, resync_seconds=600))):
        await reach_phase(world.engine, "r1", "stopping")


async def test_running_run_says_so_at_once_when_the_server_starts_elsewhere(world: World) -> None:
    await world.submit()
    await world.settle()
    assert ((await world.get()).state, (await world.get()).due_at) == ("RUNNING", None)
    async with world.store.begin() as unit:  # the server of that place was killed a moment ago
        await unit.replicas.beat("killed", "memory/a", timedelta(hours=1))
        await unit.commit()
    move(world, "b")
    async with running(world.make_loop(pace=Pace(poll_seconds=600, resync_seconds=600))):
        await until(lambda: has(world, reason="place.other"))
    assert (await world.get()).state == "RUNNING"

    world.core = replace(world.core, engine=world.engine)
    async with running(world.make_loop(pace=Pace(poll_seconds=600, resync_seconds=600))):
        await until(lambda: has(world, reason=None))
    assert ((await world.get()).state, (await world.get()).due_at) == ("RUNNING", None)
