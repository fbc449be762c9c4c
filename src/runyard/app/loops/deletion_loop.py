"""The deletion loop: deletes a project that is DELETING once its last run is gone."""

import asyncio

from runyard.app.core import Core
from runyard.app.ports import Query
from runyard.app.projects import finish_project_deletion

POLL_SECONDS = 2.0


class DeletionLoop:
    """One replica's loop; several may run."""

    def __init__(self, core: Core, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._core = core
        self._poll_seconds = poll_seconds

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self.finish()
            await asyncio.sleep(self._poll_seconds)

    async def finish(self) -> int:
        """One pass. Returns how many projects were deleted."""
        async with self._core.store.begin(is_read_only=True) as unit:
            page = await unit.entities.find_page(Query(type="project", state="DELETING"))
        return sum([await finish_project_deletion(self._core, project.id) for project in page.content])
