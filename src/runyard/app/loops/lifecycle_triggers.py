"""Lifecycle triggers: fire when an entity enters one of their states.

Each scan searches the store for recent changes of a project, so no event can be lost in a crash. Every transition of a
run counts once; of other entities, each time they enter a state. Not seen: a state that such an entity leaves again
between two scans, and changes older than `LOOK_BACK` when the server starts.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from runyard.app.core import Core
from runyard.app.entities import TYPES, find_actor, find_state_since, make_key
from runyard.app.loops.turns import Turn, contain
from runyard.app.lru_map import LruMap
from runyard.app.model import Entity, Json, Run
from runyard.app.ports import UnitOfWork
from runyard.app.triggers import (
    Occasion,
    find_chain,
    find_chain_problem,
    find_start,
    fire,
    is_active,
    note_refusal,
)
from runyard.domain.triggers import find_types, matches_key

LOOK_BACK = timedelta(hours=1)
OVERLAP = timedelta(minutes=1)
"""Covers clock skew between replicas, and writes that were not committed yet at the last scan."""
ScanKey = tuple[str, str]
"""A user and a project: the triggers that run as one user in a project share a scan."""
_KNOWN_TYPES = ("run", *TYPES)
_PAGE = 200
_MOST_REMEMBERED = 20_000
_STEPS_BETWEEN_PAUSES = 100
"""How many triggers are compared with changes before the other tasks of the event loop get a chance."""


@dataclass(frozen=True, slots=True)
class _Change:
    """An entity entered a state. Without its documents: an unfinished scan keeps a page of them per project."""

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
        self._scans: dict[ScanKey, _Scan] = {}
        self._scanned_at: dict[ScanKey, datetime] = {}
        self._done: LruMap[tuple[str, str, datetime, str], bool] = LruMap(most=_MOST_REMEMBERED)

    def is_interrupted(self, key: ScanKey) -> bool:
        """Whether a scan is unfinished, because the turn was over."""
        return key in self._scans

    def keep(self, keys: Collection[ScanKey]) -> None:
        """Forget all others: they have no lifecycle triggers any more."""
        self._scans = {key: scan for key, scan in self._scans.items() if key in keys}
        self._scanned_at = {key: at for key, at in self._scanned_at.items() if key in keys}

    def abandon(self, key: ScanKey) -> None:
        """Give up an unfinished scan that failed; the next one begins where it began, after the loop's pause."""
        self._scans.pop(key, None)

    def note_actor(self, known: Entity | None, trigger: Entity) -> None:
        """A trigger was read again. If it runs as another user now, their scans may be ahead of those before."""
        if known is not None and (user := find_actor(trigger)) != find_actor(known):
            self.abandon((user, trigger.project))
            self._scanned_at.pop((user, trigger.project), None)

    async def take_turn(self, key: ScanKey, triggers: Sequence[Entity], turn: Turn) -> int:
        """Fire for everything in a project that changed since its last scan, as far as the turn goes."""
        scan = self._scans.get(key) or self._start(key, triggers)
        known = {trigger.id: trigger for trigger in triggers}
        fired = 0
        while not turn.is_over:
            match = next(scan.matches, None)
            if match is None:
                if not await scan.read_page(self._core, triggers):
                    self._scanned_at[key] = scan.began_at
                    del self._scans[key]
                    break
            elif match != "pause" and (trigger := known.get(match.trigger_id)) is not None:
                fired += await self._fire_once(trigger, match.change, turn)
            # The database may answer at once, and a search may take long.
            await asyncio.sleep(0)
        return fired

    def _start(self, key: ScanKey, triggers: Sequence[Entity]) -> "_Scan":
        now, last = self._core.clock.now(), self._scanned_at.get(key)
        since = now - LOOK_BACK if last is None else last - OVERLAP
        scan = self._scans[key] = _Scan(key[1], triggers, since=since, began_at=now)
        return scan

    async def _fire_once(self, trigger: Entity, change: _Change, turn: Turn) -> int:
        key = (trigger.project, trigger.id, trigger.created_at, change.occasion)
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
            chain = await find_chain(unit, entity)
            if trigger.id in chain.triggers:
                # The entity was produced because of this very trigger: that would loop for ever.
                return 0
            problem = await find_chain_problem(unit, chain, project=trigger.project)
            # Told once: a chain that has reached its limit has very many more occasions.
            told = f"limit:{chain.root}"
            if problem is not None and await unit.firings.is_used(trigger.id, told, project=trigger.project):
                return 0
        turn.count_firing()
        if problem is not None:
            await note_refusal(self._core, stored, Occasion(id=told, input={}), problem)
            return 1
        chain = replace(chain, root=chain.root or change.occasion)
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
            _make_change(replace(entity, metadata={}), entity.state, at, at.astimezone(UTC).isoformat())
            for entity, at in entered
        ]


def _iter_matches(changes: Iterable[_Change], triggers: Iterable[Entity]) -> Iterator[_Match | Literal["pause"]]:
    """Matches, and pauses in between so that a long search does not block the event loop."""
    by_state: dict[str, list[Entity]] = {}
    for number, trigger in enumerate(triggers, start=1):
        for state in _list_states(trigger):
            by_state.setdefault(state, []).append(trigger)
        if number % _STEPS_BETWEEN_PAUSES == 0:
            yield "pause"
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


def _is_meant(trigger: Entity, change: _Change) -> bool:
    """Whether a trigger waits for a change: by state, time, key and project. Nobody waits for themselves."""
    entity = change.entity
    is_named = change.state in _list_states(trigger) and matches_key(str(trigger.spec.get("key")), change.key)
    is_new = change.at >= find_start(trigger)
    return is_named and is_new and entity.project == trigger.project and entity.id != trigger.id


def _list_states(trigger: Entity) -> Collection[str]:
    """Each once: a client may repeat one, and would be compared as often."""
    states = trigger.spec.get("states")
    return {str(state) for state in states} if isinstance(states, list) else ()


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
