"""Run files: fields at the top level, or a DigitalHub run document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.spec.digitalhub.reference_strings import find_run_kind, find_task_kind, parse_function_reference
from runyard.spec.entities import RunSpec, read_entity
from runyard.spec.kinds.registry import list_function_kinds
from runyard.spec.names import check_project_name, check_slug, suggest_project_name
from runyard.spec.problem_codes import Code
from runyard.spec.problems import shorten
from runyard.spec.readers import Findings, expect_mapping, expect_option, expect_text, fold_keys, refuse
from runyard.spec.run_fields import ACTIONS, Action, RunFields, read_model

IDENTITY = ("kind", "action", "project", "id", "name", "function")
"""The keys of a run file in addition to the fields of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """The content of a run file; None is unset."""

    fields: RunFields = field(default_factory=RunFields)
    kind: str | None = None
    action: Action | None = None
    project: str | None = None
    id: str | None = None
    name: str | None = None
    function: str | None = None
    task_layer: RunFields | None = None
    """The fields of the task, in a recorded request."""
    function_layer: RunFields | None = None


def read_run_file(given: Any) -> RunFile:
    """Read either form; raises `Refused` with every problem."""
    document = expect_mapping({} if given is None else given, of="a run's fields")
    if isinstance(document.get("spec"), Mapping) and find_run_kind(shorten(document.get("kind"))) is not None:
        return _read_document(document)
    return _read_flat(document)


def _read_document(document: Mapping[str, Any]) -> RunFile:
    entity = read_entity("run", document)
    spec: RunSpec = entity.spec
    run_kind = find_run_kind(entity.kind)
    task_kind = find_task_kind(spec.task.kind) if spec.task is not None else None
    if run_kind is None or (run_kind.action is None and task_kind is None):
        raise refuse(
            Code.RUN_ACTION, "neither the kind nor the task names an action", path=("spec", "task"), value=entity.kind
        )
    action = run_kind.action or (task_kind[1] if task_kind else "")
    if task_kind is not None and (run_kind.function, action) != task_kind:
        raise refuse(
            Code.RUN_KIND, f"a {entity.kind} cannot run a {spec.task.kind if spec.task else ''} task", path=("kind",)
        )
    project = entity.project or (spec.task.project if spec.task else None)
    if spec.task is not None and project != spec.task.project:
        raise refuse(
            Code.RUN_PROJECT, "the task belongs to another project", path=("spec", "task"), value=str(spec.task)
        )
    _refuse_unused(spec, function_kind=run_kind.function, action=action)
    values = {name: getattr(spec, name) for name in RunFields.model_fields}
    return RunFile(
        fields=RunFields.model_construct(**values),
        kind=run_kind.function,
        action=_read_action(action),
        project=project,
        id=entity.id,
        name=entity.name,
        function=spec.function.name if spec.function is not None else None,
    )


def _refuse_unused(spec: RunSpec, *, function_kind: str, action: str) -> None:
    """Refuse fields of a run document that would have no effect; nothing is ignored silently."""
    findings = Findings()
    if spec.local_execution:
        message = "a run with `local_execution` is executed by its client, not by the platform"
        findings.add(Code.RUN_LOCAL, ("spec", "local_execution"), message)
    if spec.workflow is not None:
        findings.add(Code.RUN_WORKFLOW, ("spec", "workflow"), "workflows are not supported", value=str(spec.workflow))
    for name in ("instructions", "base_image"):
        if getattr(spec, name) is not None and action != "build":
            findings.add(Code.FIELD_POINTLESS, ("spec", name), f"`{name}` has no effect on action {action}")
    if spec.function is not None and spec.function.kind != function_kind:
        message = f"a {function_kind} run needs a {function_kind} function"
        findings.add(Code.RUN_FUNCTION, ("spec", "function"), message, value=str(spec.function))
    findings.finish()


def _read_flat(document: Mapping[str, Any]) -> RunFile:
    findings = Findings()
    folded, spelling = fold_keys(document, findings)
    # With one of these keys, `name` belongs to a volume or a variable that lost its indentation.
    is_snippet = "name" in folded and not folded.keys().isdisjoint({"mount_path", "volume_type", "value"})
    values: dict[str, Any] = {}
    for name in IDENTITY:
        if folded.get(name) is not None and not (name == "name" and is_snippet):
            values[name] = findings.read(_READERS[name], folded[name], spelling[name])
    rest = {spelling[name]: value for name, value in folded.items() if name not in values and name not in IDENTITY}
    if is_snippet:
        rest["name"] = folded["name"]
    fields = findings.read(lambda given: read_model(RunFields, given, beside=IDENTITY), rest)
    findings.finish()
    return RunFile(fields=fields or RunFields(), **values)


def _read_kind(given: Any) -> str:
    return expect_option(given, what="kind", options=list_function_kinds())


def _read_action(given: Any) -> Action:
    action = expect_option(given, what="action", options=ACTIONS)
    return next(known for known in ACTIONS if known == action)


def _read_project(given: Any) -> str:
    name = expect_text(given, what="a project's name", most=253)
    if error := check_project_name(name):
        raise refuse(Code.PROJECT_NAME, error, value=name, suggestion=suggest_project_name(name))
    return name


def _read_slug(given: Any) -> str:
    name = expect_text(given, what="a name", most=253)
    if error := check_slug(name):
        raise refuse(Code.NAME_INVALID, error, value=name)
    return name


def _read_function(given: Any) -> str:
    return parse_function_reference(given).name if isinstance(given, str) and "://" in given else _read_slug(given)


_READERS = {
    "kind": _read_kind,
    "action": _read_action,
    "project": _read_project,
    "id": _read_slug,
    "name": _read_slug,
    "function": _read_function,
}
