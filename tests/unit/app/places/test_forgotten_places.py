"""A place that is gone for good keeps no run waiting."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from runyard.app.errors import Missing, NotPossible
from runyard.app.loops.volume_loop import VolumeLoop
from runyard.app.model import Run
from runyard.app.places import forget_place, forgotten_places, list_places
from runyard.app.projects import PreparedProjects, delete_project, finish_project_deletion
from runyard.app.volumes import create_volume, delete_volume, get_volume
from runyard.domain.lifecycle import State
from runyard.store import tables
from tests.engines.memory import MemoryEngine
from tests.unit.app.run_world import ADA, SERVICE, World, open_world
from tests.unit.app.shop import furnish

GONE = "kubernetes/gone"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


async def serve(world: World, place: str, *, seconds: float) -> None:
    """Note a server that serves a place, as a heartbeat does."""
    async with world.store.begin() as unit:
        until = await unit.read_clock() + timedelta(seconds=seconds)
        await unit.session.write(insert(tables.replicas).values(owner=place, place=place, until=until))
        await unit.commit()


async def submit(world: World, run_id: str, state: State, **fields: Any) -> Run:
    return await world.submit(run_id, state=state.value, **{"place": GONE, "anchor_uid": "a", **fields})


async def test_runs_end_when_their_place_is_forgotten(world: World) -> None:
    for number, state in enumerate((State.READY, State.PENDING, State.RUNNING, State.STOP)):
        await submit(world, f"r{number}", state)
    service = await submit(world, "s", State.STOPPED, kind="container+serve:run", effective=SERVICE)
    deleted = await submit(world, "d", State.DELETING, desired="delete")
    elsewhere = await submit(world, "e", State.RUNNING, place="kubernetes/here")

    done = await forget_place(world.core, ADA, GONE)

    assert (done.ended, done.released, done.deleted, done.left) == (4, 1, 1, 0)
    for number, expected in enumerate(("ERROR", "ERROR", "ERROR", "STOPPED")):
        run = await world.get(f"r{number}")
        assert (run.state, run.reason, run.place, run.anchor_uid) == (expected, "place.forgotten", None, None)
        assert run.settled_at is not None
        assert GONE in str(run.message)
        assert (await world.history(f"r{number}"))[-1].reason == "place.forgotten"
    kept = await world.get("s")
    assert (kept.state, kept.place, kept.anchor_uid, kept.uid) == ("STOPPED", None, None, service.uid)
    assert await world.find("d") is None
    assert world.logs.deleted == [deleted.uid]
    untouched = await world.get("e")
    assert (untouched.state, untouched.place, untouched.revision) == (
        "RUNNING",
        elsewhere.place,
        elsewhere.revision,
    )
    entries = await world.audit()
    assert (entries[-1].action, entries[-1].id) == ("place.forget", GONE)
    assert entries[-1].details == {"ended": 4, "released": 1, "deleted": 1, "volumes": 0, "projects": 0}


async def test_settled_runs_are_forgotten_too_when_they_could_never_be_deleted_otherwise(world: World) -> None:
    settled = world.clock.now() - timedelta(days=1)
    await submit(world, "r1", State.COMPLETED, settled_at=settled)
    done = await forget_place(world.core, ADA, GONE)
    run = await world.get("r1")
    assert (done.released, run.place, run.settled_at, run.state) == (1, None, settled, "COMPLETED")


async def test_every_run_is_forgotten_when_there_are_several_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgotten_places, "RUNS_AT_ONCE", 2)
    for number in range(5):
        await submit(world, f"r{number}", State.RUNNING)
    assert (await forget_place(world.core, ADA, GONE)).ended == 5
    assert await list_places(world.core) == []


async def test_place_is_refused_when_a_live_server_serves_it(world: World) -> None:
    await submit(world, "r1", State.RUNNING)
    await serve(world, GONE, seconds=60)
    with pytest.raises(NotPossible, match="live servers serve kubernetes/gone"):
        await forget_place(world.core, ADA, GONE)
    assert (await world.get("r1")).state == "RUNNING"
    world.turn(timedelta(minutes=2))
    assert (await forget_place(world.core, ADA, GONE)).ended == 1


async def test_place_is_unknown_when_no_run_has_it(world: World) -> None:
    with pytest.raises(Missing):
        await forget_place(world.core, ADA, "kubernetes/typo")
    assert await world.audit() == []


async def test_rest_is_left_when_a_log_cannot_be_deleted(world: World) -> None:
    await submit(world, "d", State.DELETING, desired="delete")
    world.logs.is_busy = True
    assert (await forget_place(world.core, ADA, GONE)).left == 1
    world.logs.is_busy = False
    assert (await forget_place(world.core, ADA, GONE)).deleted == 1


async def test_places_are_listed_when_runs_or_servers_have_them(world: World) -> None:
    await submit(world, "r1", State.RUNNING)
    await submit(world, "r2", State.COMPLETED, settled_at=world.clock.now())
    await world.submit("r3")
    await serve(world, "local/here", seconds=60)
    await serve(world, "local/dead", seconds=-60)
    uses = [(use.place, use.runs, use.unsettled, use.replicas) for use in await list_places(world.core)]
    assert uses == [(GONE, 2, 1, 0), ("local/here", 0, 0, 1)]


@pytest.mark.parametrize("is_deleting", [False, True])
async def test_volume_is_lost_and_can_be_deleted_when_its_place_is_forgotten(world: World, is_deleting: bool) -> None:
    await furnish(world)
    await create_volume(world.core, ADA, "p", {"name": "data", "spec": {"size": "1Gi"}})
    await VolumeLoop(world.core, world.engine).reconcile()
    if is_deleting:
        await delete_volume(world.core, ADA, "p", "data")
    assert (await forget_place(world.core, ADA, str(world.engine.place))).volumes == 1
    elsewhere = VolumeLoop(world.core, MemoryEngine("b"))
    if not is_deleting:
        volume = await get_volume(world.core, "p", "data")
        assert (volume.state, volume.status["reason"], volume.status["phase"]) == ("ERROR", "place.forgotten", "lost")
        await delete_volume(world.core, ADA, "p", "data")
    await elsewhere.reconcile()
    with pytest.raises(Missing):
        await get_volume(world.core, "p", "data")


async def test_project_can_be_deleted_when_only_its_namespace_was_at_the_forgotten_place(world: World) -> None:
    await furnish(world)
    place = str(world.engine.place)
    await PreparedProjects(world.core, world.engine).ensure("p")
    await delete_project(world.core, ADA, "p", is_cascading=True)
    elsewhere = MemoryEngine("b")
    assert not await finish_project_deletion(world.core, elsewhere, "p")
    (use,) = await list_places(world.core)
    assert (use.place, use.runs, use.volumes, use.projects) == (place, 0, 0, 1)

    assert (await forget_place(world.core, ADA, place)).projects == 1

    assert await finish_project_deletion(world.core, elsewhere, "p")
    assert await list_places(world.core) == []
    with pytest.raises(Missing):
        await forget_place(world.core, ADA, place)


async def test_place_is_listed_when_only_a_volume_has_it(world: World) -> None:
    await furnish(world)
    await create_volume(world.core, ADA, "p", {"name": "data", "spec": {"size": "1Gi"}})
    await VolumeLoop(world.core, world.engine).reconcile()
    (use,) = await list_places(world.core)
    assert (use.place, use.runs, use.volumes) == (str(world.engine.place), 0, 1)
