"""Plans: what a run would get, and the objects that it would become. Nothing is stored.

The functions and tasks that the run refers to may be drafts in the request (`drafted_entities.py`), and the project may
be one that does not exist yet. All decisions are those of a submit (`run_decisions.py`).
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from runyard.app.core import Core
from runyard.app.document_thread import compute
from runyard.app.engine import Locating
from runyard.app.entities import EntityDraft, list_volume_claims, require_project
from runyard.app.errors import Duplicate
from runyard.app.model import Json, Principal
from runyard.app.ports import UnitOfWork
from runyard.app.rules import CurrentRules, load_current
from runyard.app.runs.drafted_entities import read_drafts, split_drafts
from runyard.app.runs.place_defaults import list_place_defaults
from runyard.app.runs.run_decisions import (
    find_profile_revision,
    find_unused_values,
    place_problems,
    read_request,
    read_run_document,
    resolve_request,
    split_problems,
)
from runyard.app.runs.run_requests import RunRequest
from runyard.domain.admission import admit
from runyard.domain.resolution import Resolution
from runyard.manifests.environment import TOKEN_VARIABLES, get_platform_envs
from runyard.manifests.identity import PlatformInputs, RunIdentity
from runyard.manifests.names import make_preview_uid
from runyard.manifests.render import render_run
from runyard.spec.entities import read_entity
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused, cap_problems
from runyard.spec.registries import REGISTRIES_SECRET


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a run would get, and why it would be refused."""

    effective: Json | None
    provenance: tuple[Json, ...] = ()
    warnings: tuple[Json, ...] = ()
    refusals: tuple[Json, ...] = ()
    profile_revision: int | None = None
    policy_revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The Kubernetes objects that a run would become, and the warnings."""

    objects: tuple[Json, ...]
    warnings: tuple[Json, ...] = ()
    profile_revision: int | None = None
    policy_revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A run as it would be stored; with its problems."""

    run_request: RunRequest
    rules: CurrentRules
    resolution: Resolution
    warnings: tuple[Problem, ...]
    refusals: tuple[Problem, ...]
    shared_claims: frozenset[str]
    """The claims of the project's kept volumes; read only if the run mounts one."""
    has_registries: bool

    @property
    def profile_revision(self) -> int | None:
        return find_profile_revision(self.resolution, self.rules)


async def explain_run(
    core: Core, who: Principal, project: str, document: Any, *, is_strict: bool = False, is_new_project: bool = False
) -> Explanation:
    """Resolve a run without storing it. Raises `Refused` only if the request cannot be read.

    With `is_new_project` the project must not exist: `Duplicate`.
    """
    plan = await _make_plan(core, who, project, document, is_strict=is_strict, is_new_project=is_new_project)
    additions = await list_place_defaults(core, project, plan.resolution.spec)
    return Explanation(
        effective=plan.resolution.spec.to_dict(),
        provenance=(*(leaf.to_dict() for leaf in plan.resolution.leaves), *additions),
        warnings=tuple(problem.to_dict() for problem in cap_problems(plan.warnings)),
        refusals=tuple(problem.to_dict() for problem in cap_problems(plan.refusals)),
        profile_revision=plan.profile_revision,
        policy_revision=plan.rules.policy_revision,
    )


async def render_planned_run(
    core: Core, who: Principal, project: str, document: Any, *, is_strict: bool = False, is_new_project: bool = False
) -> Rendering:
    """The objects of a run without storing it; raises `Refused` if it would be refused.

    Values of secrets are empty, and the names end with the hash of a uid that no stored run has.
    """
    plan = await _make_plan(core, who, project, document, is_strict=is_strict, is_new_project=is_new_project)
    if plan.refusals:
        raise Refused(plan.refusals)
    identity = _identify(core, who, project, plan)
    objects = await compute(lambda: _render(plan, identity), over=plan.run_request.specs)
    return Rendering(
        objects=objects,
        warnings=tuple(problem.to_dict() for problem in cap_problems(plan.warnings)),
        profile_revision=plan.profile_revision,
        policy_revision=plan.rules.policy_revision,
    )


async def _make_plan(
    core: Core, who: Principal, project: str, given: Any, *, is_strict: bool, is_new_project: bool
) -> _Plan:
    written, documents = split_drafts(given)
    document, draft = await compute(lambda: read_run_document(written), over=written)
    async with core.store.begin(is_read_only=True) as unit:
        if is_new_project:
            await _require_no_project(unit, project)
        else:
            await require_project(unit, project)
        run_request = await _read(core, who, unit, project, document, draft, documents)
        if run_request.request is None:
            message = "the client executes this run itself; nothing is resolved here"
            raise Refused([Problem(Code.RUN_LOCAL, ("spec", "local_execution"), message, value=True)])
        rules = await load_current(unit)
        resolution = await resolve_request(core, unit, run_request.request, rules, over=run_request.specs)
        mounts_kept = any(volume.type == "shared_volume" for volume in resolution.spec.volumes)
        claims = frozenset((await list_volume_claims(unit, project)).values()) if mounts_kept else frozenset()
        has_registries = await unit.secrets.find(project, REGISTRIES_SECRET) is not None
    warnings, refusals = split_problems(resolution, is_strict=is_strict)
    unused, kind = find_unused_values(run_request), run_request.draft.kind
    return _Plan(
        run_request=run_request,
        rules=rules,
        resolution=resolution,
        warnings=(*place_problems(warnings, kind), *(() if is_strict else unused)),
        refusals=(*place_problems(refusals, kind), *(unused if is_strict else ())),
        shared_claims=claims,
        has_registries=has_registries,
    )


async def _require_no_project(unit: UnitOfWork, project: str) -> None:
    """Check that a project of that name could be created."""
    read_entity("project", {"kind": "project", "name": project, "spec": {}})
    if await unit.entities.find_project(project) is not None:
        raise Duplicate(f"Duplicated entity project:{project}.")


async def _read(
    core: Core, who: Principal, unit: UnitOfWork, project: str, document: Any, draft: EntityDraft, documents: Any
) -> RunRequest:
    """Read the run with its drafts; raises `Refused` with the problems of all of them."""
    entities, problems = await read_drafts(core, who, unit.entities, project, documents)
    try:
        run_request = await read_request(core, unit, entities, project, document, draft)
    except Refused as refused:
        # A run does not find a draft that has problems: those are said already.
        more = [problem for problem in refused.problems if not (problems and problem.code is Code.REFERENCE_UNKNOWN)]
        raise Refused([*problems, *more]) from None
    if problems:
        raise Refused(problems)
    return run_request


def _identify(core: Core, who: Principal, project: str, plan: _Plan) -> RunIdentity:
    """The run as the engine would know it."""
    engine = core.engine
    platform = PlatformInputs() if engine is None else engine.platform
    run_request = plan.run_request
    run_id = run_request.id
    identity = RunIdentity(
        run_id=run_id,
        run_uid=make_preview_uid(project, run_id),
        project=project,
        user=who.name,
        function=None if run_request.function is None else run_request.function.name,
        run_name=run_request.draft.name or run_id,
        platform=replace(platform, has_registry_secret=platform.has_registry_secret and plan.has_registries),
    )
    if engine is None or not isinstance(engine, Locating):
        return identity
    return replace(identity, namespace=engine.get_namespace(project), installation=engine.installation)


def _render(plan: _Plan, identity: RunIdentity) -> tuple[Json, ...]:
    """The objects as admission reads them."""
    platform, spec = identity.platform, plan.resolution.spec
    empty = dict.fromkeys((use.name for use in spec.secrets), "")
    objects = render_run(spec, identity, secret_values=empty, token="" if platform.has_token else None)
    admitted = admit(
        objects,
        policy=plan.rules.admin_rules.policy,
        project=identity.project,
        profile=plan.resolution.profile,
        shared_claims=plan.shared_claims,
        platform_envs=get_platform_envs(identity),
        platform_secrets=frozenset(TOKEN_VARIABLES if platform.has_token else ()),
        launcher=platform.launcher,
        has_registry_secret=platform.has_registry_secret,
        run_uid=identity.run_uid,
    )
    return tuple(json.loads(item.body) for item in admitted)
