"""Delete a run: first what it made, then the run; a tombstone stays."""

from runyard.app.audit import audit
from runyard.app.core import Core
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
            await unit.lock_project(f"{project}/run/{run_id}")
            run = await require_run(unit, project, run_id, expected_revision=expected_revision)
            deleting = await begin_removal(core, unit, who, run)
            await unit.commit()
        core.signals.notify(run_id)
        if is_without_engine(core, run):
            await core.logs.delete(run_id)
        return deleting

    return await retry_on_conflict(delete_once, on=f"run {run_id}")


async def begin_removal(core: Core, unit: UnitOfWork, who: Principal, run: Run) -> Run:
    """The same inside a unit of work, for what is deleted in one go. Raises `Stale` if somebody else was quicker.

    The caller commits, and afterwards sets `core.signals.due` and deletes the logs of runs that are gone.
    """
    if run.state == State.DELETING:
        return run
    change = Change(
        action="run.delete",
        moves=(Move(state=State.DELETING, reason="user.delete", message=f"deleted by {who.name}"),),
        values={"desired": "delete", "desired_generation": run.desired_generation + 1},
        is_due=True,
    )
    deleting = await write_change(core, unit, who, run, change)
    if is_without_engine(core, run):
        await unit.runs.delete(run.id)
    return deleting


async def finish_removal(core: Core, run: Run, *, lease: Lease) -> None:
    """The run goes, once nothing is left of what it made. Raises `Stale` if the lease has passed on."""
    # Before the row: a crash in between repeats this, and would otherwise leave logs that nobody knows.
    await core.logs.delete(run.id)
    async with core.store.begin() as unit:
        await unit.runs.replace(run, lease=lease, expected_revision=run.revision)
        await unit.runs.delete(run.id)
        await audit(core, unit, SYSTEM, "run.removed", run)
        await unit.commit()
    core.signals.notify(run.id)
