"""Delete projects: DELETING from the request on, so that nothing is added; gone when all that it had is gone.

First its runs go, with their objects and logs; then its volumes; then what engines prepared for it, at every place;
then its rows. Everything is deleted in batches, so that other writers do not wait. After a crash the deletion loop goes
on: a project that is DELETING needs nothing but its row.
"""

from collections.abc import Sequence
from dataclasses import replace

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.engine import Engine, EngineError, EngineUnavailable
from runyard.app.engine_calls import call_engine
from runyard.app.entities import MOST_VOLUMES, TYPES, begin_volume_deletion, check_revision, list_places, require_entity
from runyard.app.errors import NotPossible
from runyard.app.list_query import Query
from runyard.app.locks import lock_of_project
from runyard.app.model import Entity, Principal, Run
from runyard.app.ports import UnitOfWork
from runyard.app.projects.project_preparation import drop_place
from runyard.app.runs import delete_runs
from runyard.app.unused_blobs import try_remove_unused
from runyard.domain.reasons import Reason
from runyard.spec.problem_codes import Code
from runyard.spec.problems import list_words

VOLUMES_AT_ONCE = 25
"""How many volumes are marked in one transaction."""
ROWS_AT_ONCE = 200
"""How many entities are deleted in one transaction: other writers wait as long as one takes."""


async def delete_project(
    core: Core, who: Principal, project: str, *, is_cascading: bool = False, expected_revision: int | None = None
) -> None:
    """Delete a project; one that is not empty needs `is_cascading`. Its runs are stopped first.

    The project is DELETING until its last run is gone; `finish_project_deletion` completes it. If no engine has
    anything of it, that is before this returns, unless a log cannot be deleted now.
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
    if not list_places(deleting):
        await finish_project_deletion(core, None, project)
    # The loop does the rest: a request does not wait for an engine.
    core.signals.deletions.set()


async def finish_project_deletion(core: Core, engine: Engine | None, project: str) -> bool:
    """Delete a project that is DELETING, if nothing holds it anymore; returns whether it is gone. Idempotent.

    Requests the deletion of runs that a crash has left out. What the project waits for is written into its status.
    """
    async with core.store.begin(is_read_only=True) as unit:
        entity = await _find_deleting(unit, project)
        if entity is None:
            return False
        forgotten = await unit.runs.list_ids(project=project, is_without_deleting=True)
    if forgotten:
        await delete_runs(core, Principal(name=entity.updated_by), project=project)
    try:
        await _check_runs_gone(core, project)
        await _check_volumes_gone(core, entity)
        await _remove_from_places(core, engine, entity)
    except EngineError as waiting:
        await _note_waiting(core, project, waiting)
        return False
    await _delete_content(core, project)
    is_gone = await _delete_row(core, project)
    await try_remove_unused(core.store, core.blobs)
    return is_gone


async def _check_runs_gone(core: Core, project: str) -> None:
    async with core.store.begin(is_read_only=True) as unit:
        page = await unit.runs.find_page(Query(type="run", project=project, size=1, is_summary=True))
    if not page.total:
        return
    [run] = page.content
    why = f", run {run.id}: {run.message}" if isinstance(run, Run) and run.reason == Reason.PLACE_OTHER else ""
    raise EngineUnavailable(Reason.PROJECT_REMOVING, f"runs are being deleted{why}")


async def _check_volumes_gone(core: Core, project: Entity) -> None:
    """Delete volumes that exist nowhere; request the deletion of the others, which the volume loop completes."""
    volumes = await _list_volumes(core, project.id)
    unmarked = [volume for volume in volumes if volume.state != "DELETING"]
    for start in range(0, len(unmarked), VOLUMES_AT_ONCE):
        async with core.store.begin() as unit:
            await unit.lock(lock_of_project(project.id))
            for volume in unmarked[start : start + VOLUMES_AT_ONCE]:
                stored = await unit.entities.find("volume", volume.id, project=project.id)
                if stored is not None:
                    await begin_volume_deletion(unit, stored, at=core.clock.now(), by=project.updated_by)
            await unit.commit()
    if unmarked:
        core.signals.volumes.set()
        volumes = await _list_volumes(core, project.id)
    if volumes:
        why = next((f", volume {one.name}: {one.status['message']}" for one in volumes if "message" in one.status), "")
        raise EngineUnavailable(Reason.PROJECT_REMOVING, f"volumes are being deleted{why}")


async def _list_volumes(core: Core, project: str) -> Sequence[Entity]:
    async with core.store.begin(is_read_only=True) as unit:
        # A few more than the limit: runs that start at the same time may exceed it.
        return (await unit.entities.find_page(Query(type="volume", project=project, size=2 * MOST_VOLUMES))).content


async def _remove_from_places(core: Core, engine: Engine | None, project: Entity) -> None:
    """Remove what engines prepared for the project. Raises `EngineUnavailable` until all is gone."""
    places = list_places(project)
    if not places:
        return
    if engine is None:
        message = f"the project is at {list_words(places)}: the deletion waits for an engine of that place"
        raise EngineUnavailable(Reason.ENGINE_NONE, message)
    own = str(engine.place)
    if own in places:
        if not await call_engine(engine.remove_project(project.id)):
            raise EngineUnavailable(Reason.PROJECT_REMOVING, f"the engine at `{own}` is removing the project")
        await drop_place(core, project.id, own)
    if others := [place for place in places if place != own]:
        raise EngineUnavailable(
            Reason.PLACE_OTHER,
            f"the project is also at {list_words(others)}, and this server's engine acts at `{own}`: "
            "start the server with the engine of that place",
        )


async def _note_waiting(core: Core, project: str, waiting: EngineError) -> None:
    """Write what the deletion waits for, if that is news."""
    why = {"reason": waiting.code, "message": str(waiting)}
    async with core.store.begin() as unit:
        await unit.lock(lock_of_project(project))
        entity = await _find_deleting(unit, project)
        if entity is not None and not why.items() <= entity.status.items():
            await unit.entities.replace(replace(entity, status={**entity.status, **why}))
            await unit.commit()


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
