"""Checks of an entity's spec: by itself, and against what the project has. Specs of foreign kinds are kept as sent."""

from collections.abc import Mapping, Sequence
from typing import Any

from runyard.app.entities.drafts import EntityDraft, expect_name
from runyard.app.entities.entity_types import STATES, EntityType
from runyard.app.model import Entity
from runyard.app.ports import EntityLookup
from runyard.domain.triggers import KINDS as TRIGGER_KINDS
from runyard.domain.triggers import find_trigger_problems
from runyard.spec.digitalhub.reference_strings import (
    FunctionReference,
    TaskReference,
    find_task_kind,
    parse_function_reference,
    parse_task_reference,
)
from runyard.spec.entities import read_entity
from runyard.spec.kinds.registry import find_kind, find_near_kind
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.readers import Findings, describe_type

MOST_REFERENCE = 600
MOST_COLUMNS = 10_000
"""Columns in the schema of a table."""
COLUMN_TYPES = (
    *("string", "number", "integer", "boolean", "object", "array", "date", "time", "datetime"),
    *("year", "yearmonth", "duration", "geopoint", "geojson", "any"),
)
"""The column types of a table that SDKs know."""
_PATHED = ("artifact", "dataitem", "model")
_FOUND_BY = ("function", "workflow", "task")
_MODEL: Mapping[str, str] = {"framework": "text", "algorithm": "text", "parameters": "mapping"}
_TYPED: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("artifact", "artifact"): {"src_path": "text"},
    ("dataitem", "table"): {"schema": "mapping"},
    ("model", "model"): _MODEL,
    ("model", "sklearn"): _MODEL,
    ("model", "mlflow"): {
        **_MODEL,
        "flavor": "text",
        "model_config": "mapping",
        "signature": "mapping",
        "input_datasets": "list",
    },
    ("model", "huggingface"): {
        **_MODEL,
        "base_model": "text",
        "model_id": "text",
        "model_revision": "text",
    },
}
"""The fields that SDKs check in specs that they define: a value of another type makes their whole list fail."""
_TYPES: Mapping[str, type] = {"text": str, "mapping": dict, "list": list}
_TYPE_CODES: Mapping[str, Code] = {"text": Code.TYPE_TEXT, "mapping": Code.TYPE_MAPPING, "list": Code.TYPE_LIST}


def check_spec(entity_type: EntityType, draft: EntityDraft, *, project: str) -> list[Problem]:
    """Every problem that the spec has by itself. A trigger without `template` gets an empty one."""
    if entity_type.name == "trigger":
        if draft.kind in TRIGGER_KINDS:
            # No SDK can read a list that contains a trigger without template.
            draft.spec.setdefault("template", {})
        return find_trigger_problems(draft.kind, draft.spec, project=project, states=STATES)
    return [*_check_fields(entity_type, draft), *_check_names(entity_type, draft)]


def find_near_kinds(entity_type: EntityType, draft: EntityDraft) -> list[Problem]:
    """A warning for a function whose kind is probably a misspelling of one that is run here."""
    meant = find_near_kind(draft.kind) if entity_type.name == "function" else None
    if meant is None:
        return []
    message = "functions of this kind are stored but not run here"
    return [Problem(Code.KIND_NEAR, ("kind",), message, value=draft.kind, suggestion=meant)]


def _check_fields(entity_type: EntityType, draft: EntityDraft) -> list[Problem]:
    if is_runnable_kind(entity_type.name, draft.kind):
        document = {"kind": draft.kind, "name": draft.name or "unnamed", "spec": draft.spec}
        try:
            read_entity(entity_type.name, document)
        except Refused as refused:
            return list(refused.problems)
    problems = _check_types(draft.spec, _TYPED.get((entity_type.name, draft.kind), {}))
    if entity_type.name in _PATHED and not isinstance(draft.spec.get("path"), str):
        missing = f"missing spec: a {entity_type.name} needs its `path`"
        problems.append(Problem(Code.FIELD_MISSING, ("spec", "path"), missing))
    if (entity_type.name, draft.kind) == ("dataitem", "table") and not problems:
        problems += _check_columns(draft.spec.get("schema"))
    return problems


def _check_columns(schema: Any) -> list[Problem]:
    path = ("spec", "schema", "fields")
    if schema is None:
        return []
    if not isinstance(columns := schema.get("fields"), list):
        return [Problem(Code.TYPE_LIST, path, f"must be a list of columns, not {describe_type(columns)}")]
    if len(columns) > MOST_COLUMNS:
        return [Problem(Code.SIZE_ENTRIES, path, f"has {len(columns)} columns", allowed=f"at most {MOST_COLUMNS}")]
    wrong = [index for index, column in enumerate(columns) if not _is_column(column)]
    message, allowed = "must be a column: its `name` and `type`", "type: " + ", ".join(COLUMN_TYPES)
    return [Problem(Code.COLUMN_INVALID, (*path, index), message, allowed=allowed) for index in wrong]


def _is_column(given: Any) -> bool:
    return isinstance(given, dict) and isinstance(given.get("name"), str) and given.get("type") in COLUMN_TYPES


def _check_types(spec: Mapping[str, Any], types: Mapping[str, str]) -> list[Problem]:
    return [
        Problem(_TYPE_CODES[wanted], ("spec", name), f"must be {shown}, not {describe_type(spec[name])}")
        for name, wanted in types.items()
        for shown in ["text" if wanted == "text" else f"a {wanted}"]
        if name in spec and not isinstance(spec[name], _TYPES[wanted])
    ]


def _check_names(entity_type: EntityType, draft: EntityDraft) -> list[Problem]:
    """Checks the fields that lists filter by, where nothing reads them as references."""
    findings = Findings()
    for name in _FOUND_BY if entity_type.name != "task" else ("task",):
        if isinstance(given := draft.spec.get(name), str) and given:
            findings.read(lambda text: expect_name(text, what="the text", most=MOST_REFERENCE), given, "spec", name)
    return findings.problems


def is_runnable_kind(type_name: str, kind: str) -> bool:
    """Whether entities of this kind are run here; their specs are read strictly."""
    if type_name == "function":
        return find_kind(kind) is not None
    if type_name == "task":
        pair = find_task_kind(kind)
        return pair is not None and find_kind(pair[0]) is not None
    return type_name in ("secret", "configmap")


async def check_new(entities: EntityLookup, entity: Entity) -> Sequence[Problem]:
    """Problems of references: what a task or trigger refers to must exist in its own project."""
    problems: list[Problem] = []
    for name, type_name in (("function", "function"), ("workflow", "workflow")):
        given = entity.spec.get(name)
        if entity.type in ("task", "trigger") and given is not None:
            problems += await _check_function(entities, entity, given, name, type_name)
    if entity.type == "trigger" and (given := entity.spec.get("task")) is not None:
        problems += await _check_task(entities, entity, given)
    return problems


async def _check_function(
    entities: EntityLookup, entity: Entity, given: object, field: str, type_name: str
) -> list[Problem]:
    path = ("spec", field)
    try:
        reference = parse_function_reference(given)  # type: ignore[arg-type]  # it refuses what is not text
    except Refused as refused:
        return [problem.under(*path) for problem in refused.problems]
    if problem := check_same_project(reference, entity.project, path=path):
        return [problem]
    found = await find_function(entities, reference, type_name=type_name)
    return [] if found is not None else [unknown_reference(str(reference), path=path, what=type_name)]


async def _check_task(entities: EntityLookup, entity: Entity, given: object) -> list[Problem]:
    path = ("spec", "task")
    try:
        reference = parse_task_reference(given)  # type: ignore[arg-type]  # it refuses what is not text
    except Refused as refused:
        return [problem.under(*path) for problem in refused.problems]
    if problem := check_same_project(reference, entity.project, path=path):
        return [problem]
    found = await entities.find("task", reference.id, project=entity.project)
    return [] if found is not None else [unknown_reference(str(reference), path=path, what="task")]


async def find_function(
    entities: EntityLookup, reference: FunctionReference, *, type_name: str = "function"
) -> Entity | None:
    """The function or workflow of a reference; without id, the newest version. None if the kind differs."""
    if reference.id is not None:
        found = await entities.find(type_name, reference.id, project=reference.project)
    else:
        found = await entities.find_latest(type_name, project=reference.project, name=reference.name)
    return found if found is not None and (found.kind, found.name) == (reference.kind, reference.name) else None


def check_same_project(
    reference: FunctionReference | TaskReference, project: str, *, path: tuple[str, ...]
) -> Problem | None:
    """The problem of a reference into another project."""
    if reference.project == project:
        return None
    return Problem(
        Code.REFERENCE_PROJECT, path, f"invalid project: must be in project `{project}`", value=str(reference)
    )


def unknown_reference(text: str, *, path: tuple[str, ...], what: str) -> Problem:
    """The problem of a reference to nothing."""
    return Problem(Code.REFERENCE_UNKNOWN, path, f"the project has no such {what}", value=text)
