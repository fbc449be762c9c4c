"""Delete entities, one version or all of a name. A cascade also deletes a function's tasks and their runs.

The runs are DELETING when the entities are gone. Without an engine they are gone too when the call returns, unless a
log cannot be deleted now; the reconcile loop completes the rest.
"""

from collections.abc import Mapping
from typing import Any

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.entities import check_own_entity, check_revision, lock_entity, require_project
from runyard.app.errors import Missing
from runyard.app.locks import lock_of_project, lock_of_secret_values
from runyard.app.model import Entity, Principal
from runyard.app.ports import Query, UnitOfWork
from runyard.app.runs import DeletingRuns, begin_run_deletions, finish_deletions
from runyard.spec.digitalhub.reference_strings import TaskReference

CASCADE_SIZE = 500


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
    async with core.store.begin() as unit:
        await unit.lock_shared(lock_of_project(project))
        entity = await lock_entity(unit, type_name, project, entity_id)
        check_revision(entity, expected_revision)
        check_own_entity(who, entity)
        deleting = await _delete(core, unit, who, entity, is_cascading=is_cascading)
        await unit.commit()
    core.signals.due.set()
    await finish_deletions(core, deleting.without_engine)


async def delete_named(
    core: Core, who: Principal, type_name: str, project: str, name: str, *, is_cascading: bool = False
) -> int:
    """Delete all versions of a name; returns how many."""
    count = 0
    deleting = DeletingRuns()
    async with core.store.begin() as unit:
        await require_project(unit, project)
        while True:
            query = Query(
                type=type_name, project=project, name=name, versions="all", size=CASCADE_SIZE, is_summary=True
            )
            page = await unit.entities.find_page(query)
            for entity in page.content:
                check_own_entity(who, entity)
                deleting.add(await _delete(core, unit, who, entity, is_cascading=is_cascading))
            count += len(page.content)
            if not page.content:
                break
        if not count:
            raise Missing(type_name, name)
        await unit.commit()
    core.signals.due.set()
    await finish_deletions(core, deleting.without_engine)
    return count


async def _delete(core: Core, unit: UnitOfWork, who: Principal, entity: Entity, *, is_cascading: bool) -> DeletingRuns:
    """Returns the runs below it, which are DELETING; the caller calls `finish_deletions` after its commit."""
    deleting = DeletingRuns()
    name = f"{entity.kind}://{entity.project}/{entity.name}"
    has_tasks = is_cascading and entity.type in ("function", "workflow")
    if has_tasks:
        deleting.add(await _delete_below(core, unit, who, entity, f"{name}:{entity.id}"))
    if is_cascading and entity.type == "task":
        task = make_task_reference(entity)
        deleting.add(await begin_run_deletions(core, unit, who, project=entity.project, task=task))
    if entity.type == "secret":
        # Writers of values take the same lock: none is stored for a secret that was just deleted.
        await unit.lock(lock_of_secret_values(entity.project))
    await unit.entities.delete(entity.type, entity.id, project=entity.project)
    if has_tasks and await unit.entities.find_latest(entity.type, project=entity.project, name=entity.name) is None:
        # Tasks that refer to the newest version: no version is left.
        deleting.add(await _delete_below(core, unit, who, entity, name))
    if entity.type == "secret":
        await unit.secrets.delete(entity.project, entity.name)
    await audit(core, unit, who, f"{entity.type}.delete", entity)
    return deleting


async def _delete_below(core: Core, unit: UnitOfWork, who: Principal, entity: Entity, reference: str) -> DeletingRuns:
    """Delete the tasks of a reference; returns their runs, which are DELETING."""
    deleting = DeletingRuns()
    filters: Mapping[str, Any] = {entity.type: reference}
    query = Query(type="task", project=entity.project, size=CASCADE_SIZE, is_summary=True, **filters)
    while tasks := (await unit.entities.find_page(query)).content:
        for task in tasks:
            deleting.add(await _delete(core, unit, who, task, is_cascading=True))
    return deleting


def make_task_reference(task: Entity) -> str:
    """`kind+action://project/id`."""
    return str(TaskReference(kind=task.kind, project=task.project, id=task.id))
