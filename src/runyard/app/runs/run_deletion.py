"""Delete runs: first the objects of the engine, then the log, then the row. A tombstone stays.

A run is DELETING from the request until its row is gone. Its log is deleted before its row, and never inside a
transaction: log storage may be slow or down. A deletion that fails half-way leaves the run DELETING; repeating it
finishes it, by a client or by the reconcile loop.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.engine import EngineUnavailable
from runyard.app.locks import lock_of_entity
from runyard.app.model import Lease, Principal, Run
from runyard.app.ports import Unavailable, UnitOfWork
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

LOOP_TAKES_OVER_AFTER = timedelta(seconds=30)
"""When the reconcile loop repeats a deletion that the request itself should have finished."""
RUNS_AT_ONCE = 100
"""How many rows are deleted in one transaction, after their logs."""

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
    if is_without_engine(core, deleting):
        await _delete_logs_and_rows(core, [deleting])
    return deleting


async def begin_run_deletion(core: Core, unit: UnitOfWork, who: Principal, run: Run) -> Run:
    """Request the deletion in the caller's unit of work. Raises `Stale` on a conflict.

    The caller commits, then sets `core.signals.due`. If no engine has the run, it also calls `finish_deletions`.
    """
    if run.state == State.DELETING:
        return run
    values = {"desired": "delete", "desired_generation": run.desired_generation + 1}
    is_engines = not is_without_engine(core, run)
    if not is_engines:
        values["due_at"] = await unit.read_clock() + LOOP_TAKES_OVER_AFTER
    change = Change(
        action="run.delete",
        moves=(Move(state=State.DELETING, reason=Reason.USER_DELETE, message=f"deleted by {who.name}"),),
        values=values,
        is_due=is_engines,
    )
    return await write_change(core, unit, who, run, change)


async def finish_run_deletion(core: Core, run: Run, *, lease: Lease) -> None:
    """Delete the log and the row of a run whose objects are gone. Raises `Stale` if the lease is lost.

    Raises `EngineUnavailable` if the log cannot be deleted now: the run stays DELETING and says why.
    """
    try:
        await core.logs.delete(run.uid)
    except Unavailable as error:
        _log.warning("the log of a run cannot be deleted: %s", error, extra={"run": run.id})
        raise EngineUnavailable(Reason.LOGS_UNAVAILABLE, "the run's log cannot be deleted now") from error
    async with core.store.begin() as unit:
        await unit.runs.replace(run, lease=lease, expected_revision=run.revision)
        await unit.runs.delete([run.uid])
        await audit(core, unit, SYSTEM, "run.removed", run)
        await unit.commit()
    core.signals.notify(run.uid)


@dataclass(frozen=True, slots=True)
class DeletingRuns:
    """Many runs that are DELETING."""

    without_engine: list[Run] = field(default_factory=list)
    """The caller passes them to `finish_deletions` after its commit."""
    in_engine: list[Run] = field(default_factory=list)
    """The reconcile loop completes them."""

    def add(self, other: "DeletingRuns") -> None:
        """Add the runs of another."""
        self.without_engine.extend(other.without_engine)
        self.in_engine.extend(other.in_engine)


async def begin_run_deletions(
    core: Core, unit: UnitOfWork, who: Principal, *, project: str, task: str | None = None
) -> DeletingRuns:
    """Request the deletion of every run of a project or task, in the caller's unit of work."""
    deleting = DeletingRuns()
    for run_id in await unit.runs.list_ids(project=project, task=task):
        run = await _begin(core, unit, who, project, run_id)
        if run is not None:
            (deleting.without_engine if is_without_engine(core, run) else deleting.in_engine).append(run)
    return deleting


async def _begin(core: Core, unit: UnitOfWork, who: Principal, project: str, run_id: str) -> Run | None:
    """The run, DELETING; None if it is gone."""

    async def begin_once() -> Run | None:
        run = await unit.runs.find(run_id, project=project)
        return None if run is None else await begin_run_deletion(core, unit, who, run)

    return await retry_on_conflict(begin_once, on=f"run {run_id}")


async def finish_deletions(core: Core, runs: Sequence[Run]) -> None:
    """Delete the logs and rows of runs that are DELETING and in no engine; never inside a unit of work.

    If a log cannot be deleted now, that run and the rest are left to the reconcile loop.
    """
    try:
        await _delete_logs_and_rows(core, runs)
    except Unavailable as error:
        _log.warning("deleted runs are left to the reconcile loop: %s", error)


async def _delete_logs_and_rows(core: Core, runs: Sequence[Run]) -> None:
    """Raises `Unavailable`; the runs whose logs were deleted before that are gone."""
    for start in range(0, len(runs), RUNS_AT_ONCE):
        done: list[Run] = []
        try:
            for run in runs[start : start + RUNS_AT_ONCE]:
                await core.logs.delete(run.uid)
                done.append(run)
        finally:
            if done:
                await _delete_rows(core, done)


async def _delete_rows(core: Core, runs: Sequence[Run]) -> None:
    async with core.store.begin() as unit:
        # As in `delete_run`. In one order, so that two deletions cannot wait for each other.
        for name in sorted(lock_of_entity("run", run.project, run.id) for run in runs):
            await unit.lock(name)
        await unit.runs.delete([run.uid for run in runs])
        await unit.commit()
    for run in runs:
        core.signals.notify(run.uid)
