"""What is old goes, what is not stays, and what went is known."""

import asyncio
from dataclasses import asdict
from datetime import timedelta

import pytest

from runyard.app.ports import PrunedRows, Query
from runyard.store import SqlStore, retention, tables
from tests.contract.store.builders import NOON, make_audit, make_run, make_transition

DAY = timedelta(days=1)
OLD = {"updated_at": NOON - 31 * DAY, "created_at": NOON - 40 * DAY, "due_at": None}


async def add(store: SqlStore, run_id: str, **fields: object) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run(run_id, **{**OLD, **fields}), [make_transition(1)])
        await work.commit()


async def list_runs(store: SqlStore) -> set[str]:
    async with store.begin(is_read_only=True) as work:
        page = await work.runs.find_page(Query(type="run", size=1000))
    assert page.total == len(page.content)
    return {run.id for run in page.content}


async def test_ended_runs_go_when_they_are_older_than_the_setting(store: SqlStore) -> None:
    for state in ("COMPLETED", "ERROR", "STOPPED", "DELETED"):
        await add(store, f"old-{state}", state=state)
    for state in ("CREATED", "BUILT", "READY", "PENDING", "RUNNING", "STOP", "RESUME", "DELETING"):
        await add(store, f"live-{state}", state=state)
    await add(store, "young", state="COMPLETED", updated_at=NOON - 29 * DAY)
    await add(store, "due", state="COMPLETED", due_at=NOON - DAY)
    await add(store, "forgotten", state="COMPLETED", due_at=NOON - 35 * DAY)

    pruned = await store.prune(NOON, runs_before=NOON - 30 * DAY, audit_before=None)

    gone = {"old-COMPLETED", "old-ERROR", "old-STOPPED", "old-DELETED", "forgotten"}
    assert set(pruned.run_ids) == gone
    left = await list_runs(store)
    assert not left & gone
    assert {"young", "due", "live-RUNNING", "live-DELETING"} < left
    assert len(left) == 10
    async with store.begin(is_read_only=True) as work:
        assert await work.runs.has_tombstone("old-ERROR") is True
        assert await work.runs.list_transitions("old-ERROR") == []
        [(_, entry)] = await work.audit.list_entries()
    assert entry.action == "retention.prune"
    assert entry.details == {"runs": 5}


async def test_leased_run_stays_when_it_is_old(store: SqlStore) -> None:
    await add(store, "r1", state="COMPLETED", due_at=NOON - 35 * DAY)
    async with store.begin() as work:
        assert await work.runs.claim_due(owner="me", limit=1, lease_for=DAY)
        await work.commit()

    assert await store.prune(NOON, runs_before=NOON - 30 * DAY, audit_before=None) == PrunedRows()
    assert await list_runs(store) == {"r1"}


async def test_every_old_run_goes_when_there_are_more_than_are_deleted_at_once(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "RUNS_AT_ONCE", 2)
    for number in range(5):
        await add(store, f"r{number}", state="COMPLETED")
    await add(store, "live", state="RUNNING")

    pruned = await store.prune(NOON, runs_before=NOON - 30 * DAY, audit_before=None)

    assert sorted(pruned.run_ids) == [f"r{number}" for number in range(5)]
    async with store.begin(is_read_only=True) as work:
        assert (await work.runs.find_page(Query(type="run", size=0))).total == 1


async def test_old_audit_goes_when_there_is_more_than_is_deleted_at_once(store: SqlStore) -> None:
    older, kept = retention.ENTRIES_AT_ONCE + 7, 3
    async with store.begin() as work:
        for number in range(kept):
            await work.audit.add(make_audit(id=f"kept-{number}", at=NOON - DAY))
        row = asdict(make_audit(at=NOON - 100 * DAY))
        await work.session.write_all(tables.audit.insert(), (row for _ in range(older)))
        await work.commit()

    pruned = await store.prune(NOON, runs_before=None, audit_before=NOON - 90 * DAY)

    assert pruned == PrunedRows(audit_entries=older)
    async with store.begin(is_read_only=True) as work:
        entries = [entry for _, entry in await work.audit.list_entries(limit=100)]
    assert [entry.action for entry in entries] == ["retention.prune"] * 2 + ["run.create"] * kept


async def test_everything_stays_when_nothing_is_set(store: SqlStore) -> None:
    await add(store, "r1", state="COMPLETED")
    async with store.begin() as work:
        await work.audit.add(make_audit(at=NOON - 1000 * DAY))
        await work.commit()

    assert await store.prune(NOON, runs_before=None, audit_before=None) == PrunedRows()
    assert await list_runs(store) == {"r1"}


async def test_every_run_goes_once_when_two_prune_at_once(store: SqlStore) -> None:
    for number in range(30):
        await add(store, f"r{number}", state="COMPLETED")

    both = await asyncio.gather(*(store.prune(NOON, runs_before=NOON - 30 * DAY, audit_before=None) for _ in range(2)))

    gone = [run_id for pruned in both for run_id in pruned.run_ids]
    assert sorted(gone) == sorted(set(gone))
    assert len(gone) == 30
    assert await list_runs(store) == set()
