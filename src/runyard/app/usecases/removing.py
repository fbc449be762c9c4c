"""Many runs at once: what a cascade does to the runs below what is deleted."""

from runyard.app.core import Core
from runyard.app.model import Principal
from runyard.app.ports import UnitOfWork
from runyard.app.usecases.remove import begin_removal
from runyard.app.usecases.transitions import is_without_engine


async def remove_runs(core: Core, unit: UnitOfWork, who: Principal, *, project: str, task: str | None = None) -> int:
    """Delete every run of a project or task, in the caller's unit of work.

    Those of which nothing was started go at once; returns how many the loop still has to end.
    """
    waiting = 0
    for run_id in await unit.runs.list_ids(project=project, task=task):
        run = await unit.runs.find(run_id, project=project)
        if run is not None:
            await begin_removal(core, unit, who, run)
            waiting += not is_without_engine(core, run)
    return waiting
