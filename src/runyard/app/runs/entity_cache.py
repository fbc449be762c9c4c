"""A cache of entities, for passes over many runs that refer to the same tasks and functions."""

from runyard.app.model import Entity
from runyard.app.ports import EntityLookup


class EntityCache:
    """`EntityLookup` that reads each entity once: many runs refer to the same task and function."""

    def __init__(self, entities: EntityLookup) -> None:
        self._entities = entities
        self._known: dict[tuple[str, ...], Entity | None] = {}

    async def find(self, entity_type: str, entity_id: str, *, project: str) -> Entity | None:
        """As `EntityLookup.find`."""
        key = ("id", entity_type, entity_id, project)
        if key not in self._known:
            self._known[key] = await self._entities.find(entity_type, entity_id, project=project)
        return self._known[key]

    async def find_latest(self, entity_type: str, *, project: str, name: str) -> Entity | None:
        """As `EntityLookup.find_latest`."""
        key = ("latest", entity_type, name, project)
        if key not in self._known:
            self._known[key] = await self._entities.find_latest(entity_type, project=project, name=name)
        return self._known[key]
