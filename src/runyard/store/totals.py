"""How many runs a project has, counted as they come and go: a list of a hundred thousand need not count them."""

from collections import Counter
from collections.abc import Iterable
from functools import cache

from sqlalchemy import ColumnElement, func, select

from runyard.app.list_query import Query
from runyard.store import tables
from runyard.store.expressions import Insert, make_insert
from runyard.store.session import Session

_totals = tables.run_totals


async def count_runs(session: Session, projects: Iterable[str], *, step: int) -> None:
    """Note that a run of each of those projects came (1) or went (-1), in the unit of work in which it does."""
    # In one order, so that two units of work cannot wait for each other.
    for project, number in sorted(Counter(projects).items()):
        await session.write(_make_count(session.is_sqlite), {"project": project, "number": number * step})


@cache
def _make_count(is_sqlite: bool) -> Insert:  # noqa: FBT001 - the key of the cache
    added = make_insert(_totals, is_sqlite=is_sqlite)
    return added.on_conflict_do_update(
        index_elements=["project"], set_={"number": _totals.c.number + added.excluded.number}
    )


def can_total(query: Query) -> bool:
    """Whether the list has no filter but for its projects, so that the totals answer how many runs it has."""
    return query.visible_to is None and not query.find_filters()


async def read_total(session: Session, query: Query) -> int:
    """How many runs there are in the projects of the query."""
    conditions: list[ColumnElement[bool]] = []
    if query.project is not None:
        conditions.append(_totals.c.project == query.project)
    if query.visible_projects is not None:
        conditions.append(session.is_one_of(_totals.c.project, query.visible_projects))
    return int(await session.fetch_value(select(func.coalesce(func.sum(_totals.c.number), 0)).where(*conditions)) or 0)
