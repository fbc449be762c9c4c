"""Entities in DigitalHub's form: project, function, task, run, secret, config map. Their specs are read strictly."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from runyard.spec.config_maps import DATA_SCHEMA, read_config_data
from runyard.spec.digitalhub.original_fields import restore_spec
from runyard.spec.digitalhub.reference_strings import (
    FunctionReference,
    TaskReference,
    find_run_kind,
    find_task_kind,
    parse_function_reference,
    parse_task_reference,
)
from runyard.spec.kinds.function_kind import FunctionSpec
from runyard.spec.kinds.registry import (
    find_kind,
    get_kind,
    list_function_kinds,
    list_legacy_run_kinds,
    list_run_kinds,
    list_task_kinds,
)
from runyard.spec.names import (
    check_dns_subdomain,
    check_project_name,
    check_slug,
    suggest_project_name,
)
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from runyard.spec.readers import (
    Findings,
    describe_type,
    expect_mapping,
    expect_option,
    expect_text,
    read_by,
    read_each,
    refuse,
)
from runyard.spec.run_fields import RunFields, read_model

_TEXT = {"type": "string"}


def _read_flag(given: Any) -> bool:
    if not isinstance(given, bool):
        raise refuse(Code.TYPE_BOOLEAN, f"must be true or false, not {describe_type(given)}", value=given)
    return given


def _read_text(given: Any) -> str:
    return expect_text(given, what="the text", most=4096)


def _read_lines(given: Any) -> tuple[str, ...]:
    return read_each(_read_text, given, of="lines")


def _read_secret_path(given: Any) -> str:
    path = expect_text(given, what="the path", most=300)
    key = path.removeprefix("secret://")
    if key == path or check_slug(key):
        raise refuse(Code.SECRET_PATH, "must name a secret", value=path, allowed="secret://NAME")
    return path


class TaskSpec(RunFields):
    """The spec of a task: a function, an action, and defaults for its runs."""

    function: Annotated[FunctionReference | None, *read_by(parse_function_reference, _TEXT)] = Field(
        default=None, description="kind://project/name:id"
    )
    workflow: Annotated[FunctionReference | None, *read_by(parse_function_reference, _TEXT)] = None
    instructions: Annotated[tuple[str, ...] | None, *read_by(_read_lines, {"type": "array", "items": _TEXT})] = Field(
        default=None, description="Lines added to the Dockerfile of a build."
    )


class RunSpec(TaskSpec):
    """The spec of a run: its task, and what the run itself asks for."""

    task: Annotated[TaskReference | None, *read_by(parse_task_reference, _TEXT)] = Field(
        default=None, description="kind+action://project/id"
    )
    local_execution: Annotated[bool | None, *read_by(_read_flag, {"type": "boolean"})] = Field(
        default=None, description="Whether the client executes the run itself."
    )
    base_image: Annotated[str | None, *read_by(_read_text, _TEXT)] = None


class SecretSpec(BaseModel):
    """The spec of a secret: where its value is stored. The value itself is never part of an entity."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[str | None, *read_by(_read_secret_path, _TEXT)] = Field(
        default=None, examples=["secret://my-secret-key"]
    )
    provider: str = "kubernetes"


class ConfigMapSpec(BaseModel):
    """The spec of one version of a config map: its files."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    data: Annotated[Mapping[str, str] | None, *read_by(read_config_data, DATA_SCHEMA)] = Field(
        default=None, examples=[{"train.toml": "epochs = 3\n"}]
    )


class ProjectSpec(BaseModel):
    """The spec of a project, kept as the client sent it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    source: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)


class Entity(BaseModel):
    """The fields that all entities have; `spec` is the model of the type and kind."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    kind: str
    id: str | None = None
    name: str | None = None
    project: str | None = None
    key: str | None = None
    user: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: Any = None
    status: dict[str, Any] = Field(default_factory=dict)
    extensions: list[Any] = Field(default_factory=list)


ENTITY_TYPES = ("project", "function", "task", "run", "secret", "configmap")


def read_entity(entity_type: str, given: Any) -> Entity:
    """An entity of a type and kind that is run here; raises `Refused` with every problem."""
    findings = Findings()
    document = expect_mapping(given, of="an entity's fields")
    entity = findings.read(lambda value: read_model(Entity, value), document)
    kind, content = document.get("kind"), document.get("spec")
    is_named = isinstance(kind, str)
    model = findings.read(lambda name: find_spec_model(entity_type, name), kind, "kind") if is_named else None
    spec: BaseModel | None = None
    if model is not None:
        spec = findings.read(
            lambda value: read_model(model, _restore(entity_type, str(kind), value)),
            {} if content is None else content,
            "spec",
        )
    findings.problems += [*_check_names(entity_type, document), *_check_spec(str(kind), spec)]
    findings.finish()
    assert entity is not None  # noqa: S101 - refused above
    return entity.model_copy(update={"spec": spec})


def _restore(entity_type: str, kind: str, spec: Any) -> Any:
    """The spec with the fields of its `original`, if it comes from a response."""
    return restore_spec(entity_type, kind, spec) if isinstance(spec, Mapping) else spec


def find_spec_model(entity_type: str, kind: str) -> type[BaseModel]:
    """The model of a spec; raises `Refused` for a type or kind that is not run here."""
    if entity_type in _OF_ONE_KIND:
        expect_option(kind, what=f"kind of a {entity_type}", options=(entity_type,))
        return SPEC_MODELS[entity_type]
    if entity_type == "function":
        return get_kind(expect_option(kind, what="kind of a function", options=list_function_kinds())).spec_model
    if entity_type == "task":
        expect_option(kind, what="kind of a task", options=list_task_kinds())
        return TaskSpec
    expect_option(entity_type, what="type", options=ENTITY_TYPES)
    if not is_run_kind(kind):
        expect_option(kind, what="kind of a run", options=[*list_run_kinds(), *list_legacy_run_kinds()])
    return RunSpec


def is_run_kind(text: str) -> bool:
    """Whether runs of this kind are run here."""
    run_kind = find_run_kind(text)
    kind = find_kind(run_kind.function) if run_kind is not None else None
    return run_kind is not None and kind is not None and (run_kind.action is None or run_kind.action in kind.actions)


_OF_ONE_KIND = ("project", "secret", "configmap")
"""Types with one kind, which has the name of the type."""
SPEC_MODELS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "project": ProjectSpec,
        "function": FunctionSpec,
        "task": TaskSpec,
        "run": RunSpec,
        "secret": SecretSpec,
        "configmap": ConfigMapSpec,
    }
)


def _check_names(entity_type: str, document: Mapping[str, Any]) -> list[Problem]:
    found = []
    for field in ("id", "name"):
        value = document.get(field)
        check = check_dns_subdomain if (entity_type, field) == ("configmap", "name") else check_slug
        if isinstance(value, str) and (error := check(value)):
            found.append(Problem(Code.NAME_INVALID, (field,), error, value=value))
    where = "name" if entity_type == "project" else "project"
    project = document.get(where)
    if isinstance(project, str) and (error := check_project_name(project)):
        found.append(
            Problem(Code.PROJECT_NAME, (where,), error, value=project, suggestion=suggest_project_name(project))
        )
    if entity_type in ("project", "function", "secret", "configmap") and document.get("name") is None:
        found.append(Problem(Code.FIELD_MISSING, ("name",), f"a {entity_type} needs its `name`"))
    return found


def _check_spec(kind: str, spec: BaseModel | None) -> list[Problem]:
    if spec is None:
        return []
    found = []
    if isinstance(spec, ConfigMapSpec) and spec.data is None:
        found.append(Problem(Code.FIELD_MISSING, ("spec", "data"), "a configmap needs its `data`"))
    if isinstance(spec, FunctionSpec):
        found += [problem.under("spec") for problem in get_kind(kind).find_spec_problems(spec)]
    elif isinstance(spec, RunSpec):
        if spec.task is None:
            found.append(Problem(Code.FIELD_MISSING, ("spec", "task"), "a run needs its `task`"))
    elif isinstance(spec, TaskSpec):
        if spec.function is None and spec.workflow is None:
            found.append(Problem(Code.FIELD_MISSING, ("spec", "function"), "a task needs its `function`"))
        pair = find_task_kind(kind)
        if spec.function is not None and pair is not None and spec.function.kind != pair[0]:
            message = f"a {kind} task runs {pair[0]} functions"
            found.append(Problem(Code.TASK_KIND, ("spec", "function"), message, value=str(spec.function)))
    return found
