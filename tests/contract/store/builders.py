"""Entities and runs to store, with what a test does not care about filled in."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from runyard.app.model import AuditEntry, Entity, Lease, Run, Transition
from runyard.app.ports import Store, UnitOfWork
from runyard.domain.lifecycle import State
from runyard.domain.outcomes import Lane
from runyard.store import tables
from runyard.store.unit_of_work import SqlUnitOfWork

NOON = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC)


def after(seconds: float) -> datetime:
    """That long after noon."""
    return NOON + timedelta(seconds=seconds)


async def wait_until_past(store: Store, moment: datetime) -> None:
    """Until the clock of the database, by which leases end, has passed the moment."""
    while True:
        async with store.begin(is_read_only=True) as work:
            if await work.read_clock() > moment:
                return
        await asyncio.sleep(0.005)


def make_entity(entity_id: str, **fields: Any) -> Entity:
    """A function `f` of project `p`, unless told otherwise."""
    chosen = {
        "type": "function",
        "project": "p",
        "kind": "python",
        "name": "f",
        "user": "ada",
        "created_at": NOON,
        "updated_at": NOON,
        "updated_by": "ada",
        "metadata": {"description": "d"},
        "spec": {"source": {"handler": "h"}},
        "status": {"note": "n"},
    }
    return Entity(id=entity_id, **{**chosen, **fields})


def make_task(entity_id: str, **fields: Any) -> Entity:
    """A task `python+job` of a function of project `p`."""
    chosen = {"type": "task", "kind": "python+job", "name": entity_id, "spec": {"function": "python://p/f:f1"}}
    return make_entity(entity_id, **{**chosen, **fields})


def make_run(run_id: str, **fields: Any) -> Run:
    """A run of project `p`. Its uid is its id, as that of runs that are older than uids."""
    chosen: dict[str, Any] = {
        "type": "run",
        "project": "p",
        "kind": "python+job:run",
        "name": run_id,
        "uid": run_id,
        "user": "ada",
        "created_at": NOON,
        "updated_at": NOON,
        "updated_by": "ada",
        "state": "READY",
        "spec": {"task": "python+job://p/t1"},
        "request": {"kind": "python+job:run", "spec": {"b": 1, "a": 2}},
        "request_hash": f"hash of {run_id}",
        "task": "python+job://p/t1",
        "function": "python://p/f:f1",
    }
    return Run(id=run_id, **{**chosen, **fields})


async def add_due(work: UnitOfWork, run: Run, due_at: datetime | None = NOON) -> Run:
    """Store a run that is due at that time, which the port cannot say: there it is due now or not at all."""
    await work.runs.add(run, [])
    await set_columns(work, run.uid, due_at=due_at)
    return replace(run, due_at=due_at)


async def set_columns(work: UnitOfWork, run_uid: str, **values: Any) -> None:
    """Write columns of a run that the port has no word for."""
    assert isinstance(work, SqlUnitOfWork)
    await work.session.write(tables.runs.update().where(tables.runs.c.uid == run_uid).values(**values))


async def claim(
    work: UnitOfWork, *, limit: int = 9, owner: str = "me", lease_for: timedelta = timedelta(minutes=5), **more: Any
) -> Sequence[tuple[Run, Lease]]:
    """Claim what is due, of every lane up to the limit."""
    return await work.runs.claim_due(owner=owner, limits=dict.fromkeys(Lane, limit), lease_for=lease_for, **more)


def make_transition(sequence: int, **fields: Any) -> Transition:
    """A step to READY."""
    return Transition(**{"sequence": sequence, "state": State.READY, "at": NOON, "actor": "ada", **fields})


def make_audit(**fields: Any) -> AuditEntry:
    """Ada made run `r`."""
    chosen = {
        "at": NOON,
        "actor": "ada",
        "action": "run.create",
        "project": "p",
        "type": "run",
        "id": "r",
        "result": "ok",
    }
    return AuditEntry(**{**chosen, **fields})
