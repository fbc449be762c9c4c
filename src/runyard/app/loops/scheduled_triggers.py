"""Scheduler triggers: fire each occasion once across all replicas, and record occasions missed while no server ran."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

from runyard.app.core import Core
from runyard.app.loops.turns import Pauses, Turn, contain
from runyard.app.model import Entity, Json
from runyard.app.runs import SYSTEM
from runyard.app.triggers import SINCE, Occasion, change_trigger, find_start, fire, use_occasion
from runyard.domain.schedule import Schedule, ScheduleError, parse_schedule

GRACE = timedelta(minutes=1)
"""How late a trigger may fire, besides the time in which the loop was busy with other triggers."""
_MOST_COUNTED = 1000
SCHEDULE = "schedule"
"""Status key of a trigger: the schedule that its occasions count for."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Plan:
    version: tuple[datetime, int]
    """Creation time and revision of the trigger: its id may be used again."""
    next_at: datetime | None


class Schedules:
    """When each trigger is due next, in one replica. The store knows what was fired."""

    def __init__(self, core: Core, *, is_open: Callable[[], bool], pauses: Pauses) -> None:
        self._core = core
        self._is_open = is_open
        self._pauses = pauses
        self._plans: dict[tuple[str, str], _Plan] = {}
        self._busy_since = core.clock.now()
        self.is_interrupted = False
        """Whether the last turn left a trigger that may be due for the next one."""

    async def begin_pass(self, keys: Iterable[tuple[str, str]], *, busy_since: datetime) -> None:
        """Forget all but these triggers, by project and id. `busy_since`: the loop has not rested since then."""
        plans: dict[tuple[str, str], _Plan] = {}
        for key in keys:
            await self._pauses.step()
            if (plan := self._plans.get(key)) is not None:
                plans[key] = plan
        self._plans, self._busy_since = plans, busy_since

    async def take_turn(self, triggers: Sequence[Entity], turn: Turn) -> int:
        """Fire what is due, as far as the turn goes. Returns how many occasions were fired or recorded as missed."""
        count, self.is_interrupted = 0, False
        for trigger in triggers:
            await self._pauses.step()
            if not self._may_be_due(trigger):
                continue
            if turn.is_over:
                self.is_interrupted = True
                break
            used = await contain(self._process(trigger, turn), trigger=trigger.id, project=trigger.project)
            if used is None:
                # It is tried again when it is due next, not in every pass.
                self._plan(trigger, _read(trigger))
            count += used or 0
            # To list very many missed occasions takes milliseconds, and the database may answer at once.
            await asyncio.sleep(0)
        return count

    async def find_next(self) -> datetime | None:
        """When the next trigger is due."""
        found: datetime | None = None
        for plan in self._plans.values():
            await self._pauses.step()
            if plan.next_at is not None and (found is None or plan.next_at < found):
                found = plan.next_at
        return found

    def _may_be_due(self, trigger: Entity) -> bool:
        plan = self._plans.get((trigger.project, trigger.id))
        if plan is None or plan.version != (trigger.created_at, trigger.revision):
            return True
        return plan.next_at is not None and plan.next_at <= self._core.clock.now()

    def _plan(self, trigger: Entity, schedule: Schedule | None) -> None:
        now = self._core.clock.now()
        next_at = None if schedule is None else schedule.next_after(max(now, find_start(trigger)))
        self._plans[trigger.project, trigger.id] = _Plan((trigger.created_at, trigger.revision), next_at)

    async def _process(self, trigger: Entity, turn: Turn) -> int:
        now = self._core.clock.now()
        schedule = _read(trigger)
        if schedule is None:
            self._plan(trigger, None)
            return 0
        trigger = await self._store_schedule(trigger)
        due = await self._find_due(trigger, schedule, now)
        if due:
            turn.count_firing()
            await self._use(trigger, due, now)
        self._plan(trigger, schedule)
        return len(due)

    async def _store_schedule(self, trigger: Entity) -> Entity:
        """A changed schedule counts from now on: its earlier occasions were not missed."""
        said = {"text": trigger.spec.get("schedule"), "timezone": trigger.spec.get("timezone") or "UTC"}
        known = trigger.status.get(SCHEDULE)
        if known == said:
            return trigger
        now = self._core.clock.now().isoformat()

        def note(stored: Entity) -> Entity:
            since = {} if known is None else {SINCE: now}
            return replace(stored, status={**stored.status, SCHEDULE: said, **since})

        return await change_trigger(self._core, SYSTEM, trigger.project, trigger.id, note, action="trigger.scheduled")

    async def _find_due(self, trigger: Entity, schedule: Schedule, now: datetime) -> list[datetime]:
        async with self._core.store.begin(is_read_only=True) as unit:
            last = await unit.firings.find_last(trigger.id, project=trigger.project)
        start = find_start(trigger)
        if last is not None:
            start = max(start, datetime.fromisoformat(last))
        return _list_due(schedule, start, now)

    async def _use(self, trigger: Entity, due: list[datetime], now: datetime) -> None:
        """Records missed occasions first: after a crash in between, the last one may still fire in time."""
        last = due[-1]
        is_late = min(now, self._busy_since) - last > GRACE
        if missed := due if is_late else due[:-1]:
            await self._record_missed(trigger, missed)
        if not is_late:
            async with self._core.store.begin(is_read_only=True) as unit:
                stored = await unit.entities.find("trigger", trigger.id, project=trigger.project)
            if stored is not None:
                occasion = Occasion(id=_name(last), input={"at": _name(last)})
                await fire(self._core, stored, occasion, is_open=self._is_open())

    async def _record_missed(self, trigger: Entity, missed: list[datetime]) -> None:
        told: Json = {
            "count": len(missed),
            "is_at_least": len(missed) >= _MOST_COUNTED,
            "first": _name(missed[0]),
            "last": _name(missed[-1]),
            "told_at": self._core.clock.now().isoformat(),
        }
        await use_occasion(
            self._core,
            trigger,
            told["last"],
            by=SYSTEM,
            action="trigger.missed",
            result="missed",
            noted={"missed": told},
        )


def _read(trigger: Entity) -> Schedule | None:
    try:
        return parse_schedule(str(trigger.spec.get("schedule")), timezone=trigger.spec.get("timezone"))
    except ScheduleError as error:
        named = {"trigger": trigger.id, "project": trigger.project}
        _log.warning("a stored schedule is not valid: %s", error, extra=named)
        return None


def _list_due(schedule: Schedule, start: datetime, now: datetime) -> list[datetime]:
    """Occasions after `start`, up to `now`; of very many, the first ones and the last."""
    due = takewhile(lambda at: at <= now, schedule.iter_after(start))
    found = list(islice(due, _MOST_COUNTED))
    if len(found) == _MOST_COUNTED and (last := schedule.last_until(now, after=found[-1])) is not None:
        found.append(last)
    return found


def _name(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat()
