"""Rows that depend on an entity, a run or a project: labels, metrics, firings, tombstones."""

from collections.abc import Sequence

from sqlalchemy import ScalarSelect, Table, delete, func, insert, or_, select

from runyard.app.model import Entity
from runyard.store import tables
from runyard.store.clock import DatabaseNow
from runyard.store.derived_columns import list_labels
from runyard.store.session import Session
from runyard.store.totals import count_runs


def count_labels(entity: Entity, of: Table) -> ScalarSelect[int]:
    """Subquery that counts the stored labels of a row."""
    columns = tables.labels.c
    return (
        select(func.count())
        .select_from(tables.labels)
        .where(columns.type == entity.type, columns.id == of.c.id)
        .correlate(of)
        .scalar_subquery()
    )


_ADD_LABELS = insert(tables.labels)


async def add_labels(session: Session, entity: Entity) -> None:
    """Index the labels of `metadata.labels`."""
    labels = list_labels(entity.metadata)
    await session.write_all(_ADD_LABELS, [{"type": entity.type, "id": entity.id, "label": label} for label in labels])


async def replace_labels(session: Session, entity: Entity, *, known: int) -> None:
    """Replace the labels of an entity. `known` is how many it had; mostly there are none."""
    if known:
        columns = tables.labels.c
        await session.write(delete(tables.labels).where(columns.type == entity.type, columns.id == entity.id))
    await add_labels(session, entity)


async def delete_dependent_rows(session: Session, entity_type: str, *, ids: Sequence[str]) -> None:
    """Delete labels, metrics and firings of deleted entities."""
    if not ids:
        return
    for table in (tables.labels, tables.metrics):
        await session.write(delete(table).where(table.c.type == entity_type, session.is_one_of(table.c.id, ids)))
    if entity_type == "trigger":
        await session.write(delete(tables.firings).where(session.is_one_of(tables.firings.c.trigger_id, ids)))


async def delete_runs(session: Session, ids: Sequence[str]) -> None:
    """Delete runs with their transitions, labels and metrics; leave a tombstone for each."""
    if not ids:
        return
    columns = tables.runs.c
    gone = await session.write_returning(
        delete(tables.runs).where(session.is_one_of(columns.id, ids)).returning(columns.id, columns.project)
    )
    bury = session.insert_into(tables.tombstones).values(at=DatabaseNow()).on_conflict_do_nothing()
    await session.write_all(bury, [{"run_id": row["id"], "project": row["project"]} for row in gone])
    await count_runs(session, (row["project"] for row in gone), step=-1)
    await delete_dependent_rows(session, "run", ids=[row["id"] for row in gone])


async def delete_project_rows(session: Session, project: str) -> None:
    """Delete a project with its entities, runs, secret values and shares."""
    entities, runs = tables.entities, tables.runs
    rows = await session.fetch_all(select(runs.c.id).where(runs.c.project == project))
    await delete_runs(session, [row["id"] for row in rows])
    in_project = or_(entities.c.project == project, (entities.c.type == "project") & (entities.c.id == project))
    gone = await session.write_returning(delete(entities).where(in_project).returning(entities.c.type, entities.c.id))
    for entity_type in sorted({row["type"] for row in gone}):
        await delete_dependent_rows(session, entity_type, ids=[row["id"] for row in gone if row["type"] == entity_type])
    for table in (tables.secrets, tables.shares, tables.run_totals):
        await session.write(delete(table).where(table.c.project == project))
