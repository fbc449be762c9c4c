"""Many runs at once: what a cascade does to the runs below what is deleted."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from runyard.app.core import Core
from runyard.app.model import Principal, Run
from runyard.app.ports import UnitOfWork
from runyard.app.retry import retry_on_conflict
from runyard.app.runs.run_deletion import begin_removal
from runyard.app.runs.transitions import is_without_engine


@dataclass(frozen=True, slots=True)
class Removed:
    """What became of the runs."""

    gone: list[str] = field(default_factory=list)
    """Whose logs are to be deleted once the caller has committed."""
    waiting: list[str] = field(default_factory=list)
    """Those that the loop still has to end."""


async def remove_runs(
    core: Core, unit: UnitOfWork, who: Principal, *, project: str, task: str | None = None
) -> Removed:
    """Delete every run of a project or task, in the caller's unit of work. Those of which nothing was started go."""
    removed = Removed()
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
            await begin_removal(core, unit, who, run)
        return run

    return await retry_on_conflict(remove_once, on=f"run {run_id}")


async def delete_logs(core: Core, run_ids: Iterable[str]) -> None:
    """The logs of runs that are gone."""
    for run_id in run_ids:
        await core.logs.delete(run_id)
