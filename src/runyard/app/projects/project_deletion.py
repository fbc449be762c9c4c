"""Delete projects: DELETING from the request on, so that nothing is added; gone after the last run.

Everything is deleted in batches, so that other writers do not wait. After a crash the deletion loop goes on: a project
that is DELETING needs nothing but its row.
"""

from dataclasses import replace

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.entities import TYPES, check_revision, require_entity
from runyard.app.errors import NotPossible
from runyard.app.locks import lock_of_project
from runyard.app.model import Entity, Principal
from runyard.app.ports import Query, UnitOfWork
from runyard.app.runs import delete_runs
from runyard.spec.problem_codes import Code

ROWS_AT_ONCE = 200
"""How many entities are deleted in one transaction: other writers wait as long as one takes."""


async def delete_project(
    core: Core, who: Principal, project: str, *, is_cascading: bool = False, expected_revision: int | None = None
) -> None:
    """Delete a project; one that is not empty needs `is_cascading`. Its runs are stopped first.

    The project is DELETING until its last run is gone; `finish_project_deletion` completes it. Without an engine that
    is before this returns, unless a log cannot be deleted now.
    """
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        entity = await require_entity(unit, "project", project, project)
        check_revision(entity, expected_revision)
        if not is_cascading and (kept := await _describe_content(unit, project)):
            message = f"project {project} is not empty: it has {kept}; delete it with cascade=true"
            raise NotPossible(Code.PROJECT_NOT_EMPTY, message)
        await audit(core, unit, who, "project.delete", entity)
        deleting = replace(entity, state="DELETING", updated_at=core.clock.now(), updated_by=who.name)
        await unit.entities.replace(deleting)
        await unit.commit()
    await delete_runs(core, who, project=project)
    await finish_project_deletion(core, project)


async def finish_project_deletion(core: Core, project: str) -> bool:
    """Delete a project that is DELETING and has no runs left; returns whether it did.

    Requests the deletion of runs that a crash has left out.
    """
    async with core.store.begin(is_read_only=True) as unit:
        entity = await unit.entities.find_project(project)
        if entity is None or entity.state != "DELETING":
            return False
        forgotten = await unit.runs.list_ids(project=project, is_without_deleting=True)
    if forgotten:
        await delete_runs(core, Principal(name=entity.updated_by), project=project)
    if await _has_runs(core, project):
        return False
    await _delete_content(core, project)
    return await _delete_row(core, project)


async def _has_runs(core: Core, project: str) -> bool:
    async with core.store.begin(is_read_only=True) as unit:
        return (await unit.runs.find_page(Query(type="run", project=project, size=1))).total > 0


async def _delete_content(core: Core, project: str) -> None:
    while True:
        async with core.store.begin() as unit:
            await unit.lock(lock_of_project(project))
            number = 0
            if await _find_deleting(unit, project) is not None:
                number = await unit.entities.delete_content(project, limit=ROWS_AT_ONCE)
            await unit.commit()
        if not number:
            return


async def _delete_row(core: Core, project: str) -> bool:
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        if await _find_deleting(unit, project) is None:
            return False
        await unit.entities.delete_project(project)
        await unit.commit()
    return True


async def _find_deleting(unit: UnitOfWork, project: str) -> Entity | None:
    """The project, if it is still DELETING: another replica may have deleted it, and a user created it again."""
    entity = await unit.entities.find_project(project)
    return entity if entity is not None and entity.state == "DELETING" else None


async def _describe_content(unit: UnitOfWork, project: str) -> str:
    counts = {
        entity_type.plural: (
            await unit.entities.find_page(Query(type=name, project=project, versions="all", size=1))
        ).total
        for name, entity_type in TYPES.items()
    }
    counts["volumes"] = (await unit.entities.find_page(Query(type="volume", project=project, size=1))).total
    counts["runs"] = (await unit.runs.find_page(Query(type="run", project=project, size=1))).total
    return ", ".join(f"{count} {plural}" for plural, count in counts.items() if count)
