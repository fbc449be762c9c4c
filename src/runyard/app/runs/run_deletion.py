"""Delete runs: first the objects of the engine, then the row. A tombstone stays."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.locks import lock_of_entity
from runyard.app.model import Lease, Principal, Run
from runyard.app.ports import UnitOfWork
from runyard.app.retry import retry_on_conflict
from runyard.app.runs.transitions import (
    SYSTEM,
    Change,
    Move,
    check_own_run,
    is_without_engine,
    require_run,
    write_change,
)
from runyard.domain.lifecycle import State
from runyard.domain.reasons import Reason


async def delete_run(
    core: Core, who: Principal, project: str, run_id: str, *, expected_revision: int | None = None
) -> Run:
    """Request the deletion of a run and return it as DELETING; the reconcile loop completes it.

    A run without objects in an engine is gone when this returns. Raises `Missing`, and `Conflict` if it is not at the
    expected revision.
    """
    check_own_run(who, run_id)

    async def delete_once() -> Run:
        async with core.store.begin() as unit:
            # Writers of metrics take the same lock, so that no metrics are left behind.
            await unit.lock(lock_of_entity("run", project, run_id))
            run = await require_run(unit, project, run_id, expected_revision=expected_revision)
            deleting = await begin_run_deletion(core, unit, who, run)
            await unit.commit()
        core.signals.notify(run_id)
        if is_without_engine(core, run):
            await core.logs.delete(run_id)
        return deleting

    return await retry_on_conflict(delete_once, on=f"run {run_id}")


async def begin_run_deletion(core: Core, unit: UnitOfWork, who: Principal, run: Run) -> Run:
    """Request the deletion in the caller's unit of work. Raises `Stale` on a conflict.

    The caller commits, then sets `core.signals.due` and deletes the logs of the runs that are gone.
    """
    if run.state == State.DELETING:
        return run
    change = Change(
        action="run.delete",
        moves=(Move(state=State.DELETING, reason=Reason.USER_DELETE, message=f"deleted by {who.name}"),),
        values={"desired": "delete", "desired_generation": run.desired_generation + 1},
        is_due=True,
    )
    deleting = await write_change(core, unit, who, run, change)
    if is_without_engine(core, run):
        await unit.runs.delete(run.id)
    return deleting


async def finish_run_deletion(core: Core, run: Run, *, lease: Lease) -> None:
    """Delete the run, whose objects are gone. Raises `Stale` if the lease has expired or changed hands."""
    # Before the row: a crash in between repeats this; the other way round it would leave orphaned logs.
    await core.logs.delete(run.id)
    async with core.store.begin() as unit:
        await unit.runs.replace(run, lease=lease, expected_revision=run.revision)
        await unit.runs.delete(run.id)
        await audit(core, unit, SYSTEM, "run.removed", run)
        await unit.commit()
    core.signals.notify(run.id)


@dataclass(frozen=True, slots=True)
class DeletedRuns:
    """The result of deleting many runs."""

    gone: list[str] = field(default_factory=list)
    """Deleted; the caller deletes their logs after its commit."""
    waiting: list[str] = field(default_factory=list)
    """DELETING; the reconcile loop completes them."""


async def delete_runs(
    core: Core, unit: UnitOfWork, who: Principal, *, project: str, task: str | None = None
) -> DeletedRuns:
    """Delete every run of a project or task, in the caller's unit of work."""
    removed = DeletedRuns()
    for run_id in await unit.runs.list_ids(project=project, task=task):
        run = await _remove(core, unit, who, project, run_id)
        if run is not None:
            (removed.gone if is_without_engine(core, run) else removed.waiting).append(run_id)
    return removed


async def _remove(core: Core, unit: UnitOfWork, who: Principal, project: str, run_id: str) -> Run | None:
    """The run before its deletion; None if it is gone."""

    async def remove_once() -> Run | None:
        run = await unit.runs.find(run_id, project=project)
        if run is not None:
            await begin_run_deletion(core, unit, who, run)
        return run

    return await retry_on_conflict(remove_once, on=f"run {run_id}")


async def delete_logs(core: Core, run_ids: Iterable[str]) -> None:
    """Delete the logs of deleted runs."""
    for run_id in run_ids:
        await core.logs.delete(run_id)
