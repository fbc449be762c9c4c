"""The retention loop: deletes once an hour what is older than the settings keep, and what uploads left behind."""

import asyncio
from datetime import timedelta

from runyard.app.core import Core
from runyard.app.retention import Retention, prune

EVERY = timedelta(hours=1)


class RetentionLoop:
    """One replica's loop; several may run."""

    def __init__(self, core: Core, *, retention: Retention, every: timedelta = EVERY) -> None:
        self._core = core
        self._retention = retention
        self._every = every

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.prune()
            await asyncio.sleep(self._every.total_seconds())

    async def prune(self) -> int:
        """One pass; returns how many runs were deleted."""
        core = self._core
        pruned = await prune(core.store, core.logs, self._retention, now=core.clock.now(), blobs=core.blobs)
        if pruned.left_to_engine:
            self._core.signals.due.set()
        return pruned.runs
