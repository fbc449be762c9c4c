"""Create, read, update and list entities: functions, tasks, secrets, artifacts and all other types in `TYPES`."""

from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.entities.drafts import EntityDraft, check_id, check_merged, check_project, read_restored_draft
from runyard.app.entities.entity_types import TYPES, EntityType
from runyard.app.entities.ignored_fields import find_kept, find_unused, take_status, with_warnings
from runyard.app.entities.inventory import check_count
from runyard.app.entities.ownership import KEPT, check_own_entity, name_producer, note_change
from runyard.app.entities.spec_checks import check_new, check_spec, find_near_kinds
from runyard.app.errors import Conflict, Missing, NotPossible
from runyard.app.list_query import Page, Query
from runyard.app.locks import lock_of_entity, lock_of_project
from runyard.app.model import TYPES_WITH_BYTES, Entity, Json, Principal
from runyard.app.ports import Duplicate, Stale, UnitOfWork
from runyard.spec.digitalhub.client_specs import restore_task_spec, shape_function_spec
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused

_ONLY_ONCE = {"task": "a task of this kind for the same function or workflow", "secret": "a secret of this name"}
"""Types with a second unique key besides the id, and what it says."""

_FIXED_IN_TASKS = ("function", "workflow")


async def create_entity(core: Core, who: Principal, type_name: str, project: str, document: Any) -> Entity:
    """Store a new entity under the client's id. Raises `Duplicate`, and `Refused` with every problem.

    Fields that are ignored are listed in the answer's `status.warnings`.
    """
    entity_type = TYPES[type_name]
    entity, draft = await make_entity(core, who, type_name, project, document)
    async with core.store.begin() as unit:
        await enter_project(unit, project)
        await check_count(unit, entity)
        if unknown := await check_new(unit.entities, entity):
            raise Refused(unknown)
        try:
            await unit.entities.add(entity)
        except Duplicate:
            raise Duplicate(await _describe_duplicate(unit, entity)) from None
        await audit(core, unit, who, f"{type_name}.create", entity)
        await unit.commit()
    unused = find_unused(entity, draft, is_clients=entity_type.has_clients_state)
    return with_warnings(entity, [*find_near_kinds(entity_type, draft), *unused])


async def make_entity(
    core: Core, who: Principal, type_name: str, project: str, document: Any
) -> tuple[Entity, EntityDraft]:
    """A new entity as `create_entity` stores it, and its draft. Raises `Refused` with every problem of its own."""
    entity_type = TYPES[type_name]
    address = _find_files_address(core, entity_type, project)
    draft = await compute(lambda: _read_new(entity_type, document, project, address=address), over=document)
    entity_id = draft.requested_id
    now = core.clock.now()
    entity = Entity(
        type=type_name,
        project=project,
        kind=draft.kind,
        name=draft.name or entity_id,
        id=entity_id,
        user=who.name,
        created_at=now,
        updated_at=now,
        updated_by=who.name,
        state=_choose_state(entity_type, draft, "CREATED"),
        metadata={
            "version": entity_id,
            **draft.metadata,
            **name_producer(who),
            "project": project,
            "name": draft.name or entity_id,
        },
        spec=draft.spec,
        status=take_status(draft.status, is_clients=entity_type.has_clients_state),
        extensions=draft.extensions,
    )
    return entity, draft


async def get_entity(core: Core, type_name: str, project: str, entity_id: str) -> Entity:
    """By id; raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        return await require_entity(unit, type_name, project, entity_id)


async def list_entities(core: Core, query: Query) -> Page:
    """One page of entities, not parsed."""
    async with core.store.begin(is_read_only=True) as unit:
        if query.project is not None:
            await require_project(unit, query.project)
        return await unit.entities.find_page(replace(query, is_unparsed=True))


async def update_entity(
    core: Core,
    who: Principal,
    type_name: str,
    project: str,
    entity_id: str,
    document: Any,
    *,
    expected_revision: int | None = None,
) -> Entity:
    """Update metadata, and spec and state where the type allows it. Id, kind and name never change.

    Fields that are ignored are listed in the answer's `status.warnings`.
    """
    entity_type = TYPES[type_name]
    draft = await compute(lambda: _read_changed(entity_type, document, project), over=document)
    async with core.store.begin() as unit:
        await enter_project(unit, project)
        stored = await lock_entity(unit, type_name, project, entity_id)
        check_own_entity(who, stored)
        if problems := _check_identity(stored, draft):
            raise Refused(problems)
        changed = _apply(core, who, entity_type, stored, draft)
        # The list of files has a bound of its own.
        status = {name: value for name, value in changed.status.items() if name != "files"}
        merged = partial(check_merged, metadata=changed.metadata, status=status)
        await compute(merged, over=changed.status)
        if entity_type.on_update == "replace" and (unknown := await check_new(unit.entities, changed)):
            raise Refused(unknown)
        saved = await replace_entity(unit, changed, expected_revision=expected_revision)
        await audit(core, unit, who, f"{type_name}.update", saved)
        await unit.commit()
    unused = find_unused(saved, draft, is_clients=entity_type.has_clients_state)
    return with_warnings(saved, [*_find_kept_spec(entity_type, stored, draft), *unused])


async def require_project(unit: UnitOfWork, project: str) -> Entity:
    """The project; raises `Missing`, and `NotPossible` while it is being deleted."""
    entity = await require_entity(unit, "project", project, project)
    if entity.state == "DELETING":
        raise NotPossible(Code.PROJECT_DELETING, f"project {project} is being deleted")
    return entity


async def enter_project(unit: UnitOfWork, project: str) -> Entity:
    """The same, for writers: the project cannot be deleted before the unit of work ends."""
    await unit.lock_shared(lock_of_project(project))
    return await require_project(unit, project)


async def lock_entity(unit: UnitOfWork, type_name: str, project: str, entity_id: str) -> Entity:
    """Read an entity for update; others who do the same wait. Raises `Missing`."""
    await unit.lock(lock_of_entity(type_name, project, entity_id))
    return await require_entity(unit, type_name, project, entity_id)


async def require_entity(unit: UnitOfWork, type_name: str, project: str, entity_id: str) -> Entity:
    """The entity, if it belongs to that project; raises `Missing`."""
    entity = await unit.entities.find(type_name, entity_id, project=project)
    if entity is None:
        raise Missing(type_name, entity_id)
    return entity


async def replace_entity(unit: UnitOfWork, entity: Entity, *, expected_revision: int | None) -> Entity:
    """Write it; raises `Conflict` if it is not at the expected revision."""
    try:
        return await unit.entities.replace(entity, expected_revision=expected_revision)
    except Stale:
        raise Conflict(f"{entity.type} {entity.id} was changed since you read it: read it again") from None


def check_revision(entity: Entity, expected: int | None) -> None:
    """Raises `Conflict` if the entity is not at the expected revision."""
    if expected is not None and entity.revision != expected:
        raise Conflict(f"{entity.type} {entity.id} was changed since you read it: read it again")


def _find_files_address(core: Core, entity_type: EntityType, project: str) -> str | None:
    """The URL below which the server stores files of entities of this type; None if it stores none."""
    if core.blobs is None or entity_type.name not in TYPES_WITH_BYTES:
        return None
    return f"{core.options.endpoint}/api/v1/-/{quote(project)}/{entity_type.plural}"


def _read_new(entity_type: EntityType, document: Any, project: str, *, address: str | None) -> EntityDraft:
    """A new entity; raises `Refused` with every problem that it has by itself.

    Without a `path`, its files are stored here: `path` is the URL from which clients that know nothing of this server
    download its file. Below `address`, which is None if this server stores no files.
    """
    draft = read_restored_draft(document, entity_type.name)
    if address is not None and "path" not in draft.spec:
        draft.spec["path"] = f"{address}/{quote(draft.requested_id)}/files/content"
        # SDKs since 0.15 ask for the list of files only if the status has one.
        draft.status.setdefault("files", [])
    problems = check_id(draft) + check_project(draft, project)
    problems += check_spec(entity_type, draft, project=project)
    if entity_type.is_named and draft.name is None:
        problems.append(Problem(Code.FIELD_MISSING, ("name",), f"a {entity_type.name} needs its `name`"))
    if problems:
        raise Refused(problems)
    return draft


def _read_changed(entity_type: EntityType, document: Any, project: str) -> EntityDraft:
    """An update of an entity; raises `Refused` with every problem that it has by itself."""
    draft = read_restored_draft(document, entity_type.name)
    problems = check_project(draft, project)
    if entity_type.on_update == "replace":
        problems += check_spec(entity_type, draft, project=project)
    if problems:
        raise Refused(problems)
    return draft


def _apply(core: Core, who: Principal, entity_type: EntityType, stored: Entity, draft: EntityDraft) -> Entity:
    fixed_keys = ("project", "name", *KEPT)
    kept: Json = {key: stored.metadata[key] for key in (*fixed_keys, "version") if key in stored.metadata}
    spec = stored.spec if entity_type.on_update == "keep" else draft.spec
    if entity_type.name == "task":
        fixed: Json = {key: stored.spec[key] for key in _FIXED_IN_TASKS if key in stored.spec}
        spec = {**restore_task_spec(stored.kind, stored.spec, draft.spec), **fixed}
    status = {**stored.status, **take_status(draft.status, is_clients=entity_type.has_clients_state)}
    now = core.clock.now()
    changed = replace(
        stored,
        metadata={**kept, **draft.metadata, **{key: kept[key] for key in fixed_keys if key in kept}},
        spec=spec,
        state=_choose_state(entity_type, draft, stored.state),
        status=status,
        extensions=draft.extensions or stored.extensions,
        updated_at=now,
        updated_by=who.name,
    )
    return note_change(stored, changed, who, at=now)


async def _describe_duplicate(unit: UnitOfWork, entity: Entity) -> str:
    """Say what exists already: the id, or what a project has only once. SDKs search for `Duplicated entity`."""
    text = f"Duplicated entity {entity.type}:{entity.id}"
    if await unit.entities.find(entity.type, entity.id, project=entity.project) is not None:
        return f"{text}."
    what = _ONLY_ONCE.get(entity.type, "one of its name")
    return f"{text}: there is already {what}."


def _choose_state(entity_type: EntityType, draft: EntityDraft, otherwise: str) -> str:
    return draft.state if entity_type.has_clients_state and draft.state is not None else otherwise


def _find_kept_spec(entity_type: EntityType, stored: Entity, draft: EntityDraft) -> list[Problem]:
    if entity_type.on_update == "replace":
        names = _FIXED_IN_TASKS if entity_type.name == "task" else ()
        return find_kept(draft.spec, stored=stored.spec, shown={}, names=names)
    shown = shape_function_spec(stored.kind, stored.spec) if stored.type == "function" else {}
    return find_kept(draft.spec, stored=stored.spec, shown=shown, names=draft.spec)


def _check_identity(stored: Entity, draft: EntityDraft) -> list[Problem]:
    given = {"id": draft.id, "name": draft.name, "kind": draft.kind}
    return [
        Problem(Code.FIELD_FIXED, (name,), f"cannot be changed; it is `{getattr(stored, name)}`", value=value)
        for name, value in given.items()
        if value is not None and value != getattr(stored, name)
    ]
