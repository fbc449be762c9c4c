"""Retention: delete old runs with their logs, old logs and old audit entries, by the loop or by `runyard db prune`."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from runyard.app.ports import LogStore, Store


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
    """Delete what is older than the retention. Several processes may do so at once.

    A crash can leave logs of deleted runs behind; they go by their own age.
    """
    rows = await store.prune(
        now, runs_before=_subtract(now, retention.runs), audit_before=_subtract(now, retention.audit)
    )
    for run_id in rows.run_ids:
        await logs.delete(run_id)
    oldest = _subtract(now, retention.logs)
    streams = 0 if oldest is None else await logs.prune(before=oldest)
    return Pruned(runs=len(rows.run_ids), log_streams=streams, audit_entries=rows.audit_entries)


def _subtract(now: datetime, kept: timedelta | None) -> datetime | None:
    return None if kept is None else now - kept
