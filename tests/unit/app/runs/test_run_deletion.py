from datetime import timedelta

import pytest

from runyard.app.errors import Forbidden, Missing
from runyard.app.model import Principal
from runyard.app.ports import Stale
from runyard.app.runs.run_deletion import delete_run, finish_run_deletion
from tests.unit.app.run_world import ADA, World


@pytest.mark.parametrize("passes", range(4))
async def test_nothing_is_left_when_a_run_is_deleted_at_any_time(world: World, passes: int) -> None:
    await world.submit()
    await world.settle(passes=passes)
    answered = await delete_run(world.core, ADA, "p", "r1")
    assert answered.state == "DELETING"
    assert (await delete_run(world.core, ADA, "p", "r1")).revision == answered.revision
    await world.settle()
    assert await world.find() is None
    assert world.engine.anchors == {}
    assert world.logs.deleted == ["r1"]
    async with world.store.begin(is_read_only=True) as unit:
        assert await unit.runs.has_tombstone("r1")
    assert [entry.action for entry in await world.audit()][-2:] == ["run.delete", "run.removed"]


async def test_run_is_gone_at_once_when_nothing_can_have_been_made(bare_world: World) -> None:
    await bare_world.submit()
    assert (await delete_run(bare_world.core, ADA, "p", "r1")).state == "DELETING"
    assert await bare_world.find() is None
    assert bare_world.logs.deleted == ["r1"]
    with pytest.raises(Missing):
        await delete_run(bare_world.core, ADA, "p", "r1")


@pytest.mark.parametrize("phase", ["succeeded", "failed"])
async def test_ended_run_goes_too_when_it_is_deleted(world: World, phase: str) -> None:
    await world.submit()
    await world.settle()
    world.engine.finish("r1", phase=phase)
    await world.settle()
    await delete_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert await world.find() is None
    assert world.engine.anchors == {}


async def test_new_run_of_that_id_has_an_anchor_of_its_own_when_the_old_one_was_deleted(world: World) -> None:
    for number in range(2):
        await world.submit(request_hash=str(number))
        await world.settle()
        assert (await world.get()).state == "RUNNING"
        await delete_run(world.core, ADA, "p", "r1")
        await world.settle()
    assert [len(uids) for uids in world.engine.made.values()] == [1, 1]


async def test_run_stays_when_its_anchor_is_not_gone_yet(world: World) -> None:
    await world.submit()
    await world.settle()
    await delete_run(world.core, ADA, "p", "r1")
    await world.make_loop().reconcile_due()
    assert [anchor.phase for anchor in world.engine.anchors.values()] == ["removing"]
    assert (await world.get()).state == "DELETING"
    world.engine.tick()
    world.make_due()
    await world.make_loop().reconcile_due()
    assert await world.find() is None


async def test_generation_counts_on_when_a_run_is_deleted(world: World) -> None:
    """By it the engine ignores what a frozen replica still asks for."""
    run = await world.submit()
    assert (await delete_run(world.core, ADA, "p", "r1")).desired_generation == run.desired_generation + 1


async def test_run_stays_when_the_lease_of_who_would_remove_it_has_expired(world: World) -> None:
    await world.submit()
    await delete_run(world.core, ADA, "p", "r1")
    async with world.store.begin() as unit:
        [(run, lease)] = await unit.runs.claim_due(owner="me", limit=1, lease_for=timedelta(seconds=90))
        await unit.commit()
    world.turn(timedelta(seconds=91))
    with pytest.raises(Stale):
        await finish_run_deletion(world.core, run, lease=lease)
    assert (await world.get()).state == "DELETING"


async def test_token_of_a_run_is_refused_when_it_would_delete_another(world: World) -> None:
    await world.submit()
    token = Principal(name="ada", run_id="r2", project="p", via="run")
    with pytest.raises(Forbidden):
        await delete_run(world.core, token, "p", "r1")
    assert (await world.get()).state == "READY"
