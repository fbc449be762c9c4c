"""Volumes exist and go at the engine, through failures, crashes, other places and users who are in the way."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runyard.app.engine import EngineRefusal, EngineUnavailable, KeptVolume, VolumeState
from runyard.app.errors import Conflict, NotPossible
from runyard.app.list_query import Query
from runyard.app.loops.volume_loop import VolumeLoop
from runyard.app.model import Entity
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from runyard.app.volumes.kept_volumes import create_volume, delete_volume
from runyard.app.volumes.run_claims import ensure_run_volumes
from runyard.domain.reasons import Reason
from runyard.manifests.identity import RunIdentity
from runyard.manifests.names import claim_name
from tests.engines.memory import MemoryEngine
from tests.unit.app.crash_points import Crash, Fate, MortalStore
from tests.unit.app.run_world import ADA, JOB, World
from tests.unit.app.shop import furnish

DOWN = EngineUnavailable("engine.failed", "down")


async def add_volume(world: World, name: str = "data") -> Entity:
    await furnish(world)
    return await create_volume(world.core, ADA, "p", {"name": name, "spec": {"size": "1Gi"}})


async def list_volumes(world: World) -> list[Entity]:
    async with world.store.begin(is_read_only=True) as unit:
        return list((await unit.entities.find_page(Query(type="volume", project="p"))).content)


async def get_volume(world: World) -> Entity:
    [volume] = await list_volumes(world)
    return volume


def make_loop(world: World, engine: MemoryEngine | None = None) -> VolumeLoop:
    return VolumeLoop(world.core, engine or world.engine)


def mount(engine: MemoryEngine, *run_uids: str) -> None:
    for key, state in engine.volumes.items():
        engine.volumes[key] = replace(state, mounted_by=run_uids)


async def test_project_is_prepared_when_its_first_volume_is_created(world: World) -> None:
    await add_volume(world)
    await make_loop(world).reconcile()
    assert world.engine.projects == {"p"}


async def test_volume_is_ready_as_the_engine_says_when_it_was_created(world: World) -> None:
    volume = await add_volume(world)
    assert await make_loop(world).reconcile() == 0
    ready = await get_volume(world)
    assert ready.state == "READY"
    assert ready.status == {"place": "memory/a", "phase": "bound", "size": "1Gi", "storage_class": "standard"}
    assert world.engine.volumes["p", f"vol-{volume.id}"].volume_id == volume.id
    before = ready.revision
    await make_loop(world).reconcile()
    await make_loop(world).refresh()
    assert (await get_volume(world)).revision == before


async def test_volume_stays_created_when_there_is_no_engine(bare_world: World) -> None:
    await add_volume(bare_world)
    loop = VolumeLoop(bare_world.core, None)
    assert await loop.reconcile() == 0
    await loop.refresh()
    volume = await get_volume(bare_world)
    assert (volume.state, volume.status) == ("CREATED", {})
    await delete_volume(bare_world.core, ADA, "p", "data")
    assert await list_volumes(bare_world) == []


async def test_row_goes_after_the_claim_when_a_volume_is_deleted(world: World) -> None:
    await add_volume(world)
    await make_loop(world).reconcile()
    await delete_volume(world.core, ADA, "p", "data")
    assert (await get_volume(world)).state == "DELETING"
    assert world.engine.volumes
    assert await make_loop(world).reconcile() == 0
    assert (await list_volumes(world), world.engine.volumes) == ([], {})
    assert [entry.action for entry in await world.audit()] == ["volume.create", "volume.delete", "volume.removed"]


async def test_volume_waits_with_a_reason_when_it_is_mounted_and_deleted(world: World) -> None:
    await add_volume(world)
    await make_loop(world).reconcile()
    mount(world.engine, "somebody")
    await delete_volume(world.core, ADA, "p", "data")
    assert await make_loop(world).reconcile() == 1
    waiting = await get_volume(world)
    assert (waiting.state, waiting.status["reason"]) == ("DELETING", Reason.VOLUME_REMOVING)
    mount(world.engine)
    assert await make_loop(world).reconcile() == 0
    assert (await list_volumes(world), world.engine.volumes) == ([], {})


@pytest.mark.parametrize("is_deleting", [False, True])
async def test_volume_waits_with_a_reason_when_the_engine_is_down(world: World, is_deleting: bool) -> None:
    await add_volume(world)
    if is_deleting:
        await make_loop(world).reconcile()
        await delete_volume(world.core, ADA, "p", "data")
    world.engine.failures = [DOWN]
    assert await make_loop(world).reconcile() == 1
    waiting = await get_volume(world)
    assert waiting.status["reason"] == "engine.failed"
    world.engine.failures = [DOWN]
    assert await make_loop(world).reconcile() == 1
    assert (await get_volume(world)).revision == waiting.revision
    assert await make_loop(world).reconcile() == 0
    left = [(one.state, one.status.get("reason")) for one in await list_volumes(world)]
    assert left == ([] if is_deleting else [("READY", None)])


async def test_others_are_left_to_the_next_pass_when_the_engine_stays_down(world: World) -> None:
    await furnish(world)
    for number in range(6):
        await create_volume(world.core, ADA, "p", {"name": f"v{number}"})
    world.engine.failures = [DOWN] * 6
    assert await make_loop(world).reconcile() == 6
    assert len(world.engine.failures) == 3


async def test_volume_is_an_error_when_the_engine_refuses_it(world: World) -> None:
    volume = await add_volume(world)
    world.engine.volumes["p", f"vol-{volume.id}"] = VolumeState(
        project="p", claim=f"vol-{volume.id}", volume_id=None, phase="bound"
    )
    assert await make_loop(world).reconcile() == 0
    refused = await get_volume(world)
    assert (refused.state, refused.status["reason"]) == ("ERROR", "volume.taken")
    await delete_volume(world.core, ADA, "p", "data")
    await make_loop(world).reconcile()
    assert await list_volumes(world) == []
    assert len(world.engine.volumes) == 1


@pytest.mark.parametrize("is_deleting", [False, True])
async def test_volume_is_neither_forgotten_nor_made_again_when_the_place_is_another(
    world: World, is_deleting: bool
) -> None:
    await add_volume(world)
    await make_loop(world).reconcile()
    if is_deleting:
        await delete_volume(world.core, ADA, "p", "data")
    else:
        async with world.store.begin() as unit:
            await unit.entities.replace(replace(await get_volume(world), state="CREATED"))
            await unit.commit()
    other = MemoryEngine("b")
    loop = make_loop(world, other)
    await loop.refresh()
    assert await loop.reconcile() == 0
    waiting = await get_volume(world)
    assert waiting.state == ("DELETING" if is_deleting else "CREATED")
    assert waiting.status["reason"] == Reason.PLACE_OTHER
    assert "memory/a" in waiting.status["message"]
    assert "memory/b" in waiting.status["message"]
    assert other.volumes == {}
    assert world.engine.volumes
    await make_loop(world).reconcile()
    assert bool(world.engine.volumes) is not is_deleting


async def test_deletion_waits_when_the_server_has_no_engine_anymore(world: World) -> None:
    await add_volume(world)
    await make_loop(world).reconcile()
    await delete_volume(world.core, ADA, "p", "data")
    assert await VolumeLoop(world.core, None).reconcile() == 0
    assert (await get_volume(world)).status["reason"] == Reason.ENGINE_NONE


async def test_claim_is_found_again_when_the_server_crashes_at_any_moment(world: World) -> None:
    dies_after = 0
    has_died = True
    while has_died:
        volume = (
            await add_volume(world) if dies_after == 0 else await create_volume(world.core, ADA, "p", {"name": "data"})
        )
        for is_deleting in (False, True):
            if is_deleting:
                await delete_volume(world.core, ADA, "p", "data")
            fate = Fate(dies_after)
            world.engine.at = fate.pass_point
            try:
                await VolumeLoop(replace(world.core, store=MortalStore(world.store, fate)), world.engine).reconcile()
                has_died = False
            except Crash:
                has_died = True
            world.engine.at = Fate(None).pass_point
            await make_loop(world).reconcile()
            claims = {state.volume_id for state in world.engine.volumes.values()}
            assert claims == (set() if is_deleting else {volume.id})
            assert len(await list_volumes(world)) == len(claims)
        dies_after += 1
    assert dies_after > 2


async def test_no_claim_is_left_when_a_volume_is_deleted_while_it_is_created(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_volume(world)
    real = world.engine.ensure_volume

    async def delete_meanwhile(volume: KeptVolume) -> VolumeState:
        monkeypatch.setattr(world.engine, "ensure_volume", real)
        await delete_volume(world.core, ADA, "p", "data")
        await make_loop(world).reconcile()
        assert await list_volumes(world) == []
        return await real(volume)

    monkeypatch.setattr(world.engine, "ensure_volume", delete_meanwhile)
    await make_loop(world).reconcile()
    assert (await list_volumes(world), world.engine.volumes) == ([], {})


async def test_ledger_notes_who_mounts_and_when_when_it_is_refreshed(world: World) -> None:
    await add_volume(world)
    loop = make_loop(world)
    await loop.reconcile()
    mounted_at = world.clock.now()
    mount(world.engine, "u2", "u1")
    await loop.refresh()
    status = (await get_volume(world)).status
    assert (status["mounted_by"], status["last_mounted_at"]) == (["u1", "u2"], mounted_at.isoformat())
    world.turn(timedelta(hours=1))
    mount(world.engine)
    await loop.refresh()
    status = (await get_volume(world)).status
    assert ("mounted_by" in status, status["last_mounted_at"]) == (False, world.clock.now().isoformat())


async def test_volume_is_lost_and_not_made_again_when_its_claim_was_deleted_outside(world: World) -> None:
    await add_volume(world)
    loop = make_loop(world)
    await loop.reconcile()
    found = dict(world.engine.volumes)
    world.engine.volumes.clear()
    for _ in range(2):
        await loop.refresh()
        await loop.reconcile()
        volume = await get_volume(world)
        assert (volume.state, volume.status["reason"], volume.status["phase"]) == ("ERROR", Reason.VOLUME_LOST, "lost")
    assert world.engine.volumes == {}
    world.engine.volumes.update(found)
    await loop.refresh()
    volume = await get_volume(world)
    assert (volume.state, volume.status.get("reason")) == ("READY", None)


async def test_no_volume_is_lost_when_the_engine_cannot_list_them_all(world: World) -> None:
    await add_volume(world)
    loop = make_loop(world)
    await loop.reconcile()
    world.engine.volumes.clear()
    world.engine.failures = [DOWN]
    await loop.refresh()
    assert world.engine.failures == []
    assert (await get_volume(world)).state == "READY"


def keeping(lifetime: Any = "keep") -> dict[str, Any]:
    volume = {
        "name": "out",
        "type": "persistent_volume_claim",
        "mount_path": "/out",
        "size": "1Gi",
        "lifetime": lifetime,
    }
    return {**JOB, "schema_version": 3, "volumes": [volume]}


async def start(world: World, **fields: Any) -> None:
    """A run that keeps a claim, released as the reconcile loop does it."""
    await furnish(world)
    run = await world.submit(place=str(world.engine.place), **fields)
    await ensure_run_volumes(world.core, world.engine, run)
    await world.settle()


async def test_claim_is_in_the_ledger_and_exists_when_a_run_keeps_one(world: World) -> None:
    await furnish(world)
    run = await world.submit(effective=keeping(), place=str(world.engine.place))
    for _ in range(2):
        await ensure_run_volumes(world.core, world.engine, run)
    volume = await get_volume(world)
    claim = claim_name(RunIdentity(run_id="r1", run_uid=run.uid, project="p"), volume="out")
    assert (volume.name, volume.kind, volume.user, volume.state) == (claim, "claim", "ada", "READY")
    assert volume.status["run"] == {"id": "r1", "uid": run.uid, "volume": "out"}
    assert world.engine.volumes["p", claim].volume_id == volume.id
    await make_loop(world).refresh()
    assert (await get_volume(world)).state == "READY"
    with pytest.raises(NotPossible, match="r1"):
        await delete_volume(world.core, ADA, "p", claim)


@pytest.mark.parametrize("lifetime", [None, "run"])
async def test_nothing_is_kept_when_a_claim_lives_as_long_as_its_run(world: World, lifetime: Any) -> None:
    await start(world, effective=keeping(lifetime))
    assert (await list_volumes(world), world.engine.volumes) == ([], {})


async def test_claim_stays_when_its_run_ended_and_was_deleted(world: World) -> None:
    await start(world, effective=keeping())
    world.engine.finish("r1", phase="succeeded")
    await world.settle()
    await delete_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert await world.find() is None
    world.turn(timedelta(days=1000))
    await make_loop(world).refresh()
    await make_loop(world).reconcile()
    volume = await get_volume(world)
    assert volume.state == "READY"
    assert "expires_at" not in volume.status
    await delete_volume(world.core, ADA, "p", volume.name)
    await make_loop(world).reconcile()
    assert world.engine.volumes == {}


@pytest.mark.parametrize("is_run_deleted", [False, True])
async def test_claim_goes_when_its_lifetime_after_the_run_is_over(world: World, is_run_deleted: bool) -> None:
    await start(world, effective=keeping(3600))
    await make_loop(world).refresh()
    assert "expires_at" not in (await get_volume(world)).status
    world.engine.finish("r1", phase="succeeded")
    await world.settle()
    ended_at = world.clock.now()
    if is_run_deleted:
        await delete_run(world.core, ADA, "p", "r1")
        await world.settle()
    world.turn(timedelta(minutes=30))
    await make_loop(world).refresh()
    volume = await get_volume(world)
    assert (volume.state, volume.status["expires_at"]) == ("READY", (ended_at + timedelta(hours=1)).isoformat())
    world.turn(timedelta(minutes=30))
    mount(world.engine, "somebody")
    await make_loop(world).refresh()
    assert (await get_volume(world)).state == "READY"
    mount(world.engine)
    for _ in range(2):
        await make_loop(world).refresh()
    volume = await get_volume(world)
    assert (volume.state, volume.status["reason"]) == ("DELETING", Reason.VOLUME_EXPIRED)
    await make_loop(world).reconcile()
    assert (await list_volumes(world), world.engine.volumes) == ([], {})


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_no_claim_is_left_when_a_run_ended_before_its_release(world: World, is_deleted: bool) -> None:
    await furnish(world)
    run = await world.submit(effective=keeping(), place=str(world.engine.place))
    await ensure_run_volumes(world.core, world.engine, run)
    await (delete_run if is_deleted else stop_run)(world.core, ADA, "p", "r1")
    await world.settle()
    await make_loop(world).refresh()
    await make_loop(world).reconcile()
    assert (await list_volumes(world), world.engine.volumes) == ([], {})


@pytest.mark.parametrize("act", [delete_run, stop_run])
async def test_nothing_is_made_when_the_run_was_stopped_or_deleted_meanwhile(world: World, act: Any) -> None:
    await furnish(world)
    run = await world.submit(effective=keeping(), place=str(world.engine.place))
    await act(world.core, ADA, "p", "r1")
    with pytest.raises(Conflict):
        await ensure_run_volumes(world.core, world.engine, run)
    assert (await list_volumes(world), world.engine.volumes) == ([], {})


async def test_run_waits_when_the_engine_is_down_before_its_claim_exists(world: World) -> None:
    await furnish(world)
    run = await world.submit(effective=keeping(), place=str(world.engine.place))
    world.engine.failures = [DOWN]
    with pytest.raises(EngineUnavailable):
        await ensure_run_volumes(world.core, world.engine, run)
    assert (await get_volume(world)).state == "CREATED"
    await make_loop(world).reconcile()
    assert world.engine.volumes == {}
    await ensure_run_volumes(world.core, world.engine, run)
    assert (await get_volume(world)).state == "READY"


async def test_run_is_refused_when_the_project_has_too_many_volumes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.app.volumes.run_claims.MOST_VOLUMES", 0)
    await furnish(world)
    run = await world.submit(effective=keeping(), place=str(world.engine.place))
    with pytest.raises(EngineRefusal, match="the limit is 0"):
        await ensure_run_volumes(world.core, world.engine, run)
    assert await list_volumes(world) == []
