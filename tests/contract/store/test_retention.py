"""What is old goes, what is not stays, and what went is known."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from runyard.app.list_query import Query
from runyard.domain.reasons import Reason
from runyard.store import SqlStore
from tests.contract.store.builders import NOON, claim, make_audit, make_run, make_transition, set_columns

DAY = timedelta(days=1)
OLD = {"updated_at": NOON - 31 * DAY, "created_at": NOON - 40 * DAY}


async def add(store: SqlStore, run_id: str, *, due_at: datetime | None = None, **fields: object) -> None:
    async with store.begin() as work:
        await work.runs.add(make_run(run_id, **{**OLD, **fields}), [make_transition(1)])
        await set_columns(work, run_id, due_at=due_at)
        await work.commit()


async def expire(store: SqlStore, *, limit: int = 100) -> list[str]:
    async with store.begin() as work:
        expired = await work.runs.expire(ended_before=NOON - 30 * DAY, at=NOON, limit=limit)
        await work.commit()
    assert all((run.project, run.id) == ("p", run.uid) for run in expired)
    return sorted(run.uid for run in expired)


async def list_runs(store: SqlStore, **filters: Any) -> set[str]:
    async with store.begin(is_read_only=True) as work:
        page = await work.runs.find_page(Query(type="run", size=1000, **filters))
    assert page.total == len(page.content)
    return {run.id for run in page.content}


async def test_ended_runs_expire_when_they_are_older_than_the_setting(store: SqlStore) -> None:
    for state in ("COMPLETED", "ERROR", "STOPPED", "DELETED"):
        await add(store, f"old-{state}", state=state)
    for state in ("CREATED", "BUILT", "READY", "PENDING", "RUNNING", "STOP", "RESUME", "DELETING"):
        await add(store, f"live-{state}", state=state)
    await add(store, "young", state="COMPLETED", updated_at=NOON - 29 * DAY)
    await add(store, "due", state="COMPLETED", due_at=NOON - DAY)
    await add(store, "forgotten", state="COMPLETED", due_at=NOON - 35 * DAY)

    expired = await expire(store)

    assert expired == ["forgotten", "old-COMPLETED", "old-DELETED", "old-ERROR", "old-STOPPED"]
    assert await list_runs(store, state="DELETING") == {*expired, "live-DELETING"}
    async with store.begin(is_read_only=True) as work:
        assert sorted(run.uid for run in await work.runs.list_expired(limit=100)) == expired
        run = await work.runs.find("old-ERROR", project="p")
        history = await work.runs.list_transitions("old-ERROR")
    assert run is not None
    assert (run.desired, run.due_at, run.revision, run.updated_at) == ("delete", None, 2, NOON)
    assert run.last_sequence == 2
    assert [(step.sequence, step.state, step.reason) for step in history] == [
        (1, "READY", None),
        (2, "DELETING", Reason.RETENTION_EXPIRED),
    ]
    assert await expire(store) == []


async def test_run_is_due_and_left_to_the_loop_when_it_may_have_objects(store: SqlStore) -> None:
    await add(store, "placed", state="COMPLETED", place="memory/a")
    await add(store, "plain", state="COMPLETED")

    assert await expire(store) == ["placed", "plain"]

    async with store.begin(is_read_only=True) as work:
        assert [run.uid for run in await work.runs.list_expired(limit=100)] == ["plain"]
        placed, plain = [await work.runs.find(run_id, project="p") for run_id in ("placed", "plain")]
        now = await work.read_clock()
    assert placed is not None
    assert plain is not None
    assert (placed.state, placed.desired, placed.reason) == ("DELETING", "delete", Reason.RETENTION_EXPIRED)
    assert placed.due_at is not None
    assert placed.due_at <= now
    assert plain.due_at is None


async def test_leased_run_stays_when_it_is_old(store: SqlStore) -> None:
    await add(store, "r1", state="COMPLETED", due_at=NOON - 35 * DAY)
    async with store.begin() as work:
        assert await claim(work, owner="me", limit=1, lease_for=DAY)
        await work.commit()

    assert await expire(store) == []
    assert await list_runs(store, state="COMPLETED") == {"r1"}


async def test_no_more_expire_than_asked_for_when_there_are_many(store: SqlStore) -> None:
    for number in range(5):
        await add(store, f"r{number}", state="COMPLETED")
    await add(store, "live", state="RUNNING")

    assert [len(await expire(store, limit=2)) for _ in range(4)] == [2, 2, 1, 0]
    async with store.begin(is_read_only=True) as work:
        assert len(await work.runs.list_expired(limit=3)) == 3


async def test_every_run_expires_once_when_two_prune_at_once(store: SqlStore) -> None:
    for number in range(30):
        await add(store, f"r{number}", state="COMPLETED")

    both = await asyncio.gather(*(expire(store) for _ in range(2)))

    expired = [uid for uids in both for uid in uids]
    assert sorted(expired) == sorted(f"r{number}" for number in range(30))


async def test_logs_of_deleted_runs_are_named_until_they_are_swept(store: SqlStore) -> None:
    for number in range(3):
        await add(store, f"r{number}", uid=f"u{number}")
    async with store.begin() as work:
        assert await work.runs.delete(["u0"]) == ["u0"]
        await work.commit()
    async with store.begin() as work:
        assert sorted(await work.runs.delete(["u0", "u1"])) == ["u1"]
        later = await work.read_clock() + DAY
        assert list(await work.runs.list_unswept(deleted_before=later, limit=10)) == ["u0", "u1"]
        assert list(await work.runs.list_unswept(deleted_before=later, limit=1)) == ["u0"]
        assert list(await work.runs.list_unswept(deleted_before=later - 2 * DAY, limit=10)) == []
        await work.runs.mark_swept(["u0", "u2"])
        await work.commit()
    async with store.begin(is_read_only=True) as work:
        assert list(await work.runs.list_unswept(deleted_before=later, limit=10)) == ["u1"]
        assert await work.runs.has_tombstone("r0", project="p") is True


async def prune_audit(store: SqlStore, *, days: int, limit: int = 100) -> int:
    async with store.begin() as work:
        number = await work.audit.delete_before(NOON - days * DAY, limit=limit)
        await work.commit()
    return number


async def test_oldest_audit_goes_first_when_there_is_more_than_the_limit(store: SqlStore) -> None:
    async with store.begin() as work:
        for days in (1, 120, 100, 110):
            await work.audit.add(make_audit(id=f"{days} days", at=NOON - days * DAY))
        await work.commit()

    assert await prune_audit(store, days=90, limit=2) == 2

    async with store.begin(is_read_only=True) as work:
        entries = [entry for _, entry in await work.audit.list_entries(limit=100)]
    assert [entry.id for entry in entries] == ["100 days", "1 days"]
    assert await prune_audit(store, days=90, limit=2) == 1


@pytest.mark.parametrize("days", [1, 99])
async def test_audit_stays_when_it_is_not_old(store: SqlStore, days: int) -> None:
    async with store.begin() as work:
        await work.audit.add(make_audit(at=NOON - days * DAY))
        await work.commit()
    assert await prune_audit(store, days=100) == 0
