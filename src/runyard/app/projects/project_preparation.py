"""Prepare a project at an engine's place, and know where it was prepared.

The place is written into the project's status before the engine is called, so that a later deletion of the project
removes what the engine made, wherever that was.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from runyard.app.core import Core
from runyard.app.engine import Engine, EngineError
from runyard.app.engine_calls import call_engine
from runyard.app.entities import PLACES, list_places
from runyard.app.locks import lock_of_project
from runyard.app.lru_map import LruMap
from runyard.app.model import RuleRevisions
from runyard.app.rules import load_current
from runyard.domain.reasons import Reason

MOST_PREPARED = 10_000
"""How many projects are remembered as prepared."""
PREPARED_SECONDS = 600
"""How long a project counts as prepared: then the next run has restored what others deleted of it."""
_UNDONE = (Reason.NAMESPACE_MISSING, Reason.KUBE_PERMISSIONS)
"""Failures by which an engine shows that somebody has undone the preparation."""
PAGE_SIZE = 200


@dataclass(frozen=True, slots=True)
class _Preparation:
    """With what a project was prepared."""

    created_at: datetime
    """When the project was created."""
    revision_count: int
    """How many revisions of policy and profiles there were."""
    revisions: RuleRevisions
    until: datetime
    """How long it counts."""


class PreparedProjects:
    """The projects that this process has prepared at its engine.

    A project that is created again is another one. Changed rules are given to the engine again, and so are the same
    ones after a while, or when a call shows that what was made for the project is gone.
    """

    def __init__(self, core: Core, engine: Engine) -> None:
        self._core = core
        self._engine = engine
        self._prepared: LruMap[str, _Preparation] = LruMap(most=MOST_PREPARED)

    async def ensure(self, project: str) -> None:
        """Make the engine ready for the runs of a project, by the current policy and profiles.

        Only one short read if it is ready. Raises `EngineUnavailable` and `EngineRefusal`.
        """
        place = str(self._engine.place)
        async with self._core.store.begin(is_read_only=True) as unit:
            entity = await unit.entities.find_project(project)
            count = await unit.revisions.count()
            known = None if entity is None else self._find(project, entity.created_at)
            if known is not None and known.revision_count == count:
                return
            rules = await load_current(unit)
        if entity is not None and place not in list_places(entity):
            await _add_place(self._core, project, place)
        await call_engine(self._engine.ensure_project(project, rules.admin_rules))
        if entity is not None:
            until = self._core.clock.now() + timedelta(seconds=PREPARED_SECONDS)
            self._prepared.put(project, _Preparation(entity.created_at, count, rules.revisions, until))

    def is_ready(self, project: str, *, created_at: datetime, revisions: RuleRevisions) -> bool:
        """Whether `ensure` would have nothing to do, by what the caller has just read. Reads nothing."""
        known = self._find(project, created_at)
        return known is not None and known.revisions == revisions

    def note_failure(self, project: str, error: EngineError) -> None:
        """Prepare the project again if a failed call of the engine shows that it is not prepared anymore."""
        if error.code in _UNDONE:
            self._prepared.discard(project)

    def _find(self, project: str, created_at: datetime) -> _Preparation | None:
        """How the project was prepared, if that still counts."""
        known = self._prepared.find(project)
        is_valid = known is not None and known.created_at == created_at and self._core.clock.now() < known.until
        return known if is_valid else None


async def forget_project_places(core: Core, place: str) -> int:
    """Write that nothing exists at a place that is gone for good; returns of how many projects. Idempotent."""
    names = (await find_projects_by_place(core)).get(place, [])
    for name in names:
        await drop_place(core, name, place)
    core.signals.deletions.set()
    return len(names)


async def find_projects_by_place(core: Core) -> dict[str, list[str]]:
    """The projects that were prepared at each place. Reads the status of all; for people, not for loops."""
    found: dict[str, list[str]] = {}
    after = ""
    async with core.store.begin(is_read_only=True) as unit:
        while page := await unit.entities.list_project_statuses(after=after, limit=PAGE_SIZE):
            for name, status in page:
                for place in status.get(PLACES, ()):
                    found.setdefault(place, []).append(name)
            after, _ = page[-1]
    return found


async def drop_place(core: Core, project: str, place: str) -> None:
    """Write that nothing exists for the project at a place anymore."""
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        entity = await unit.entities.find_project(project)
        if entity is None or place not in list_places(entity):
            return
        places = [one for one in list_places(entity) if one != place]
        await unit.entities.replace(replace(entity, status={**entity.status, PLACES: places}))
        await unit.commit()


async def _add_place(core: Core, project: str, place: str) -> None:
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        entity = await unit.entities.find_project(project)
        if entity is not None and place not in list_places(entity):
            status = {**entity.status, PLACES: [*list_places(entity), place]}
            await unit.entities.replace(replace(entity, status=status))
            await unit.commit()
