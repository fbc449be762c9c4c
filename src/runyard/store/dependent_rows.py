"""Rows that depend on an entity, a run or a project: labels, metrics, files, firings, tombstones."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import ScalarSelect, Table, delete, func, insert, select

from runyard.app.model import Entity
from runyard.app.ports import Stale
from runyard.store import tables
from runyard.store.clock import DatabaseNow
from runyard.store.derived_columns import list_labels
from runyard.store.files import drop_files, drop_project_files
from runyard.store.session import Session
from runyard.store.totals import count_runs
from runyard.store.uploads import end_uploads


def count_labels(entity: Entity, of: Table) -> ScalarSelect[int]:
    """Subquery that counts the stored labels of a row."""
    columns = tables.labels.c
    return (
        select(func.count())
        .select_from(tables.labels)
        .where(columns.type == entity.type, columns.project == of.c.project, columns.id == of.c.id)
        .correlate(of)
        .scalar_subquery()
    )


_ADD_LABELS = insert(tables.labels)


async def add_labels(session: Session, entity: Entity) -> None:
    """Index the labels of `metadata.labels`."""
    named = {"type": entity.type, "project": entity.project, "id": entity.id}
    labels = list_labels(entity.metadata)
    await session.write_all(_ADD_LABELS, [{**named, "label": label} for label in labels])


async def replace_labels(session: Session, entity: Entity, *, known: int) -> None:
    """Replace the labels of an entity. `known` is how many it had; mostly there are none."""
    if known:
        columns = tables.labels.c
        is_its = columns.type == entity.type, columns.project == entity.project, columns.id == entity.id
        await session.write(delete(tables.labels).where(*is_its))
    await add_labels(session, entity)


async def delete_dependent_rows(session: Session, entity_type: str, *, project: str, ids: Sequence[str]) -> None:
    """Delete labels, metrics, files and firings of deleted entities of a project."""
    if not ids:
        return
    for table in (tables.labels, tables.metrics):
        is_theirs = table.c.type == entity_type, table.c.project == project, session.is_one_of(table.c.id, ids)
        await session.write(delete(table).where(*is_theirs))
    await drop_files(session, entity_type, project=project, ids=ids)
    if entity_type == "trigger":
        firings = tables.firings.c
        is_named = session.is_one_of(firings.trigger_id, ids)
        await session.write(delete(tables.firings).where(firings.project == project, is_named))


async def delete_runs(session: Session, uids: Sequence[str]) -> list[str]:
    """Delete runs with their transitions, labels and metrics; leave a tombstone for each. Returns what existed."""
    if not uids:
        return []
    columns = tables.runs.c
    gone = await session.write_returning(
        delete(tables.runs)
        .where(session.is_one_of(columns.uid, uids))
        .returning(columns.uid, columns.project, columns.id)
    )
    session.note_changed_runs(row["uid"] for row in gone)
    bury = session.insert_into(tables.tombstones).values(at=DatabaseNow(), is_swept=False).on_conflict_do_nothing()
    buried = [{"run_uid": row["uid"], "project": row["project"], "run_id": row["id"]} for row in gone]
    await session.write_all(bury, buried)
    await count_runs(session, (row["project"] for row in gone), step=-1)
    for project in sorted({row["project"] for row in gone}):
        ids = [row["id"] for row in gone if row["project"] == project]
        await delete_dependent_rows(session, "run", project=project, ids=ids)
    return [row["uid"] for row in gone]


async def delete_project_content(session: Session, project: str, *, limit: int) -> int:
    """Delete files of a project, then entities with what depends on them, then secret values: about `limit` rows."""
    if number := await drop_project_files(session, project):
        return number
    columns = tables.entities.c
    is_content = columns.project == project, columns.type != "project"
    rows = await session.fetch_all(select(columns.type, columns.id).where(*is_content).limit(limit))
    ids_by_type: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        ids_by_type[row["type"]].append(row["id"])
    for entity_type, ids in ids_by_type.items():
        is_theirs = columns.type == entity_type, columns.project == project, session.is_one_of(columns.id, ids)
        await session.write(delete(tables.entities).where(*is_theirs))
        await delete_dependent_rows(session, entity_type, project=project, ids=ids)
    if rows:
        return len(rows)
    secrets = tables.secrets.c
    names = select(secrets.name).where(secrets.project == project).distinct().limit(limit)
    return await session.write(delete(tables.secrets).where(secrets.project == project, secrets.name.in_(names)))


async def delete_project_rows(session: Session, project: str) -> None:
    """Delete a project with all that is left in it, and its shares. Raises `Stale` if it still has runs."""
    if await session.fetch_value(select(tables.runs.c.uid).where(tables.runs.c.project == project).limit(1)):
        raise Stale(f"project {project} still has runs; they are deleted first, after their logs")
    while await drop_project_files(session, project):
        continue
    await end_uploads(session, project=project)
    for table in (
        *(tables.entities, tables.labels, tables.metrics, tables.firings),
        *(tables.secrets, tables.shares, tables.run_totals, tables.file_totals),
    ):
        await session.write(delete(table).where(table.c.project == project))
    largest = tables.largest_documents
    # That of the project itself belongs to the list of projects.
    await session.write(delete(largest).where(largest.c.project == project, largest.c.type != "project"))
