"""Delete runs: first the objects of the engine, then the log, then the row. A tombstone stays.

A run is DELETING from the request until its row is gone. Its log is deleted before its row, and never inside a
transaction: log storage may be slow or down. A deletion that fails half-way leaves the run DELETING; repeating it
finishes it, by a client or by the reconcile loop.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.engine import EngineUnavailable
from runyard.app.locks import lock_of_entity
from runyard.app.model import Lease, Principal, Run, RunKey
from runyard.app.ports import Unavailable, UnitOfWork
from runyard.app.retry import retry_on_conflict
from runyard.app.run_rows import RUNS_AT_ONCE, RunRemover
from runyard.app.runs.run_volumes import end_run_volumes
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

LOOP_TAKES_OVER_AFTER = timedelta(seconds=30)
"""When the reconcile loop repeats a deletion that the request itself should have finished."""

_log = logging.getLogger(__name__)


async def delete_run(
    core: Core, who: Principal, project: str, run_id: str, *, expected_revision: int | None = None
) -> Run:
    """Request the deletion of a run and return it as DELETING; the reconcile loop completes it.

    A run without objects in an engine is gone when this returns. Raises `Missing`, `Conflict` if it is not at the
    expected revision, and `Unavailable` if its log cannot be deleted now: then the run is DELETING, and a repeated
    call finishes it.
    """
    check_own_run(who, run_id)

    async def begin_once() -> Run:
        async with core.store.begin() as unit:
            # Writers of metrics take the same lock, so that no metrics are left behind.
            await unit.lock(lock_of_entity("run", project, run_id))
            run = await require_run(unit, project, run_id, expected_revision=expected_revision)
            deleting = await begin_run_deletion(core, unit, who, run)
            await unit.commit()
        core.signals.notify(run.uid)
        return deleting

    deleting = await retry_on_conflict(begin_once, on=f"run {run_id}")
    if is_without_engine(deleting):
        remover = RunRemover(core.store, core.logs)
        await _remove(core, [deleting.key], remover)
        for error in remover.failed.values():
            raise error
    return deleting


async def begin_run_deletion(core: Core, unit: UnitOfWork, who: Principal, run: Run) -> Run:
    """Request the deletion in the caller's unit of work. Raises `Stale` on a conflict.

    The caller commits, then sets `core.signals.due`. If no engine has the run, it also calls `finish_deletions`.
    """
    if run.state == State.DELETING:
        return run
    change = Change(
        action="run.delete",
        moves=(Move(state=State.DELETING, reason=Reason.USER_DELETE, message=f"deleted by {who.name}"),),
        values={"desired": "delete", "desired_generation": run.desired_generation + 1},
        due_in=LOOP_TAKES_OVER_AFTER if is_without_engine(run) else timedelta(0),
    )
    return await write_change(core, unit, who, run, change)


async def finish_run_deletion(core: Core, run: Run, *, lease: Lease | None) -> None:
    """Delete the log and the row of a run whose objects are gone. Raises `Stale` if the lease is lost.

    Raises `EngineUnavailable` if the log cannot be deleted now: the run stays DELETING and says why.
    """
    try:
        await core.logs.delete(run.uid)
    except Unavailable as error:
        _log.warning("the log of a run cannot be deleted: %s", error, extra={"run": run.id, "project": run.project})
        raise EngineUnavailable(Reason.LOGS_UNAVAILABLE, "the run's log cannot be deleted now") from error
    async with core.store.begin() as unit:
        has_volumes = await end_run_volumes(unit, run, at=core.clock.now())
        await unit.runs.update(run, run, lease=lease)
        await unit.runs.delete([run.uid])
        await audit(core, unit, SYSTEM, "run.removed", run)
        await unit.commit()
    core.signals.notify(run.uid)
    core.signals.deletions.set()
    if has_volumes:
        core.signals.volumes.set()


async def delete_runs(core: Core, who: Principal, *, project: str, task: str | None = None) -> None:
    """Delete every run of a project or task that exists now, in batches; never inside a unit of work.

    Runs without objects in an engine are gone when this returns, unless a log cannot be deleted now. The reconcile loop
    completes the others. After a crash a repeated call goes on.
    """
    async with core.store.begin(is_read_only=True) as unit:
        run_ids = await unit.runs.list_ids(project=project, task=task)
    remover = RunRemover(core.store, core.logs)
    for start in range(0, len(run_ids), RUNS_AT_ONCE):
        async with core.store.begin() as unit:
            deleting = await _begin_all(core, unit, who, project, run_ids[start : start + RUNS_AT_ONCE])
            await unit.commit()
        core.signals.due.set()
        await _remove(core, deleting, remover)


async def begin_run_deletions(
    core: Core, unit: UnitOfWork, who: Principal, *, project: str, task: str
) -> Sequence[RunKey]:
    """Request the deletion of the runs of a task that are not DELETING yet, in the caller's unit of work.

    Call `delete_runs` before: this is for the few that were submitted meanwhile. Returns the runs that the caller
    passes to `finish_deletions` after its commit.
    """
    run_ids = await unit.runs.list_ids(project=project, task=task, is_without_deleting=True)
    return await _begin_all(core, unit, who, project, run_ids)


async def finish_deletions(core: Core, runs: Sequence[RunKey]) -> None:
    """Delete the logs and rows of runs that are DELETING and in no engine; never inside a unit of work.

    A run whose log cannot be deleted now is left to the reconcile loop.
    """
    await _remove(core, runs, RunRemover(core.store, core.logs))


async def _begin_all(
    core: Core, unit: UnitOfWork, who: Principal, project: str, run_ids: Sequence[str]
) -> list[RunKey]:
    """Returns the runs that no engine has."""
    begun = [await _begin(core, unit, who, project, run_id) for run_id in run_ids]
    return [run.key for run in begun if run is not None and is_without_engine(run)]


async def _begin(core: Core, unit: UnitOfWork, who: Principal, project: str, run_id: str) -> Run | None:
    """The run, DELETING; None if it is gone."""

    async def begin_once() -> Run | None:
        run = await unit.runs.find(run_id, project=project)
        return None if run is None else await begin_run_deletion(core, unit, who, run)

    return await retry_on_conflict(begin_once, on=f"run {run_id}")


async def _remove(core: Core, runs: Sequence[RunKey], remover: RunRemover) -> None:
    for run in await remover.remove(runs):
        core.signals.notify(run.uid)
