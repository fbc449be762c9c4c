"""Stops and reports do not wait for creations, and a store that stumbles loses and cancels nothing."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runyard.app.engine import Anchor, AnchorList, Observation
from runyard.app.loops import reconcile
from runyard.app.loops.pace import Pace
from runyard.app.loops.reconcile import OFFERED_AT_ONCE
from runyard.app.ports import Unavailable
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from runyard.domain.outcomes import Lane, Seen
from tests.unit.app.run_world import ADA, PACE, World, reach_phase, running, until

QUICK = Pace(min_backoff=timedelta(milliseconds=10), heartbeat_seconds=0.05, poll_seconds=0.05)


async def test_stop_and_report_do_not_wait_when_creations_hang(world: World) -> None:
    """Every slot of the create lane is taken for good."""
    pace = replace(QUICK, call_seconds=600)
    await world.submit("running")
    await world.submit("ending")
    await world.settle()
    hanging = asyncio.Event()

    async def hang(point: str) -> None:
        if point == "ensure_anchor":
            await hanging.wait()

    async def are_all_slots_taken() -> bool:
        return world.engine.calls.count("ensure_anchor") >= QUICK.slots[Lane.CREATE]

    world.engine.at = hang
    for number in range(QUICK.slots[Lane.CREATE] + 10):
        await world.submit(f"new{number}")
    async with running(world.make_loop(pace=pace)):
        await until(are_all_slots_taken)
        world.engine.finish("ending", phase="succeeded")
        await world.reach("ending", "COMPLETED")
        await stop_run(world.core, ADA, "p", "running")
        await reach_phase(world.engine, "running", "stopping")
        world.engine.tick()
        await world.reach("running", "STOPPED")
        hanging.set()


async def test_engine_is_asked_once_when_a_stop_takes_its_time(world: World) -> None:
    await world.submit()
    await world.settle()
    world.engine.calls.clear()
    async with running(world.make_loop(pace=QUICK)):
        await stop_run(world.core, ADA, "p", "r1")
        await reach_phase(world.engine, "r1", "stopping")
        await asyncio.sleep(0.5)  # ten polls, ten heartbeats
        assert world.engine.calls.count("stop") == 1
        world.engine.tick()
        await world.reach("r1", "STOPPED")
    assert world.engine.calls.count("stop") == 1


async def test_deletion_is_not_forgotten_when_it_comes_while_the_run_is_leased(world: World) -> None:
    reached, released = asyncio.Event(), asyncio.Event()

    async def hold(point: str) -> None:
        if point == "settle":
            reached.set()
            await released.wait()

    await world.submit()
    await world.settle()
    world.engine.at = hold
    async with running(world.make_loop(pace=Pace(poll_seconds=600, resync_seconds=600))):
        await asyncio.sleep(0.1)
        world.engine.finish("r1", phase="succeeded")
        await reached.wait()
        await delete_run(world.core, ADA, "p", "r1")
        await asyncio.sleep(0.1)
        released.set()

        async def is_gone() -> bool:
            return await world.find() is None

        await until(is_gone)
    assert world.engine.things == {}


async def test_steps_go_on_and_reports_stay_when_the_store_fails_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim fails while a creation is in progress and a report waits."""
    await world.submit("running")
    await world.settle()
    reached, released = asyncio.Event(), asyncio.Event()

    async def hold(point: str) -> None:
        if point == "ensure_anchor":
            reached.set()
            await released.wait()

    world.engine.at = hold
    await world.submit("new")
    begin, is_down = world.store.begin, asyncio.Event()

    @asynccontextmanager
    async def begin_unless_down(**options: Any) -> AsyncIterator[Any]:
        if is_down.is_set() and not options.get("is_read_only"):
            raise Unavailable("the database is away")
        async with begin(**options) as unit:
            yield unit

    monkeypatch.setattr(world.store, "begin", begin_unless_down)
    async with running(world.make_loop(pace=QUICK)):
        await reached.wait()
        is_down.set()
        world.engine.finish("running", phase="succeeded")
        await asyncio.sleep(0.3)
        assert (await world.get("running")).state == "RUNNING"
        is_down.clear()
        released.set()
        await world.reach("running", "COMPLETED")
        await world.reach("new", "PENDING")
    assert len(world.engine.made) == 2
    assert all(len(uids) == 1 for uids in world.engine.made.values())


async def test_missing_anchor_is_believed_when_the_engine_was_asked_for_it(world: World) -> None:
    await world.submit()
    await world.settle()
    uid = (await world.get()).anchor_uid
    assert uid is not None
    del world.engine.things[uid]  # nobody reports it
    world.engine.is_list_complete = False
    loop = world.make_loop(pace=replace(PACE, drain_seconds=0.1))
    assert await loop.compare_all() == 0
    world.engine.is_list_complete = True
    assert await loop.compare_all() == 1
    assert (await world.get()).state == "RUNNING"
    await loop.reconcile_due()
    assert ((await world.get()).state, (await world.get()).reason) == ("ERROR", "run.lost")


class _WithoutFirst(Sequence[tuple[Anchor, Observation]]):
    """Observations of which the first cannot be made."""

    def __init__(self, listed: Sequence[tuple[Anchor, Observation]]) -> None:
        self._listed = listed

    def __len__(self) -> int:
        return len(self._listed)

    def __getitem__(self, index: Any) -> Any:
        return self._listed[index][1:] if isinstance(index, slice) else self._listed[index]


async def test_missing_anchor_is_not_believed_when_an_observation_of_the_list_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.submit()
    await world.settle()
    loop, listed = world.make_loop(), await world.engine.list_anchors()
    assert listed.is_complete
    assert len(listed.observations) == 1
    world.engine.things.clear()

    async def list_anchors() -> AnchorList:
        return replace(listed, observations=_WithoutFirst(listed.observations))

    monkeypatch.setattr(world.engine, "list_anchors", list_anchors)
    assert await loop.compare_all() == 0
    listed = replace(listed, observations=())
    assert await loop.compare_all() == 1


async def test_run_is_released_again_when_its_engine_forgot_that_it_waits(world: World) -> None:
    """An engine may keep runs that wait for room in memory only: after a restart their anchors are held back again."""
    await world.submit()
    loop = world.make_loop()
    await world.look(loop)
    world.engine.explain("r1", reason="resources.waiting", message="waits for 2 cores")
    await world.look(loop)
    assert ((await world.get()).state, (await world.get()).reason) == ("PENDING", "resources.waiting")
    (thing,) = world.engine.things.values()
    thing.phase = "held"
    thing.note()
    assert await loop.compare_all() == 1
    await loop.reconcile_due()
    assert world.engine.released == [thing.anchor.uid] * 2


async def test_lease_is_kept_when_a_call_takes_longer_than_the_lease(world: World) -> None:
    pace = Pace(lease=timedelta(seconds=2), heartbeat_seconds=0.05, poll_seconds=0.05)

    async def take_long(point: str) -> None:
        if point == "ensure_anchor":
            await asyncio.sleep(4)

    await world.submit()
    world.engine.at = take_long
    async with running(world.make_loop(pace=pace)):
        await world.reach("r1", "PENDING")
    assert world.engine.calls.count("ensure_anchor") == 1


async def test_next_server_follows_all_runs_at_once_when_the_server_before_was_killed(world: World) -> None:
    """A killed server cannot leave, but a SQLite database has one server: the next one does not wait for its lease."""
    await world.make_loop().membership.beat()
    started = world.make_loop().membership
    assert not await started.beat()
    assert started.is_alone
    assert started.shard == (0, 1)
    assert all(started.owns(f"run-{number}") for number in range(20))


async def test_every_missing_anchor_is_noticed_when_there_are_several_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "PAGE", 1)
    for name in ("r1", "r2", "r3"):
        await world.submit(name)
    await world.settle()
    world.engine.things.clear()
    assert await world.make_loop().compare_all() == 3


async def test_change_counts_when_it_came_before_the_loop_listened(world: World) -> None:
    await world.submit()
    await world.settle()
    world.engine.finish("r1", phase="succeeded")
    async with running(world.make_loop(pace=Pace(poll_seconds=600, resync_seconds=600))):
        await world.reach("r1", "COMPLETED")


async def test_run_is_left_alone_when_another_replica_owns_it(world: World) -> None:
    loops = [world.make_loop(), world.make_loop()]
    for loop in loops:
        loop.membership._replicas = [member.membership.owner for member in loops]
    for number in range(8):
        await world.submit(f"r{number}", uid=f"{number:032x}")
    counts = [await loop.reconcile_due() for loop in loops]
    assert sum(counts) == 8
    assert min(counts) > 0


async def test_leases_end_when_the_replica_leaves(world: World) -> None:
    await world.submit()
    loop = world.make_loop()
    async with world.store.begin() as unit:
        await unit.runs.claim_due(
            owner=loop.membership.owner, limits={Lane.CREATE: 1}, lease_for=timedelta(hours=1), place="memory/a"
        )
        await unit.commit()
    assert await world.make_loop().reconcile_due() == 0
    await loop.close()
    assert await world.make_loop().reconcile_due() == 1


async def test_run_is_stopped_at_once_when_it_had_ended_before(world: World) -> None:
    """Nobody reports again what has not changed."""
    await world.submit()
    await world.settle()
    world.engine.finish("r1", phase="succeeded")
    await stop_run(world.core, ADA, "p", "r1")
    loop = world.make_loop()
    await loop.reconcile_due()
    await loop.lane.write_ready()
    assert (await world.get()).state == "STOPPED"


@pytest.mark.parametrize("failure", [Unavailable("the disk is full"), RuntimeError("a bug of the engine")])
async def test_logs_are_attended_to_later_when_the_first_comparison_fails(
    world: World, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    loop = world.make_loop(pace=Pace(min_backoff=timedelta(milliseconds=10)))
    asked: list[bool] = []
    is_done = asyncio.Event()

    async def compare(*, attend: bool = False) -> int:
        asked.append(attend)
        if len(asked) == 1:
            raise failure
        is_done.set()
        return 0

    monkeypatch.setattr(loop, "compare_all", compare)
    loop._stale.set()
    task = asyncio.create_task(loop._resync())
    async with asyncio.timeout(60):
        await is_done.wait()
    task.cancel()
    assert asked[:2] == [True, True]


async def test_event_loop_is_not_held_when_many_anchors_are_compared(world: World) -> None:
    loop = world.make_loop()
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(take_turns())
    await loop._offer([Observation(run_uid=f"r{number}", uid="u", seen=Seen.RUNNING) for number in range(5000)])
    task.cancel()
    assert turns >= 5000 // OFFERED_AT_ONCE - 1
