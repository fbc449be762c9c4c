"""The deletion loop: deletes projects that are DELETING, once their runs, volumes and namespaces are gone.

It wakes up when something is gone that a project waits for (`core.signals.deletions`), and at intervals: with backoff
while a project waits, slowly otherwise.
"""

import asyncio
import logging
from collections.abc import Sequence

from runyard.app.core import Core
from runyard.app.engine import Engine
from runyard.app.event_waits import wait_at_most
from runyard.app.ports import Unavailable
from runyard.app.projects import finish_project_deletion

FIRST_RETRY_SECONDS = 1.0
SLOWEST_RETRY_SECONDS = 30.0
"""Backoff while projects wait, and how often the loop looks although nothing was reported."""

GATHERING_SECONDS = 0.2
"""How long news is gathered before the next pass."""

_log = logging.getLogger(__name__)


class DeletionLoop:
    """One replica's loop; several may run."""

    def __init__(self, core: Core, engine: Engine | None = None) -> None:
        self._core = core
        self._engine = engine

    async def run(self) -> None:
        """Run until cancelled."""
        pause = FIRST_RETRY_SECONDS
        while True:
            self._core.signals.deletions.clear()
            results = [await self._finish(project) for project in await self._list()]
            is_waiting = not all(results)
            has_news = await wait_at_most(self._core.signals.deletions, pause if is_waiting else SLOWEST_RETRY_SECONDS)
            pause = FIRST_RETRY_SECONDS if has_news or not is_waiting else min(pause * 2, SLOWEST_RETRY_SECONDS)
            # Many runs end at the same time: one pass for all of them.
            await asyncio.sleep(GATHERING_SECONDS)

    async def finish(self) -> int:
        """One pass. Returns how many projects were deleted."""
        return sum([await self._finish(project) for project in await self._list()])

    async def _list(self) -> Sequence[str]:
        """Every project that is DELETING, from one snapshot: one that waits hides no other."""
        async with self._core.store.begin(is_read_only=True) as unit:
            return await unit.entities.list_projects_in_state("DELETING")

    async def _finish(self, project: str) -> bool:
        """The failure of one project does not end the pass over the others."""
        try:
            return await finish_project_deletion(self._core, self._engine, project)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - a project that fails for whatever reason must not stop the others
            _log.exception("the deletion of a project failed", extra={"project": project})
            return False
