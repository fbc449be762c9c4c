"""Prepare a project at an engine's place, and know where it was prepared.

The place is written into the project's status before the engine is called, so that a later deletion of the project
removes what the engine made, wherever that was.
"""

from dataclasses import replace

from runyard.app.core import Core
from runyard.app.engine import Engine
from runyard.app.engine_calls import call_engine
from runyard.app.locks import lock_of_project
from runyard.app.model import Entity
from runyard.app.ports import Query

PAGE_SIZE = 200
PLACES = "places"
"""The key of a project's status: where it was prepared."""


async def prepare_project(core: Core, engine: Engine, project: str) -> None:
    """Make an engine ready for the runs of a project. Idempotent; one short read if it was prepared before.

    Raises `EngineUnavailable` and `EngineRefusal`.
    """
    place = str(engine.place)
    async with core.store.begin(is_read_only=True) as unit:
        entity = await unit.entities.find_project(project)
    if entity is not None and place not in list_places(entity):
        await _add_place(core, project, place)
    await call_engine(engine.ensure_project(project))


async def forget_project_places(core: Core, place: str) -> int:
    """Write that nothing exists at a place that is gone for good; returns of how many projects. Idempotent."""
    names: list[str] = []
    async with core.store.begin(is_read_only=True) as unit:
        number = 0
        while page := (await unit.entities.find_page(Query(type="project", page=number, size=PAGE_SIZE))).content:
            names += [project.id for project in page if place in list_places(project)]
            number += 1
    for name in names:
        await drop_place(core, name, place)
    core.signals.deletions.set()
    return len(names)


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
