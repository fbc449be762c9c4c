"""Delete runs for which no engine has objects: in batches, first their logs, then their rows.

A log is deleted outside of transactions: log storage may be slow or down. A run whose log cannot be deleted stays
DELETING, and whoever tries again finishes it.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from runyard.app.locks import lock_of_entity
from runyard.app.log_store import LogStore
from runyard.app.model import RunKey
from runyard.app.ports import Store, Unavailable, UnitOfWork

RUNS_AT_ONCE = 25
"""How many runs are marked, or deleted, in one transaction: other writers wait as long as one takes."""
MOST_FAILURES = 10
"""After so many failures in a row the log storage counts as down, and the rest is left for later."""

Note = Callable[[UnitOfWork, int], Awaitable[None]]
"""Writes how many runs were deleted, in the transaction that deletes them."""

_log = logging.getLogger(__name__)


class RunRemover:
    """One pass over runs that are DELETING. A run whose log cannot be deleted is skipped in this pass."""

    def __init__(self, store: Store, logs: LogStore) -> None:
        self._store = store
        self._logs = logs
        self._failures_in_a_row = 0
        self.failed: dict[str, Unavailable] = {}
        """Why logs could not be deleted, by the run's uid."""

    @property
    def is_down(self) -> bool:
        """Whether the log storage counts as down."""
        return self._failures_in_a_row >= MOST_FAILURES

    async def remove(self, runs: Sequence[RunKey], *, note: Note | None = None) -> list[RunKey]:
        """Delete logs and rows; returns the runs that are gone. Never call it inside a unit of work."""
        gone: list[RunKey] = []
        for start in range(0, len(runs), RUNS_AT_ONCE):
            batch = runs[start : start + RUNS_AT_ONCE]
            deleted = set(await self.delete_logs(run.uid for run in batch))
            gone += await self._delete_rows([run for run in batch if run.uid in deleted], note)
        return gone

    async def delete_logs(self, run_uids: Iterable[str]) -> list[str]:
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
                self.failed[run_uid] = error
            else:
                self._failures_in_a_row = 0
                deleted.append(run_uid)
        return deleted

    async def _delete_rows(self, runs: Sequence[RunKey], note: Note | None) -> list[RunKey]:
        if not runs:
            return []
        async with self._store.begin() as unit:
            # Writers of metrics take the same locks, so that no metrics are left behind. In one order, so that two
            # deletions cannot wait for each other.
            for name in sorted(lock_of_entity("run", run.project, run.id) for run in runs):
                await unit.lock(name)
            deleted = set(await unit.runs.delete([run.uid for run in runs]))
            if deleted and note is not None:
                await note(unit, len(deleted))
            await unit.commit()
        return [run for run in runs if run.uid in deleted]
