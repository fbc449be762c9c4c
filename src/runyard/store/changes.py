"""Entities and runs without their documents, which may be megabytes: what the trigger loop reads again and again.

Pages are by keyset: a row that changes between two pages moves to a later one, and none is skipped.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, literal, select, tuple_

from runyard.app.model import Entity
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
    statement = select_changed(table, columns, project=project, since=since, after=after, limit=limit)
    rows = await session.fetch_all(statement.where(table.c.type == entity_type))
    return [Entity(type=entity_type, **row) for row in rows]


async def list_brief_entities(
    session: Session, entity_type: str, *, after: tuple[str, str] | None, limit: int
) -> Sequence[Entity]:
    """`app.ports.Entities.list_brief`. In the order of the primary key: no page sorts the whole type."""
    columns = tables.entities.c
    statement = select(*(columns[name] for name in _FIELDS)).where(columns.type == entity_type)
    if after is not None:
        last_id, project = after
        place = tuple_(literal(last_id, columns.id.type), literal(project, columns.project.type))
        statement = statement.where(tuple_(columns.id, columns.project) > place)
    rows = await session.fetch_all(statement.order_by(columns.id, columns.project).limit(limit))
    return [Entity(type=entity_type, **row) for row in rows]


def select_changed(
    table: Table,
    columns: Sequence[ColumnElement[Any]],
    *,
    project: str,
    since: datetime,
    after: tuple[datetime, str] | None,
    limit: int,
) -> Select[Any]:
    """The rows of a project that were updated since then, in the order of update time and id, after that place."""
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
