"""Lifecycle triggers: fire when an entity enters one of their states.

Each scan searches the store for recent changes of a project, so no event can be lost in a crash. Every transition of a
run counts once; of other entities, each time they enter a state. Not seen: a state that such an entity leaves again
between two scans, and changes older than `LOOK_BACK` when the server starts.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from runyard.app.core import Core
from runyard.app.entities import PRODUCER, TYPES, find_state_since, make_key
from runyard.app.loops.turns import Turn, contain
from runyard.app.lru_map import LruMap
from runyard.app.model import Entity, Json, Run
from runyard.app.ports import UnitOfWork
from runyard.app.triggers import CHAIN, Occasion, find_start, fire, is_active
from runyard.domain.triggers import find_types, matches_key
from runyard.spec.digitalhub.reference_strings import parse_key
from runyard.spec.problems import Refused

LOOK_BACK = timedelta(hours=1)
OVERLAP = timedelta(minutes=1)
"""Covers clock skew between replicas, and writes that were not committed yet at the last scan."""
_KNOWN_TYPES = ("run", *TYPES)
_PAGE = 200
_MOST_REMEMBERED = 20_000
_STEPS_BETWEEN_PAUSES = 100
"""How many triggers are compared with changes before the other tasks of the event loop get a chance."""


@dataclass(frozen=True, slots=True)
class _Change:
    """An entity, without its documents, entered a state."""

    entity: Entity
    key: str
    state: str
    at: datetime
    occasion: str


@dataclass(frozen=True, slots=True)
class _Match:
    """A change that a trigger waits for."""

    trigger_id: str
    change: _Change


class Lifecycles:
    """What one replica has processed. The store knows what was fired."""

    def __init__(self, core: Core, *, is_open: Callable[[], bool]) -> None:
        self._core = core
        self._is_open = is_open
        self._scans: dict[str, _Scan] = {}
        self._scanned_at: dict[str, datetime] = {}
        self._done: LruMap[tuple[str, str, str], bool] = LruMap(most=_MOST_REMEMBERED)

    @property
    def is_busy(self) -> bool:
        """Whether a scan is unfinished, because the turn of its project was over."""
        return bool(self._scans)

    def keep(self, projects: Iterable[str]) -> None:
        """Forget all other projects: they have no lifecycle triggers any more."""
        kept = set(projects)
        self._scans = {project: scan for project, scan in self._scans.items() if project in kept}
        self._scanned_at = {project: at for project, at in self._scanned_at.items() if project in kept}

    def abandon(self, project: str) -> None:
        """Give up an unfinished scan that failed; the next one begins where it began, after the loop's pause."""
        self._scans.pop(project, None)

    async def take_turn(self, project: str, triggers: Sequence[Entity], turn: Turn) -> int:
        """Fire for everything in a project that changed since its last scan, as far as the turn goes."""
        scan = self._scans.get(project) or self._start(project, triggers)
        known = {trigger.id: trigger for trigger in triggers}
        fired = 0
        while not turn.is_over:
            match = next(scan.matches, None)
            if match is None:
                if not await scan.read_page(self._core, triggers):
                    self._scanned_at[project] = scan.began_at
                    del self._scans[project]
                    break
            elif match == "pause":
                await asyncio.sleep(0)
            elif (trigger := known.get(match.trigger_id)) is not None:
                fired += await self._fire_once(trigger, match.change, turn)
        return fired

    def _start(self, project: str, triggers: Sequence[Entity]) -> "_Scan":
        now, last = self._core.clock.now(), self._scanned_at.get(project)
        since = now - LOOK_BACK if last is None else last - OVERLAP
        scan = self._scans[project] = _Scan(project, triggers, since=since, began_at=now)
        return scan

    async def _fire_once(self, trigger: Entity, change: _Change, turn: Turn) -> int:
        key = (trigger.project, trigger.id, change.occasion)
        if key in self._done:
            return 0
        fired = await contain(self._fire(trigger, change, turn), trigger=trigger.id, project=trigger.project)
        self._done.put(key, True)
        return fired or 0

    async def _fire(self, trigger: Entity, change: _Change, turn: Turn) -> int:
        async with self._core.store.begin(is_read_only=True) as unit:
            if await unit.firings.is_used(trigger.id, change.occasion, project=trigger.project):
                return 0
            stored = await unit.entities.find("trigger", trigger.id, project=trigger.project)
            entity = await _find_entity(unit, change)
            if stored is None or entity is None or not (is_active(stored) and _is_meant(stored, change)):
                return 0
            chain = await _find_chain(unit, entity)
        if trigger.id in chain:
            # The entity was produced because of this very trigger: that would loop for ever.
            return 0
        turn.count_firing()
        occasion = Occasion(id=change.occasion, input=_describe(entity), chain=chain)
        await fire(self._core, stored, occasion, is_open=self._is_open())
        return 1


class _Scan:
    """The changes of one project in pages, and the triggers that wait for them. Holds one page in memory."""

    def __init__(self, project: str, triggers: Sequence[Entity], *, since: datetime, began_at: datetime) -> None:
        self.began_at = began_at
        self.matches: Iterator[_Match | Literal["pause"]] = iter(())
        self._project = project
        self._since = since
        wanted = {name for trigger in triggers for name in find_types(str(trigger.spec.get("key")), _KNOWN_TYPES)}
        self._types = deque(name for name in _KNOWN_TYPES if name in wanted)
        self._after: tuple[datetime, str] | None = None

    async def read_page(self, core: Core, triggers: Sequence[Entity]) -> bool:
        """Read the next page; returns False if there was none left."""
        if not self._types:
            return False
        async with core.store.begin(is_read_only=True) as unit:
            entities, changes = await self._list_changes(unit, self._types[0])
        if len(entities) < _PAGE:
            self._types.popleft()
            self._after = None
        else:
            self._after = (entities[-1].updated_at, entities[-1].id)
        self.matches = _iter_matches(changes, triggers)
        return True

    async def _list_changes(self, unit: UnitOfWork, type_name: str) -> tuple[Sequence[Entity], Sequence[_Change]]:
        page: dict[str, Any] = {"project": self._project, "since": self._since, "after": self._after, "limit": _PAGE}
        if type_name == "run":
            runs = await unit.runs.list_changed(**page)
            histories = await unit.runs.list_histories([run.uid for run in runs], since=self._since)
            return runs, [
                _make_change(run, step.state.value, step.at, str(step.sequence))
                for run in runs
                for step in histories.get(run.uid, ())
            ]
        entities = await unit.entities.list_changed(type_name, **page)
        # An entity that was updated without a change of state entered it earlier: already processed, or too old.
        entered = [(entity, find_state_since(entity)) for entity in entities]
        return entities, [
            _make_change(entity, entity.state, at, at.astimezone(UTC).isoformat()) for entity, at in entered
        ]


def _iter_matches(changes: Iterable[_Change], triggers: Iterable[Entity]) -> Iterator[_Match | Literal["pause"]]:
    """Matches, and pauses in between so that a long search does not block the event loop."""
    by_state: dict[str, list[Entity]] = {}
    for trigger in triggers:
        for state in _list_states(trigger):
            by_state.setdefault(state, []).append(trigger)
    steps = 0
    for change in changes:
        for trigger in by_state.get(change.state, ()):
            steps += 1
            if steps % _STEPS_BETWEEN_PAUSES == 0:
                yield "pause"
            if _is_meant(trigger, change):
                yield _Match(trigger.id, change)


async def _find_entity(unit: UnitOfWork, change: _Change) -> Entity | None:
    brief = change.entity
    if isinstance(brief, Run):
        return await unit.runs.find_by_uid(brief.uid)
    return await unit.entities.find(brief.type, brief.id, project=brief.project)


async def _find_chain(unit: UnitOfWork, entity: Entity) -> tuple[str, ...]:
    """The triggers that led to an entity: stored with a run; for other entities, with the run that produced them."""
    run = entity if isinstance(entity, Run) else await _find_maker(unit, entity)
    chain = run.metadata.get(CHAIN) if run is not None else None
    return tuple(map(str, chain)) if isinstance(chain, list) else ()


async def _find_maker(unit: UnitOfWork, entity: Entity) -> Run | None:
    """The run that produced it: as the server recorded it, or else as the client says."""
    if (producer := entity.metadata.get(PRODUCER)) is not None:
        return await unit.runs.find(str(producer), project=entity.project)
    relations: Any = entity.metadata.get("relationships") or []
    for relation in relations:
        if isinstance(relation, dict) and relation.get("type") == "produced_by":
            try:
                key = parse_key(str(relation.get("dest")))
            except Refused:
                continue
            if key.type == "run" and key.id is not None:
                return await unit.runs.find(key.id, project=entity.project)
    return None


def _is_meant(trigger: Entity, change: _Change) -> bool:
    """Whether a trigger waits for a change: by state, time, key and project. Nobody waits for themselves."""
    entity = change.entity
    is_named = change.state in _list_states(trigger) and matches_key(str(trigger.spec.get("key")), change.key)
    is_new = change.at >= find_start(trigger)
    return is_named and is_new and entity.project == trigger.project and entity.id != trigger.id


def _list_states(trigger: Entity) -> list[str]:
    states = trigger.spec.get("states")
    return [str(state) for state in states] if isinstance(states, list) else []


def _make_change(entity: Entity, state: str, at: datetime, time: str) -> _Change:
    """`time` distinguishes the occasion from other times that the entity entered this state.

    A run is named by its uid: its id may be used again.
    """
    name = entity.uid if isinstance(entity, Run) else entity.id
    return _Change(entity, make_key(entity), state, at, f"{entity.type}/{name}:{state}:{time}")


def _describe(entity: Entity) -> Json:
    return {
        "key": make_key(entity),
        "id": entity.id,
        "kind": entity.kind,
        "name": entity.name,
        "project": entity.project,
        "user": entity.user,
        "metadata": entity.metadata,
        "spec": entity.spec,
        "status": {**entity.status, "state": entity.state},
    }
