"""Delete entities, one version or all of a name. A cascade also deletes a function's tasks and their runs.

Many deletions are made in batches, so that other writers do not wait for all of them. What hangs on an entity goes
first: after a crash the rest is as it was, and a repeated call goes on. The last transaction deletes the entity with
the few tasks and runs that were added meanwhile, so that none is left behind.

The runs are DELETING when the entities are gone. Those without objects in an engine are gone too when the call returns,
unless a log cannot be deleted now; the reconcile loop completes the rest.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.entities import (
    check_own_entity,
    check_revision,
    lock_entity,
    mark_registries_changed,
    require_entity,
    require_project,
)
from runyard.app.errors import Missing
from runyard.app.list_query import Query
from runyard.app.locks import lock_of_project, lock_of_secret_values
from runyard.app.model import Entity, Principal, RunKey
from runyard.app.ports import UnitOfWork
from runyard.app.runs import begin_run_deletions, delete_runs, finish_deletions
from runyard.app.unused_blobs import try_remove_unused
from runyard.spec.digitalhub.reference_strings import TaskReference
from runyard.spec.registries import REGISTRIES_SECRET

PAGE_SIZE = 500
CHECKED_AT_ONCE = 50
"""Versions whose metadata is read at once to see which run created them."""
ENTITIES_AT_ONCE = 10
"""How many entities are deleted in one transaction: other writers wait as long as one takes."""


async def delete_entity(
    core: Core,
    who: Principal,
    type_name: str,
    project: str,
    entity_id: str,
    *,
    is_cascading: bool = False,
    expected_revision: int | None = None,
) -> None:
    """Delete one entity, and with `is_cascading` also a function's tasks and a task's runs.

    Raises `Missing`, and `Conflict` if it is not at the expected revision.
    """
    if is_cascading:
        async with core.store.begin(is_read_only=True) as unit:
            entity = await require_entity(unit, type_name, project, entity_id)
            query = _query_versions(type_name, project, entity.name)
            versions = await unit.entities.find_page(replace(query, size=1, is_without_documents=True))
        check_revision(entity, expected_revision)
        check_own_entity(who, entity)
        await _delete_dependents(core, who, entity, is_last=versions.total == 1)
    async with core.store.begin() as unit:
        await _lock_project(unit, type_name, project)
        entity = await lock_entity(unit, type_name, project, entity_id)
        check_revision(entity, expected_revision)
        check_own_entity(who, entity)
        deleting = await _delete(core, unit, who, entity, is_cascading=is_cascading)
        await unit.commit()
    await _finish(core, entity, deleting)


async def delete_named(
    core: Core, who: Principal, type_name: str, project: str, name: str, *, is_cascading: bool = False
) -> int:
    """Delete all versions of a name that exist now, oldest first; returns how many."""
    async with core.store.begin(is_read_only=True) as unit:
        await require_project(unit, project)
        query = _query_versions(type_name, project, name)
        if who.run_id is not None:
            await _check_all_own(unit, who, query)
        versions = await _list_all(unit, query)
    if not versions:
        raise Missing(type_name, name)
    if is_cascading:
        for version in versions:
            await _delete_dependents(core, who, version, is_last=version is versions[-1])
    return sum(
        [
            await _delete_batch(core, who, versions[start : start + ENTITIES_AT_ONCE], is_cascading=is_cascading)
            for start in range(0, len(versions), ENTITIES_AT_ONCE)
        ]
    )


async def _delete_batch(core: Core, who: Principal, entities: Sequence[Entity], *, is_cascading: bool) -> int:
    """Delete entities of one project in one transaction; returns how many there still were."""
    number = 0
    deleting: list[RunKey] = []
    async with core.store.begin() as unit:
        await _lock_project(unit, entities[0].type, entities[0].project)
        for entity in entities:
            if await unit.entities.find(entity.type, entity.id, project=entity.project) is not None:
                deleting += await _delete(core, unit, who, entity, is_cascading=is_cascading)
                number += 1
        await unit.commit()
    await _finish(core, entities[0], deleting)
    return number


async def _lock_project(unit: UnitOfWork, type_name: str, project: str) -> None:
    """Exclusively for a secret: with registry credentials the project's row is written too."""
    if type_name == "secret":
        await unit.lock(lock_of_project(project))
    else:
        await unit.lock_shared(lock_of_project(project))


async def _finish(core: Core, deleted: Entity, runs: Sequence[RunKey]) -> None:
    """After the commit: wake up who waits for it, and delete what no engine has."""
    core.signals.due.set()
    if deleted.type == "secret":
        core.signals.notify_registries(deleted.project)
    await finish_deletions(core, runs)
    await try_remove_unused(core.store, core.blobs)


async def _delete_dependents(core: Core, who: Principal, entity: Entity, *, is_last: bool = False) -> None:
    """Delete the tasks of a function or workflow with their runs, or the runs of a task, in batches.

    Tasks that refer to the newest version, whichever that is, go with the last version.
    """
    if entity.type == "task":
        await delete_runs(core, who, project=entity.project, task=make_task_reference(entity))
    if entity.type not in ("function", "workflow"):
        return
    async with core.store.begin(is_read_only=True) as unit:
        tasks = await _list_all(unit, _query_tasks(entity, f"{_name(entity)}:{entity.id}"))
        newest = await unit.entities.find_latest(entity.type, project=entity.project, name=entity.name)
        if is_last and (newest is None or newest.id == entity.id):
            tasks += await _list_all(unit, _query_tasks(entity, _name(entity)))
    tasks = list({task.id: task for task in tasks}.values())
    for task in tasks:
        await _delete_dependents(core, who, task)
    for start in range(0, len(tasks), ENTITIES_AT_ONCE):
        await _delete_batch(core, who, tasks[start : start + ENTITIES_AT_ONCE], is_cascading=True)


async def _delete(core: Core, unit: UnitOfWork, who: Principal, entity: Entity, *, is_cascading: bool) -> list[RunKey]:
    """Delete one entity, and what was added to it since `_delete_dependents`.

    Returns runs that are DELETING; the caller passes them to `finish_deletions` after its commit.
    """
    deleting: list[RunKey] = []
    has_tasks = is_cascading and entity.type in ("function", "workflow")
    if has_tasks:
        deleting += await _delete_tasks(core, unit, who, entity, f"{_name(entity)}:{entity.id}")
    if is_cascading and entity.type == "task":
        task = make_task_reference(entity)
        deleting += await begin_run_deletions(core, unit, who, project=entity.project, task=task)
    if entity.type == "secret":
        # Writers of values take the same lock: none is stored for a secret that was just deleted.
        await unit.lock(lock_of_secret_values(entity.project))
    await unit.entities.delete(entity.type, entity.id, project=entity.project)
    if has_tasks and await unit.entities.find_latest(entity.type, project=entity.project, name=entity.name) is None:
        # Tasks that refer to the newest version: no version is left.
        deleting += await _delete_tasks(core, unit, who, entity, _name(entity))
    if entity.type == "secret":
        await unit.secrets.delete(entity.project, entity.name)
        if entity.name == REGISTRIES_SECRET:
            await mark_registries_changed(unit, entity.project)
    await audit(core, unit, who, f"{entity.type}.delete", entity)
    return deleting


async def _delete_tasks(core: Core, unit: UnitOfWork, who: Principal, entity: Entity, reference: str) -> list[RunKey]:
    """Delete the tasks of a reference; returns their runs, which are DELETING."""
    deleting: list[RunKey] = []
    for task in await _list_all(unit, _query_tasks(entity, reference)):
        deleting += await _delete(core, unit, who, task, is_cascading=True)
    return deleting


def _query_versions(type_name: str, project: str, name: str) -> Query:
    """Oldest first, so that the newest version is deleted last."""
    return Query(type=type_name, project=project, name=name, versions="all", sort=(("created", "asc"),))


def _query_tasks(entity: Entity, reference: str) -> Query:
    filters: Mapping[str, Any] = {entity.type: reference}
    return Query(type="task", project=entity.project, **filters)


async def _check_all_own(unit: UnitOfWork, who: Principal, query: Query) -> None:
    """Raises `Forbidden` if a run's token would delete what its run did not create, which metadata says."""
    async for page in _iter_pages(unit, replace(query, size=CHECKED_AT_ONCE, is_summary=True)):
        for entity in page:
            check_own_entity(who, entity)


async def _list_all(unit: UnitOfWork, query: Query) -> list[Entity]:
    """All entities of a list without their documents: there may be any number of them."""
    pages = _iter_pages(unit, replace(query, size=PAGE_SIZE, is_without_documents=True))
    return [entity async for page in pages for entity in page]


async def _iter_pages(unit: UnitOfWork, query: Query) -> AsyncIterator[Sequence[Entity]]:
    """Every page of a list, from one snapshot."""
    for number in count():
        page = (await unit.entities.find_page(replace(query, page=number))).content
        yield page
        if len(page) < query.size:
            return


def _name(entity: Entity) -> str:
    """The reference of a function or workflow without a version."""
    return f"{entity.kind}://{entity.project}/{entity.name}"


def make_task_reference(task: Entity) -> str:
    """`kind+action://project/id`."""
    return str(TaskReference(kind=task.kind, project=task.project, id=task.id))
