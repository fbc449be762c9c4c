"""Read runs and their transitions."""

from collections.abc import Mapping, Sequence

from runyard.app.core import Core
from runyard.app.entities import require_project
from runyard.app.list_query import Page, Query
from runyard.app.model import Run, Transition
from runyard.app.runs.transitions import require_run

Histories = Mapping[str, Sequence[Transition]]


async def get_run(core: Core, project: str, run_id: str) -> tuple[Run, Sequence[Transition]]:
    """A run and its transitions; raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        run = await require_run(unit, project, run_id)
        return run, await unit.runs.list_transitions(run.uid)


async def list_runs(core: Core, query: Query) -> tuple[Page, Histories]:
    """A page of runs, and the transitions of the runs in the page."""
    async with core.store.begin(is_read_only=True) as unit:
        if query.project is not None:
            await require_project(unit, query.project)
        page = await unit.runs.find_page(query)
        runs = [run for run in page.content if isinstance(run, Run)]
        return page, await unit.runs.list_histories([run.uid for run in runs])
