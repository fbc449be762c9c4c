"""The admin wins: hostile users against legal profiles and policies, judged by code that knows no resolver."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runyard.domain import rule_checks
from runyard.domain.layer_merge import put_layer
from runyard.domain.resolution import resolve
from runyard.manifests.metadata import make_marks
from runyard.manifests.workloads import render_workload
from runyard.spec.config_maps import parse_config_map_reference
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.patterns import matches
from runyard.spec.policy import Policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from tests.adversary import bypasses, victim, words
from tests.adversary.campaign import Tally, describe_failure, play_world
from tests.adversary.cases import Case, World
from tests.adversary.generator import CASES_PER_WORLD
from tests.adversary.judge import judge_objects
from tests.adversary.strategies import run_layers, worlds
from tests.adversary.tightenings import WORLD, iter_tightenings
from tests.adversary.trial import Stage, admit, make_stage, play, read_case, render_case
from tests.adversary.victim import Victim

SEED = int(os.environ.get("RUNYARD_ADVERSARY_SEED", "4"))
COUNT = int(os.environ.get("RUNYARD_ADVERSARY_CASES", "3000"))

HYPOTHESIS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@cache
def play_campaign() -> Tally:
    total = Tally()
    for number in range(-(-COUNT // CASES_PER_WORLD)):
        total.add(play_world(SEED, number, count=COUNT, every=4))
    return total


def test_nothing_breaks_when_hostile_users_meet_legal_policies() -> None:
    tally = play_campaign()
    if tally.failures:
        number, complaints = tally.failures[0]
        pytest.fail(f"{len(tally.failures)} of {tally.count}: {complaints}\n{describe_failure(SEED, number)}")
    assert tally.count == COUNT


def test_every_way_out_is_taken_when_the_generator_plays() -> None:
    tally = play_campaign()
    assert tally.accepted_share >= 0.3
    assert min(tally.actions[action] for action in ("job", "serve", "deploy")) > COUNT / 50
    assert min(tally.verdicts[verdict] for verdict in ("unreadable", "refused", "unrendered")) > COUNT / 50
    refusals = {code.removeprefix("refused: ") for code in tally.codes if code.startswith("refused: ")}
    assert refusals >= {f"policy.{clause}" for clause in ("max", "min", "options", "allowed", "denied", "locked")}
    assert refusals >= {f"denied.{what}" for what in ("toleration", "service_type", "env", "namespace", "claim")}
    assert refusals >= {"secret.unknown", "claim.unknown", "config_map.unknown", "profile.unknown", "collision"}
    assert tally.codes["accepted: override"] > COUNT / 100


FOUND_BY_CAMPAIGNS: dict[str, tuple[World, Case]] = {
    "platform variable beside a lock": (
        World(
            policy={"projects": {"vision": {"envs": {"default": {}, "locked": True}}}},
            profiles=[[{"id": "small", "envs": {"RUN_ID": "admin"}}]],
        ),
        Case(run={"image": "busybox:1.36", "profile": "small"}),
    ),
    "small request under a capped and locked resource": (
        World(
            policy={
                "resources.cpu.limits": {"max": "2"},
                "projects": {"speech": {"resources.cpu": {"locked": True}}},
            }
        ),
        Case(project="speech", run={"image": "python:3.11"}),
    ),
    "a capped limit beside a locked request": (
        World(
            policy={
                "resources.ephemeral-storage.requests": {"locked": True},
                "resources.ephemeral-storage.limits": {"max": "1Ti", "locked": True},
            }
        ),
        Case(run={"image": "python:3.11"}),
    ),
    "a locked amount beside a default limit": (
        World(
            policy={
                "resources.ephemeral-storage": {"default": "2Gi", "locked": True},
                "resources.ephemeral-storage.limits": {"default": "50Gi"},
            }
        ),
        Case(run={"image": "python:3.11"}),
    ),
    "a project that calls other things GPUs": (
        World(
            policy={
                "resources.gpu": {"default": 2, "locked": True},
                "platform": {"gpu_resources": ["nvidia.com/gpu"]},
                "projects": {"vision": {"platform": {"gpu_resources": ["amd.com/gpu"]}}},
            },
            profiles=[[{"id": "1xa100", "resources": {"limits": {"nvidia.com/gpu": 4}}}]],
        ),
        Case(run={"image": "busybox:1.36", "profile": "1xa100"}),
    ),
    "a project that asks for a larger tolerance": (
        World(
            policy={
                "platform": {"mem_tolerance": 1.1},
                "projects": {
                    "speech": {
                        "resources": {"mem": {"options": ["2G"], "requests": {"default": "2G"}}},
                        "platform": {"mem_tolerance": 2},
                    }
                },
            }
        ),
        Case(project="speech", run={"image": "python:3.11"}),
    ),
    "a policy's own limit that a weaker layer had asked for": (
        World(
            policy={"projects": {"audio": {"resources.cpu.limits": {"max": 4, "locked": True}}}},
            profiles=[[{"id": "default", "resources": {"cpu": {"requests": "501m"}}}]],
        ),
        Case(
            project="audio",
            function={"resources": {"cpu": {"limits": 4}}},
            run={"image": "busybox:1.36", "resources": {"cpu": "16"}},
        ),
    ),
    "a project that names no Python image": (
        World(policy={"image": {"allowed": []}, "projects": {"speech": {"platform": {"python_images": {}}}}}),
        Case(project="speech", kind="python", run={"python_version": "PYTHON3_13", "command": ["python"]}),
    ),
}


@pytest.mark.parametrize("name", FOUND_BY_CAMPAIGNS)
def test_nobody_complains_when_a_case_of_a_long_campaign_is_played(name: str) -> None:
    world, case = FOUND_BY_CAMPAIGNS[name]
    outcome = play(case, make_stage(world))
    assert (outcome.verdict, outcome.complaints) == ("accepted", ())


@HYPOTHESIS
@given(
    world=worlds(),
    run=run_layers(),
    task=st.none() | run_layers(),
    action=st.sampled_from(["job", "serve", "deploy"]),
    project=st.sampled_from(words.PROJECTS),
    is_anchor=st.booleans(),
)
def test_admin_wins_when_hypothesis_asks(
    world: World, run: Any, task: Any, action: str, project: str, is_anchor: bool
) -> None:
    case = Case(run=run, task=task, action=action, project=project, is_anchor=is_anchor)
    assert not play(case, make_stage(world)).complaints


@HYPOTHESIS
@given(
    field=st.sampled_from(
        ["resources", "volumes", "tolerations", "affinity", "envs", "secrets", "node_selector", "image"]
    ),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(words.STRANGE_KEYS),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4),
        max_leaves=12,
    ),
)
@example(field="resources", value={"cpu": None})
@example(field="resources", value={"requests": None, "limits": {"memory": None}})
def test_answer_is_orderly_when_a_field_is_anything_at_all(field: str, value: Any) -> None:
    outcome = play(Case(run={"image": "busybox:1.36", field: value}), make_stage(World()))
    assert not outcome.complaints


VICTIM_WORLDS = {"policy": victim.WORLD, "no policy": victim.NO_POLICY}


@cache
def get_stage(world: str = "policy", version: str = "latest") -> Stage:
    return make_stage(replace(VICTIM_WORLDS[world], kubernetes_version=version))


def render_victim(case: Case, stage: Stage) -> Victim:
    resolution = resolve(read_case(case), stage.admin_rules, stage.inventory)
    assert not resolution.refusals
    return Victim(render_case(case, stage, resolution))


def list_complaints(changed: Victim, case: Case, stage: Stage) -> tuple[list[str], list[str]]:
    """What the judge says, and what admission says."""
    resolution = resolve(read_case(case), stage.admin_rules, stage.inventory)
    judged = judge_objects(changed.objects, case, stage.documents)
    return judged, [str(problem) for problem in admit(changed.objects, case, stage, resolution)]


def plant(change: bypasses.Change, case: Case, stage: Stage) -> list[str]:
    """Plant a bypass; who does not complain about it: the judge, admission, both or nobody."""
    changed = render_victim(case, stage)
    change(changed)
    judged, admitted = list_complaints(changed, case, stage)
    return [name for name, complaints in (("judge", judged), ("admission", admitted)) if not complaints]


VICTIMS = {
    "job": victim.JOB,
    "service": victim.SERVICE,
    "anchor": victim.ANCHOR,
    "served anchor": victim.SERVED_ANCHOR,
}
PLANTED = {
    "job": bypasses.JOB_BYPASSES,
    "service": bypasses.SERVICE_BYPASSES,
    "anchor": bypasses.ANCHOR_BYPASSES,
    "served anchor": bypasses.SERVED_ANCHOR_BYPASSES,
}


@pytest.mark.parametrize("world", VICTIM_WORLDS)
@pytest.mark.parametrize("case", VICTIMS)
def test_nobody_complains_when_nothing_was_planted(case: str, world: str) -> None:
    stage = get_stage(world)
    assert list_complaints(render_victim(VICTIMS[case], stage), VICTIMS[case], stage) == ([], [])


@pytest.mark.parametrize("world", VICTIM_WORLDS)
@pytest.mark.parametrize(("case", "name"), [(case, name) for case, planted in PLANTED.items() for name in planted])
def test_judge_and_admission_complain_when_a_bypass_is_planted(case: str, name: str, world: str) -> None:
    assert plant(PLANTED[case][name], VICTIMS[case], get_stage(world)) == []


@pytest.mark.parametrize("version", words.KUBERNETES_VERSIONS)
@pytest.mark.parametrize("name", bypasses.POD_SECURITY_BYPASSES)
def test_judge_and_admission_complain_when_a_cluster_is_of_another_version(name: str, version: str) -> None:
    assert plant(bypasses.POD_SECURITY_BYPASSES[name], victim.JOB, get_stage("no policy", version)) == []


@pytest.mark.parametrize("name", bypasses.POLICY_BYPASSES)
def test_judge_and_admission_complain_when_a_job_breaks_a_rule(name: str) -> None:
    assert plant(bypasses.POLICY_BYPASSES[name], victim.JOB, get_stage()) == []


@pytest.mark.parametrize("name", bypasses.SERVICE_POLICY_BYPASSES)
def test_judge_and_admission_complain_when_a_service_breaks_a_rule(name: str) -> None:
    assert plant(bypasses.SERVICE_POLICY_BYPASSES[name], victim.SERVICE, get_stage()) == []


@pytest.mark.parametrize("world", VICTIM_WORLDS)
@pytest.mark.parametrize("name", bypasses.PROFILE_BYPASSES)
def test_judge_and_admission_complain_when_a_leaf_of_the_profile_is_changed(name: str, world: str) -> None:
    assert plant(bypasses.PROFILE_BYPASSES[name], victim.JOB, get_stage(world)) == []


def render_wrongly(wrong: Mapping[str, Any]) -> Victim:
    """What the run becomes where the resolver erred in these fields."""
    stage = get_stage()
    resolution = resolve(read_case(victim.JOB), stage.admin_rules, stage.inventory)
    fields: dict[str, Any] = {
        name: MappingProxyType(value) if isinstance(value, dict) else value for name, value in wrong.items()
    }
    erred = replace(resolution, spec=replace(resolution.spec, **fields))
    return Victim(render_case(victim.JOB, stage, erred))


@pytest.mark.parametrize("name", bypasses.SPEC_BYPASSES)
def test_judge_and_admission_complain_when_the_resolver_errs_against_the_policy(name: str) -> None:
    judged, admitted = list_complaints(render_wrongly(bypasses.SPEC_BYPASSES[name]), victim.JOB, get_stage())
    assert judged, "the judge saw nothing"
    assert admitted, "admission saw nothing"


@pytest.mark.parametrize("name", bypasses.PROFILE_SPEC_BYPASSES)
def test_judge_and_admission_complain_when_the_resolver_errs_against_the_profile(name: str) -> None:
    judged, admitted = list_complaints(render_wrongly(bypasses.PROFILE_SPEC_BYPASSES[name]), victim.JOB, get_stage())
    assert judged, "the judge saw nothing"
    assert admitted, "admission saw nothing"


TIGHTENINGS = {name: (case, world) for name, case, world in iter_tightenings()}


def list_answers(case: Case, stage: Stage) -> tuple[list[str], list[dict[str, Any]]]:
    """The codes of refusals, and the objects where there are none."""
    resolution = resolve(read_case(case), stage.admin_rules, stage.inventory)
    codes = [problem.code.value for problem in resolution.refusals]
    return codes, [] if codes else render_case(case, stage, resolution)


@pytest.mark.parametrize("name", TIGHTENINGS)
def test_resolver_judge_and_admission_agree_when_one_clause_is_added(name: str) -> None:
    case, world = TIGHTENINGS[name]
    before, after = make_stage(WORLD), make_stage(world)
    _, objects = list_answers(case, before)
    assert objects
    assert not judge_objects(objects, case, before.documents)
    codes, changed = list_answers(case, after)
    assert codes or changed != objects, "the resolver goes on as before"
    resolution = resolve(read_case(case), before.admin_rules, before.inventory)
    assert judge_objects(objects, case, after.documents), "the judge saw nothing"
    assert admit(objects, case, after, resolution), "admission saw nothing"


def ignore_profiles(board: Any, layer: Any, setting: Any) -> None:
    if layer.owner != "profile":
        put_layer(board, layer, setting)


def lay_users_on_top(board: Any, layer: Any, setting: Any) -> None:
    """A profile's fields count only where no user has said anything."""
    fields = {name: None for name in layer.fields.__dict__ if layer.owner == "profile" and board.under(name)}
    put_layer(board, replace(layer, fields=layer.fields.model_copy(update=fields)), setting)


def resolve_in_silence(*arguments: Any) -> Any:
    return replace(resolve(*arguments), warnings=())


def resolve_without_an_owner(*arguments: Any) -> Any:
    resolution = resolve(*arguments)
    return replace(resolution, leaves=resolution.leaves[:-1])


def resolve_with_a_crash(*arguments: Any) -> Any:
    resolution = resolve(*arguments)
    wrong: Any = tuple(range(resolution.spec.replicas or 0))
    return replace(resolution, spec=replace(resolution.spec, volumes=wrong))


def resolve_with_a_wrong_refusal(*arguments: Any) -> Any:
    return replace(resolve(*arguments), refusals=(Problem(Code.POLICY_MAX, (), ""),))


def widen_bounds(name: str, rule: Any, scope: Any, ruled: Any) -> Any:
    """A max that one unit more does not break."""
    found = list(CHECK_BOUNDS(name, rule, scope, ruled))
    is_amount = isinstance(ruled.value, Quantity)
    unit = Quantity.parse("1m") if name.startswith("resources.cpu") else Quantity.from_int(1)
    if rule.max is not None and ruled.value <= rule.max + (unit if is_amount else 1):
        return [problem for problem in found if problem.code != "policy.max"]
    return found


def get_scopes_of_the_first_project(policy: Policy, project: str) -> Any:
    return GET_SCOPES(policy, next(iter(policy.projects), project))


def mark_as_visions(*arguments: Any, **more: Any) -> Any:
    return replace(make_marks(*arguments, **more), namespace="runyard-vision")


def start_at_once(*arguments: Any, is_anchor: bool = False) -> Any:
    del is_anchor
    return render_workload(*arguments, is_anchor=False)


def parse_without_the_version(given: Any) -> Any:
    """A reference that always means the newest version."""
    return replace(parse_config_map_reference(given), version=None)


def match_images_as_text(pattern: str, image: str) -> bool:
    """A comparison that knows neither digests nor registries."""
    return matches(pattern, image) or matches(f"{pattern}*", image)


CHECK_BOUNDS = rule_checks._check_bounds
GET_SCOPES = Policy.get_scopes

SABOTAGES: dict[str, tuple[str, Any]] = {
    "locks are not applied": ("runyard.domain.resolution.apply_locks", lambda *_: None),
    "rules are not checked": ("runyard.domain.resolution.check_rules", lambda *_, **__: []),
    "denials are not checked": ("runyard.domain.resolution.check_denials", lambda *_: []),
    "references are not settled": ("runyard.domain.resolution.settle_references", lambda *_: None),
    "collisions are not settled": ("runyard.domain.resolution.settle_collisions", lambda *_: None),
    "profiles are ignored": ("runyard.domain.resolution.put_layer", ignore_profiles),
    "users win over profiles": ("runyard.domain.resolution.put_layer", lay_users_on_top),
    "warnings are lost": ("tests.adversary.trial.resolve", resolve_in_silence),
    "an owner is lost": ("tests.adversary.trial.resolve", resolve_without_an_owner),
    "a spec cannot be rendered": ("tests.adversary.trial.resolve", resolve_with_a_crash),
    "a refusal says nothing": ("tests.adversary.trial.resolve", resolve_with_a_wrong_refusal),
    "the container's security is left out": ("runyard.manifests.pod.render_container_security", lambda _: {}),
    "the pod's security is left out": ("runyard.manifests.pod.render_pod_security", lambda _: {}),
    "requests and limits are left out": ("runyard.manifests.pod.render_resources", lambda _: {}),
    "mounts are left out": ("runyard.manifests.pod.render_mounts", lambda _: []),
    "variables are left out": ("runyard.manifests.pod.render_env", lambda *_: []),
    "a max is one unit too wide": ("runyard.domain.rule_checks._check_bounds", widen_bounds),
    "all projects get the rules of the first": (
        "runyard.spec.policy.Policy.get_scopes",
        get_scopes_of_the_first_project,
    ),
    "versions of config maps are ignored": (
        "runyard.domain.project_references.parse_config_map_reference",
        parse_without_the_version,
    ),
    "secrets are not variables": (
        "runyard.domain.locks_and_defaults.list_variables",
        lambda board: board.under("envs"),
    ),
    "images are compared as text": ("runyard.domain.rule_checks.matches_image", match_images_as_text),
    "any toleration of the control plane passes": ("runyard.spec.denials.is_reserved_taint", lambda _: False),
    "all objects go into one namespace": ("runyard.manifests.render.make_marks", mark_as_visions),
    "anchors start at once": ("runyard.manifests.render.render_workload", start_at_once),
}


def find_complaint_of_the_judge() -> str | None:
    """The first complaint of the judge in 20 worlds; admission's do not count."""
    for number in range(20):
        tally = play_world(SEED, number, count=20 * CASES_PER_WORLD, every=4)
        complaints = [complaint for _, found in tally.failures for complaint in found]
        judged = [complaint for complaint in complaints if not complaint.startswith("admission: ")]
        if judged:
            return judged[0]
    return None


@pytest.mark.parametrize("name", SABOTAGES)
def test_campaign_fails_when_the_product_is_sabotaged(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, replacement = SABOTAGES[name]
    monkeypatch.setattr(target, replacement)
    assert find_complaint_of_the_judge() is not None


def test_policy_is_refused_with_a_path_when_it_is_not_legal() -> None:
    with pytest.raises(Refused) as caught:
        make_stage(World(policy={"resources.mem": {"max": "lots"}, "projects": {"vision": {"imag": {}}}}))
    assert {problem.where for problem in caught.value.problems} == {"resources.mem.max", "projects.vision.imag"}
