"""The verdict over the objects of a run, as they will be sent."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from runyard.domain.admission.admins import Admins
from runyard.domain.admission.amounts import check_resources
from runyard.domain.admission.bundle import make_bundle
from runyard.domain.admission.denial_checks import check_denials
from runyard.domain.admission.facts import Surroundings, collect_facts
from runyard.domain.admission.identity import check_identity
from runyard.domain.admission.labels_and_annotations import check_marks
from runyard.domain.admission.locks import check_locks
from runyard.domain.admission.object_shapes import SHAPES
from runyard.domain.admission.plain_json import check_plain
from runyard.domain.admission.pods import check_pod
from runyard.domain.admission.profile_guarantees import check_profile_holds
from runyard.domain.admission.rule_enforcement import check_rules
from runyard.domain.admission.shapes import check_shape
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
    project_config_maps: frozenset[str] = frozenset(),
    platform_envs: Mapping[str, str] = _NO_ENVS,
    is_anchor: bool = False,
) -> list[Problem]:
    """Everything that stands against sending these objects; empty means that they may be sent. Never raises.

    What refers to each other is judged together: a Job with its Secret. `profile` is the one that applies.
    `project_claims` and `project_config_maps` exist already and belong to the project, `shared_claims` were made by the
    platform for it; `platform_envs` are the platform's own variables with their values. `is_anchor`: the Job or
    Deployment waits for its release. Where the form of any object is wrong, the rules are not looked at.
    """
    around = Surroundings(
        project_claims=project_claims,
        shared_claims=shared_claims,
        project_config_maps=project_config_maps,
        platform_envs=platform_envs,
        is_anchor=is_anchor,
    )
    try:
        problems = list(_check_forms(objects))
        if not problems:
            problems = list(_check_content(objects, policy, project, profile, around, version=kubernetes_version))
    except Exception as error:  # noqa: BLE001 - whatever a hostile object provokes, it must not become a pass
        return [Problem(Code.ADMISSION_FAILED, (), f"cannot be judged, so it may not be sent: {type(error).__name__}")]
    return problems


def _check_forms(objects: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    if type(objects) not in (list, tuple) or len(objects) > MOST_OBJECTS:
        yield Problem(Code.ADMISSION_TYPE, ("objects",), f"must be a list of at most {MOST_OBJECTS} objects")
        return
    for index, item in enumerate(objects):
        path = ("objects", index)
        problems = check_plain(item, path)
        if problems:
            yield from problems
            continue
        kind = item.get("kind") if type(item) is dict else None
        shape = SHAPES.get(kind) if type(kind) is str else None
        if shape is None:
            allowed = list_words(SHAPES)
            yield Problem(Code.ADMISSION_KIND, path, "is of no kind that we send", allowed=allowed)
        else:
            yield from check_shape(shape, item, path)


def _check_content(
    objects: Sequence[Mapping[str, Any]],
    policy: Policy,
    project: str,
    profile: Profile | None,
    around: Surroundings,
    *,
    version: str,
) -> Iterator[Problem]:
    bundle = make_bundle(objects)
    is_job = bool(bundle.of("Job"))
    admins = Admins(policy, project=project, profile=profile, is_job=is_job)
    yield from check_identity(bundle, around, project=project)
    yield from check_marks(bundle, admins, project=project)
    yield from check_pod(bundle, admins, around, version=version)
    yield from check_resources(bundle, admins)
    facts = collect_facts(bundle, admins, around)
    yield from check_profile_holds(bundle, facts, admins)
    yield from check_rules(facts, admins)
    yield from check_locks(facts, admins)
    yield from check_denials(facts, admins)
