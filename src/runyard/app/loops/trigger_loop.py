"""The trigger loop: reads the active triggers, and fires those that are due, with fair turns between projects."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from runyard.app.core import Core
from runyard.app.entities import require_entity
from runyard.app.event_waits import wait_at_most
from runyard.app.loops.lifecycle_triggers import Lifecycles
from runyard.app.loops.scheduled_triggers import Schedules
from runyard.app.loops.turns import Turn, contain
from runyard.app.model import Entity
from runyard.app.triggers import is_active
from runyard.domain.triggers import KINDS, LIFECYCLE, SCHEDULER

POLL_SECONDS = 2.0
"""How often triggers are looked at although no run was reported changed: other entities report nothing."""
REST_SECONDS = 0.2
"""The shortest time between two passes, unless the first was interrupted: changes come in bursts."""
_PAGE = 500


class TriggerLoop:
    """One replica's loop. `is_open`: whether the server has no accounts now, so that every creator of a trigger may
    submit runs.
    """

    def __init__(
        self, core: Core, *, is_open: Callable[[], bool] = lambda: False, poll_seconds: float = POLL_SECONDS
    ) -> None:
        self._core = core
        self._poll_seconds = poll_seconds
        self._triggers: dict[tuple[str, str], Entity] = {}
        self._schedules = Schedules(core, is_open=is_open)
        self._lifecycles = Lifecycles(core, is_open=is_open)
        self._changed = core.signals.triggers

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._changed.clear()
            await self.fire_due()
            pause = self._find_pause()
            await asyncio.sleep(min(REST_SECONDS, pause))
            await wait_at_most(self._changed, pause)

    async def fire_due(self) -> int:
        """One pass: a turn for each project. Returns the number of occasions."""
        await self._refresh()
        active = [trigger for trigger in self._triggers.values() if is_active(trigger)]
        projects: dict[str, list[Entity]] = {}
        for trigger in active:
            projects.setdefault(trigger.project, []).append(trigger)
        self._schedules.keep(self._triggers)
        self._lifecycles.keep(trigger.project for trigger in active if trigger.kind == LIFECYCLE)
        fired = 0
        for project, triggers in projects.items():
            used = await contain(self._take_turn(project, triggers), project=project)
            if used is None:
                self._lifecycles.abandon(project)
            fired += used or 0
        return fired

    @property
    def is_busy(self) -> bool:
        """Whether the turn of a project ended before its work; the next pass follows at once."""
        return self._schedules.is_busy or self._lifecycles.is_busy

    async def _take_turn(self, project: str, triggers: list[Entity]) -> int:
        turn = Turn()
        fired = await self._schedules.take_turn([one for one in triggers if one.kind == SCHEDULER], turn)
        waiting = [one for one in triggers if one.kind == LIFECYCLE]
        return fired + (await self._lifecycles.take_turn(project, waiting, turn) if waiting else 0)

    def _find_pause(self) -> float:
        if self.is_busy:
            return 0.0
        next_at = self._schedules.find_next()
        if next_at is None:
            return self._poll_seconds
        return min(max((next_at - self._core.clock.now()).total_seconds(), 0.0), self._poll_seconds)

    async def _refresh(self) -> None:
        """Read which triggers there are; of new and changed ones, what decides when they fire."""
        known, self._triggers = self._triggers, {}
        after: tuple[str, str] | None = None
        async with self._core.store.begin(is_read_only=True) as unit:
            while True:
                page = await unit.entities.list_brief("trigger", after=after, limit=_PAGE)
                for brief in page:
                    key = (brief.project, brief.id)
                    if brief.kind in KINDS:
                        trigger = known.get(key)
                        if trigger is None or not _is_same(trigger, brief):
                            trigger = _strip(await require_entity(unit, "trigger", brief.project, brief.id))
                        self._triggers[key] = trigger
                if len(page) < _PAGE:
                    return
                after = (page[-1].project, page[-1].id)


def _is_same(trigger: Entity, brief: Entity) -> bool:
    """Whether it is the same trigger, unchanged: an id may be used again."""
    return (trigger.created_at, trigger.revision) == (brief.created_at, brief.revision)


def _strip(trigger: Entity) -> Entity:
    """Without its large parts. They are read when it fires: all triggers together might not fit into memory."""
    return replace(trigger, spec={**trigger.spec, "template": {}}, metadata={}, extensions=())
