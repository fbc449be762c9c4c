"""Lifecycle triggers: fire when an entity enters one of their states.

Each pass searches the store for recent changes, so no event can be lost in a crash. Every transition of a run counts
once; of other entities, each time they enter a state. Not seen: a state that such an entity leaves again between two
passes, and changes older than `LOOK_BACK` when the server starts.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from runyard.app.core import Core
from runyard.app.entities import PRODUCER, TYPES, find_state_since, make_key
from runyard.app.lru_map import LruMap
from runyard.app.model import Entity, Json, Run
from runyard.app.ports import Query, UnitOfWork
from runyard.app.triggers import CHAIN, Fired, Occasion, find_start, fire
from runyard.domain.triggers import find_types, matches_key
from runyard.spec.digitalhub.reference_strings import parse_key
from runyard.spec.problems import Refused

LOOK_BACK = timedelta(hours=1)
OVERLAP = timedelta(minutes=1)
"""Covers clock skew between replicas, and writes that were not committed yet at the last pass."""
_KNOWN_TYPES = ("run", *TYPES)
_PAGE = 200
_MOST_REMEMBERED = 20_000


class Lifecycles:
    """What one replica has processed. The store knows what was fired."""

    def __init__(self, core: Core, *, is_open: bool) -> None:
        self._core = core
        self._is_open = is_open
        self._looked_at: datetime | None = None
        self._done: LruMap[tuple[str, str], bool] = LruMap(most=_MOST_REMEMBERED)

    async def fire_due(self, triggers: Sequence[Entity]) -> int:
        """Fire for everything that changed since the last pass. Returns how many."""
        now = self._core.clock.now()
        since = now - LOOK_BACK if self._looked_at is None else self._looked_at - OVERLAP
        fired = 0
        for trigger in triggers:
            start = max(since, find_start(trigger))
            async with self._core.store.begin(is_read_only=True) as unit:
                found = [pair async for pair in _iter_changes(unit, trigger, start)]
            for entity, occasion in found:
                fired += await self._fire(trigger, entity, occasion)
        self._looked_at = now
        return fired

    async def _fire(self, trigger: Entity, entity: Entity, occasion: str) -> int:
        key = (trigger.id, occasion)
        if key in self._done:
            return 0
        fired = await _fire_one(self._core, trigger, entity, occasion, is_open=self._is_open)
        self._done.put(key, True)
        return 0 if fired is None else 1


async def _fire_one(core: Core, trigger: Entity, entity: Entity, occasion: str, *, is_open: bool) -> Fired | None:
    """None if the entity was produced by this very trigger: that would loop for ever."""
    async with core.store.begin(is_read_only=True) as unit:
        chain = await _find_chain(unit, entity)
    if trigger.id in chain:
        return None
    given = Occasion(id=occasion, input=_describe(entity), chain=chain)
    return await fire(core, trigger, given, is_open=is_open)


async def _iter_changes(unit: UnitOfWork, trigger: Entity, since: datetime) -> AsyncIterator[tuple[Entity, str]]:
    for type_name in find_types(str(trigger.spec.get("key")), _KNOWN_TYPES):
        if type_name == "run":
            async for pair in _iter_run_changes(unit, trigger, since):
                yield pair
            continue
        for state in _list_states(trigger):
            async for pair in _iter_entity_changes(unit, trigger, since, type_name=type_name, state=state):
                yield pair


async def _iter_entity_changes(
    unit: UnitOfWork, trigger: Entity, since: datetime, *, type_name: str, state: str
) -> AsyncIterator[tuple[Entity, str]]:
    for page in count():
        query = Query(
            type=type_name,
            project=trigger.project,
            state=state,
            updated=(since, None),
            versions="all",
            page=page,
            size=_PAGE,
        )
        entities = (await unit.entities.find_page(query)).content
        for entity in entities:
            entered_at = find_state_since(entity)
            # An entity that was updated without a change of state entered it earlier: already processed, or too old.
            if entered_at >= find_start(trigger) and _is_meant(trigger, entity, state):
                yield entity, _name(entity, state, entered_at.astimezone(UTC).isoformat())
        if len(entities) < _PAGE:
            return


async def _iter_run_changes(unit: UnitOfWork, trigger: Entity, since: datetime) -> AsyncIterator[tuple[Entity, str]]:
    for page in count():
        query = Query(type="run", project=trigger.project, updated=(since, None), page=page, size=_PAGE, is_brief=True)
        runs = (await unit.runs.find_page(query)).content
        for run in runs:
            for step in await unit.runs.list_transitions(run.id):
                if step.at >= since and _is_meant(trigger, run, step.state.value):
                    yield run, _name(run, step.state.value, str(step.sequence))
        if len(runs) < _PAGE:
            return


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


def _is_meant(trigger: Entity, entity: Entity, state: str) -> bool:
    is_named = state in _list_states(trigger) and matches_key(str(trigger.spec.get("key")), make_key(entity))
    return is_named and entity.project == trigger.project and entity.id != trigger.id


def _list_states(trigger: Entity) -> list[str]:
    states = trigger.spec.get("states")
    return [str(state) for state in states] if isinstance(states, list) else []


def _name(entity: Entity, state: str, time: str) -> str:
    """The id of one occasion: `time` distinguishes it from other times that the entity entered this state."""
    return f"{entity.type}/{entity.id}:{state}:{time}"


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
