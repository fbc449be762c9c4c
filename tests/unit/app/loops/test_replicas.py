"""Several servers on one PostgreSQL: each with its own store, one engine behind them all."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from runyard.app.core import Core, Signals
from runyard.app.errors import Conflict, Missing
from runyard.app.list_query import Query
from runyard.app.loops.pace import Pace
from runyard.app.loops.reconcile import Reconciler
from runyard.app.loops.trigger_loop import TriggerLoop
from runyard.app.runs.client_reports import report_run
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from runyard.bootstrap import _pass_on
from runyard.domain.lifecycle import State
from runyard.store import open_store
from tests.lifecycle_table import may_follow
from tests.postgres import Postgres, postgres
from tests.unit.app.run_world import ADA, World, issue_token, reach_phase
from tests.unit.app.shop import fire_all, furnish, make_trigger

__all__ = ["postgres"]

NAMES = [f"r{number}" for number in range(8)]
PACE = Pace(detail_seconds=0.0, min_backoff=timedelta(0), resync_seconds=0.1, poll_seconds=0.01)


@pytest.fixture
async def replicas(postgres: Postgres, bare_world: World) -> AsyncIterator[list[World]]:
    """Three servers; the first one's world is the one to look at."""
    url = postgres.create_database()
    async with AsyncExitStack() as stack:
        worlds = []
        for _ in range(3):
            store = await open_store(url, is_upgrading=True)
            stack.push_async_callback(store.close)
            core: Core = replace(bare_world.core, store=store, signals=Signals(), engine=bare_world.engine)
            worlds.append(replace(bare_world, store=store, core=core))
        yield worlds


async def test_each_run_has_one_anchor_and_one_history_when_three_servers_race(replicas: list[World]) -> None:
    first = replicas[0]
    engine = first.engine
    engine.at = lambda _: asyncio.sleep(0)
    for name in NAMES:
        await first.submit(name)
    loops = [Reconciler(world.core, engine, issue_token=issue_token, pace=PACE) for world in replicas]
    tasks = [asyncio.create_task(loop.run()) for loop in loops]
    async with asyncio.timeout(60):
        await _reach(first, dict.fromkeys(NAMES, "RUNNING"))
        await asyncio.gather(*(_disturb(world, name) for world in replicas for name in NAMES))
        wanted = dict.fromkeys(NAMES[::2], "STOPPED")
        await _reach(first, wanted)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert [len(uids) for uids in engine.made.values()] == [1] * len(NAMES)
    assert len(engine.things) == len(wanted)
    for name in wanted:
        states = [State(state) for state in await first.states(name)]
        assert states == ["CREATED", "READY", "PENDING", "RUNNING", "STOP", "STOPPED"]
        assert all(may_follow(a, b) for a, b in itertools.pairwise(states))


async def test_acts_on_another_server_count_at_once_when_nobody_polls(replicas: list[World]) -> None:
    """The loop of the first server acts; the second submits, the third stops and follows."""
    first, second, third = replicas
    pace = Pace(poll_seconds=600, resync_seconds=600)
    loop = Reconciler(first.core, first.engine, issue_token=issue_token, pace=pace)
    tasks = [asyncio.create_task(loop.run()), *(asyncio.create_task(_pass_on(world.core)) for world in replicas)]
    try:
        async with asyncio.timeout(30):
            await asyncio.sleep(0.5)  # until all listen
            run = await second.submit("r1")
            await first.reach("r1", "PENDING")
            await reach_phase(first.engine, "r1", "pending")
            first.engine.tick()
            await third.reach("r1", "RUNNING")
            with third.core.signals.subscribe(run.uid) as news:
                await news.wait(seconds=0)
                await stop_run(second.core, ADA, "p", "r1")
                await news.wait(seconds=20)
                assert (await third.get("r1")).state in ("STOP", "STOPPED")
            await reach_phase(first.engine, "r1", "stopping")
            first.engine.tick()
            await third.reach("r1", "STOPPED")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_reports_of_other_runs_are_written_when_a_frozen_server_holds_a_row(replicas: list[World]) -> None:
    """The third server stands still inside a transaction; nobody waits for it, and nothing is lost."""
    first, _, third = replicas
    for name in NAMES:
        await first.submit(name)
    loop = Reconciler(first.core, first.engine, issue_token=issue_token, pace=PACE)
    while await loop.reconcile_due():
        pass
    first.engine.tick()
    held = await first.get(NAMES[0])
    async with third.store.begin() as unit:
        assert await unit.runs.lock_observed([held.uid])
        async with asyncio.timeout(30):
            await loop.compare_all()
            await loop.lane.write_ready()
        assert [(await first.get(name)).state for name in NAMES] == ["PENDING", *["RUNNING"] * (len(NAMES) - 1)]
        assert loop.lane.has_reports
    task = asyncio.create_task(loop.lane.run())
    async with asyncio.timeout(60):
        await first.reach(NAMES[0], "RUNNING")
    task.cancel()
    await loop.close()


async def test_runs_are_shared_out_and_taken_over_when_a_replica_dies(replicas: list[World]) -> None:
    loops = [Reconciler(world.core, world.engine, issue_token=issue_token) for world in replicas]
    members = [loop.membership for loop in loops]
    for _ in range(2):
        for member in members:
            await member.beat()
    uids = [f"uid-{number}" for number in range(300)]
    owners = {uid: [member.owner for member in members if member.owns(uid)] for uid in uids}
    assert all(len(found) == 1 for found in owners.values())
    counts = [sum(member.owns(uid) for uid in uids) for member in members]
    assert min(counts) > 50
    assert sorted(member.shard for member in members) == [(0, 3), (1, 3), (2, 3)]
    await members[2].leave()
    assert [await member.beat() for member in members[:2]] == [True, True]
    for uid in uids:
        found = [member.owner for member in members[:2] if member.owns(uid)]
        assert len(found) == 1
        if owners[uid] != [members[2].owner]:
            assert found == owners[uid]  # only the runs of the one that left have moved


async def test_trigger_fires_once_when_three_servers_race(replicas: list[World]) -> None:
    first = replicas[0]
    await furnish(first)
    async with first.store.begin() as unit:
        for number in range(4):
            await unit.entities.add(make_trigger(f"t{number}"))
        await unit.commit()
    loops = [TriggerLoop(world.core) for world in replicas]
    await fire_all(loops[0])
    first.clock.at += timedelta(hours=3)
    await asyncio.gather(*(fire_all(loop) for loop in loops))

    async with first.store.begin(is_read_only=True) as unit:
        assert (await unit.runs.find_page(Query(type="run"))).total == 4
    acts = [entry.action for entry in await first.audit()]
    assert (acts.count("trigger.fire"), acts.count("trigger.missed"), acts.count("run.submit")) == (4, 4, 4)


async def _disturb(world: World, name: str) -> None:
    """Three users at once stop every other run and delete the rest, while a client reports."""
    document = {"kind": "container+job:run", "status": {"results": {"n": id(world)}}}
    with suppress(Missing, Conflict):
        await report_run(world.core, ADA, "p", name, document)
        await (stop_run if name in NAMES[::2] else delete_run)(world.core, ADA, "p", name)
        await report_run(world.core, ADA, "p", name, document)


async def _reach(world: World, wanted: dict[str, str]) -> None:
    """Until these runs are in these states, and no others are left."""
    while True:
        world.engine.tick()
        async with world.store.begin(is_read_only=True) as unit:
            runs = (await unit.runs.find_page(Query(type="run", size=100))).content
        if {run.id: run.state for run in runs} == wanted:
            return
        await asyncio.sleep(0.01)
