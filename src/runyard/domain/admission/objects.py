"""The entry point of admission: checks the objects of a run as they will be sent."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from runyard.domain.admission.admin_inputs import AdminInputs
from runyard.domain.admission.amounts import check_resources
from runyard.domain.admission.bundle import make_bundle
from runyard.domain.admission.denial_checks import check_denials
from runyard.domain.admission.facts import ProjectContext, collect_facts
from runyard.domain.admission.identity import check_identity
from runyard.domain.admission.labels_and_annotations import check_labels_and_annotations
from runyard.domain.admission.locks import check_locks
from runyard.domain.admission.object_shapes import SHAPES
from runyard.domain.admission.plain_json import check_plain_json
from runyard.domain.admission.pods import check_pod
from runyard.domain.admission.profile_guarantees import check_profile_holds
from runyard.domain.admission.rule_enforcement import check_rules
from runyard.domain.admission.shapes import check_shape
from runyard.spec.launcher import Launcher
from runyard.spec.policy import Policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, list_words
from runyard.spec.profile import Profile

MOST_OBJECTS = 600
_NO_ENVS: Mapping[str, str] = MappingProxyType({})


def check_objects(
    objects: Sequence[Mapping[str, Any]],
    *,
    policy: Policy,
    project: str,
    profile: Profile | None = None,
    kubernetes_version: str = "latest",
    project_claims: frozenset[str] = frozenset(),
    shared_claims: frozenset[str] = frozenset(),
    platform_envs: Mapping[str, str] = _NO_ENVS,
    is_anchor: bool = False,
    platform_secrets: frozenset[str] = frozenset(),
    launcher: Launcher | None = None,
    has_registry_secret: bool = False,
    run_uid: str | None = None,
) -> list[Problem]:
    """List every reason not to send these objects; an empty list means that they may be sent. Never raises.

    Pass objects that refer to each other together, such as a Job and its Secret. `profile` is the profile that applies.
    `project_claims` already exist in the project; the platform created `shared_claims` for it. `platform_envs` are the
    platform's own variables with their values, and `platform_secrets` those whose values the run's Secret holds.
    `is_anchor` says that the Job or Deployment waits for its release. Pods may have the `launcher`, and the project's
    Secret with registry credentials if it `has_registry_secret`. With `run_uid`, the objects must be those of that run.
    Where the shape of any object is wrong, the rules are not checked.
    """
    context = ProjectContext(
        project_claims=project_claims,
        shared_claims=shared_claims,
        platform_envs=platform_envs,
        is_anchor=is_anchor,
        platform_secrets=platform_secrets,
        launcher=launcher,
        has_registry_secret=has_registry_secret,
        run_uid=run_uid,
    )
    try:
        problems = list(_check_shapes(objects))
        if not problems:
            problems = list(_check_content(objects, policy, project, profile, context, version=kubernetes_version))
    except Exception as error:  # noqa: BLE001 - fails closed: no error may admit an object
        return [Problem(Code.ADMISSION_FAILED, (), f"the check failed, so nothing may be sent: {type(error).__name__}")]
    return problems


def _check_shapes(objects: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    if type(objects) not in (list, tuple) or len(objects) > MOST_OBJECTS:
        yield Problem(Code.ADMISSION_TYPE, ("objects",), f"must be a list of at most {MOST_OBJECTS} objects")
        return
    for index, item in enumerate(objects):
        path = ("objects", index)
        problems = check_plain_json(item, path)
        if problems:
            yield from problems
            continue
        kind = item.get("kind") if type(item) is dict else None
        shape = SHAPES.get(kind) if type(kind) is str else None
        if shape is None:
            allowed = list_words(SHAPES)
            yield Problem(Code.ADMISSION_KIND, path, "not a kind that Runyard sends", allowed=allowed)
        else:
            yield from check_shape(shape, item, path)


def _check_content(
    objects: Sequence[Mapping[str, Any]],
    policy: Policy,
    project: str,
    profile: Profile | None,
    context: ProjectContext,
    *,
    version: str,
) -> Iterator[Problem]:
    bundle = make_bundle(objects)
    is_job = bool(bundle.of("Job"))
    admin = AdminInputs(policy, project=project, profile=profile, is_job=is_job)
    yield from check_identity(bundle, context, project=project)
    yield from check_labels_and_annotations(bundle, admin, project=project, is_anchor=context.is_anchor)
    yield from check_pod(bundle, admin, context, version=version)
    yield from check_resources(bundle, admin)
    facts = collect_facts(bundle, admin, context)
    yield from check_profile_holds(bundle, facts, admin)
    yield from check_rules(facts, admin)
    yield from check_locks(facts, admin)
    yield from check_denials(facts, admin)
