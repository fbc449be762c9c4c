"""Prepare a project at an engine's place, and know where it was prepared.

The place is written into the project's status before the engine is called, so that a later deletion of the project
removes what the engine made, wherever that was.
"""

from dataclasses import replace
from datetime import datetime

from runyard.app.core import Core
from runyard.app.engine import Engine
from runyard.app.engine_calls import call_engine
from runyard.app.list_query import Query
from runyard.app.locks import lock_of_project
from runyard.app.lru_map import LruMap
from runyard.app.model import Entity

MOST_PREPARED = 10_000
"""How many projects are remembered as prepared."""
PAGE_SIZE = 200
PLACES = "places"
"""The key of a project's status: where it was prepared."""


class PreparedProjects:
    """The projects that this process has prepared at its engine. A project that is created again is another one."""

    def __init__(self, core: Core, engine: Engine) -> None:
        self._core = core
        self._engine = engine
        self._prepared: LruMap[str, datetime] = LruMap(most=MOST_PREPARED)
        """When the project was created, by its name."""

    async def ensure(self, project: str) -> None:
        """Make the engine ready for the runs of a project; only one short read if it is.

        Raises `EngineUnavailable` and `EngineRefusal`.
        """
        place = str(self._engine.place)
        async with self._core.store.begin(is_read_only=True) as unit:
            entity = await unit.entities.find_project(project)
        if entity is not None and entity.created_at == self._prepared.find(project):
            return
        if entity is not None and place not in list_places(entity):
            await _add_place(self._core, project, place)
        await call_engine(self._engine.ensure_project(project))
        if entity is not None:
            self._prepared.put(project, entity.created_at)


async def forget_project_places(core: Core, place: str) -> int:
    """Write that nothing exists at a place that is gone for good; returns of how many projects. Idempotent."""
    names = (await find_projects_by_place(core)).get(place, [])
    for name in names:
        await drop_place(core, name, place)
    core.signals.deletions.set()
    return len(names)


async def find_projects_by_place(core: Core) -> dict[str, list[str]]:
    """The projects that were prepared at each place. Reads every project; for people, not for loops."""
    found: dict[str, list[str]] = {}
    async with core.store.begin(is_read_only=True) as unit:
        number = 0
        while page := (await unit.entities.find_page(Query(type="project", page=number, size=PAGE_SIZE))).content:
            for project in page:
                for place in list_places(project):
                    found.setdefault(place, []).append(project.id)
            number += 1
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


def list_places(project: Entity) -> list[str]:
    """Where the project was prepared."""
    return list(project.status.get(PLACES, ()))


async def _add_place(core: Core, project: str, place: str) -> None:
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        entity = await unit.entities.find_project(project)
        if entity is not None and place not in list_places(entity):
            status = {**entity.status, PLACES: [*list_places(entity), place]}
            await unit.entities.replace(replace(entity, status=status))
            await unit.commit()
