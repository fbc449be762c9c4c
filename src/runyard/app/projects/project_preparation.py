"""Prepare a project at an engine's place, and know where it was prepared.

The place is written into the project's status before the engine is called, so that a later deletion of the project
removes what the engine made, wherever that was.
"""

from dataclasses import replace

from runyard.app.core import Core
from runyard.app.engine import Engine
from runyard.app.engine_calls import call_engine
from runyard.app.entities import require_entity
from runyard.app.errors import Missing
from runyard.app.locks import lock_of_project
from runyard.app.model import Entity

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


def list_places(project: Entity) -> list[str]:
    """Where the project was prepared."""
    return list(project.status.get(PLACES, ()))


async def _add_place(core: Core, project: str, place: str) -> None:
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        try:
            entity = await require_entity(unit, "project", project, project)
        except Missing:
            return
        if place not in list_places(entity):
            status = {**entity.status, PLACES: [*list_places(entity), place]}
            await unit.entities.replace(replace(entity, status=status))
            await unit.commit()
