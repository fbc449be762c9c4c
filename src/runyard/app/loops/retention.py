"""The retention loop: what is older than the settings keep goes; logs of runs that went go with them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from runyard.app.core import Core

EVERY = timedelta(hours=1)


class Pruned(Protocol):
    """What went."""

    @property
    def run_ids(self) -> Sequence[str]:
        """The runs, whose logs can go too."""


class Pruning(Protocol):
    """A store that can forget: runs that ended and audit rows that were written longer ago; None keeps all."""

    async def prune(self, now: datetime, *, keep_runs_days: int | None, keep_audit_days: int | None) -> Pruned:
        """Tombstones stay for the runs, and the audit says that something went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How many days things are kept; None is for ever."""

    runs_days: int | None = None
    audit_days: int | None = None
    logs_days: int | None = None


class RetentionLoop:
    """One replica's loop; several may run."""

    def __init__(self, core: Core, store: Pruning, *, keep: Keep, every: timedelta = EVERY) -> None:
        self._core = core
        self._store = store
        self._keep = keep
        self._every = every

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.prune()
            await asyncio.sleep(self._every.total_seconds())

    async def prune(self) -> int:
        """One pass; how many runs went. Logs that a crash leaves behind are old too, and go by their own age."""
        now = self._core.clock.now()
        pruned = await self._store.prune(
            now, keep_runs_days=self._keep.runs_days, keep_audit_days=self._keep.audit_days
        )
        for run_id in pruned.run_ids:
            await self._core.logs.delete(run_id)
        if self._keep.logs_days is not None:
            await self._core.logs.prune(before=now - timedelta(days=self._keep.logs_days))
        return len(pruned.run_ids)
