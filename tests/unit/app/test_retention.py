"""Retention when log storage fails: no row goes before its log, and orphaned logs are removed later."""

from datetime import timedelta

import pytest

from runyard.app import retention, run_rows
from runyard.app.ports import Unavailable
from runyard.app.retention import SWEEP_AFTER, Pruned, Retention, prune
from runyard.app.run_rows import MOST_FAILURES
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from runyard.domain.reasons import Reason
from tests.contract.store.builders import make_audit
from tests.unit.app.run_world import ADA, World

KEPT = Retention(runs=timedelta(days=30))


async def add_old(world: World, *names: str) -> list[str]:
    """Runs that ended 31 days ago; their uids."""
    uids = []
    for name in names:
        uids.append((await world.submit(name)).uid)
        await stop_run(world.core, ADA, "p", name)
    world.turn(timedelta(days=31))
    return uids


async def prune_once(world: World, kept: Retention = KEPT) -> Pruned:
    return await prune(world.store, world.core.logs, kept, now=world.clock.now())


async def test_runs_stay_and_go_later_when_their_logs_cannot_be_deleted(bare_world: World) -> None:
    uids = await add_old(bare_world, "a", "b")
    bare_world.logs.is_busy = True

    assert (await prune_once(bare_world)).runs == 0

    for name in ("a", "b"):
        run = await bare_world.get(name)
        assert (run.state, run.reason) == ("DELETING", Reason.RETENTION_EXPIRED)
    bare_world.logs.is_busy = False
    # Even if nothing expires anymore: they were promised to go.
    assert (await prune_once(bare_world, Retention())).runs == 2
    assert sorted(bare_world.logs.deleted) == sorted(uids)
    assert await bare_world.find("a") is None
    details = [entry.details for entry in await bare_world.audit() if entry.action == "retention.prune"]
    assert details == [{"runs": 2}]


async def test_others_go_when_one_log_cannot_be_deleted(bare_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (retention, run_rows):
        monkeypatch.setattr(module, "RUNS_AT_ONCE", 2)
    uids = await add_old(bare_world, *"abcdefg")
    real = bare_world.logs.delete

    async def fail_one(run_uid: str) -> None:
        if run_uid == uids[3]:
            raise Unavailable("damaged")
        await real(run_uid)

    monkeypatch.setattr(bare_world.logs, "delete", fail_one)
    assert (await prune_once(bare_world)).runs == 6
    assert (await bare_world.get("d")).state == "DELETING"
    assert sorted(bare_world.logs.deleted) == sorted(uids[:3] + uids[4:])


async def test_pass_ends_and_marks_no_more_when_log_storage_is_down(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "RUNS_AT_ONCE", MOST_FAILURES)
    await add_old(bare_world, *(f"r{number}" for number in range(MOST_FAILURES + 3)))
    tries = 0

    async def fail(_run_uid: str) -> None:
        nonlocal tries
        tries += 1
        raise Unavailable("down")

    monkeypatch.setattr(bare_world.logs, "delete", fail)
    assert (await prune_once(bare_world)).runs == 0
    async with bare_world.store.begin(is_read_only=True) as unit:
        assert len(await unit.runs.list_expired(limit=100)) == MOST_FAILURES
    assert tries == MOST_FAILURES


async def test_log_is_deleted_again_once_when_its_run_was_deleted_a_while_ago(bare_world: World) -> None:
    """A writer that appended between the deletion of the log and that of the row left bytes that nobody can read."""
    run = await bare_world.submit()
    await delete_run(bare_world.core, ADA, "p", "r1")
    bare_world.logs.deleted.clear()
    await prune_once(bare_world, Retention())
    assert bare_world.logs.deleted == []
    bare_world.turn(SWEEP_AFTER + timedelta(seconds=1))
    bare_world.logs.is_busy = True
    await prune_once(bare_world, Retention())
    bare_world.logs.is_busy = False
    for _ in range(2):
        await prune_once(bare_world, Retention())
        assert bare_world.logs.deleted == [run.uid]


async def test_resumed_run_is_not_touched_when_it_expires_no_more(bare_world: World) -> None:
    await add_old(bare_world, "a")
    bare_world.logs.is_busy = True
    await prune_once(bare_world, Retention(runs=timedelta(days=32)))
    assert (await bare_world.get("a")).state == "STOPPED"


async def test_audit_names_each_batch_when_old_entries_are_pruned(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ENTRIES_AT_ONCE", 3)
    async with bare_world.store.begin() as unit:
        for number in range(5):
            await unit.audit.add(make_audit(id=f"e{number}", at=bare_world.clock.now() - timedelta(days=9)))
        await unit.commit()

    pruned = await prune_once(bare_world, Retention(audit=timedelta(days=8)))

    assert pruned.audit_entries == 5
    assert [(entry.action, entry.details) for entry in await bare_world.audit()] == [
        ("retention.prune", {"audit": 3}),
        ("retention.prune", {"audit": 2}),
    ]


async def test_objects_go_before_log_and_row_when_a_run_with_a_place_expires(world: World) -> None:
    run = await world.submit("a")
    await world.settle()
    world.engine.finish("a", phase="succeeded")
    await world.settle()
    assert world.engine.things
    world.turn(timedelta(days=31))

    pruned = await prune_once(world)

    assert (pruned.runs, pruned.left_to_engine) == (0, 1)
    left = await world.get("a")
    assert (left.state, left.reason) == ("DELETING", Reason.RETENTION_EXPIRED)
    assert world.logs.deleted == []
    await world.settle()
    assert await world.find("a") is None
    assert world.engine.things == {}
    assert world.logs.deleted == [run.uid]


async def test_run_with_a_place_stays_when_nobody_asks_its_engine(world: World) -> None:
    await world.submit("a")
    await world.settle()
    world.engine.finish("a", phase="succeeded")
    await world.settle()
    world.turn(timedelta(days=31))
    for _ in range(2):
        await prune_once(world)
        assert (await world.get("a")).state == "DELETING"
    assert world.engine.things
