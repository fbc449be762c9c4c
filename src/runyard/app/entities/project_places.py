"""Where a project was prepared, and which of these places may have outdated registry credentials. In its status.

Writers hold the project's lock exclusively.
"""

from collections.abc import Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Any

from runyard.app.core import Core
from runyard.app.engine import EngineRefusal
from runyard.app.locks import lock_of_project
from runyard.app.model import Entity
from runyard.app.ports import UnitOfWork
from runyard.domain.reasons import Reason
from runyard.spec.problems import Refused
from runyard.spec.registries import REGISTRIES_SECRET, RegistryCredential, read_registries

PLACES = "places"
"""The key of a project's status: where it was prepared."""
CHANGED_REGISTRIES = "changed_registries"
"""The key of a project's status: a token of the last change, by the place that was not told of it yet."""
PAGE_SIZE = 200


def list_places(project: Entity) -> list[str]:
    """Where the project was prepared."""
    return list(project.status.get(PLACES, ()))


async def mark_registries_changed(unit: UnitOfWork, project: str) -> None:
    """Note that registry credentials changed. The caller commits, then calls `Signals.notify_registries`."""
    entity = await unit.entities.find_project(project)
    if entity is not None and list_places(entity):
        token = token_hex(8)
        await _write_changes(unit, entity, dict.fromkeys(list_places(entity), token))


async def find_registry_change(core: Core, project: str, place: str) -> str | None:
    """The token of a change that the place was not told of; None if there is none."""
    async with core.store.begin(is_read_only=True) as unit:
        entity = await unit.entities.find_project(project)
    return None if entity is None else _get_changes(entity).get(place)


async def clear_registry_change(core: Core, project: str, *, place: str, token: str) -> bool:
    """Note that the place was told of that change; returns False if there was another one since."""
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        entity = await unit.entities.find_project(project)
        if entity is None:
            return True
        changes = _get_changes(entity)
        if changes.get(place) == token:
            await _write_changes(unit, entity, {key: value for key, value in changes.items() if key != place})
            await unit.commit()
            return True
        return place not in changes


async def list_changed_registries(core: Core, place: str) -> list[str]:
    """The projects with a change that the place was not told of. Reads the status of all: for a look now and then."""
    found: list[str] = []
    after = ""
    while True:
        async with core.store.begin(is_read_only=True) as unit:
            page = await unit.entities.list_project_statuses(after=after, limit=PAGE_SIZE)
        found += [name for name, status in page if place in status.get(CHANGED_REGISTRIES, {})]
        if len(page) < PAGE_SIZE:
            return found
        after, _ = page[-1]


async def read_project_registries(core: Core, project: str) -> Mapping[str, RegistryCredential]:
    """Those of the secret `DOCKER_AUTH_CONFIG` as it is now; none if it has no value, or the project is being deleted.

    Raises `EngineRefusal` if they cannot be read.
    """
    async with core.store.begin(is_read_only=True) as unit:
        sealed = await unit.secrets.find(project, REGISTRIES_SECRET)
        if sealed is None:  # of most projects, and for each of their runs
            return {}
        entity = await unit.entities.find_project(project)
    if entity is not None and entity.state == "DELETING":
        return {}
    try:
        return read_registries(core.vault.open(sealed))
    except Refused:
        # Stored before it was checked. Without the problems: the value is a secret.
        message = f"secret `{REGISTRIES_SECRET}` of project {project} is not a Docker configuration"
        raise EngineRefusal(Reason.REGISTRIES_UNREADABLE, message) from None


def _get_changes(project: Entity) -> dict[str, str]:
    return dict(project.status.get(CHANGED_REGISTRIES, {}))


async def _write_changes(unit: UnitOfWork, project: Entity, changes: Mapping[str, str]) -> None:
    status: dict[str, Any] = {key: value for key, value in project.status.items() if key != CHANGED_REGISTRIES}
    if changes:
        status[CHANGED_REGISTRIES] = dict(changes)
    await unit.entities.replace(replace(project, status=status))
