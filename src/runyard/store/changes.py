"""Entities and runs without their documents, which may be megabytes: what the trigger loop reads again and again.

Pages are by keyset: a row that changes between two pages moves to a later one, and none is skipped.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, literal, select, tuple_

from runyard.app.model import Entity
from runyard.app.ports import ChangedRun, EnteredState
from runyard.domain.lifecycle import State
from runyard.store import tables
from runyard.store.session import Session

_FIELDS = ("id", "project", "kind", "name", "state", "user", "created_at", "updated_at", "updated_by", "revision")


async def list_changed_entities(
    session: Session,
    entity_type: str,
    *,
    project: str,
    since: datetime,
    after: tuple[datetime, str] | None,
    limit: int,
) -> Sequence[Entity]:
    """`app.ports.Entities.list_changed`."""
    table = tables.entities
    columns = [*(table.c[name] for name in _FIELDS), table.c.metadata]
    statement = _select_page(table, columns, project=project, since=since, after=after, limit=limit)
    rows = await session.fetch_all(statement.where(table.c.type == entity_type))
    return [Entity(type=entity_type, **row) for row in rows]


async def list_brief_entities(
    session: Session, entity_type: str, *, after: tuple[str, str] | None, limit: int
) -> Sequence[Entity]:
    """`app.ports.Entities.list_brief`."""
    columns = tables.entities.c
    statement = select(*(columns[name] for name in _FIELDS)).where(columns.type == entity_type)
    if after is not None:
        project, last_id = after
        place = tuple_(literal(project, columns.project.type), literal(last_id, columns.id.type))
        statement = statement.where(tuple_(columns.project, columns.id) > place)
    rows = await session.fetch_all(statement.order_by(columns.project, columns.id).limit(limit))
    return [Entity(type=entity_type, **row) for row in rows]


async def list_changed_runs(
    session: Session, *, project: str, since: datetime, after: tuple[datetime, str] | None, limit: int
) -> Sequence[ChangedRun]:
    """`app.ports.Runs.list_changed`."""
    columns = [tables.runs.c.uid, *(tables.runs.c[name] for name in _FIELDS)]
    page = _select_page(tables.runs, columns, project=project, since=since, after=after, limit=limit).subquery()
    steps = tables.transitions.c
    statement = (
        select(page, steps.sequence.label("step"), steps.state.label("step_state"), steps.at.label("step_at"))
        .select_from(page.outerjoin(tables.transitions, (steps.run_uid == page.c.uid) & (steps.at >= since)))
        .order_by(page.c.updated_at, page.c.id, steps.sequence)
    )
    runs: dict[str, tuple[Entity, list[EnteredState]]] = {}
    for row in await session.fetch_all(statement):
        if row["uid"] not in runs:
            runs[row["uid"]] = Entity(type="run", **{name: row[name] for name in _FIELDS}), []
        if row["step"] is not None:
            runs[row["uid"]][1].append(EnteredState(State(row["step_state"]), row["step"], row["step_at"]))
    return [ChangedRun(run, uid, tuple(entered)) for uid, (run, entered) in runs.items()]


def _select_page(
    table: Table,
    columns: Sequence[ColumnElement[Any]],
    *,
    project: str,
    since: datetime,
    after: tuple[datetime, str] | None,
    limit: int,
) -> Select[Any]:
    is_later = table.c.updated_at >= since
    if after is not None:
        updated_at, last_id = after
        place = tuple_(literal(updated_at, table.c.updated_at.type), literal(last_id, table.c.id.type))
        is_later &= tuple_(table.c.updated_at, table.c.id) > place
    return (
        select(*columns)
        .where(table.c.project == project, is_later)
        .order_by(table.c.updated_at, table.c.id)
        .limit(limit)
    )
