"""Scheduler triggers: fire each occasion once across all replicas, and record occasions missed while no server ran."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from runyard.app.core import Core
from runyard.app.loops.turns import Turn, contain
from runyard.app.model import Entity, Json
from runyard.app.runs import SYSTEM
from runyard.app.triggers import SINCE, Occasion, change_trigger, find_start, fire, use_occasion
from runyard.domain.schedule import Schedule, ScheduleError, parse_schedule

GRACE = timedelta(minutes=1)
"""How late a trigger may fire."""
_MOST_COUNTED = 1000
_SCHEDULE = "schedule"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Plan:
    version: tuple[datetime, int]
    """Creation time and revision of the trigger: its id may be used again."""
    next_at: datetime | None


class Schedules:
    """When each trigger is due next, in one replica. The store knows what was fired."""

    def __init__(self, core: Core, *, is_open: Callable[[], bool]) -> None:
        self._core = core
        self._is_open = is_open
        self._plans: dict[tuple[str, str], _Plan] = {}
        self.is_busy = False
        """Whether a trigger that may be due was left for the next turn of its project."""

    def keep(self, keys: Iterable[tuple[str, str]]) -> None:
        """Forget all but these triggers, by project and id. Call it at the start of a pass."""
        self._plans = {key: self._plans[key] for key in keys if key in self._plans}
        self.is_busy = False

    async def take_turn(self, triggers: Sequence[Entity], turn: Turn) -> int:
        """Fire what is due, as far as the turn goes. Returns how many occasions were fired or recorded as missed."""
        count = 0
        for trigger in triggers:
            if not self._may_be_due(trigger):
                continue
            if turn.is_over:
                self.is_busy = True
                break
            used = await contain(self._process(trigger, turn), trigger=trigger.id, project=trigger.project)
            if used is None:
                # It is tried again when it is due next, not in every pass.
                self._plan(trigger, _read(trigger))
            count += used or 0
        return count

    def find_next(self) -> datetime | None:
        """When the next trigger is due."""
        return min((plan.next_at for plan in self._plans.values() if plan.next_at is not None), default=None)

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
        known = trigger.status.get(_SCHEDULE)
        if known == said:
            return trigger
        now = self._core.clock.now().isoformat()

        def note(stored: Entity) -> Entity:
            since = {} if known is None else {SINCE: now}
            return replace(stored, status={**stored.status, _SCHEDULE: said, **since})

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
        is_late = now - last > GRACE
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
    found = list(islice(_iter_due(schedule, start, now), _MOST_COUNTED))
    if len(found) == _MOST_COUNTED and (last := schedule.last_until(now, after=found[-1])) is not None:
        found.append(last)
    return found


def _iter_due(schedule: Schedule, start: datetime, now: datetime) -> Iterator[datetime]:
    while (found := schedule.next_after(start)) is not None and found <= now:
        yield found
        start = found


def _name(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat()
