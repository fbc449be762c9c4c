"""Reading many requests at once: what several refer to is looked up once."""

from types import SimpleNamespace
from typing import cast

from runyard.app.model import Entity
from runyard.app.ports import UnitOfWork


class Remembering:
    """The entities of a unit of work as far as `read_run_request` needs them, each read once."""

    def __init__(self, unit: UnitOfWork) -> None:
        self._entities = unit.entities
        self._known: dict[tuple[str, ...], Entity | None] = {}

    def as_unit(self) -> UnitOfWork:
        """In the form of a unit of work; it can find entities, and nothing else."""
        return cast("UnitOfWork", SimpleNamespace(entities=self))

    async def find(self, entity_type: str, entity_id: str, *, project: str | None = None) -> Entity | None:
        """As `Entities.find`."""
        key = ("id", entity_type, entity_id, project or "")
        if key not in self._known:
            self._known[key] = await self._entities.find(entity_type, entity_id, project=project)
        return self._known[key]

    async def find_latest(self, entity_type: str, *, project: str, name: str) -> Entity | None:
        """As `Entities.find_latest`."""
        key = ("latest", entity_type, name, project)
        if key not in self._known:
            self._known[key] = await self._entities.find_latest(entity_type, project=project, name=name)
        return self._known[key]
