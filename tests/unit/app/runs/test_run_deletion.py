import asyncio
from datetime import timedelta

import pytest

from runyard.app.errors import Forbidden, Missing
from runyard.app.model import Principal
from runyard.app.ports import Stale, Unavailable
from runyard.app.runs.run_deletion import LOOP_TAKES_OVER_AFTER, delete_run, finish_run_deletion
from runyard.domain.reasons import Reason
from tests.contract.store.builders import claim
from tests.unit.app.run_world import ADA, World


@pytest.mark.parametrize("passes", range(1, 4))
async def test_nothing_is_left_when_a_run_is_deleted_at_any_time(world: World, passes: int) -> None:
    run = await world.submit()
    await world.settle(passes=passes)
    answered = await delete_run(world.core, ADA, "p", "r1")
    assert answered.state == "DELETING"
    assert (await delete_run(world.core, ADA, "p", "r1")).revision == answered.revision
    await world.settle()
    assert await world.find() is None
    assert world.engine.things == {}
    assert world.logs.deleted == [run.uid]
    async with world.store.begin(is_read_only=True) as unit:
        assert await unit.runs.has_tombstone("r1", project="p")
    assert [entry.action for entry in await world.audit()][-2:] == ["run.delete", "run.removed"]


async def test_run_is_gone_at_once_when_no_engine_ever_got_it(world: World) -> None:
    run = await world.submit()
    await delete_run(world.core, ADA, "p", "r1")
    assert await world.find() is None
    assert world.logs.deleted == [run.uid]


async def test_run_is_gone_at_once_when_nothing_can_have_been_made(bare_world: World) -> None:
    run = await bare_world.submit()
    assert (await delete_run(bare_world.core, ADA, "p", "r1")).state == "DELETING"
    assert await bare_world.find() is None
    assert bare_world.logs.deleted == [run.uid]
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
    assert world.engine.things == {}


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
    assert [anchor.phase for anchor in world.engine.things.values()] == ["removing"]
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
    await world.settle()
    await delete_run(world.core, ADA, "p", "r1")
    async with world.store.begin() as unit:
        [(run, lease)] = await claim(unit, place=str(world.engine.place), lease_for=timedelta(seconds=90))
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


async def test_run_stays_and_the_loop_finishes_when_the_log_cannot_be_deleted(bare_world: World) -> None:
    run = await bare_world.submit(is_local=True)
    bare_world.logs.is_busy = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            await delete_run(bare_world.core, ADA, "p", "r1")
        assert (await bare_world.get()).state == "DELETING"
    bare_world.turn(LOOP_TAKES_OVER_AFTER)
    assert await bare_world.make_loop().reconcile_due() == 1
    kept = await bare_world.get()
    assert (kept.state, kept.reason) == ("DELETING", Reason.LOGS_UNAVAILABLE)
    bare_world.logs.is_busy = False
    await bare_world.settle()
    assert await bare_world.find() is None
    assert bare_world.logs.deleted == [run.uid]


async def test_run_stays_when_its_anchor_is_gone_and_the_log_cannot_be_deleted(world: World) -> None:
    run = await world.submit()
    await world.settle()
    await delete_run(world.core, ADA, "p", "r1")
    world.logs.is_busy = True
    await world.settle()
    assert world.engine.things == {}
    kept = await world.get()
    assert (kept.state, kept.reason) == ("DELETING", Reason.LOGS_UNAVAILABLE)
    world.logs.is_busy = False
    await world.settle()
    assert await world.find() is None
    assert world.logs.deleted == [run.uid]


async def test_repeated_deletion_finishes_when_the_first_could_not_delete_the_log(bare_world: World) -> None:
    run = await bare_world.submit()
    bare_world.logs.is_busy = True
    with pytest.raises(Unavailable):
        await delete_run(bare_world.core, ADA, "p", "r1")
    bare_world.logs.is_busy = False
    assert (await delete_run(bare_world.core, ADA, "p", "r1")).state == "DELETING"
    assert await bare_world.find() is None
    assert bare_world.logs.deleted == [run.uid]
    assert [entry.action for entry in await bare_world.audit()] == ["run.delete"]


async def test_no_transaction_is_open_when_a_log_is_deleted(bare_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite has one writer: a slow log storage inside its transaction would stop everybody."""
    await bare_world.submit()

    async def write_meanwhile(_run_uid: str) -> None:
        async with asyncio.timeout(30), bare_world.store.begin() as unit:
            await unit.put_meta("meanwhile", "written")
            await unit.commit()

    monkeypatch.setattr(bare_world.logs, "delete", write_meanwhile)
    await delete_run(bare_world.core, ADA, "p", "r1")
    async with bare_world.store.begin(is_read_only=True) as unit:
        assert await unit.get_meta("meanwhile") == "written"
    assert await bare_world.find() is None
