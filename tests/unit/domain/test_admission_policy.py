from collections.abc import Callable
from typing import Any

import pytest

from runyard.spec.profile import Profile
from runyard.spec.run_fields import read_admin_fields
from tests.unit.domain.legal_objects import PROJECT, make_job, make_profile, make_service
from tests.unit.domain.planted_bypasses import CONTAINER, Objects, append_to, find, judge, label_all, main, pod, set_at

CONTAINER_PATH = "spec.template.spec.containers[0]"
RULES: list[tuple[dict[str, Any], str]] = [
    ({"resources.cpu": {"max": "3"}}, "policy.max"),
    ({"resources.cpu": {"min": "3"}}, "policy.min"),
    ({"resources.cpu": {"options": ["1", "4"]}}, "policy.options"),
    ({"resources.cpu.requests": {"max": "1"}}, "policy.max"),
    ({"resources.cpu.limits": {"max": "3999m"}}, "policy.max"),
    ({"resources.mem": {"max": "7Gi"}}, "policy.max"),
    ({"resources.mem": {"min": "5Gi"}}, "policy.min"),
    ({"resources.mem.limits": {"options": ["4Gi"]}}, "policy.options"),
    ({"resources.ephemeral-storage": {"required": True}}, "policy.required"),
    ({"resources.gpu": {"max": "0"}}, "policy.max"),
    ({"resources.gpu": {"options": ["2", "4"]}}, "policy.options"),
    ({"resources.gpu": {"max": "0"}, "platform": {"gpu_resources": ["nvidia.com/gpu", "amd.com/gpu"]}}, "policy.max"),
    ({"resources.disk": {"max": "9Gi"}}, "policy.max"),
    ({"resources.disk": {"min": "11Gi"}}, "policy.min"),
    ({"volumes.size": {"max": "9Gi"}}, "policy.max"),
    ({"volumes.size": {"options": ["1Gi"]}}, "policy.options"),
    ({"volumes.size_limit": {"max": "512Mi"}}, "policy.max"),
    ({"volumes.storage_class": {"allowed": ["slow"]}}, "policy.allowed"),
    ({"volumes.storage_class": {"denied": ["fa*"]}}, "policy.denied"),
    ({"volumes.storage_class": {"options": ["slow"]}}, "policy.options"),
    ({"volumes.type": {"allowed": ["persistent_volume_claim"]}}, "policy.allowed"),
    ({"volumes.type": {"denied": ["empty_dir"]}}, "policy.denied"),
    ({"volumes.type": {"denied": ["shared_volume"]}}, "policy.denied"),
    ({"volumes.type": {"denied": ["persistent_volume_claim"]}}, "policy.denied"),
    ({"volumes.type": {"denied": ["config_map"]}}, "policy.denied"),
    ({"volumes.type": {"denied": ["image"]}}, "policy.denied"),
    ({"volumes.type": {"denied": ["ephemeral"]}}, "policy.denied"),
    ({"node_selector": {"allowed": ["zone"]}}, "policy.allowed"),
    ({"node_selector": {"allowed": ["disktype"]}}, "policy.allowed"),
    ({"node_selector": {"denied": ["zone"]}}, "policy.denied"),
    ({"node_selector": {"required": ["pool"]}}, "policy.required"),
    ({"node_selector": {"required": ["zone"]}}, "policy.required"),
    ({"tolerations": {"allowed": [{"key": "gpu"}]}}, "policy.allowed"),
    ({"tolerations": {"allowed": []}}, "policy.allowed"),
    ({"tolerations": {"allowed": [{"key": "spot", "effect": "NoExecute"}]}}, "policy.allowed"),
    ({"tolerations": {"allowed": [{"key": "spot", "value": "true"}]}}, "policy.allowed"),
    ({"tolerations": {"denied": [{"key": "sp*"}]}}, "policy.denied"),
    ({"tolerations": {"denied": [{"key": "spot", "value": "x"}]}}, "policy.denied"),
    ({"runtime_class": {"allowed": ["kata"]}}, "policy.allowed"),
    ({"runtime_class": {"options": ["kata"]}}, "policy.options"),
    ({"priority_class": {"denied": ["batch"]}}, "policy.denied"),
    ({"image": {"allowed": ["ghcr.io/acme/t*"]}}, "policy.allowed"),
    ({"image": {"allowed": ["ghcr.io/acme/w*"]}}, "policy.allowed"),
    ({"image": {"denied": ["*/acme/*"]}}, "policy.denied"),
    ({"image_pull_policy": {"options": ["IfNotPresent"]}}, "policy.options"),
    ({"run_as_user": {"min": 2000}}, "policy.min"),
    ({"run_as_group": {"max": 999}}, "policy.max"),
    ({"fs_group": {"options": [1]}}, "policy.options"),
    ({"backoff_limit": {"max": 1}}, "policy.max"),
    ({"timeout": {"max": "1h"}}, "policy.max"),
    ({"timeout": {"min": "3h"}}, "policy.min"),
    ({"pending_timeout": {"max": "30m"}}, "policy.max"),
    ({"ttl": {"max": "5m"}}, "policy.max"),
    ({"grace_period": {"max": "10s"}}, "policy.max"),
    ({"envs": {"allowed": ["HF_*"]}}, "policy.allowed"),
    ({"envs": {"denied": ["HF_TOKEN"]}}, "policy.denied"),
    ({"envs": {"denied": ["EPOCHS"]}}, "policy.denied"),
    ({"envs": {"required": ["TEAM"]}}, "policy.required"),
    ({"secrets": {"denied": ["KAGGLE"]}}, "policy.denied"),
    ({"profile": {"required": True}}, "policy.required"),
    ({"resources.cpu": {"default": "1", "locked": True}}, "policy.locked"),
    ({"resources.cpu": {"default": "4", "locked": True}}, "policy.locked"),
    ({"tolerations": {"default": [{"key": "gpu", "operator": "Exists"}], "locked": True}}, "policy.locked"),
    ({"resources.mem": {"default": "4Gi", "locked": True}}, "policy.locked"),
    ({"resources.mem.limits": {"default": "4Gi", "locked": True}}, "policy.locked"),
    ({"resources.gpu": {"default": "0", "locked": True}}, "policy.locked"),
    ({"resources.disk": {"default": "1Gi", "locked": True}}, "policy.locked"),
    ({"resources.cpu": {"locked": True}}, "policy.locked"),
    ({"resources.gpu": {"locked": True}}, "policy.locked"),
    ({"volumes.size": {"default": "1Gi", "locked": True}}, "policy.locked"),
    ({"volumes.size": {"locked": True}}, "policy.locked"),
    ({"volumes.storage_class": {"default": "slow", "locked": True}}, "policy.locked"),
    ({"node_selector": {"default": {"pool": "a"}, "locked": True}}, "policy.locked"),
    ({"node_selector": {"locked": True}}, "policy.locked"),
    ({"tolerations": {"default": [], "locked": True}}, "policy.locked"),
    ({"tolerations": {"locked": True}}, "policy.locked"),
    ({"affinity": {"default": {}, "locked": True}}, "policy.locked"),
    ({"affinity": {"locked": True}}, "policy.locked"),
    ({"envs": {"default": {"EPOCHS": "4"}, "locked": True}}, "policy.locked"),
    ({"envs": {"locked": True}}, "policy.locked"),
    ({"runtime_class": {"default": "kata", "locked": True}}, "policy.locked"),
    ({"runtime_class": {"locked": True}}, "policy.locked"),
    ({"image": {"default": "ghcr.io/acme/other:1", "locked": True}}, "policy.locked"),
    ({"image": {"default": "ghcr.io/acme/train:1", "locked": True}}, "policy.locked"),
    ({"run_as_user": {"default": 8877, "locked": True}}, "policy.locked"),
    ({"timeout": {"default": "1h", "locked": True}}, "policy.locked"),
    ({"profile": {"default": "big", "locked": True}}, "policy.locked"),
]


@pytest.mark.parametrize(("policy", "code"), RULES, ids=lambda given: str(given)[:60])
@pytest.mark.parametrize("is_projects", [False, True], ids=["platform", "project"])
def test_it_is_refused_when_a_rule_is_broken_in_any_scope(policy: dict[str, Any], code: str, is_projects: bool) -> None:
    rules = {"projects": {PROJECT: policy}} if is_projects else policy

    assert code in {problem.code for problem in judge(make_job(), policy=rules)}


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ({"service_type": {"allowed": ["ClusterIP"]}}, "policy.allowed"),
        ({"service_type": {"options": ["LoadBalancer"]}}, "policy.options"),
        ({"service_type": {"default": "ClusterIP", "locked": True}}, "policy.locked"),
        ({"replicas": {"max": 1}}, "policy.max"),
        ({"replicas": {"min": 3}}, "policy.min"),
        ({"replicas": {"default": 1, "locked": True}}, "policy.locked"),
    ],
)
def test_it_is_refused_when_a_service_breaks_a_rule(policy: dict[str, Any], code: str) -> None:
    assert code in {problem.code for problem in judge(make_service(), policy=policy)}


def test_only_the_named_projects_rules_hold_when_there_are_several() -> None:
    assert judge(make_job(), policy={"projects": {"other": {"resources.cpu": {"max": "1"}}}}) == []


@pytest.mark.parametrize("make", [make_job, make_service])
def test_nothing_is_found_when_a_wide_policy_holds(make: Callable[[], Objects]) -> None:
    policy = {
        "resources": {"cpu": {"min": "1", "max": "4"}, "mem": {"options": ["4Gi", "8Gi"]}, "gpu": {"max": 1}},
        "volumes": {"size": {"max": "10Gi"}, "size_limit": {"max": "1Gi"}, "storage_class": {"options": ["fast"]}},
        "node_selector": {"allowed": ["disktype", "zo*"], "required": ["disktype"]},
        "tolerations": {"allowed": [{"key": "spot", "operator": "Exists"}], "denied": [{"key": "gpu"}]},
        "image": {"allowed": ["ghcr.io/acme/*"], "denied": ["docker.io/*"]},
        "envs": {"allowed": ["EPOCHS", "HF_*"], "required": ["EPOCHS"]},
        "secrets": {"allowed": ["HF_*", "KAGGLE"]},
        "run_as_user": {"default": 1000, "locked": True},
        "service_type": {"options": ["NodePort"]},
        "timeout": {"max": "2h"},
        "runtime_class": {"options": ["nvidia"]},
    }

    assert judge(make(), policy=policy) == []


LIFTED: list[tuple[Callable[[Objects], None], dict[str, Any], dict[str, Any]]] = [
    (
        append_to("tolerations", value={"operator": "Exists"}),
        {"tolerations": {"allowed": [{"key": "spot"}, {"key": ""}]}},
        {"tolerations": {"allowed": [{"key": "*"}]}},
    ),
    (
        append_to("tolerations", value={"key": "node-role.kubernetes.io/master", "operator": "Exists"}),
        {"tolerations": {"allowed": [{"key": "spot"}, {"key": "node-role.kubernetes.io/master"}]}},
        {"tolerations": {"allowed": [{"key": "spot"}, {"key": "node-role.kubernetes.io/*"}]}},
    ),
    (
        append_to(*CONTAINER, "env", value={"name": "DHCORE_ENDPOINT", "value": "x"}),
        {"envs": {"allowed": ["*", "DHCORE_ENDPOINT"]}},
        {"envs": {"allowed": ["*"]}},
    ),
    (
        set_at("volumes", 1, "persistentVolumeClaim", "claimName", value="datasets"),
        {"volumes.claim_name": {"allowed": ["data*"]}},
        {"volumes.claim_name": {"denied": ["x"]}},
    ),
    (
        set_at(
            "affinity",
            "podAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            value=[{"topologyKey": "zone", "namespaces": ["team-a"]}],
        ),
        {"affinity.namespaces": {"allowed": ["team-*"]}},
        {"affinity.namespaces": {"allowed": ["other"]}},
    ),
    (
        set_at(
            "affinity",
            "podAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            value=[{"topologyKey": "zone", "namespaceSelector": {}}],
        ),
        {"affinity.namespaces": {"allowed": ["*"]}},
        {"affinity.namespaces": {"allowed": ["team-*"]}},
    ),
]


@pytest.mark.parametrize(("mutate", "leave", "less"), LIFTED)
def test_a_denial_is_lifted_when_the_platforms_policy_names_it_and_only_then(
    mutate: Callable[[Objects], None], leave: dict[str, Any], less: dict[str, Any]
) -> None:
    objects = make_job()
    mutate(objects)

    assert judge(objects, policy=leave) == []
    assert judge(objects, policy=less)
    assert judge(objects, policy={"projects": {PROJECT: leave}})


@pytest.mark.parametrize(
    ("leave", "passes"),
    [
        ({"service_type": {"options": ["NodePort", "LoadBalancer"]}}, True),
        ({"service_type": {"allowed": ["NodePort", "LoadBalancer"]}}, True),
        ({"service_type": {"allowed": ["*"]}}, False),
        ({"service_type": {"default": "LoadBalancer"}}, True),
        ({"projects": {PROJECT: {"service_type": {"options": ["NodePort", "LoadBalancer"]}}}}, False),
    ],
)
def test_a_load_balancer_needs_its_name_when_a_policy_allows_it(leave: dict[str, Any], passes: bool) -> None:
    objects = make_service()
    find(objects, "Service")["spec"]["type"] = "LoadBalancer"

    assert (judge(objects, policy=leave) == []) == passes


EXCUSED: list[tuple[Callable[[Objects], None], dict[str, Any], dict[str, Any]]] = [
    (append_to("tolerations", value={"operator": "Exists"}), {}, {"tolerations": [{"operator": "Exists"}]}),
    (
        lambda objects: None,
        {"tolerations": {"allowed": []}},
        {"tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]},
    ),
    (lambda objects: None, {"runtime_class": {"allowed": []}}, {"runtime_class": "nvidia"}),
    (lambda objects: None, {"priority_class": {"denied": ["*"]}}, {"priority_class": "batch"}),
    (
        lambda objects: None,
        {"image": {"allowed": ["ghcr.io/acme/w*"]}},
        {"image": "ghcr.io/acme/train:1"},
    ),
    (
        lambda objects: None,
        {"envs": {"denied": ["EPOCHS"]}},
        {"envs": {"EPOCHS": "3"}},
    ),
    (lambda objects: None, {"envs": {"denied": ["HF_TOKEN"]}}, {"secrets": ["HF_TOKEN"]}),
    (
        append_to(*CONTAINER, "env", value={"name": "DHCORE_ENDPOINT", "value": "x"}),
        {},
        {"envs": {"DHCORE_ENDPOINT": "x"}},
    ),
    (lambda objects: None, {"resources.gpu": {"options": ["4"]}}, {"resources": {"limits": {"nvidia.com/gpu": 1}}}),
    (lambda objects: None, {"resources.cpu.requests": {"options": ["1"]}}, {"resources": {"cpu": "2"}}),
    (lambda objects: None, {"run_as_user": {"options": [5]}}, {"run_as_user": 1000}),
    (set_at("serviceAccountName", value="trainer"), {}, {"service_account": "trainer"}),
    (set_at("schedulerName", value="gpu"), {}, {"scheduler_name": "gpu"}),
    (
        set_at("hostAliases", value=[{"ip": "10.0.0.1", "hostnames": ["a"]}]),
        {},
        {"host_aliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]},
    ),
    (set_at("imagePullSecrets", value=[{"name": "reg"}]), {}, {"image_pull_secrets": ["reg"]}),
    (
        set_at(*CONTAINER, "resources", "limits", "example.com/nic", value="1"),
        {},
        {"resources": {"limits": {"example.com/nic": "1"}}},
    ),
    (label_all("team", "a"), {}, {"labels": {"team": "a"}}),
    (
        lambda objects: None,
        {"volumes.storage_class": {"options": ["slow"]}},
        {
            "volumes": [
                {"volume_type": "ephemeral", "name": "cache", "mount_path": "/cache", "spec": {"storage_class": "fast"}}
            ]
        },
    ),
]


@pytest.mark.parametrize(("mutate", "policy", "fields"), EXCUSED)
def test_a_value_passes_when_exactly_that_stands_in_the_profile(
    mutate: Callable[[Objects], None], policy: dict[str, Any], fields: dict[str, Any]
) -> None:
    objects = make_job()
    mutate(objects)

    assert judge(objects, policy=policy, profile=make_profile(**fields)) == []
    assert judge(objects, policy=policy)


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        ({"runtime_class": {"allowed": []}}, {"runtime_class": "kata"}),
        ({"envs": {"denied": ["EPOCHS"]}}, {"envs": {"EPOCHS": "4"}}),
        ({"node_selector": {"denied": ["disktype"]}}, {"node_selector": {"disktype": "hdd"}}),
        ({"tolerations": {"allowed": []}}, {"tolerations": [{"key": "spot", "operator": "Exists"}]}),
        ({"resources.cpu": {"max": "1"}}, {"resources": {"cpu": {"requests": "2", "limits": "4"}}}),
        ({"run_as_user": {"min": 2000}}, {"run_as_user": 1000}),
        ({"runtime_class": {"default": "kata", "locked": True}}, {"runtime_class": "nvidia"}),
        ({"tolerations": {"default": [], "locked": True}}, {"tolerations": [{"key": "spot", "operator": "Exists"}]}),
    ],
)
def test_a_profile_is_no_excuse_when_it_says_otherwise_or_the_rule_binds_it(
    policy: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert judge(make_job(), policy=policy, profile=make_profile(**fields))


def test_a_base_object_counts_when_it_is_of_the_workloads_kind() -> None:
    objects = make_job()
    pod(objects)["serviceAccountName"] = "trainer"
    fields = read_admin_fields({"service_account": "trainer"})

    assert judge(objects, profile=Profile(id="big", base={"Job": fields})) == []
    assert judge(objects, profile=Profile(id="big", base={"Deployment": fields}))


@pytest.mark.parametrize(
    ("policy", "profile", "code"),
    [
        ({"profile": {"options": ["small"]}}, "big", "policy.options"),
        ({"profile": {"denied": ["b*"]}}, "big", "policy.denied"),
        ({"profile": {"allowed": ["small"]}}, "big", "policy.allowed"),
        ({"profile": {"locked": True}}, "big", "policy.locked"),
        ({"profile": {"options": ["big"], "required": True}}, "big", None),
        ({"profile": {"options": ["small"]}}, "default", None),
        ({"profile": {"default": "big", "allowed": ["small"]}}, "big", None),
    ],
)
def test_the_profile_itself_is_judged_when_a_policy_rules_it(
    policy: dict[str, Any], profile: str, code: str | None
) -> None:
    problems = judge(make_job(), policy=policy, profile=Profile(id=profile))

    assert [problem.code for problem in problems] == ([code] if code else [])


def test_a_derived_memory_limit_passes_when_options_are_for_what_is_asked() -> None:
    objects = make_job()
    main(objects)["resources"]["limits"]["memory"] = "4724464026"

    assert judge(objects, policy={"resources.mem": {"options": ["4Gi"]}}) == []
    main(objects)["resources"]["limits"]["memory"] = "4724464027"
    assert judge(objects, policy={"resources.mem": {"options": ["4Gi"]}})


@pytest.mark.parametrize(("platform", "project"), [("2", "1.5"), ("1.5", "2")])
def test_smallest_tolerance_derives_the_memory_limit_when_platform_and_project_set_one(
    platform: str, project: str
) -> None:
    policy = {
        "resources.mem": {"options": ["4Gi"]},
        "platform": {"mem_tolerance": platform},
        "projects": {PROJECT: {"platform": {"mem_tolerance": project}}},
    }
    objects = make_job()
    main(objects)["resources"]["limits"]["memory"] = "6Gi"

    assert judge(objects, policy=policy) == []
    main(objects)["resources"]["limits"]["memory"] = "8Gi"
    assert [problem.code for problem in judge(objects, policy=policy)] == ["policy.options"]


def test_size_is_bounded_when_only_an_ephemeral_volume_is_too_large() -> None:
    objects = make_job()
    claim = pod(objects)["volumes"][2]["ephemeral"]["volumeClaimTemplate"]["spec"]
    claim["resources"]["requests"]["storage"] = "11Gi"

    problems = judge(objects, policy={"volumes.size": {"max": "10Gi"}})

    assert [problem.code for problem in problems] == ["policy.max"]
    assert "ephemeral" in problems[0].path


@pytest.mark.parametrize("fields", ["matchExpressions", "matchFields"])
def test_node_key_is_ruled_when_an_affinity_names_it_in_any_form(fields: str) -> None:
    objects = make_job()
    terms = pod(objects)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms["nodeSelectorTerms"] = [{fields: [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]

    problems = judge(objects, policy={"node_selector": {"denied": ["metadata.name"]}})

    assert [problem.code for problem in problems] == ["policy.denied"]


@pytest.mark.parametrize(
    ("platform", "project", "passes"),
    [(None, None, False), ("baseline", None, True), ("baseline", "restricted", False), (None, "baseline", False)],
)
def test_pod_security_is_relaxed_when_the_platform_says_so_and_no_project_tightens_it(
    platform: str | None, project: str | None, passes: bool
) -> None:
    objects = make_job()
    main(objects)["securityContext"] = {"privileged": False}
    policy = {"platform": {"pod_security": platform}, "projects": {PROJECT: {"platform": {"pod_security": project}}}}

    assert (judge(objects, policy=policy) == []) == passes


@pytest.mark.parametrize(
    ("policy", "passes"),
    [
        ({"runtime_class": {"default": "nvidia"}, "projects": {PROJECT: {"runtime_class": {"locked": True}}}}, True),
        ({"runtime_class": {"default": "kata"}, "projects": {PROJECT: {"runtime_class": {"locked": True}}}}, False),
        ({"runtime_class": {"default": "nvidia", "allowed": ["kata"]}}, True),
        ({"runtime_class": {"default": "kata", "allowed": ["kata"]}}, False),
        ({"volumes.storage_class": {"default": "fast", "allowed": ["slow"]}}, True),
        ({"volumes.size": {"options": ["1Gi"], "max": "10Gi"}}, True),
        ({"node_selector": {"default": {"disktype": "ssd"}, "allowed": ["zone"]}}, True),
        ({"node_selector": {"default": {"disktype": "hdd"}, "allowed": ["zone"]}}, False),
        ({"envs": {"default": {"EPOCHS": "3"}, "denied": ["EPOCHS"]}}, True),
        ({"envs": {"default": {"EPOCHS": "4"}, "denied": ["EPOCHS"]}}, False),
        ({"resources.cpu": {"required": True}, "resources.mem.limits": {"required": True}}, True),
        ({"resources.mem.limits": {"default": "8Gi", "options": ["8Gi", "1Gi"]}}, True),
        ({"resources.cpu": {"default": "2", "locked": True}, "resources.cpu.limits": {"default": "4"}}, True),
        ({"resources.cpu": {"default": "2", "locked": True}, "resources.cpu.limits": {"default": "5"}}, False),
        ({"resources.gpu": {"required": True, "default": "1", "locked": True}}, True),
        ({"node_selector": {"default": {"disktype": "ssd"}, "locked": True}}, False),
        ({"tolerations": {"allowed": [{"key": "spot", "value": ""}]}}, False),
        ({"tolerations": {"allowed": [{"key": "spot", "value": "*"}]}}, True),
        ({"tolerations": {"denied": [{"key": "spot", "effect": "NoExecute"}]}}, True),
        ({"tolerations": {"denied": [{"key": ""}]}}, True),
        ({"platform": {"gpu_resources": ["amd.com/gpu"]}}, False),
        ({"platform": {"disk_medium": "empty_dir"}}, False),
    ],
    ids=lambda given: str(given)[:70],
)
def test_the_policys_own_words_count_when_a_job_is_judged(policy: dict[str, Any], passes: bool) -> None:
    assert (judge(make_job(), policy=policy) == []) == passes


def test_a_python_image_passes_when_only_others_are_allowed_to_users() -> None:
    objects = make_job()
    main(objects)["image"] = "python:3.12"
    policy = {"image": {"allowed": ["ghcr.io/*"]}}

    assert judge(objects, policy=policy) == []
    main(objects)["image"] = "python:3.9"
    assert judge(objects, policy=policy)


def test_the_built_in_size_is_no_lock_when_a_policy_locks_sizes_without_one() -> None:
    objects = make_job()
    sizes = [
        find(objects, "PersistentVolumeClaim")["spec"],
        pod(objects)["volumes"][2]["ephemeral"]["volumeClaimTemplate"]["spec"],
    ]
    policy = {"volumes.size": {"locked": True}}

    assert judge(objects, policy=policy)
    for spec in sizes:
        spec["resources"]["requests"]["storage"] = "2Gi"
    assert judge(objects, policy=policy) == []


def test_the_wider_default_is_the_lock_when_a_project_locks_without_one() -> None:
    policy = {"runtime_class": {"default": "kata"}, "projects": {PROJECT: {"runtime_class": {"locked": True}}}}

    problems = judge(make_job(), policy=policy, profile=make_profile(runtime_class="nvidia"))

    assert [problem.code for problem in problems] == ["policy.locked"]


VOLUMES = {
    "volumes": [
        {
            "volume_type": "persistent_volume_claim",
            "name": "data",
            "mount_path": "/data",
            "spec": {"size": "10Gi", "sub_path": "in"},
        },
        {"volume_type": "empty_dir", "name": "shm", "mount_path": "/dev/shm", "spec": {"size_limit": "1Gi"}},
    ]
}


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        ({"volumes.size": {"locked": True}}, VOLUMES),
        ({"volumes.size": {"options": ["1Gi"]}}, VOLUMES),
        ({"volumes.size_limit": {"locked": True}}, VOLUMES),
        ({"volumes.size_limit": {"options": ["512Mi"]}}, VOLUMES),
        ({"resources.cpu.limits": {"options": ["8"]}}, {"resources": {"cpu": {"requests": "2", "limits": "4"}}}),
        ({"resources.cpu.limits": {"locked": True}}, {"resources": {"cpu": {"requests": "2", "limits": "4"}}}),
    ],
)
def test_an_amount_passes_when_exactly_that_stands_in_the_profile(
    policy: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert judge(make_job(), policy=policy, profile=make_profile(**fields)) == []
    assert judge(make_job(), policy=policy)


def test_the_platforms_default_passes_when_a_project_offers_others() -> None:
    narrower = {PROJECT: {"volumes.size_limit": {"options": ["512Mi"]}}}

    assert judge(make_job(), policy={"volumes.size_limit": {"default": "1Gi"}, "projects": narrower}) == []
    assert judge(make_job(), policy={"volumes.size_limit": {"default": "2Gi"}, "projects": narrower})


@pytest.mark.parametrize("side", ["requests", "limits"])
def test_one_side_is_enough_when_an_amount_is_required(side: str) -> None:
    objects = make_job()
    main(objects)["resources"] = {side: {"cpu": "1", "memory": "1Gi"}}
    required = {"required": True}

    assert judge(objects, policy={"resources.cpu": required, "resources.mem": required}) == []


def test_a_limit_on_gpus_holds_when_a_project_calls_others_gpus() -> None:
    policy = {
        "platform": {"gpu_resources": ["nvidia.com/gpu"]},
        "resources.gpu": {"max": 0},
        "projects": {PROJECT: {"platform": {"gpu_resources": ["amd.com/gpu"]}}},
    }
    profile = make_profile(resources={"limits": {"nvidia.com/gpu": 1}})

    assert "policy.max" in {problem.code for problem in judge(make_job(), policy=policy, profile=profile)}


def test_a_limit_on_gpus_is_for_all_kinds_together_when_a_profile_asks_for_two() -> None:
    objects = make_job()
    for side in ("requests", "limits"):
        main(objects)["resources"][side]["amd.com/gpu"] = "1"
    names = {"gpu_resources": ["nvidia.com/gpu", "amd.com/gpu"]}

    assert judge(objects, policy={"platform": names, "resources.gpu": {"max": 2}}) == []
    assert judge(objects, policy={"platform": names, "resources.gpu": {"max": 1}})


def test_nothing_is_found_when_nothing_is_asked() -> None:
    objects = make_job()
    del main(objects)["resources"]

    assert judge(objects) == []
    assert judge(objects, policy={"resources.cpu": {"required": True}})
    assert judge(objects, policy={"resources.gpu": {"default": "0", "locked": True}}) == []
    assert judge(objects, policy={"resources.gpu": {"default": "1", "locked": True}})
    assert judge(objects, policy={"resources.mem": {"locked": True}, "resources.cpu.limits": {"locked": True}}) == []


def test_scratch_space_may_be_of_another_size_when_the_profile_says_so() -> None:
    policy = {"resources.disk": {"options": ["1Gi"]}}

    assert judge(make_job(), policy=policy)
    assert judge(make_job(), policy=policy, profile=make_profile(resources={"disk": "10Gi"})) == []


def test_the_containers_image_is_the_locked_one_when_there_are_no_others() -> None:
    objects = make_job()
    pod(objects)["volumes"] = [entry for entry in pod(objects)["volumes"] if entry["name"] != "weights"]
    main(objects)["volumeMounts"] = [entry for entry in main(objects)["volumeMounts"] if entry["name"] != "weights"]

    assert judge(objects, policy={"image": {"default": "ghcr.io/acme/train:1", "locked": True}}) == []
    assert judge(objects, policy={"image": {"default": "ghcr.io/acme/train:2", "locked": True}})


@pytest.mark.parametrize(
    ("secrets", "is_admins"),
    [([], False), (["HF_TOKEN"], True), ([{"name": "HF_TOKEN", "mount_path": "/secrets/k.json"}], False)],
)
def test_a_variable_from_a_secret_is_refused_when_envs_are_locked_and_no_profile_sets_it(
    secrets: list[Any], is_admins: bool
) -> None:
    policy, profile = {"envs": {"locked": True}}, make_profile(envs={"EPOCHS": 3}, secrets=secrets)

    found = judge(make_job(), policy=policy, profile=profile)

    locked = [problem for problem in found if problem.code == "policy.locked"]
    assert [problem.where for problem in locked] == (
        [] if is_admins else [f"objects[3].{CONTAINER_PATH}.env[2].valueFrom"]
    )


def test_a_variable_from_a_secret_is_refused_when_envs_are_locked_to_other_variables() -> None:
    policy = {"envs": {"default": {"EPOCHS": "3"}, "locked": True}}
    objects = make_job()

    assert [problem.code for problem in judge(objects, policy=policy)] == ["policy.locked"]
    assert [problem.code for problem in judge(objects, policy=policy, profile=make_profile(secrets=["HF_TOKEN"]))] == [
        "policy.locked"
    ]
    find(objects, "Secret")["data"].pop("HF_TOKEN")
    main(objects)["env"].pop(2)
    assert judge(objects, policy=policy) == []
    assert judge(objects, policy=policy, profile=make_profile(secrets=["HF_TOKEN"])) == []


KEYLESS = [{"key": "spot"}, {"key": ""}]


@pytest.mark.parametrize(
    ("toleration", "rule", "passes"),
    [
        ({"key": "spot", "value": "a"}, {"allowed": [{"key": "spot", "value": "a"}]}, True),
        ({"key": "spot", "value": "b"}, {"allowed": [{"key": "spot", "value": "a"}]}, False),
        ({"key": "spot", "operator": "Exists"}, {"allowed": [{"key": "spot", "value": "a"}]}, False),
        ({"key": "spot", "value": "a"}, {"allowed": [{"key": "spot", "operator": "Equal"}]}, True),
        ({"key": "spot", "operator": "Exists"}, {"allowed": [{"key": "spot", "operator": "Equal"}]}, False),
        ({"key": "spot", "operator": "Exists"}, {"allowed": [{"key": "spot", "effect": "NoSchedule"}]}, False),
        ({"operator": "Exists"}, {"allowed": KEYLESS}, True),
        ({"operator": "Exists"}, {"allowed": KEYLESS, "denied": [{"key": "gpu"}]}, False),
        ({"operator": "Exists"}, {"allowed": KEYLESS, "denied": [{"key": ""}]}, False),
        ({"key": "spot", "operator": "Exists"}, {"denied": [{"key": ""}]}, True),
        ({"key": "spot", "operator": "Exists"}, {"denied": [{"key": "spot", "effect": "NoSchedule"}]}, False),
        (
            {"key": "spot", "operator": "Exists", "effect": "NoExecute"},
            {"denied": [{"key": "spot", "effect": "NoSchedule"}]},
            True,
        ),
        ({"key": "spot", "value": "b"}, {"denied": [{"key": "spot", "value": "a"}]}, True),
        ({"key": "spot", "value": "a"}, {"denied": [{"key": "spot", "value": "a"}]}, False),
        ({"key": "spot", "operator": "Exists"}, {"denied": [{"key": "spot", "value": "a"}]}, False),
        ({"key": "spot", "value": ""}, {"denied": [{"key": "spot", "value": "a"}]}, True),
        ({"key": "spot", "value": "a"}, {"denied": [{"key": "spot", "operator": "Exists"}]}, True),
    ],
)
def test_a_toleration_is_judged_by_what_it_reaches_when_rules_name_parts(
    toleration: dict[str, str], rule: dict[str, Any], passes: bool
) -> None:
    objects = make_job()
    pod(objects)["tolerations"] = [toleration]

    assert (judge(objects, policy={"tolerations": rule}) == []) == passes


@pytest.mark.parametrize("name", ["nodeSelector", "env"])
def test_something_must_be_there_when_a_mapping_is_required(name: str) -> None:
    objects = make_job()
    part = pod(objects) if name == "nodeSelector" else main(objects)
    policy = {"node_selector" if name == "nodeSelector" else "envs": {"required": True}}

    assert judge(objects, policy=policy) == []
    part[name] = {} if name == "nodeSelector" else part[name][:2]
    assert "policy.required" in {problem.code for problem in judge(objects, policy=policy)}


def test_no_gpus_are_an_answer_when_they_are_required() -> None:
    objects = make_job()
    del main(objects)["resources"]

    assert judge(objects, policy={"resources.gpu": {"required": True}}) == []
