"""Delete a run: first what it made, then the run; a tombstone stays."""

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
    """Ask for its end; the loop removes what it made, and then the run. Answers the run as DELETING.

    Where nothing can have been made, the run is gone when this returns. Raises `Missing`, and `Conflict` where the
    caller had seen another revision.
    """
    check_own_run(who, run_id)

    async def delete_once() -> Run:
        async with core.store.begin() as unit:
            # Whoever writes metrics of the run has the same lock: none is left behind.
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
    """The same inside a unit of work, for what is deleted in one go. Raises `Stale` if somebody else was quicker.

    The caller commits, and afterwards sets `core.signals.due` and deletes the logs of runs that are gone.
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
    """The run goes, once nothing is left of what it made. Raises `Stale` if the lease has passed on."""
    # Before the row: a crash in between repeats this, and would otherwise leave logs that nobody knows.
    await core.logs.delete(run.id)
    async with core.store.begin() as unit:
        await unit.runs.replace(run, lease=lease, expected_revision=run.revision)
        await unit.runs.delete(run.id)
        await audit(core, unit, SYSTEM, "run.removed", run)
        await unit.commit()
    core.signals.notify(run.id)


@dataclass(frozen=True, slots=True)
class DeletedRuns:
    """What became of the runs."""

    gone: list[str] = field(default_factory=list)
    """Whose logs are to be deleted once the caller has committed."""
    waiting: list[str] = field(default_factory=list)
    """Those that the loop still has to end."""


async def delete_runs(
    core: Core, unit: UnitOfWork, who: Principal, *, project: str, task: str | None = None
) -> DeletedRuns:
    """Delete every run of a project or task, in the caller's unit of work. Those of which nothing was started go."""
    removed = DeletedRuns()
    for run_id in await unit.runs.list_ids(project=project, task=task):
        run = await _remove(core, unit, who, project, run_id)
        if run is not None:
            (removed.gone if is_without_engine(core, run) else removed.waiting).append(run_id)
    return removed


async def _remove(core: Core, unit: UnitOfWork, who: Principal, project: str, run_id: str) -> Run | None:
    """The run as it was; None if it is gone."""

    async def remove_once() -> Run | None:
        run = await unit.runs.find(run_id, project=project)
        if run is not None:
            await begin_run_deletion(core, unit, who, run)
        return run

    return await retry_on_conflict(remove_once, on=f"run {run_id}")


async def delete_logs(core: Core, run_ids: Iterable[str]) -> None:
    """The logs of runs that are gone."""
    for run_id in run_ids:
        await core.logs.delete(run_id)
