"""Read runs and their transitions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runyard.app.core import Core
from runyard.app.entities import require_project
from runyard.app.list_query import Page, Query
from runyard.app.model import Run, Transition
from runyard.app.ports import UnitOfWork
from runyard.app.runs.transitions import require_run
from runyard.app.unparsed_entities import UnparsedEntities

Histories = Mapping[str, Sequence[Transition]]
MOST_TRANSITIONS = 100
"""Transitions of a run that are shown with it, the newest, and in a page of its events. A service that is stopped and
resumed gets ever more."""


async def get_run(core: Core, project: str, run_id: str) -> tuple[Run, Sequence[Transition]]:
    """A run and its newest transitions; raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        run = await require_run(unit, project, run_id)
        return run, await list_newest_transitions(unit, run)


async def list_runs(core: Core, query: Query) -> tuple[Page, Histories]:
    """A page of runs, not parsed, and the transitions of the runs in the page as lists show them."""
    async with core.store.begin(is_read_only=True) as unit:
        if query.project is not None:
            await require_project(unit, query.project)
        page = await unit.runs.find_page(replace(query, is_unparsed=True))
        entries = page.content.entries if isinstance(page.content, UnparsedEntities) else ()
        return page, await unit.runs.list_brief_histories([run.uid for run in entries])


async def list_newest_transitions(unit: UnitOfWork, run: Run) -> Sequence[Transition]:
    """The newest transitions of a run as it was read in this unit of work, in order."""
    return await unit.runs.list_transitions(run.uid, after=max(0, run.last_sequence - MOST_TRANSITIONS))
