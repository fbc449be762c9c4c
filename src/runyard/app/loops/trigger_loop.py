"""The trigger loop: reads all active triggers, and fires those that are due."""

import asyncio
from itertools import count

from runyard.app.core import Core
from runyard.app.loops.lifecycle_triggers import Lifecycles
from runyard.app.loops.scheduled_triggers import Schedules
from runyard.app.model import Entity
from runyard.app.ports import Query
from runyard.app.triggers import is_active
from runyard.domain.triggers import LIFECYCLE, SCHEDULER

POLL_SECONDS = 2.0
_PAGE = 500


class TriggerLoop:
    """One replica's loop. `is_open`: the server has no accounts, so every creator of a trigger may submit runs."""

    def __init__(self, core: Core, *, is_open: bool = False, poll_seconds: float = POLL_SECONDS) -> None:
        self._core = core
        self._poll_seconds = poll_seconds
        self._schedules = Schedules(core, is_open=is_open)
        self._lifecycles = Lifecycles(core, is_open=is_open)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self.fire_due()
            await asyncio.sleep(self._find_pause())

    async def fire_due(self) -> int:
        """One pass over everything that is due now. Returns the number of occasions."""
        triggers = [trigger for trigger in await self._list_triggers() if is_active(trigger)]
        scheduled = [trigger for trigger in triggers if trigger.kind == SCHEDULER]
        waiting = [trigger for trigger in triggers if trigger.kind == LIFECYCLE]
        return await self._schedules.fire_due(scheduled) + await self._lifecycles.fire_due(waiting)

    def _find_pause(self) -> float:
        next_at = self._schedules.find_next()
        if next_at is None:
            return self._poll_seconds
        return min(max((next_at - self._core.clock.now()).total_seconds(), 0.0), self._poll_seconds)

    async def _list_triggers(self) -> list[Entity]:
        found: list[Entity] = []
        async with self._core.store.begin(is_read_only=True) as unit:
            for page in count():
                listed = await unit.entities.find_page(Query(type="trigger", page=page, size=_PAGE))
                found += listed.content
                if len(listed.content) < _PAGE:
                    break
        return found
