"""Plays a case: read, resolve, render, admission, judge. Any crash or inconsistent answer is a complaint."""

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, cast

from runyard.domain.admission import check_objects
from runyard.domain.resolution import Resolution, resolve
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.manifests.identity import Owner, PlatformInputs, RunIdentity
from runyard.manifests.render import render_anchor, render_dependents, render_kept_claims, render_run
from runyard.spec.config_maps import ConfigMap
from runyard.spec.policy import read_policy
from runyard.spec.problems import Problem, Refused
from runyard.spec.profile_documents import read_profiles
from runyard.spec.run_documents import read_run_file
from runyard.spec.run_fields import Action, RunFields, read_run_fields
from tests.adversary.cases import ANCHOR_UID, Case, World
from tests.adversary.facts import AdminDocuments
from tests.adversary.judge import judge_run
from tests.adversary.judge_answer import iter_owner_complaints
from tests.adversary.platform_access import ENDPOINT, TOKEN, TOKEN_NAMES, make_platform_variables
from tests.adversary.snapshots import take

UNRENDERABLE_CODES = frozenset({"run.not_run", "field.missing", "launcher.missing", "service_type.unsupported"})
"""Problems that only rendering reports: an effective spec without an image can be shown, but not sent."""

Verdict = Literal["accepted", "unreadable", "refused", "unrendered", "broken"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case. `complaints` is empty unless it is broken."""

    verdict: Verdict
    codes: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """A world, read by the product and by the judge."""

    world: World
    admin_rules: AdminRules
    inventory: ProjectInventory
    documents: AdminDocuments


def make_stage(world: World) -> Stage:
    """Raises `Refused` where the generator drew an illegal profile or policy."""
    profiles = [profile for file in world.profiles for profile in read_profiles(file)[0]]
    return Stage(
        world,
        AdminRules(
            profiles=MappingProxyType({profile.id: profile for profile in profiles}), policy=read_policy(world.policy)
        ),
        ProjectInventory(
            secrets=frozenset(world.secrets),
            volumes=MappingProxyType(world.volumes),
            claims=frozenset(world.claims),
            config_maps=MappingProxyType(
                {name: _make_config_map(name, files) for name, files in world.config_maps.items()}
            ),
            config_map_names=frozenset(name.partition(":")[0] for name in world.config_maps),
        ),
        AdminDocuments(world),
    )


def _make_config_map(reference: str, files: dict[str, str]) -> ConfigMap:
    name, _, version = reference.partition(":")
    return ConfigMap(name=name, version=version or "v2", data=MappingProxyType(files))


def read_case(case: Case) -> Request:
    """The request; raises `Refused`."""
    problems: list[Problem] = []
    layers: list[RunFields | None] = []
    for given, reader in (
        (case.function, read_run_fields),
        (case.task, read_run_fields),
        (case.run, _READERS[case.form]),
    ):
        try:
            layers.append(None if given is None else reader(given if reader is read_run_fields else _wrap(case)))
        except Refused as refused:
            problems += refused.problems
    if problems:
        raise Refused(problems)
    function, task, run = layers
    return Request(
        project=case.project,
        action=cast("Action", case.action),
        kind=case.kind,
        run=run or RunFields(),
        task=task,
        function=function,
    )


def _wrap(case: Case) -> Any:
    """The run as a file or a document says it."""
    if not isinstance(case.run, dict):
        return case.run
    if case.form == "file":
        identity = {"kind": case.kind, "action": case.action, "project": case.project, "id": case.run_id}
        return {**case.run, **identity, **case.extras}
    action = "job" if (case.kind, case.action) == ("python", "deploy") else case.action
    spec = {**case.run, "task": f"{case.kind}+{action}://{case.project}/t1"}
    document = {"kind": f"{case.kind}+{action}:run", "project": case.project, "id": case.run_id, "spec": spec}
    return {**document, **case.extras}


def _read_file(given: Any) -> RunFields:
    return read_run_file(given).fields


_READERS = {"fields": read_run_fields, "file": _read_file, "document": _read_file}


def render_case(case: Case, stage: Stage, resolution: Resolution) -> list[dict[str, Any]]:
    """The objects as they are sent; raises `Refused`."""
    identity = RunIdentity(
        run_id=case.run_id,
        # As of a run that is older than uids: a uid with any character.
        run_uid=case.run_id,
        project=case.project,
        namespace=stage.world.namespaces[case.project],
        user=case.user,
        function=case.function_name,
        platform=PlatformInputs(endpoint=ENDPOINT, has_token=True) if case.is_anchor else PlatformInputs(),
    )
    secrets = stage.world.secrets
    if not case.is_anchor:
        return render_run(resolution.spec, identity, secret_values=secrets)
    anchor = render_anchor(resolution.spec, identity)
    owner = Owner(kind=anchor["kind"], name=anchor["metadata"]["name"], uid=ANCHOR_UID)
    dependents = render_dependents(resolution.spec, identity, owner=owner, secret_values=secrets, token=TOKEN)
    return [anchor, *dependents, *render_kept_claims(resolution.spec, identity)]


def admit(objects: Any, case: Case, stage: Stage, resolution: Resolution) -> list[Problem]:
    """The problems that admission finds in the objects."""
    return check_objects(
        objects,
        policy=stage.admin_rules.policy,
        project=case.project,
        profile=resolution.profile,
        kubernetes_version=stage.world.kubernetes_version,
        project_claims=stage.inventory.claims,
        shared_claims=frozenset(stage.inventory.volumes.values()),
        platform_envs=make_platform_variables(case, stage.world.namespaces[case.project]),
        platform_secrets=frozenset(TOKEN_NAMES if case.is_anchor else ()),
        is_anchor=case.is_anchor,
        run_uid=case.run_id,
    )


def play(case: Case, stage: Stage, *, is_thorough: bool = True, keeps_stage: bool = False) -> Outcome:
    """Play one case. `is_thorough`: do everything twice, and compare all inputs before and after.

    `keeps_stage`: the caller compares the inputs of the admin, once for many cases.
    """
    before = _take_inputs(case, stage, keeps_stage=keeps_stage) if is_thorough else None
    try:
        outcome = _play(case, stage, is_thorough=is_thorough)
    except Exception as error:  # noqa: BLE001 - any exception at all is what is looked for
        return Outcome("broken", (), (f"crash: {type(error).__name__}: {error}",))
    if is_thorough and _take_inputs(case, stage, keeps_stage=keeps_stage) != before:
        return Outcome("broken", outcome.codes, (*outcome.complaints, "inputs: changed"))
    return outcome


def _take_inputs(case: Case, stage: Stage, *, keeps_stage: bool) -> Any:
    return take(case), None if keeps_stage else take_stage(stage)


def take_stage(stage: Stage) -> Any:
    """A snapshot of the admin's inputs and the project's inventory."""
    return take((stage.admin_rules, stage.inventory, stage.world))


def _play(case: Case, stage: Stage, *, is_thorough: bool) -> Outcome:
    try:
        request = read_case(case)
    except Refused as refused:
        return _refuse("unreadable", refused.problems)
    before = take(request) if is_thorough else None
    resolution = resolve(request, stage.admin_rules, stage.inventory)
    plain = resolution.spec.to_dict()
    complaints = [*iter_owner_complaints(resolution.leaves, plain)]
    if is_thorough:
        complaints += ["inputs: the request changed"] if take(request) != before else []
        again = resolve(read_case(case), stage.admin_rules, stage.inventory)
        complaints += ["twice: resolve answers differently"] if take(again) != take(resolution) else []
    if resolution.refusals:
        told = _refuse("refused", resolution.refusals)
        return Outcome("broken", told.codes, (*complaints, *told.complaints)) if complaints else told
    try:
        objects = render_case(case, stage, resolution)
    except Refused as refused:
        unrendered = _refuse("unrendered", refused.problems)
        complaints += [f"render: {problem}" for problem in refused.problems if problem.code not in UNRENDERABLE_CODES]
        return Outcome("broken", unrendered.codes, tuple(complaints)) if complaints else unrendered
    if is_thorough and take(render_case(case, stage, resolution)) != take(objects):
        complaints.append("twice: render answers differently")
    complaints += [f"admission: {problem}" for problem in admit(objects, case, stage, resolution)]
    warned = [warning.path for warning in resolution.warnings]
    complaints += judge_run(objects, case, stage.documents, warned=warned, answer=plain)
    codes = tuple(sorted({warning.code for warning in resolution.warnings}))
    return Outcome("broken" if complaints else "accepted", codes, tuple(complaints))


def _refuse(verdict: Verdict, problems: tuple[Problem, ...]) -> Outcome:
    complaints = [f"problem: {problem!r} has no path or words" for problem in problems if not _is_explained(problem)]
    codes = tuple(sorted({problem.code for problem in problems}))
    if not problems:
        complaints.append("problem: refused without any")
    return Outcome("broken" if complaints else verdict, codes, tuple(complaints))


def _is_explained(problem: Problem) -> bool:
    """Whether a problem has a message, a code and a path (unless it concerns a whole document), and can be encoded."""
    is_whole = problem.code in ("type.mapping", "size.entries", "type.key", "field.twice")
    answer = f"{problem}\n{json.dumps(problem.to_dict(), ensure_ascii=False)}".encode()
    return bool(problem.message and problem.code and answer) and (bool(problem.path) or is_whole)
