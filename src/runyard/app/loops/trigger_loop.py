"""The trigger loop: reads the active triggers, and fires those that are due, with fair turns between users."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from runyard.app.core import Core
from runyard.app.entities import RUNS_AS, find_actor, require_entity
from runyard.app.event_waits import wait_at_most
from runyard.app.loops.lifecycle_triggers import Lifecycles, ScanKey
from runyard.app.loops.scheduled_triggers import SCHEDULE, Schedules
from runyard.app.loops.turns import Pauses, Turn, contain
from runyard.app.model import Entity, Json
from runyard.app.triggers import SINCE, is_active
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
        self._pauses = Pauses()
        self._schedules = Schedules(core, is_open=is_open, pauses=self._pauses)
        self._lifecycles = Lifecycles(core, is_open=is_open)
        self._waiting: dict[str, deque[str]] = {}
        """By user: the projects that come next, if their last turn ended before their work."""
        self._busy_since: datetime | None = None
        """When the first of the passes began that followed each other without a rest; None after a rest."""
        self._changed = core.signals.triggers

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._changed.clear()
            await self.fire_due()
            pause = await self._find_pause()
            await asyncio.sleep(min(REST_SECONDS, pause))
            await wait_at_most(self._changed, pause)

    async def fire_due(self) -> int:
        """One pass: a turn for each user. Returns the number of occasions."""
        busy_since, self._busy_since = self._busy_since or self._core.clock.now(), None
        await self._refresh()
        users = await self._group()
        await self._schedules.begin_pass(self._triggers, busy_since=busy_since)
        waiting, self._waiting = self._waiting, {}
        fired = 0
        for user, projects in users.items():
            fired += await self._take_turn(user, projects, waiting.get(user) or deque(projects))
        if self.is_busy:
            self._busy_since = busy_since
        return fired

    @property
    def is_busy(self) -> bool:
        """Whether the turn of a user ended before their work; the next pass follows at once."""
        return bool(self._waiting)

    async def _group(self) -> dict[str, dict[str, list[Entity]]]:
        """The active triggers by the user as whom they fire, and by project."""
        users: dict[str, dict[str, list[Entity]]] = {}
        scanned: set[ScanKey] = set()
        for trigger in self._triggers.values():
            await self._pauses.step()
            if is_active(trigger):
                user = find_actor(trigger)
                users.setdefault(user, {}).setdefault(trigger.project, []).append(trigger)
                if trigger.kind == LIFECYCLE:
                    scanned.add((user, trigger.project))
        self._lifecycles.keep(scanned)
        return users

    async def _take_turn(self, user: str, projects: Mapping[str, list[Entity]], waiting: deque[str]) -> int:
        """Work for the projects that wait. One that the turn interrupts goes on after all others."""
        turn, fired = Turn(), 0
        interrupted: list[str] = []
        while waiting and not turn.is_over:
            project = waiting.popleft()
            await self._pauses.step()
            if (triggers := projects.get(project)) is None:
                continue
            used = await contain(self._work(user, project, triggers, turn), user=user, project=project)
            if used is None:
                self._lifecycles.abandon((user, project))
            elif self._schedules.is_interrupted or self._lifecycles.is_interrupted((user, project)):
                interrupted.append(project)
            fired += used or 0
        if waiting:
            self._waiting[user] = waiting + deque(interrupted)
        elif interrupted:
            self._waiting[user] = deque([*(each for each in projects if each not in interrupted), *interrupted])
        return fired

    async def _work(self, user: str, project: str, triggers: Sequence[Entity], turn: Turn) -> int:
        fired = await self._schedules.take_turn([one for one in triggers if one.kind == SCHEDULER], turn)
        waiting = [one for one in triggers if one.kind == LIFECYCLE]
        return fired + (await self._lifecycles.take_turn((user, project), waiting, turn) if waiting else 0)

    async def _find_pause(self) -> float:
        if self.is_busy:
            return 0.0
        next_at = await self._schedules.find_next()
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
                            self._lifecycles.note_actor(known.get(key), trigger)
                        self._triggers[key] = trigger
                if len(page) < _PAGE:
                    return
                after = (page[-1].id, page[-1].project)


def _is_same(trigger: Entity, brief: Entity) -> bool:
    """Whether it is the same trigger, unchanged: an id may be used again."""
    return (trigger.created_at, trigger.revision) == (brief.created_at, brief.revision)


def _strip(trigger: Entity) -> Entity:
    """Only what decides when it fires and as whom: clients write the rest, of any size. It is read when it fires."""
    return replace(
        trigger,
        spec={**trigger.spec, "template": {}},
        metadata=_choose(trigger.metadata, RUNS_AS),
        status=_choose(trigger.status, SINCE, SCHEDULE),
        extensions=(),
    )


def _choose(document: Json, *names: str) -> Json:
    return {name: document[name] for name in names if name in document}
