"""Projects: create, read, update and list. Reading one also lists the newest entities in it."""

from dataclasses import dataclass, replace
from typing import Any

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.entities import (
    LISTED_IN_PROJECTS,
    TYPES,
    EntityDraft,
    enter_project,
    find_unused,
    read_draft,
    replace_entity,
    require_entity,
    with_warnings,
)
from runyard.app.list_query import Page, Query
from runyard.app.model import Entity, Json, Principal
from runyard.app.ports import Duplicate, UnitOfWork
from runyard.spec.entities import read_entity
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused

MOST_LISTED = 1000
"""How many entities of each type a project lists."""
MOST_EMBEDDED_BYTES = 4 << 20
"""Size of the newest entities of a type, of which a project lists the embedded ones completely."""


@dataclass(frozen=True, slots=True)
class ListedEntity:
    """An entity as a project lists it: without spec, status and extensions unless it is whole."""

    entity: Entity
    is_whole: bool


async def create_project(core: Core, who: Principal, document: Any) -> Entity:
    """Create a project, whose id is its name. The creator is its owner."""
    draft = await compute(lambda: _read(document), over=document)
    name = draft.name or ""
    now = core.clock.now()
    entity = Entity(
        type="project",
        project=name,
        kind="project",
        name=name,
        id=name,
        user=who.name,
        created_at=now,
        updated_at=now,
        updated_by=who.name,
        metadata={**draft.metadata, "project": name, "name": name},
        spec=_without_lists(draft.spec),
        extensions=draft.extensions,
    )
    async with core.store.begin() as unit:
        try:
            await unit.entities.add(entity)
        except Duplicate:
            raise Duplicate(f"Duplicated entity project:{name}.") from None
        await audit(core, unit, who, "project.create", entity)
        await unit.commit()
    return with_warnings(entity, find_unused(entity, draft, is_clients=False))


async def get_project(core: Core, project: str) -> tuple[Entity, dict[str, tuple[ListedEntity, ...]]]:
    """The project, and the newest version of each entity in it by the plural of the type.

    Embedded entities are whole, as far as they are new and small enough; a client reads the others by id.
    """
    async with core.store.begin(is_read_only=True) as unit:
        entity = await require_entity(unit, "project", project, project)
        return entity, {plural: await _list_newest(unit, project, plural) for plural in LISTED_IN_PROJECTS}


async def list_projects(core: Core, query: Query) -> Page:
    """A page of the visible projects."""
    async with core.store.begin(is_read_only=True) as unit:
        return await unit.entities.find_page(query)


async def update_project(
    core: Core, who: Principal, project: str, document: Any, *, expected_revision: int | None = None
) -> Entity:
    """Replace metadata and spec. The entities listed in the spec are ignored."""
    draft = await compute(lambda: _read(document), over=document)
    if draft.name != project:
        raise Refused([Problem(Code.FIELD_FIXED, ("name",), f"cannot be changed; it is `{project}`", value=draft.name)])
    async with core.store.begin() as unit:
        stored = await enter_project(unit, project)
        changed = replace(
            stored,
            metadata={**draft.metadata, "project": project, "name": project},
            spec=_without_lists(draft.spec),
            extensions=draft.extensions,
            updated_at=core.clock.now(),
            updated_by=who.name,
        )
        saved = await replace_entity(unit, changed, expected_revision=expected_revision)
        await audit(core, unit, who, "project.update", saved)
        await unit.commit()
    return with_warnings(saved, find_unused(saved, draft, is_clients=False))


async def list_labels(core: Core, project: str, text: str | None) -> list[str]:
    """The labels of a project that contain the text, sorted."""
    async with core.store.begin(is_read_only=True) as unit:
        await require_entity(unit, "project", project, project)
        return list(await unit.entities.list_labels(project, containing=text or ""))


def _read(document: Any) -> EntityDraft:
    draft = read_draft(document)
    spec = {key: value for key, value in draft.spec.items() if key not in LISTED_IN_PROJECTS}
    read_entity("project", {"kind": draft.kind, "name": draft.name, "spec": spec})
    if draft.id is not None and draft.id != draft.name:
        message = f"the id of a project is its name, `{draft.name}`"
        raise Refused([Problem(Code.PROJECT_ID, ("id",), message, value=draft.id)])
    return draft


def _without_lists(spec: Json) -> Json:
    return {key: value for key, value in spec.items() if key not in LISTED_IN_PROJECTS}


async def _list_newest(unit: UnitOfWork, project: str, plural: str) -> tuple[ListedEntity, ...]:
    name = next(entity_type.name for entity_type in TYPES.values() if entity_type.plural == plural)
    query = Query(type=name, project=project, size=MOST_LISTED, is_summary=True)
    listed = (await unit.entities.find_page(query)).content
    whole: dict[str, Entity] = {}
    if any(entity.metadata.get("embedded") is True for entity in listed):
        page = await unit.entities.find_page(replace(query, is_summary=False, most_bytes=MOST_EMBEDDED_BYTES))
        whole = {entity.id: entity for entity in page.content if entity.metadata.get("embedded") is True}
    return tuple(ListedEntity(whole.get(entity.id, entity), is_whole=entity.id in whole) for entity in listed)
