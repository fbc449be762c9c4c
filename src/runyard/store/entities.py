"""Entities: all but runs."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, bindparam, delete, select, true, update

from runyard.app.list_query import Page, Query
from runyard.app.model import Entity, Json
from runyard.app.ports import Duplicate, KeyPage, Stale
from runyard.app.unparsed_entities import Unparsed, UnparsedEntities
from runyard.store import tables
from runyard.store.changes import list_brief_entities, list_changed_entities
from runyard.store.columns import LARGEST
from runyard.store.dependent_rows import (
    add_labels,
    count_labels,
    delete_dependent_rows,
    delete_project_content,
    delete_project_rows,
    replace_labels,
)
from runyard.store.derived_columns import VERSIONED_TYPES, derive_columns
from runyard.store.entity_keys import fetch_keys
from runyard.store.expressions import contains
from runyard.store.largest_documents import measure_documents, note_size
from runyard.store.lists import fetch_page
from runyard.store.session import Session
from runyard.store.unparsed_rows import as_text, list_unparsed

_FIELDS = tuple(field.name for field in fields(Entity))
_COLUMNS = tuple(tables.entities.c[name] for name in _FIELDS)
_SUMMARY_COLUMNS = tuple(column for column in _COLUMNS if column.name not in ("spec", "status", "extensions"))
_BARE_COLUMNS = tuple(column for column in _SUMMARY_COLUMNS if column.name != "metadata")
_BYTES = measure_documents(tables.entities)
# They determine the latest version and the project; they never change.
_FIXED = frozenset({"type", "id", "project", "name", "created_at"})
_NEWEST_FIRST = (tables.entities.c.created_at.desc(), tables.entities.c.id.desc())
_FIND = select(*_COLUMNS).where(
    tables.entities.c.type == bindparam("of_type"),
    tables.entities.c.project == bindparam("in_project"),
    tables.entities.c.id == bindparam("entity_id"),
)
_FIND_LATEST = (
    select(*_COLUMNS)
    .where(
        tables.entities.c.type == bindparam("of_type"),
        tables.entities.c.project == bindparam("in_project"),
        tables.entities.c.name == bindparam("called"),
    )
    .order_by(*_NEWEST_FIRST)
    .limit(1)
)


class SqlEntities:
    """`app.ports.Entities`. Adding and deleting maintains the flag `is_latest` under a lock of the name."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, entity: Entity) -> None:
        """Raises `Duplicate`; the unit of work stays usable."""
        is_latest = await self._make_way(entity)
        values = {name: getattr(entity, name) for name in _FIELDS}
        statement = self._session.insert_into(tables.entities).values(
            **values, **derive_columns(entity), is_latest=is_latest
        )
        added = await self._session.write_returning(
            statement.on_conflict_do_nothing().returning(tables.entities.c.id, _BYTES), documents=list_documents(entity)
        )
        if not added:
            raise Duplicate(f"{entity.type} {entity.id} or one of its name exists already")
        await note_size(self._session, entity.type, entity.project, added[0]["document_bytes"])
        if is_latest and entity.type in VERSIONED_TYPES:
            await self._unset_latest(entity)
        await add_labels(self._session, entity)

    async def find(self, entity_type: str, entity_id: str, *, project: str) -> Entity | None:
        """By id, which is unique in its project for each type."""
        parameters = {"of_type": entity_type, "entity_id": entity_id, "in_project": project}
        row = await self._session.fetch_one(_FIND, parameters)
        return None if row is None else _row_to_entity(row)

    async def find_project(self, name: str) -> Entity | None:
        """The project of that name."""
        return await self.find("project", name, project=name)

    async def find_latest(self, entity_type: str, *, project: str, name: str) -> Entity | None:
        """The newest version of that name."""
        parameters = {"of_type": entity_type, "in_project": project, "called": name}
        row = await self._session.fetch_one(_FIND_LATEST, parameters)
        return None if row is None else _row_to_entity(row)

    async def find_page(self, query: Query) -> Page:
        """A page of complete entities."""
        columns = _BARE_COLUMNS if query.is_without_documents else _SUMMARY_COLUMNS if query.is_summary else _COLUMNS
        if query.is_unparsed:
            rows = await fetch_page(self._session, tables.entities, query, columns=as_text(columns))
            return Page(UnparsedEntities(list_unparsed(rows.content, columns, _row_to_entity)), rows.total, rows.size)
        rows = await fetch_page(self._session, tables.entities, query, columns=columns)
        return Page(tuple(_row_to_entity(row) for row in rows.content), rows.total, rows.size)

    async def find_keys(self, query: Query) -> KeyPage:
        """The keys of such a page."""
        return await fetch_keys(self._session, tables.entities, query)

    async def list_summaries(self, entity_type: str, ids: Sequence[str], *, project: str) -> Sequence[Unparsed]:
        """Those entities of a project, with metadata but no other document."""
        if not ids:
            return []
        columns = tables.entities.c
        statement = select(*as_text(_SUMMARY_COLUMNS)).where(
            columns.type == entity_type, columns.project == project, self._session.is_one_of(columns.id, ids)
        )
        rows = await self._session.fetch_all(statement, is_long=True)
        return list_unparsed(rows, _SUMMARY_COLUMNS, _row_to_entity)

    async def list_projects_in_state(self, state: str) -> Sequence[str]:
        """The names of the projects in a state, sorted."""
        columns = tables.entities.c
        statement = select(columns.id).where(columns.type == "project", columns.state == state).order_by(columns.id)
        return [row["id"] for row in await self._session.fetch_all(statement)]

    async def list_project_statuses(self, *, after: str = "", limit: int) -> Sequence[tuple[str, Json]]:
        """Names of projects with their status, by name."""
        columns = tables.entities.c
        is_next = columns.type == "project", columns.id > after
        statement = select(columns.id, columns.status).where(*is_next).order_by(columns.id).limit(limit)
        return [(row["id"], row["status"]) for row in await self._session.fetch_all(statement, is_long=True)]

    async def list_changed(
        self,
        entity_type: str,
        *,
        project: str,
        since: datetime,
        after: tuple[datetime, str] | None = None,
        limit: int,
    ) -> Sequence[Entity]:
        """Entities updated since then, with metadata but no other document."""
        return await list_changed_entities(
            self._session, entity_type, project=project, since=since, after=after, limit=limit
        )

    async def list_brief(
        self, entity_type: str, *, after: tuple[str, str] | None = None, limit: int
    ) -> Sequence[Entity]:
        """Entities of all projects without their documents, by project and id."""
        return await list_brief_entities(self._session, entity_type, after=after, limit=limit)

    async def list_names(self, entity_type: str, *, project: str) -> Sequence[str]:
        """The names of a project's entities of one type, distinct and sorted."""
        columns = tables.entities.c
        statement = select(columns.name).where(columns.type == entity_type, columns.project == project).distinct()
        return sorted(row["name"] for row in await self._session.fetch_all(statement))

    async def list_labels(self, project: str, *, containing: str = "", limit: int = 1000) -> Sequence[str]:
        """The labels of a project's entities and runs, distinct and sorted."""
        labels = tables.labels.c
        conditions = [labels.project == project]
        if containing:
            conditions.append(contains(labels.label, containing, is_sqlite=self._session.is_sqlite))
        statement = select(labels.label).where(*conditions).distinct().order_by(labels.label).limit(limit)
        return [row["label"] for row in await self._session.fetch_all(statement)]

    async def replace(self, entity: Entity, *, expected_revision: int | None = None) -> Entity:
        """Write it with the next revision. Name, project and creation time never change."""
        values = {name: getattr(entity, name) for name in _FIELDS if name not in _FIXED}
        values["revision"] = tables.entities.c.revision + 1
        conditions = _identify(entity.type, entity.id, project=entity.project)
        if expected_revision is not None:
            conditions.append(tables.entities.c.revision == min(expected_revision, LARGEST))
        rows = await self._session.write_returning(
            update(tables.entities)
            .where(*conditions)
            .values(**values, **derive_columns(entity))
            .returning(
                tables.entities.c.revision,
                tables.entities.c.created_at,
                tables.entities.c.name,
                count_labels(entity, tables.entities).label("labels"),
                _BYTES,
            ),
            documents=list_documents(entity),
        )
        if not rows:
            raise Stale(f"{entity.type} {entity.id} is gone, or was changed since it was read")
        check_fixed(entity, rows[0])
        await note_size(self._session, entity.type, entity.project, rows[0]["document_bytes"])
        await replace_labels(self._session, entity, known=rows[0]["labels"])
        return replace(entity, revision=rows[0]["revision"])

    async def delete(self, entity_type: str, entity_id: str, *, project: str) -> bool:
        """Returns whether there was one. The next older version of its name becomes the latest."""
        entity = await self.find(entity_type, entity_id, project=project)
        if entity is None:
            return False
        is_versioned = entity_type in VERSIONED_TYPES
        if is_versioned:
            await self._lock_name(entity_type, project=project, name=entity.name)
        conditions = _identify(entity_type, entity_id, project=project)
        deleted = await self._session.write_returning(
            delete(tables.entities).where(*conditions).returning(tables.entities.c.is_latest)
        )
        await delete_dependent_rows(self._session, entity_type, project=project, ids=[entity_id])
        if is_versioned and deleted and deleted[0]["is_latest"]:
            await self._set_latest(entity)
        return bool(deleted)

    async def delete_content(self, project: str, *, limit: int) -> int:
        """Delete entities and secret values of a project, about `limit` rows; returns how many."""
        return await delete_project_content(self._session, project, limit=limit)

    async def delete_project(self, project: str) -> None:
        """Delete a project and all that is left in it, under its lock. Raises `Stale` if it has runs."""
        await delete_project_rows(self._session, project)

    async def _make_way(self, entity: Entity) -> bool:
        """Returns whether the entity will be the latest of its name."""
        if entity.type not in VERSIONED_TYPES:
            return True
        await self._lock_name(entity.type, project=entity.project, name=entity.name)
        row = await self._session.fetch_one(
            select(tables.entities.c.created_at, tables.entities.c.id)
            .where(*_name(entity.type, project=entity.project, name=entity.name))
            .order_by(*_NEWEST_FIRST)
            .limit(1)
        )
        return row is None or (row["created_at"], row["id"]) < (entity.created_at, entity.id)

    async def _lock_name(self, entity_type: str, *, project: str, name: str) -> None:
        await self._session.lock(f"latest:{entity_type}:{project}:{name}")

    async def _unset_latest(self, entity: Entity) -> None:
        await self._session.write(
            update(tables.entities)
            .where(
                *_name(entity.type, project=entity.project, name=entity.name),
                tables.entities.c.is_latest == true(),
                tables.entities.c.id != entity.id,
            )
            .values(is_latest=False)
        )

    async def _set_latest(self, entity: Entity) -> None:
        newest = (
            select(tables.entities.c.id)
            .where(*_name(entity.type, project=entity.project, name=entity.name))
            .order_by(*_NEWEST_FIRST)
            .limit(1)
            .scalar_subquery()
        )
        await self._session.write(
            update(tables.entities)
            .where(*_identify(entity.type, newest, project=entity.project))
            .values(is_latest=True)
        )


def list_documents(entity: Entity) -> list[Any]:
    """The documents of an entity, whose size decides how long it takes to write it."""
    return [entity.metadata, entity.spec, entity.status, entity.extensions]


def check_fixed(entity: Entity, stored: Mapping[Any, Any]) -> None:
    """Raises `ValueError` if name or creation time would change, which is a bug in the caller."""
    for name in ("name", "created_at"):
        if getattr(entity, name) != stored[name]:
            raise ValueError(f"{name} of {entity.type} {entity.id} never changes")


def _identify(entity_type: str, entity_id: str | ScalarSelect[str], *, project: str) -> list[ColumnElement[bool]]:
    columns = tables.entities.c
    return [columns.type == entity_type, columns.project == project, columns.id == entity_id]


def _name(entity_type: str, *, project: str, name: str) -> list[ColumnElement[bool]]:
    columns = tables.entities.c
    return [columns.type == entity_type, columns.project == project, columns.name == name]


def _row_to_entity(row: Mapping[Any, Any]) -> Entity:
    return Entity(**row)
