"""Retention: delete old runs with their logs, old logs and old audit entries, by the loop or by `runyard db prune`.

Expired runs are first marked DELETING. Those that may have objects in an engine are left to the reconcile loop, which
removes the objects first. The logs and rows of the others are deleted by `app.run_rows`; if the log storage fails, they
stay DELETING until a later pass.

A writer may append to a log while its run is being deleted. Such orphaned bytes are out of reach, because no later run
has that uid. A pass removes them: it deletes the log of every deleted run a second time, `SWEEP_AFTER` its deletion.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from runyard.app.blob_store import BlobStore
from runyard.app.log_store import LogStore
from runyard.app.model import AuditEntry
from runyard.app.ports import Store, UnitOfWork
from runyard.app.run_rows import RUNS_AT_ONCE, Note, RunRemover
from runyard.app.unused_blobs import remove_unused

ENTRIES_AT_ONCE = 5000
"""How many audit entries are deleted in one transaction."""
MOST_LEFT_OVER = 10_000
"""How many runs that an earlier pass could not finish are tried again in one pass."""
SWEEP_AFTER = timedelta(hours=1)
"""When the log of a deleted run is deleted again; by then nothing writes to it anymore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long things are kept; None keeps them for ever."""

    runs: timedelta | None = None
    """Counted from the end of a run."""
    logs: timedelta | None = None
    audit: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How much was deleted."""

    runs: int
    left_to_engine: int
    """Runs that are DELETING now: the reconcile loop removes their objects, then deletes them."""
    log_streams: int
    """Besides the logs of those runs."""
    audit_entries: int


async def prune(
    store: Store, logs: LogStore, retention: Retention, *, now: datetime, blobs: BlobStore | None = None
) -> Pruned:
    """Delete what is older than the retention, and unused blobs. Several processes may do so at once."""
    audit_entries = 0
    if retention.audit is not None:
        audit_entries = await _prune_audit(store, now - retention.audit, now=now)
    runs, left = await _prune_runs(store, RunRemover(store, logs), retention.runs, now=now)
    await _sweep_logs(store, RunRemover(store, logs))
    if blobs is not None:
        await remove_unused(store, blobs)
    streams = 0 if retention.logs is None else await logs.prune(before=now - retention.logs)
    return Pruned(runs=runs, left_to_engine=left, log_streams=streams, audit_entries=audit_entries)


async def _prune_audit(store: Store, written_before: datetime, *, now: datetime) -> int:
    entries = 0
    while True:
        async with store.begin() as unit:
            number = await unit.audit.delete_before(written_before, limit=ENTRIES_AT_ONCE)
            if number:
                await unit.audit.add(_make_entry({"audit": number}, now=now))
            await unit.commit()
        entries += number
        if number < ENTRIES_AT_ONCE:
            return entries


async def _prune_runs(store: Store, remover: RunRemover, kept: timedelta | None, *, now: datetime) -> tuple[int, int]:
    """Returns how many runs were deleted, and how many were left to the reconcile loop."""
    note = _make_note(now)
    async with store.begin(is_read_only=True) as unit:
        left_over = await unit.runs.list_expired(limit=MOST_LEFT_OVER)
    count = len(await remover.remove(left_over, note=note))
    left = 0
    while kept is not None and not remover.is_down:
        async with store.begin() as unit:
            expired = await unit.runs.expire(ended_before=now - kept, at=now, limit=RUNS_AT_ONCE)
            await unit.commit()
        without_place = [run for run in expired if run.place is None]
        left += len(expired) - len(without_place)
        count += len(await remover.remove(without_place, note=note))
        if len(expired) < RUNS_AT_ONCE:
            break
    return count, left


def _make_note(now: datetime) -> Note:
    async def note(unit: UnitOfWork, number: int) -> None:
        await unit.audit.add(_make_entry({"runs": number}, now=now))

    return note


def _make_entry(details: Mapping[str, int], *, now: datetime) -> AuditEntry:
    return AuditEntry(
        at=now,
        actor="system",
        action="retention.prune",
        project=None,
        type=None,
        id=None,
        result="ok",
        details=details,
    )


async def _sweep_logs(store: Store, remover: RunRemover) -> None:
    """Delete the logs of deleted runs once more."""
    while not remover.is_down:
        async with store.begin(is_read_only=True) as unit:
            before = await unit.read_clock() - SWEEP_AFTER
            found = await unit.runs.list_unswept(deleted_before=before, limit=RUNS_AT_ONCE + len(remover.failed))
        swept = await remover.delete_logs(run_uid for run_uid in found if run_uid not in remover.failed)
        if not swept:
            return
        async with store.begin() as unit:
            await unit.runs.mark_swept(swept)
            await unit.commit()
