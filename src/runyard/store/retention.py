"""Deletes old runs and audit entries."""

from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import delete, or_, select

from runyard.app.model import AuditEntry
from runyard.app.ports import PrunedRows
from runyard.domain.lifecycle import FINAL, State
from runyard.store import tables
from runyard.store.clock import DatabaseNow
from runyard.store.dependent_rows import delete_runs

if TYPE_CHECKING:
    from runyard.store.sql_store import SqlStore
    from runyard.store.unit_of_work import SqlUnitOfWork

# In small transactions, so that nobody waits for long.
RUNS_AT_ONCE = 200
ENTRIES_AT_ONCE = 5000
_ENDED = sorted(state.value for state in FINAL | {State.DELETED})


async def prune(
    store: "SqlStore", now: datetime, *, runs_before: datetime | None, audit_before: datetime | None
) -> PrunedRows:
    """`app.ports.Store.prune`."""
    run_ids: list[str] = []
    while runs_before is not None:
        async with store.begin() as work:
            gone = await _prune_runs(work, ended_before=runs_before)
            await _note(work, now, runs=len(gone))
            await work.commit()
        run_ids += gone
        if len(gone) < RUNS_AT_ONCE:
            break
    entries = 0
    while audit_before is not None:
        async with store.begin() as work:
            number = await _prune_audit(work, written_before=audit_before)
            await _note(work, now, audit=number)
            await work.commit()
        entries += number
        if number < ENTRIES_AT_ONCE:
            break
    return PrunedRows(run_ids=tuple(run_ids), audit_entries=entries)


async def _prune_runs(work: "SqlUnitOfWork", *, ended_before: datetime) -> list[str]:
    columns = tables.runs.c
    found = await work.session.fetch_all(
        select(columns.id)
        .where(
            columns.state.in_(_ENDED),
            columns.updated_at < ended_before,
            # A run that is still due is left to the loop, unless it has been due all that time.
            or_(columns.due_at.is_(None), columns.due_at < ended_before),
            or_(columns.lease_until.is_(None), columns.lease_until < DatabaseNow()),
        )
        .limit(RUNS_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    ids = sorted(row["id"] for row in found)
    await delete_runs(work.session, ids)
    return ids


async def _prune_audit(work: "SqlUnitOfWork", *, written_before: datetime) -> int:
    columns = tables.audit.c
    old = select(columns.sequence).where(columns.at < written_before).order_by(columns.at).limit(ENTRIES_AT_ONCE)
    return await work.session.write(delete(tables.audit).where(columns.sequence.in_(old)))


async def _note(work: "SqlUnitOfWork", now: datetime, **numbers: int) -> None:
    if any(numbers.values()):
        await work.audit.add(
            AuditEntry(
                at=now,
                actor="system",
                action="retention.prune",
                project=None,
                type=None,
                id=None,
                result="ok",
                details=numbers,
            )
        )
