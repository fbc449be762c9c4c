"""Turns a run as a client wrote it into the input of `resolve`: finds its task and function, names every problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.app.document_thread import compute
from runyard.app.entities import (
    EntityDraft,
    check_id,
    check_project,
    check_same_project,
    find_function,
    is_runnable_kind,
    list_config_map_names,
    list_secret_names,
    list_volume_claims,
    load_config_maps,
    read_draft,
    unknown_reference,
)
from runyard.app.model import Entity, Json
from runyard.app.ports import EntityLookup, UnitOfWork
from runyard.domain.project_references import list_config_maps
from runyard.domain.resolution import find_profile, iter_winning_volumes
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.spec.config_maps import MOST_CONFIG_MAPS, ConfigMap
from runyard.spec.digitalhub.reference_strings import FunctionReference, TaskReference, find_run_kind, find_task_kind
from runyard.spec.entities import RunSpec, TaskSpec, find_spec_model, read_entity
from runyard.spec.kinds.registry import list_function_kinds, list_run_kinds
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused, find_nearest
from runyard.spec.readers import Findings
from runyard.spec.run_fields import ACTIONS, RunFields, read_model


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run as it was requested, and the task and function that it refers to."""

    draft: EntityDraft
    id: str
    is_local: bool
    task: Entity
    function: Entity | None
    request: Request | None
    """None for a run that the client executes itself: nothing is resolved for it."""
    task_reference: str
    function_reference: str | None
    workflow_reference: str | None

    @property
    def specs(self) -> tuple[Json, ...]:
        """The documents that decide how long resolving takes."""
        return (self.draft.spec, self.task.spec, {} if self.function is None else self.function.spec)


async def read_run_request(entities: EntityLookup, project: str, document: Any) -> RunRequest:
    """Read a run and find what it refers to; raises `Refused` with everything that is wrong with it."""
    draft = await compute(lambda: read_draft(document), over=document)
    return await read_drafted_request(entities, project, draft)


async def read_drafted_request(entities: EntityLookup, project: str, draft: EntityDraft) -> RunRequest:
    """The same for a run whose draft was read already."""
    is_local = draft.spec.get("local_execution") is True
    fields = await compute(lambda: _read_spec(draft, project, is_local=is_local), over=draft.spec)
    reference = fields.task
    assert reference is not None  # noqa: S101 - refused above
    task = await _find_task(entities, reference, project)
    _check_kind(draft.kind, task)
    function = await _find_function(entities, task)
    _check_function(fields, function)
    over = (task.spec, {} if function is None else function.spec)
    request = (
        None if is_local else await compute(lambda: _make_request(draft, task, function, fields, project), over=over)
    )
    is_workflow = function is not None and function.type == "workflow"
    named = _name_function(function) if function is not None else None
    return RunRequest(
        draft=draft,
        id=draft.requested_id,
        is_local=is_local,
        task=task,
        function=function,
        request=request,
        task_reference=str(reference),
        function_reference=None if is_workflow else named,
        workflow_reference=named if is_workflow else None,
    )


async def load_inventory(unit: UnitOfWork, request: Request, admin_rules: AdminRules) -> ProjectInventory:
    """The secrets, volumes and config maps of the project; queried only if a layer names any."""
    layers: list[RunFields] = [fields for fields in (request.function, request.task, request.run) if fields is not None]
    layers += [profile.fields for profile in admin_rules.profiles.values()]
    has_secrets = any(fields.secrets for fields in layers)
    has_volumes = any(volume.type == "shared_volume" for fields in layers for volume in fields.volumes or ())
    config_maps, names = await _load_config_maps(unit, request, admin_rules)
    return ProjectInventory(
        secrets=await list_secret_names(unit, request.project) if has_secrets else frozenset(),
        volumes=await list_volume_claims(unit, request.project) if has_volumes else {},
        config_maps=config_maps,
        config_map_names=names,
    )


async def _load_config_maps(
    unit: UnitOfWork, request: Request, admin_rules: AdminRules
) -> tuple[Mapping[str, ConfigMap], frozenset[str]]:
    """The config maps that the run names, and the names of all if one is unknown.

    Too many are not read: `resolve` refuses the run.
    """
    volumes = iter_winning_volumes(request, find_profile(request, admin_rules))
    references = list_config_maps(volumes)
    if not references or len(references) > MOST_CONFIG_MAPS:
        return {}, frozenset()
    found = await load_config_maps(unit.entities, request.project, references)
    is_complete = len(found) == len(references)
    return found, frozenset() if is_complete else await list_config_map_names(unit, request.project)


def _read_spec(draft: EntityDraft, project: str, *, is_local: bool) -> RunSpec:
    findings = Findings()
    findings.problems += [*check_id(draft), *check_project(draft, project)]
    kind = find_run_kind(draft.kind)
    is_ours = kind is not None and is_runnable_kind("function", kind.function)
    fields: RunSpec | None = None
    if is_ours:
        document = {"kind": draft.kind, "id": draft.id, "name": draft.name, "spec": draft.spec}
        entity = findings.read(lambda given: read_entity("run", given), document)
        fields = entity.spec if entity is not None else None
    elif not is_local:
        kinds = list_function_kinds()
        message = f"runs of this kind are not run here: Runyard runs {' and '.join(kinds)} functions and stores others"
        allowed, meant = ", ".join(f"{name}+…:run" for name in kinds), find_nearest(draft.kind, list_run_kinds())
        findings.add(Code.RUN_NOT_RUN, ("kind",), message, value=draft.kind, allowed=allowed, suggestion=meant)
    else:
        known = {key: draft.spec[key] for key in ("task", "function", "workflow") if key in draft.spec}
        fields = findings.read(lambda given: read_model(RunSpec, given), known, "spec")
    is_told = any(problem.path == ("spec", "task") for problem in findings.problems)
    if (is_ours or is_local) and draft.spec.get("task") is None and not is_told:
        findings.add(Code.FIELD_MISSING, ("spec", "task"), "a run needs its `task`")
    for name in ("function", "workflow", "task"):
        reference = getattr(fields, name, None)
        if reference is not None and (problem := check_same_project(reference, project, path=("spec", name))):
            findings.problems.append(problem)
    findings.finish()
    assert fields is not None  # noqa: S101 - told apart by the findings above
    return fields


async def _find_task(entities: EntityLookup, reference: TaskReference, project: str) -> Entity:
    task = await entities.find("task", reference.id, project=project)
    if task is None or task.kind != reference.kind:
        raise Refused([unknown_reference(str(reference), path=("spec", "task"), what="task")])
    return task


def _check_kind(kind: str, task: Entity) -> None:
    said = find_run_kind(kind)
    of_task = find_task_kind(task.kind)
    is_same = said is not None and of_task is not None and said.function == of_task[0]
    if not is_same or (said is not None and said.action is not None and of_task and said.action != of_task[1]):
        message = f"a {kind} is not a run of a {task.kind} task"
        raise Refused([Problem(Code.RUN_KIND, ("kind",), message, value=kind, suggestion=f"{task.kind}:run")])


async def _find_function(entities: EntityLookup, task: Entity) -> Entity | None:
    spec = read_model(TaskSpec, {key: task.spec[key] for key in ("function", "workflow") if key in task.spec})
    for name in ("function", "workflow"):
        reference: FunctionReference | None = getattr(spec, name)
        if reference is not None:
            found = await find_function(entities, reference, type_name=name)
            if found is None:
                raise Refused([unknown_reference(str(reference), path=("spec", "task"), what=f"{name} of the task")])
            return found
    return None


def _check_function(fields: RunSpec, function: Entity | None) -> None:
    named = [("function", fields.function), ("workflow", fields.workflow)]
    if function is not None and (
        problems := [
            Problem(Code.RUN_FUNCTION, ("spec", field), f"the task runs {_name_function(function)}", value=str(own))
            for field, own in named
            if own is not None and not (field == function.type and _is_of(own, function))
        ]
    ):
        raise Refused(problems)


def _is_of(reference: FunctionReference, function: Entity) -> bool:
    """Whether it refers to that function; a reference without id means the task's version."""
    is_same = (reference.kind, reference.project, reference.name) == (function.kind, function.project, function.name)
    return is_same and reference.id in (None, function.id)


def _name_function(function: Entity) -> str:
    reference = FunctionReference(kind=function.kind, project=function.project, name=function.name, id=function.id)
    return str(reference)


def _make_request(draft: EntityDraft, task: Entity, function: Entity | None, fields: RunSpec, project: str) -> Request:
    kind, action = find_task_kind(task.kind) or ("", "")
    known = next((each for each in ACTIONS if each == action), None)
    if known is None or function is None:
        message = f"the action {action} is stored but not run here"
        raise Refused([Problem(Code.RUN_NOT_RUN, ("kind",), message, value=draft.kind, allowed=", ".join(ACTIONS))])
    findings = Findings()
    layers: Mapping[str, RunFields | None] = {
        "task": findings.read(lambda given: _read_layer("task", task.kind, given), task.spec, "task", "spec"),
        "function": findings.read(
            lambda given: _read_layer("function", function.kind, given), function.spec, "function", "spec"
        ),
    }
    findings.finish()
    own = RunFields.model_construct(**{name: getattr(fields, name) for name in RunFields.model_fields})
    return Request(project=project, action=known, kind=kind, run=own, task=layers["task"], function=layers["function"])


def _read_layer(type_name: str, kind: str, spec: Any) -> RunFields:
    """The fields of a stored task or function. Reading may have become stricter since they were stored."""
    read = read_model(find_spec_model(type_name, kind), spec)
    return RunFields.model_construct(**{name: getattr(read, name) for name in RunFields.model_fields})
