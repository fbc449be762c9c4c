"""The sweep removes only what belongs to a run that has ended or was deleted."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runyard.app.engine import Anchor, AnchorList, EngineUnavailable
from runyard.app.loops.assignments import make_assignment
from runyard.app.loops.sweep import GRACE, Sweeper, judge_anchor
from runyard.app.model import Principal, Run
from runyard.app.places import Verdict, confirm_epoch, read_findings
from runyard.app.rules import RecordedRules
from runyard.domain.outcomes import Seen
from tests.engines.memory import MemoryEngine
from tests.unit.app.run_world import ADA, SERVICE, World, issue_token, make_run, open_world

LONG = GRACE + timedelta(seconds=1)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        opened.engine.projects.add("p")
        yield opened


class Bench:
    """A sweeper whose clock a test turns."""

    def __init__(self, world: World, **options: Any) -> None:
        self.now = 0.0
        self.counts: dict[str, int] = {}
        self.world = world
        self.sweeper = Sweeper(world.core, world.engine, clock=lambda: self.now, count=self.counts.update, **options)

    async def sweep_twice(self) -> None:
        """Once to suspect, and once after the grace period."""
        await self.sweeper.sweep()
        self.now += LONG.total_seconds()
        await self.sweeper.sweep()


async def anchor(world: World, run: Run) -> str:
    """Create an anchor as an engine would for that run."""
    assigned = make_assignment(world.core, run, issue_token=issue_token, rules=RecordedRules())
    return await world.engine.ensure_anchor(replace(assigned, generation=1))


async def delete_row(world: World, run: Run) -> None:
    async with world.store.begin() as unit:
        await unit.runs.delete([run.uid])
        await unit.commit()


async def change_row(world: World, run: Run, **values: Any) -> None:
    async with world.store.begin() as unit:
        found = await unit.runs.find_by_uid(run.uid)
        assert found is not None
        await unit.runs.update(found, replace(found, **values))
        await unit.commit()


async def turn_off(world: World) -> None:
    """As `store.restore` does."""
    async with world.store.begin() as unit:
        await unit.put_meta("sweeper", "off")
        await unit.commit()


async def test_nothing_is_listed_at_first_when_the_server_has_just_started(world: World) -> None:
    listed: list[str] = []

    async def note(point: str) -> None:
        listed.append(point)

    world.engine.at = note
    running = asyncio.create_task(Bench(world).sweeper.run())
    await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert listed == []


async def test_anchor_is_removed_when_its_run_was_deleted(world: World) -> None:
    run = await world.submit()
    uid = await anchor(world, run)
    await delete_row(world, run)
    bench = Bench(world)
    await bench.sweeper.sweep()
    assert uid in world.engine.things
    bench.now += LONG.total_seconds()
    await bench.sweeper.sweep()
    assert world.engine.things == {}
    (entry,) = await world.audit()
    assert (entry.action, entry.id, entry.details["uid"]) == ("anchor.remove", "r1", uid)


async def test_unknown_anchor_stays_and_is_logged_once_when_no_run_and_no_tombstone_has_its_uid(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    uid = await anchor(world, make_run("foreign"))
    bench = Bench(world)
    with caplog.at_level(logging.WARNING):
        await bench.sweep_twice()
        await bench.sweep_twice()
    assert uid in world.engine.things
    assert [record.message for record in caplog.records] == [
        "an anchor is left to an admin: no run and no deleted run has this uid"
    ]
    assert bench.counts == {"remove": 0, "report": 1}
    (findings,) = await read_findings(world.core, [str(world.engine.place)])
    assert [(orphan.uid, orphan.verdict) for orphan in findings.orphans] == [(uid, Verdict.REPORT)]


async def test_nothing_happens_when_the_run_knows_its_anchor(world: World) -> None:
    run = await world.submit()
    uid = await anchor(world, run)
    await change_row(world, run, anchor_uid=uid, state="COMPLETED")
    bench = Bench(world)
    await bench.sweep_twice()
    assert uid in world.engine.things
    assert bench.counts == {"remove": 0, "report": 0}


async def test_run_is_woken_when_it_does_not_know_its_anchor_yet(world: World) -> None:
    run = await world.submit(due_at=None)
    await anchor(world, run)
    async with world.store.begin() as unit:
        await unit.runs.update(run, replace(run, message="waits"), due_in=timedelta(hours=1))
        await unit.commit()
    bench = Bench(world)
    await bench.sweep_twice()
    async with world.store.begin() as unit:
        found = await unit.runs.find_by_uid(run.uid)
        assert found is not None
        assert found.due_at is not None
        assert found.due_at <= await unit.read_clock()
    assert world.core.signals.due.is_set()
    assert len(world.engine.things) == 1


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"state": "RUNNING", "anchor_uid": "u"}, None),
        ({"state": "COMPLETED", "anchor_uid": "u"}, None),
        ({"state": "READY"}, Verdict.ADOPT),
        ({"state": "STOP"}, Verdict.ADOPT),
        ({"state": "DELETING"}, Verdict.ADOPT),
        ({"state": "COMPLETED"}, Verdict.REMOVE),
        ({"state": "STOPPED"}, Verdict.REMOVE),
        ({"state": "STOPPED", "kind": "container+serve:run", "effective": SERVICE}, Verdict.REPORT),
        ({"state": "STOPPED", "kind": "container+serve:run", "anchor_uid": "other"}, Verdict.REMOVE),
        ({"state": "RUNNING", "anchor_uid": "other"}, Verdict.REPORT),
        ({"state": "ERROR", "anchor_uid": "other"}, Verdict.REMOVE),
        ({"state": "DELETING", "anchor_uid": "other"}, Verdict.REMOVE),
    ],
)
def test_verdict_is_right_when_the_run_is_known(fields: dict[str, Any], verdict: Verdict | None) -> None:
    run = make_run("r1", **fields)
    listed = Anchor(run_uid=run.uid, run_id="r1", project="p", action="job", uid="u")
    judged = judge_anchor(listed, run, is_buried=False, seen=Seen.SUCCEEDED)
    assert (None if judged is None else judged[0]) is verdict


SETTLED = {"anchor_uid": "u", "settled_at": datetime(2026, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("fields", "seen", "verdict"),
    [
        ({"state": "COMPLETED", **SETTLED}, Seen.RUNNING, Verdict.REMOVE),
        ({"state": "STOPPED", **SETTLED}, Seen.PENDING, Verdict.REMOVE),
        ({"state": "ERROR", **SETTLED}, Seen.HELD, None),
        ({"state": "ERROR", "anchor_uid": "u"}, Seen.RUNNING, None),
        ({"state": "STOPPED", "kind": "container+serve:run", "effective": SERVICE, **SETTLED}, Seen.RUNNING, "report"),
        ({"state": "RUNNING", "anchor_uid": "u"}, Seen.HELD, Verdict.ADOPT),
        ({"state": "RUNNING", "anchor_uid": "u", "desired": "stop"}, Seen.HELD, None),
        ({"state": "PENDING", "anchor_uid": "u"}, Seen.HELD, None),
    ],
)
def test_anchor_that_is_behind_its_run_is_judged_when_the_place_was_restored(
    fields: dict[str, Any], seen: Seen, verdict: Verdict | None
) -> None:
    run = make_run("r1", **fields)
    listed = Anchor(run_uid=run.uid, run_id="r1", project="p", action="job", uid="u")
    judged = judge_anchor(listed, run, is_buried=False, seen=seen)
    assert (None if judged is None else judged[0]) == verdict


async def test_nothing_is_removed_when_the_list_is_not_complete(world: World) -> None:
    run = await world.submit()
    await anchor(world, run)
    await delete_row(world, run)
    world.engine.is_list_complete = False
    bench = Bench(world)
    await bench.sweep_twice()
    assert len(world.engine.things) == 1
    assert await read_findings(world.core, [str(world.engine.place)]) == []


async def test_nothing_is_removed_in_a_restored_database_when_nobody_has_confirmed_it(world: World) -> None:
    run = await world.submit()
    uid = await anchor(world, run)
    await delete_row(world, run)
    await turn_off(world)
    bench = Bench(world)
    await bench.sweep_twice()
    assert uid in world.engine.things
    (findings,) = await read_findings(world.core, [str(world.engine.place)])
    assert (findings.is_on, findings.count, findings.orphans[0].verdict) == (False, 1, Verdict.REMOVE)

    assert await confirm_epoch(world.core, Principal(name="root", is_admin=True))
    assert not await confirm_epoch(world.core, ADA)
    await bench.sweeper.sweep()
    assert world.engine.things == {}
    assert [(entry.actor, entry.action) for entry in await world.audit()] == [
        ("root", "epoch.confirm"),
        ("system", "anchor.remove"),
    ]


async def test_run_of_an_unknown_epoch_is_never_touched_when_the_backup_is_older_than_the_run(world: World) -> None:
    uid = await anchor(world, make_run("newer"))
    await turn_off(world)
    bench = Bench(world)
    await bench.sweep_twice()
    await confirm_epoch(world.core, ADA)
    await bench.sweep_twice()
    assert uid in world.engine.things


async def test_new_run_is_not_suspected_when_its_anchor_is_created_between_the_list_and_the_database(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = world.engine
    real = MemoryEngine.list_anchors
    created: list[str] = []

    async def list_then_submit(self: MemoryEngine) -> AnchorList:
        listed = await real(self)
        if not created:
            created.append(await anchor(world, await world.submit()))
        return listed

    monkeypatch.setattr(MemoryEngine, "list_anchors", list_then_submit)
    bench = Bench(world, grace=timedelta(0))
    found = await bench.sweeper.sweep()
    assert found is not None
    assert found.count == 0
    await bench.sweeper.sweep()
    assert list(engine.things) == created


async def test_anchor_is_kept_when_its_uid_is_committed_within_the_grace_period(world: World) -> None:
    run = await world.submit()
    uid = await anchor(world, run)
    bench = Bench(world)
    await bench.sweeper.sweep()
    await change_row(world, run, anchor_uid=uid)
    bench.now += LONG.total_seconds()
    found = await bench.sweeper.sweep()
    assert found is not None
    assert found.count == 0
    assert uid in world.engine.things


async def test_grace_period_begins_anew_when_the_verdict_changes(world: World) -> None:
    run = await world.submit()
    uid = await anchor(world, run)
    bench = Bench(world)
    await bench.sweeper.sweep()
    bench.now += LONG.total_seconds()
    await delete_row(world, run)
    await bench.sweeper.sweep()
    assert uid in world.engine.things
    bench.now += LONG.total_seconds()
    await bench.sweeper.sweep()
    assert world.engine.things == {}


async def test_each_anchor_is_removed_by_its_own_replica_when_two_sweep(world: World) -> None:
    runs = [await world.submit(f"r{number}") for number in range(6)]
    uids = {await anchor(world, run): run for run in runs}
    for run in runs:
        await delete_row(world, run)
    first = {run.uid for run in runs[:3]}
    benches = [
        Bench(world, owns=lambda run_uid: run_uid in first),
        Bench(world, owns=lambda run_uid: run_uid not in first),
    ]
    await benches[0].sweep_twice()
    assert {world.engine.things[uid].anchor.run_uid for uid in world.engine.things} == {run.uid for run in runs[3:]}
    await benches[1].sweep_twice()
    assert world.engine.things == {}
    assert sorted(entry.details["uid"] for entry in await world.audit()) == sorted(uids)


async def test_two_replicas_may_sweep_the_same_anchors_when_they_do_not_know_each_other(world: World) -> None:
    run = await world.submit()
    await anchor(world, run)
    await delete_row(world, run)
    benches = [Bench(world), Bench(world)]
    for bench in benches:
        await bench.sweeper.sweep()
    for bench in benches:
        bench.now += LONG.total_seconds()
        await bench.sweeper.sweep()
    assert world.engine.things == {}


@pytest.mark.parametrize("error", [EngineUnavailable("engine.failed", "not now"), ValueError("a broken engine")])
async def test_others_are_removed_when_one_cannot_be(world: World, error: Exception) -> None:
    for number in range(3):
        run = await world.submit(f"r{number}")
        await anchor(world, run)
        await delete_row(world, run)
    bench = Bench(world)
    await bench.sweeper.sweep()
    bench.now += LONG.total_seconds()

    async def fail(point: str) -> None:
        if point == "remove" and world.engine.calls.count("remove") == 2:
            raise error

    world.engine.at = fail
    await bench.sweeper.sweep()
    assert len(world.engine.things) == 1
    await bench.sweeper.sweep()
    assert world.engine.things == {}
