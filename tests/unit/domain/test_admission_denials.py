"""Everything that resolve denies by default, admission denies as well: with no policy at all and with one."""

from typing import Any

import pytest

from runyard.domain import default_denials
from runyard.domain.admission import check_objects
from runyard.domain.admission.denial_checks import DENIALS
from runyard.domain.resolution import resolve
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.spec import denials
from runyard.spec.policy import read_policy
from runyard.spec.problems import Problem
from runyard.spec.run_fields import Action, read_run_fields
from tests.unit.domain.legal_objects import (
    ENVS,
    PROJECT,
    PROJECT_CLAIMS,
    SHARED_CLAIMS,
    make_job,
    make_profile,
    make_service,
)
from tests.unit.domain.planted_bypasses import Objects
from tests.unit.domain.planted_denials import PLANTED, PlantedDenial, strip_scratch_class

CASES = [(name, policy) for name, planted in PLANTED.items() for policy in planted.policies]


def check(objects: Objects, policy: dict[str, Any], **more: Any) -> list[Problem]:
    """Admission with exactly this policy."""
    return check_objects(
        objects,
        policy=read_policy(policy),
        project=PROJECT,
        platform_envs=ENVS,
        project_claims=PROJECT_CLAIMS,
        shared_claims=SHARED_CLAIMS,
        **more,
    )


def plant(planted: PlantedDenial) -> Objects:
    objects = strip_scratch_class(planted.make())
    planted.plant(objects)
    return objects


RESOLVE_CODES = {
    "tolerations": "denied.toleration",
    "service_type": "denied.service_type",
    "priority_class": "denied.priority_class",
    "envs": "denied.env",
    "affinity.namespaces": "denied.namespace",
    "volumes.claim_name": "denied.claim",
}
"""What resolve calls the same denials."""


@pytest.mark.parametrize("name", PLANTED)
def test_resolve_denies_the_same_when_there_is_no_policy(name: str) -> None:
    planted = PLANTED[name]
    action: Action = "serve" if planted.make is make_service else "job"
    request = Request(project=PROJECT, action=action, run=read_run_fields({"image": "busybox:1", **planted.asked}))
    inventory = ProjectInventory(claims=PROJECT_CLAIMS, secrets=frozenset({"DHCORE_ACCESS_TOKEN"}))

    refusals = resolve(request, AdminRules(), inventory).refusals

    assert [problem.code for problem in refusals] == [RESOLVE_CODES[planted.field]]


def test_admission_has_a_denial_for_each_of_resolve_when_one_is_added() -> None:
    checks = {name for name in vars(default_denials) if name.startswith("_check_")}

    assert checks == {
        f"_check_{name}" for name in ("tolerations", "service_type", "priority_class", "envs", "namespaces", "claims")
    }
    assert RESOLVE_CODES.keys() == {denial.field for denial in DENIALS}


@pytest.mark.parametrize("make", [make_job, make_service])
def test_objects_are_admitted_when_nothing_is_planted_and_there_is_no_policy(make: Any) -> None:
    assert check(strip_scratch_class(make()), {}) == []


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_a_value_is_denied_when_the_platform_does_not_name_it(name: str, policy: str) -> None:
    planted = PLANTED[name]

    codes = {problem.code for problem in check(plant(planted), planted.policies[policy])}

    assert f"denied.{planted.field}" in codes


@pytest.mark.parametrize("name", PLANTED)
def test_a_denied_value_is_admitted_when_the_platform_names_it(name: str) -> None:
    planted = PLANTED[name]

    assert check(plant(planted), {planted.field: dict(planted.permitting)}) == []


def test_every_denial_has_a_planted_bypass_when_all_are_listed() -> None:
    assert {planted.field for planted in PLANTED.values()} == {denial.field for denial in DENIALS}


def test_every_list_of_denials_is_known_here_when_one_is_added() -> None:
    lists = {name for name in vars(denials) if name.isupper()}

    assert lists == {"RESERVED_TAINTS", "PRIORITY_CLASSES", "SERVICE_TYPES", "ENVS"}


def test_a_system_priority_class_is_admitted_when_the_profile_sets_it() -> None:
    objects = plant(PLANTED["the priority class of node agents"])

    assert check(objects, {}, profile=make_profile(priority_class="system-node-critical")) == []
    assert check(objects, {}, profile=make_profile(runtime_class="nvidia"))


def test_a_namespace_selector_is_denied_when_the_project_names_only_patterns() -> None:
    objects = plant(PLANTED["an affinity to all namespaces"])
    policy = {"affinity.namespaces": {"allowed": ["*"]}}

    assert check(objects, policy) == []
    assert check(objects, {**policy, "projects": {PROJECT: {"affinity.namespaces": {"allowed": ["team-*"]}}}})
