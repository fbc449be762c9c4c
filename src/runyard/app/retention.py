"""Retention: delete old runs with their logs, old logs and old audit entries, by the loop or by `runyard db prune`.

A run's log is deleted before its row, and outside of transactions: expired runs are first marked DELETING, then their
logs are deleted, then their rows. If the log storage fails, they stay DELETING until a later pass.

A writer may append to a log while its run is being deleted. Such orphaned bytes are out of reach, because no later run
has that uid. A pass removes them: it deletes the log of every deleted run a second time, `SWEEP_AFTER` its deletion.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from runyard.app.model import AuditEntry
from runyard.app.ports import LogStore, Store, Unavailable

RUNS_AT_ONCE = 200
"""How many runs are marked, or deleted, in one transaction."""
MOST_LEFT_OVER = 10_000
"""How many runs that an earlier pass could not finish are tried again in one pass."""
MOST_FAILURES = 10
"""After so many failures in a row the log storage counts as down, and the pass leaves the rest to the next."""
SWEEP_AFTER = timedelta(hours=1)
"""When the log of a deleted run is deleted again; by then nothing writes to it anymore."""

_log = logging.getLogger(__name__)


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
    log_streams: int
    """Besides the logs of those runs."""
    audit_entries: int


async def prune(store: Store, logs: LogStore, retention: Retention, *, now: datetime) -> Pruned:
    """Delete what is older than the retention. Several processes may do so at once."""
    audit_entries = 0
    if retention.audit is not None:
        audit_entries = await store.prune_audit(now, written_before=now - retention.audit)
    runs = await _prune_runs(store, _LogDeletion(logs), retention.runs, now=now)
    await _sweep_logs(store, _LogDeletion(logs))
    streams = 0 if retention.logs is None else await logs.prune(before=now - retention.logs)
    return Pruned(runs=runs, log_streams=streams, audit_entries=audit_entries)


class _LogDeletion:
    """Deletes logs one by one. A log that cannot be deleted is skipped in this pass."""

    def __init__(self, logs: LogStore) -> None:
        self._logs = logs
        self._failures_in_a_row = 0
        self.failed: set[str] = set()

    @property
    def is_down(self) -> bool:
        """Whether the log storage counts as down."""
        return self._failures_in_a_row >= MOST_FAILURES

    async def delete(self, run_uids: Iterable[str]) -> list[str]:
        """Returns the runs whose logs are deleted."""
        deleted = []
        for run_uid in run_uids:
            if self.is_down:
                break
            try:
                await self._logs.delete(run_uid)
            except Unavailable as error:
                _log.warning("the log of a deleted run cannot be deleted: %s", error, extra={"run_uid": run_uid})
                self._failures_in_a_row += 1
                self.failed.add(run_uid)
            else:
                self._failures_in_a_row = 0
                deleted.append(run_uid)
        return deleted


async def _prune_runs(store: Store, logs: _LogDeletion, kept: timedelta | None, *, now: datetime) -> int:
    """Returns how many runs were deleted."""
    async with store.begin(is_read_only=True) as unit:
        left_over = await unit.runs.list_expired(limit=MOST_LEFT_OVER)
    count = 0
    for start in range(0, len(left_over), RUNS_AT_ONCE):
        count += await _delete_runs(store, logs, left_over[start : start + RUNS_AT_ONCE], now=now)
    while kept is not None and not logs.is_down:
        async with store.begin() as unit:
            expired = await unit.runs.expire(ended_before=now - kept, at=now, limit=RUNS_AT_ONCE)
            await unit.commit()
        count += await _delete_runs(store, logs, expired, now=now)
        if len(expired) < RUNS_AT_ONCE:
            break
    return count


async def _delete_runs(store: Store, logs: _LogDeletion, run_uids: Iterable[str], *, now: datetime) -> int:
    """Delete the logs of runs, then the rows."""
    if not (deletable := await logs.delete(run_uids)):
        return 0
    async with store.begin() as unit:
        number = len(await unit.runs.delete(deletable))
        if number:
            await unit.audit.add(
                AuditEntry(
                    at=now,
                    actor="system",
                    action="retention.prune",
                    project=None,
                    type=None,
                    id=None,
                    result="ok",
                    details={"runs": number},
                )
            )
        await unit.commit()
    return number


async def _sweep_logs(store: Store, logs: _LogDeletion) -> None:
    """Delete the logs of deleted runs once more."""
    while not logs.is_down:
        async with store.begin(is_read_only=True) as unit:
            before = await unit.read_clock() - SWEEP_AFTER
            found = await unit.runs.list_unswept(deleted_before=before, limit=RUNS_AT_ONCE + len(logs.failed))
        swept = await logs.delete(run_uid for run_uid in found if run_uid not in logs.failed)
        if not swept:
            return
        async with store.begin() as unit:
            await unit.runs.mark_swept(swept)
            await unit.commit()
