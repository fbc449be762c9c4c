"""Projects: create, read, update and list. Reading one also lists the newest entities in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.document_thread import compute, compute_on_thread
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
from runyard.app.unparsed_entities import Unparsed, UnparsedEntities, are_large
from runyard.spec.entities import read_entity
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused

MOST_LISTED = 1000
"""How many entities of each type a project lists."""
MOST_EMBEDDED_BYTES = 4 << 20
"""Size of the newest entities of a type, of which a project lists the embedded ones completely."""
ENTRY_BYTES = 1 << 10
"""What an entry of such a list has besides its metadata, about."""


@dataclass(frozen=True, slots=True)
class ListedEntity:
    """An entity as a project lists it, not parsed: without spec, status and extensions unless it is whole."""

    entity: Unparsed
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectView:
    """A project, and the newest version of each entity in it by the plural of the type."""

    entity: Entity
    lists: Mapping[str, tuple[ListedEntity, ...]]
    bound: str | None = None
    """Says what is listed if that is not everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Newest:
    """The newest entities of a type, without spec, status and extensions."""

    query: Query
    """Finds them."""
    entities: tuple[Unparsed, ...]
    bytes: int
    total: int


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


async def get_project(core: Core, project: str, *, most_bytes: int) -> ProjectView:
    """The project with as many of its newest entities as fit into `most_bytes`, of which each type has a share.

    Embedded entities are whole, as far as they are new and small enough; a client reads the others by id.
    """
    share = most_bytes // len(LISTED_IN_PROJECTS)
    async with core.store.begin(is_read_only=True) as unit:
        entity = await require_entity(unit, "project", project, project)
        newest = {plural: await _list_newest(unit, project, plural, most_bytes=share) for plural in LISTED_IN_PROJECTS}
        left = most_bytes - sum(listed.bytes for listed in newest.values())
        lists: dict[str, tuple[ListedEntity, ...]] = {}
        for plural, listed in newest.items():
            room = min(MOST_EMBEDDED_BYTES, left)
            whole = await _read_embedded(unit, listed, most_bytes=room)
            left -= room if whole else 0
            lists[plural] = tuple(ListedEntity(whole.get(one.id, one), one.id in whole) for one in listed.entities)
    bounds = [
        f"the newest {len(listed.entities)} of {listed.total} {plural} are listed"
        for plural, listed in newest.items()
        if len(listed.entities) < listed.total
    ]
    return ProjectView(entity=entity, lists=lists, bound="; ".join(bounds) or None)


async def list_projects(core: Core, query: Query) -> Page:
    """A page of the visible projects, not parsed."""
    async with core.store.begin(is_read_only=True) as unit:
        return await unit.entities.find_page(replace(query, is_unparsed=True))


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


async def _list_newest(unit: UnitOfWork, project: str, plural: str, *, most_bytes: int) -> _Newest:
    """At most `MOST_LISTED`, and only as many as fit; one always does."""
    name = next(entity_type.name for entity_type in TYPES.values() if entity_type.plural == plural)
    query = Query(type=name, project=project, size=MOST_LISTED, is_summary=True)
    keys = await unit.entities.find_keys(query)
    sums = list(accumulate(key.metadata_bytes + ENTRY_BYTES for key in keys.content))
    fitting = max(1, sum(size <= most_bytes for size in sums))
    if fitting < len(sums):
        query = replace(query, size=fitting)
    entities = await _find_unparsed(unit, query) if sums else ()
    return _Newest(query=query, entities=entities, bytes=sums[len(entities) - 1] if entities else 0, total=keys.total)


async def _read_embedded(unit: UnitOfWork, listed: _Newest, *, most_bytes: int) -> Mapping[str, Unparsed]:
    """Those of the listed entities that are embedded and fit, whole, by id."""
    if most_bytes <= 0 or not (embedded := await _find_embedded(listed.entities)):
        return {}
    whole = await _find_unparsed(unit, replace(listed.query, is_summary=False, most_bytes=most_bytes))
    return {one.id: one for one in whole if one.id in embedded}


async def _find_embedded(entities: Sequence[Unparsed]) -> frozenset[str]:
    """The ids of the embedded ones, which their metadata says."""

    def find() -> frozenset[str]:
        return frozenset(one.id for one in entities if _is_embedded(one.parse()))

    return await compute_on_thread(find) if are_large(entities) else find()


async def _find_unparsed(unit: UnitOfWork, query: Query) -> tuple[Unparsed, ...]:
    content = (await unit.entities.find_page(replace(query, is_unparsed=True))).content
    return content.entries if isinstance(content, UnparsedEntities) else ()


def _is_embedded(entity: Entity) -> bool:
    return entity.metadata.get("embedded") is True
