from typing import Any

import pytest

from runyard.domain.resolution import resolve
from runyard.domain.resolve_inputs import ProjectInventory
from tests.unit.domain.worlds import (
    decide,
    get_leaf,
    list_refusals,
    list_warnings,
    make_profile,
    make_request,
    prepare,
    show,
)

SCOPES = ("platform", "project")


def _in_scope(scope: str, rules: dict[str, Any]) -> dict[str, Any]:
    return rules if scope == "platform" else {"projects": {"vision": rules}}


def _claim(**spec: Any) -> dict[str, Any]:
    return {"volumes": [{"volume_type": "persistent_volume_claim", "name": "v", "mount_path": "/v", "spec": spec}]}


def _volume(kind: str, **spec: Any) -> dict[str, Any]:
    return {"volumes": [{"volume_type": kind, "name": "v", "mount_path": "/v", "spec": spec}]}


def _nodes(*keys: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


BOUNDED: list[tuple[str, Any, Any, Any, str, str]] = [
    (
        "resources.cpu",
        "2",
        {"resources": {"cpu": "2"}},
        {"resources": {"cpu": "2001m"}},
        "resources.cpu.requests",
        "job",
    ),
    (
        "resources.cpu",
        "2",
        {"resources": {"cpu": {"limits": 2}}},
        {"resources": {"cpu": {"limits": 3}}},
        "resources.cpu.limits",
        "job",
    ),
    (
        "resources.cpu.limits",
        "2",
        {"resources": {"cpu": {"requests": 1, "limits": 2}}},
        {"resources": {"cpu": {"limits": 3}}},
        "resources.cpu.limits",
        "job",
    ),
    (
        "resources.cpu.requests",
        "2",
        {"resources": {"cpu": 2}},
        {"resources": {"cpu": 3}},
        "resources.cpu.requests",
        "job",
    ),
    (
        "resources.mem",
        "2Gi",
        {"resources": {"mem": "2Gi"}},
        {"resources": {"mem": "2147483649"}},
        "resources.mem.requests",
        "job",
    ),
    ("resources.gpu", 2, {"resources": {"gpu": 2}}, {"resources": {"gpu": 3}}, "resources.gpu.limits", "job"),
    (
        "resources.disk",
        "2Gi",
        {"resources": {"disk": "2Gi"}},
        {"resources": {"disk": "3Gi"}},
        "resources.disk.size",
        "job",
    ),
    ("volumes.size", "2Gi", _claim(size="2Gi"), _claim(size="3Gi"), "volumes.v.size", "job"),
    (
        "volumes.size",
        "2Gi",
        _volume("ephemeral", size="2Gi"),
        _volume("ephemeral", size="3Gi"),
        "volumes.v.size",
        "job",
    ),
    (
        "volumes.size_limit",
        "2Gi",
        _volume("empty_dir", size="2Gi"),
        _volume("empty_dir", size="3Gi"),
        "volumes.v.size",
        "job",
    ),
    ("run_as_user", 2000, {"run_as_user": 2000}, {"run_as_user": 2001}, "run_as_user", "job"),
    ("run_as_group", 2000, {"run_as_group": 2000}, {"run_as_group": 2001}, "run_as_group", "job"),
    ("fs_group", 2000, {"fs_group": 2000}, {"fs_group": 2001}, "fs_group", "job"),
    ("replicas", 2, {"replicas": 2}, {"replicas": 3}, "replicas", "serve"),
    ("backoff_limit", 2, {"backoff_limit": 2}, {"backoff_limit": 3}, "backoff_limit", "job"),
    ("timeout", "2h", {"timeout": "2h"}, {"timeout": "7201s"}, "timeout", "job"),
    ("pending_timeout", "2h", {"pending_timeout": "2h"}, {"pending_timeout": "3h"}, "pending_timeout", "job"),
    ("ttl", "2h", {"ttl": "2h"}, {"ttl": "3h"}, "ttl", "job"),
    ("grace_period", 30, {"grace_period": 30}, {"grace_period": 31}, "grace_period", "job"),
]
"""Field, bound, what is just within it as a max, what is just above, where that is told, the action."""


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("name", "bound", "within", "beyond", "where", "action"), BOUNDED)
def test_a_run_is_refused_when_it_is_above_the_max(
    name: str, bound: Any, within: Any, beyond: Any, where: str, action: str, scope: str
) -> None:
    policy = _in_scope(scope, {name: {"max": bound}})

    assert decide(within, policy=policy, action=action).refusals == ()
    resolution = decide(beyond, policy=policy, action=action)
    assert ("policy.max", where) in list_refusals(resolution)
    assert all(problem.suggestion and problem.allowed for problem in resolution.refusals)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("name", "bound", "asked", "where"),
    [
        ("resources.cpu", 2, {"resources": {"cpu": "1999m"}}, "resources.cpu.requests"),
        ("resources.cpu.limits", 2, {"resources": {"cpu": {"limits": 1}}}, "resources.cpu.limits"),
        ("resources.mem", "1Gi", {"resources": {"mem": "1G"}}, "resources.mem.requests"),
        ("resources.gpu", 1, {"resources": {"gpu": 0}}, "resources.gpu.limits"),
        ("resources.disk", "2Gi", {"resources": {"disk": "1Gi"}}, "resources.disk.size"),
        ("volumes.size", "5Gi", _claim(size="2Gi"), "volumes.v.size"),
        ("volumes.size", "5Gi", _claim(), "volumes.v.size"),
        ("volumes.size_limit", "2Gi", _volume("empty_dir", size="1Gi"), "volumes.v.size"),
        ("run_as_user", 1000, {"run_as_user": 999}, "run_as_user"),
        ("run_as_group", 1000, {"run_as_group": 999}, "run_as_group"),
        ("fs_group", 1000, {"fs_group": 999}, "fs_group"),
        ("timeout", "1m", {"timeout": "59s"}, "timeout"),
    ],
)
def test_a_run_is_refused_when_it_is_below_the_min(name: str, bound: Any, asked: Any, where: str, scope: str) -> None:
    resolution = decide(asked, policy=_in_scope(scope, {name: {"min": bound}}))

    assert ("policy.min", where) in list_refusals(resolution)


@pytest.mark.parametrize(
    ("name", "bound", "asked"),
    [
        ("resources.cpu", 2, {"resources": {"cpu": 2}}),
        ("resources.gpu", 1, {"resources": {"gpu": 1}}),
        ("volumes.size", "5Gi", _claim(size="5Gi")),
        ("run_as_user", 1000, {"run_as_user": 1000}),
        ("timeout", "1m", {"timeout": "60s"}),
    ],
)
def test_a_run_is_taken_when_it_is_at_the_bound_itself(name: str, bound: Any, asked: Any) -> None:
    assert list_refusals(decide(asked, policy={name: {"min": bound, "max": bound}})) == []


def test_the_one_who_chose_is_named_when_a_filled_blank_breaks_a_bound() -> None:
    (refusal,) = decide(_claim(), policy={"volumes.size": {"min": "5Gi"}}).refusals

    assert "platform default" in refusal.message
    assert "you" not in refusal.message.split()


def test_durations_are_told_as_people_write_them_when_they_are_too_long() -> None:
    (refusal,) = decide({"timeout": "10d"}, policy={"timeout": {"max": "7d"}}).refusals

    assert (refusal.value, refusal.allowed, refusal.suggestion) == ("10d", "at most 7d", "7d")


@pytest.mark.parametrize(("name", "bound", "within", "beyond", "where", "action"), BOUNDED)
def test_a_profile_is_refused_when_it_is_above_the_max(
    name: str, bound: Any, within: Any, beyond: Any, where: str, action: str
) -> None:
    resolution = decide(profile=beyond, policy={name: {"max": bound}}, action=action)

    assert ("policy.max", where) in list_refusals(resolution)
    assert "profile p" in resolution.refusals[0].message


def test_the_tighter_bound_holds_when_platform_and_project_have_one() -> None:
    wide, tight = {"resources.cpu": {"max": 8}}, {"resources.cpu": {"max": 4}}

    for policy in ({**wide, "projects": {"vision": tight}}, {**tight, "projects": {"vision": wide}}):
        assert decide({"resources": {"cpu": 4}}, policy=policy).refusals == ()
        assert list_refusals(decide({"resources": {"cpu": 5}}, policy=policy)) == [
            ("policy.max", "resources.cpu.requests")
        ]


def test_a_projects_rules_do_not_hold_when_the_run_is_another_projects() -> None:
    policy = {"projects": {"vision": {"resources.cpu": {"max": 1}}}}

    assert decide({"resources": {"cpu": 8}}, policy=policy, project="audio").refusals == ()


DEFAULTED: list[tuple[str, Any, tuple[str | int, ...], Any, str]] = [
    ("resources.cpu", "100m", ("resources", "cpu"), {"requests": "100m"}, "job"),
    ("resources.mem", "256Mi", ("resources", "mem"), {"requests": "256Mi", "limits": "295279002"}, "job"),
    ("resources.cpu.requests", "100m", ("resources", "cpu"), {"requests": "100m"}, "job"),
    ("resources.cpu.limits", "1", ("resources", "cpu"), {"requests": "1", "limits": "1"}, "job"),
    ("resources.mem.limits", "1Gi", ("resources", "mem"), {"requests": "1Gi", "limits": "1Gi"}, "job"),
    ("resources.ephemeral-storage", "2Gi", ("resources", "ephemeral-storage"), {"requests": "2Gi"}, "job"),
    ("resources.gpu", 1, ("resources", "gpu"), {"limits": "1", "resource": "nvidia.com/gpu"}, "job"),
    ("resources.disk", "1Gi", ("resources", "disk"), {"size": "1Gi", "medium": "ephemeral"}, "job"),
    ("node_selector", {"zone": "a"}, ("node_selector",), {"zone": "a"}, "job"),
    (
        "tolerations",
        [{"key": "spot", "operator": "Exists"}],
        ("tolerations",),
        [{"key": "spot", "operator": "Exists"}],
        "job",
    ),
    ("affinity", _nodes("zone")["affinity"], ("affinity",), _nodes("zone")["affinity"], "job"),
    ("envs", {"TZ": "UTC"}, ("envs",), {"TZ": "UTC"}, "job"),
    ("runtime_class", "nvidia", ("runtime_class",), "nvidia", "job"),
    ("priority_class", "low", ("priority_class",), "low", "job"),
    ("image", "busybox:1", ("image",), "busybox:1", "job"),
    ("image_pull_policy", "Always", ("image_pull_policy",), "Always", "job"),
    ("run_as_user", 1000, ("run_as_user",), 1000, "job"),
    ("run_as_group", 1000, ("run_as_group",), 1000, "job"),
    ("fs_group", 1000, ("fs_group",), 1000, "job"),
    ("backoff_limit", 2, ("backoff_limit",), 2, "job"),
    ("timeout", "3d", ("timeout",), 259_200, "job"),
    ("pending_timeout", "1h", ("pending_timeout",), 3600, "job"),
    ("ttl", "1h", ("ttl",), 3600, "job"),
    ("grace_period", "30s", ("grace_period",), 30, "job"),
    ("replicas", 2, ("replicas",), 2, "serve"),
    ("service_type", "ClusterIP", ("service_type",), "ClusterIP", "serve"),
]
"""Field, default, where it appears, as what, the action."""


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("name", "default", "path", "expected", "action"), DEFAULTED)
def test_a_default_fills_the_blank_when_nobody_says_anything(
    name: str, default: Any, path: tuple[str | int, ...], expected: Any, action: str, scope: str
) -> None:
    resolution = decide(policy=_in_scope(scope, {name: {"default": default}}), action=action)

    assert show(resolution, *path) == expected
    owners = {
        leaf.owner for leaf in resolution.leaves if leaf.path[: len(path)] == path and leaf.rule != "requests × 1.1"
    }
    assert owners <= {"policy", "platform"}
    assert "policy" in owners
    assert resolution.refusals == ()


@pytest.mark.parametrize(
    ("policy", "run", "path", "expected"),
    [
        ({"resources.cpu": {"default": 1}}, {"resources": {"cpu": 2}}, ("resources", "cpu", "requests"), "2"),
        (
            {"resources.cpu": {"default": 1}},
            {"resources": {"cpu": {"limits": 2}}},
            ("resources", "cpu", "requests"),
            "2",
        ),
        (
            {"resources.cpu.limits": {"default": 4}},
            {"resources": {"cpu": 2}},
            ("resources", "cpu"),
            {"requests": "2", "limits": "4"},
        ),
        (
            {"resources.mem.limits": {"default": "4Gi"}},
            {"resources": {"mem": "2Gi"}},
            ("resources", "mem", "limits"),
            "4Gi",
        ),
        ({"resources.gpu": {"default": 1}}, {"resources": {"gpu": 0}}, ("resources", "gpu", "limits"), "0"),
        ({"envs": {"default": {"A": "d", "B": "d"}}}, {"envs": {"A": "u"}}, ("envs",), {"A": "u", "B": "d"}),
        ({"node_selector": {"default": {"a": "d"}}}, {"node_selector": {"a": "u"}}, ("node_selector",), {"a": "u"}),
        (
            {"tolerations": {"default": [{"key": "d", "operator": "Exists"}]}},
            {"tolerations": [{"key": "u", "operator": "Exists"}]},
            ("tolerations",),
            [{"key": "u", "operator": "Exists"}],
        ),
        ({"replicas": {"default": 5}}, {"replicas": 0}, ("replicas",), 0),
        ({"backoff_limit": {"default": 5}}, {"backoff_limit": 0}, ("backoff_limit",), 0),
        ({"fs_group": {"default": 5}}, {"fs_group": 6}, ("fs_group",), 6),
    ],
)
def test_a_default_stays_away_when_somebody_said_something(
    policy: Any, run: Any, path: tuple[str, ...], expected: Any
) -> None:
    resolution = decide(run, policy=policy, action="serve" if "replicas" in run else "job")

    assert show(resolution, *path) == expected
    assert list_warnings(resolution) == [("lint.no_gpu", "resources.gpu")] * ("gpu" in str(run))


def test_the_default_limit_is_raised_with_a_warning_when_the_request_is_above_it() -> None:
    resolution = decide({"resources": {"cpu": 8}}, policy={"resources.cpu.limits": {"default": 4}})

    assert show(resolution, "resources", "cpu") == {"requests": "8", "limits": "8"}
    assert list_warnings(resolution) == [("policy.default_limit", "resources.cpu.limits")]


def test_the_projects_default_holds_when_the_platform_has_another() -> None:
    policy = {"fs_group": {"default": 1}, "projects": {"vision": {"fs_group": {"default": 2}}}}

    assert get_leaf(decide(policy=policy), "fs_group").source == "policy of project vision"
    assert decide(policy=policy).spec.fs_group == 2
    assert decide(policy=policy, project="audio").spec.fs_group == 1


def test_a_projects_default_is_refused_when_it_breaks_the_platforms_max() -> None:
    policy = {"resources.cpu": {"max": 2}, "projects": {"vision": {"resources.cpu": {"default": 4}}}}

    assert list_refusals(decide(policy=policy)) == [("policy.max", "resources.cpu.requests")]


def test_a_default_says_nothing_when_the_field_says_nothing_to_the_action() -> None:
    policy = {name: {"default": 2} for name in ("replicas", "backoff_limit", "timeout", "ttl")}

    assert decide(policy=policy, action="job").spec.replicas is None
    assert decide(policy=policy, action="serve").spec.timeout_seconds is None
    assert decide(policy={"service_type": {"default": "NodePort"}}, action="deploy").spec.service_type is None


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("job", {"backoff_limit": 0, "replicas": None, "service_ports": None, "service_type": None}),
        ("deploy", {"backoff_limit": None, "replicas": 1, "service_ports": None, "service_type": None}),
        (
            "serve",
            {
                "backoff_limit": None,
                "replicas": 1,
                "service_ports": [{"port": 8080, "target_port": 8080}],
                "service_type": "ClusterIP",
            },
        ),
    ],
)
def test_a_workload_has_the_built_in_figures_when_nobody_says_anything(action: str, expected: dict[str, Any]) -> None:
    resolution = decide(action=action)

    assert {name: show(resolution, name) for name in expected} == expected
    assert {get_leaf(resolution, name).owner for name, value in expected.items() if value is not None} == {"platform"}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("name", "action"), [("backoff_limit", "job"), ("replicas", "serve")])
def test_a_built_in_figure_is_raised_when_the_policy_wants_more(name: str, action: str, scope: str) -> None:
    resolution = decide(policy=_in_scope(scope, {name: {"min": 3}}), action=action)

    assert show(resolution, name) == 3
    assert get_leaf(resolution, name).owner == "policy"
    assert resolution.refusals == ()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, "ClusterIP"),
        ({"service_type": {"options": ["NodePort"]}}, "NodePort"),
        ({"service_type": {"options": ["NodePort", "ClusterIP"]}}, "ClusterIP"),
        ({"service_type": {"allowed": ["Node*"]}}, "NodePort"),
        ({"service_type": {"denied": ["ClusterIP"]}}, "NodePort"),
        (
            {
                "service_type": {"options": ["ClusterIP", "NodePort"]},
                "projects": {"vision": {"service_type": {"options": ["NodePort"]}}},
            },
            "NodePort",
        ),
    ],
)
def test_the_built_in_service_type_is_one_that_may_be_had_when_the_policy_has_lists(policy: Any, expected: str) -> None:
    assert show(decide(policy=policy, action="serve"), "service_type") == expected


def test_a_default_disk_stays_away_when_something_is_mounted_there() -> None:
    resolution = decide(
        {"volumes": [{"volume_type": "empty_dir", "name": "v", "mount_path": "/shared"}]},
        policy={"resources.disk": {"default": "1Gi"}},
    )

    assert resolution.spec.disk is None
    assert resolution.refusals == ()


def test_a_default_variable_stays_away_when_a_secret_has_its_name() -> None:
    world: Any = {"policy": {"envs": {"default": {"A": "x"}}}, "inventory": ProjectInventory(secrets=frozenset("A"))}

    assert dict(decide({"secrets": ["A"]}, **world).spec.envs) == {}
    assert dict(decide({"secrets": [{"name": "A", "mount_path": "/a"}]}, **world).spec.envs) == {"A": "x"}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("rules", "spec", "expected"),
    [
        ({}, {}, {"size": "2Gi", "lifetime": "run"}),
        ({"volumes.size": {"default": "5Gi"}}, {}, {"size": "5Gi", "lifetime": "run"}),
        ({"volumes.size": {"default": "5Gi"}}, {"size": "9Gi"}, {"size": "9Gi", "lifetime": "run"}),
        ({"volumes.size": {"max": "1Gi"}}, {}, {"size": "1Gi", "lifetime": "run"}),
        (
            {"volumes.storage_class": {"default": "fast"}},
            {},
            {"size": "2Gi", "storage_class": "fast", "lifetime": "run"},
        ),
        (
            {},
            {"lifetime": "keep", "storageClass": "slow"},
            {"size": "2Gi", "storage_class": "slow", "lifetime": "keep"},
        ),
    ],
)
def test_a_claim_is_completed_when_the_user_leaves_blanks(rules: Any, spec: Any, expected: Any, scope: str) -> None:
    resolution = decide(_claim(**spec), policy=_in_scope(scope, rules))

    assert show(resolution, "volumes", "v") == {
        "name": "v",
        "type": "persistent_volume_claim",
        "mount_path": "/v",
        **expected,
    }
    assert resolution.refusals == ()


@pytest.mark.parametrize(
    ("path", "spec", "policy", "expected"),
    [
        ("/v", {}, {}, {}),
        ("/v", {}, {"volumes.size_limit": {"default": "128Mi"}}, {"size": "128Mi"}),
        ("/v", {"size": "1Gi"}, {"volumes.size_limit": {"default": "128Mi"}}, {"size": "1Gi"}),
        ("/dev/shm", {}, {}, {"medium": "Memory"}),
        ("/dev/shm", {"medium": "Memory"}, {}, {"medium": "Memory"}),
        ("/v", {"medium": "Memory"}, {}, {"medium": "Memory"}),
    ],
)
def test_an_empty_dir_is_completed_when_the_user_leaves_blanks(
    path: str, spec: Any, policy: Any, expected: Any
) -> None:
    run = {"volumes": [{"volume_type": "empty_dir", "name": "v", "mount_path": path, "spec": spec}]}

    assert show(decide(run, policy=policy), "volumes", "v") == {
        "name": "v",
        "type": "empty_dir",
        "mount_path": path,
        **expected,
    }


LISTED: list[tuple[str, dict[str, Any], Any, Any, str]] = [
    (
        "resources.cpu",
        {"options": [1, 2]},
        {"resources": {"cpu": "2000m"}},
        {"resources": {"cpu": 3}},
        "resources.cpu.requests",
    ),
    (
        "resources.mem",
        {"options": ["1Gi"]},
        {"resources": {"mem": "1024Mi"}},
        {"resources": {"mem": "2Gi"}},
        "resources.mem.requests",
    ),
    (
        "resources.gpu",
        {"options": [0, 1]},
        {"resources": {"gpu": 1}},
        {"resources": {"gpu": 2}},
        "resources.gpu.limits",
    ),
    (
        "resources.disk",
        {"options": ["1Gi"]},
        {"resources": {"disk": "1Gi"}},
        {"resources": {"disk": "2Gi"}},
        "resources.disk.size",
    ),
    ("volumes.size", {"options": ["1Gi"]}, _claim(size="1Gi"), _claim(size="3Gi"), "volumes.v.size"),
    (
        "volumes.storage_class",
        {"options": ["a"]},
        _claim(storageClass="a"),
        _claim(storageClass="b"),
        "volumes.v.storage_class",
    ),
    (
        "volumes.storage_class",
        {"allowed": ["a*"]},
        _claim(storageClass="ab"),
        _claim(storageClass="b"),
        "volumes.v.storage_class",
    ),
    (
        "volumes.storage_class",
        {"denied": ["b*"]},
        _claim(storageClass="a"),
        _claim(storageClass="bc"),
        "volumes.v.storage_class",
    ),
    ("volumes.type", {"options": ["empty_dir"]}, _volume("empty_dir"), _claim(), "volumes.v.type"),
    ("volumes.type", {"allowed": ["empty_dir"]}, _volume("empty_dir"), _volume("ephemeral"), "volumes.v.type"),
    ("volumes.type", {"denied": ["image"]}, _claim(), _volume("image", image="a:1"), "volumes.v.type"),
    ("volumes.type", {"denied": ["persistent*"]}, _volume("empty_dir"), _claim(), "volumes.v.type"),
    (
        "node_selector",
        {"allowed": ["zone"]},
        {"node_selector": {"zone": "a"}},
        {"node_selector": {"rack": "a"}},
        "node_selector.rack",
    ),
    (
        "node_selector",
        {"denied": ["rack*"]},
        {"node_selector": {"zone": "a"}},
        {"node_selector": {"rack1": "a"}},
        "node_selector.rack1",
    ),
    ("envs", {"denied": ["LD_*"]}, {"envs": {"A": "1"}}, {"envs": {"LD_PRELOAD": "x"}}, "envs.LD_PRELOAD"),
    ("envs", {"allowed": ["APP_*"]}, {"envs": {"APP_A": "1"}}, {"envs": {"A": "x"}}, "envs.A"),
    ("runtime_class", {"options": ["a"]}, {"runtime_class": "a"}, {"runtime_class": "b"}, "runtime_class"),
    ("runtime_class", {"allowed": ["a*"]}, {"runtime_class": "ab"}, {"runtime_class": "b"}, "runtime_class"),
    (
        "priority_class",
        {"denied": ["urgent-*"]},
        {"priority_class": "low"},
        {"priority_class": "urgent-now"},
        "priority_class",
    ),
    ("priority_class", {"options": ["low"]}, {"priority_class": "low"}, {"priority_class": "high"}, "priority_class"),
    (
        "image",
        {"allowed": ["registry.example.org/*"]},
        {"image": "registry.example.org/a:1"},
        {"image": "evil/a:1"},
        "image",
    ),
    ("image", {"denied": ["evil/*"]}, {"image": "good/a:1"}, {"image": "docker.io/evil/a:1"}, "image"),
    ("image", {"options": ["a:1"]}, {"image": "a:1"}, {"image": "a:2"}, "image"),
    (
        "image",
        {"denied": ["evil/*"]},
        _volume("image", image="good/a:1"),
        _volume("image", image="evil/a:1"),
        "volumes.v.image",
    ),
    (
        "image_pull_policy",
        {"options": ["Always"]},
        {"image_pull_policy": "Always"},
        {"image_pull_policy": "Never"},
        "image_pull_policy",
    ),
    ("run_as_user", {"options": [1000, 2000]}, {"run_as_user": "2000"}, {"run_as_user": 3000}, "run_as_user"),
    ("run_as_group", {"options": [1000]}, {"run_as_group": 1000}, {"run_as_group": 3000}, "run_as_group"),
    ("fs_group", {"options": [1000]}, {"fs_group": 1000}, {"fs_group": 3000}, "fs_group"),
    ("timeout", {"options": ["1h"]}, {"timeout": "60m"}, {"timeout": "2h"}, "timeout"),
    (
        "tolerations",
        {"allowed": [{"key": "spot"}]},
        {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
        "tolerations[0]",
    ),
    (
        "tolerations",
        {"denied": [{"key": "gpu*"}]},
        {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        {"tolerations": [{"key": "gpu-a", "operator": "Exists"}]},
        "tolerations[0]",
    ),
]
"""Field, a list clause, what it lets through, what it refuses, and where that is told."""


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("name", "clause", "good", "bad", "where"), LISTED)
def test_a_run_is_refused_when_a_list_does_not_let_it_through(
    name: str, clause: dict[str, Any], good: Any, bad: Any, where: str, scope: str
) -> None:
    policy = _in_scope(scope, {name: clause})

    assert decide(good, policy=policy).refusals == ()
    assert list_refusals(decide(bad, policy=policy)) == [(f"policy.{next(iter(clause))}", where)]


@pytest.mark.parametrize(("name", "clause", "good", "bad", "where"), LISTED)
def test_a_profile_goes_beyond_the_lists_when_they_say_what_users_may_ask(
    name: str, clause: dict[str, Any], good: Any, bad: Any, where: str
) -> None:
    assert decide(profile=bad, policy={name: clause}).refusals == ()


@pytest.mark.parametrize(("name", "clause", "good", "bad", "where"), LISTED)
@pytest.mark.parametrize("layer", ["function", "task"])
def test_functions_and_tasks_are_bound_when_a_list_binds_users(
    name: str, clause: dict[str, Any], good: Any, bad: Any, where: str, layer: str
) -> None:
    world: dict[str, Any] = {layer: bad}

    assert len(decide(policy={name: clause}, **world).refusals) == 1


@pytest.mark.parametrize(
    ("platform", "project", "allowed"),
    [
        ({"allowed": ["a", "b"]}, {"allowed": ["b", "c"]}, {"b"}),
        ({"allowed": ["a"]}, {"allowed": ["*"]}, {"a"}),
        ({"denied": ["a"]}, {"denied": ["b"]}, {"c"}),
        ({"denied": ["a"]}, {"allowed": ["a", "b"]}, {"b"}),
        ({"options": ["a", "b"]}, {"options": ["b", "c"]}, {"b"}),
        ({"allowed": []}, {"allowed": ["*"]}, set()),
        ({"options": []}, {}, set()),
    ],
)
def test_only_what_both_let_through_passes_when_platform_and_project_have_lists(
    platform: Any, project: Any, allowed: set[str]
) -> None:
    policy = {"priority_class": platform, "projects": {"vision": {"priority_class": project}}}

    passed = {name for name in "abc" if not decide({"priority_class": name}, policy=policy).refusals}

    assert passed == allowed


def test_the_nearest_option_is_proposed_when_another_is_asked_for() -> None:
    (refusal,) = decide(
        {"priority_class": "batch-hi"}, policy={"priority_class": {"options": ["batch-low", "batch-high"]}}
    ).refusals

    assert (refusal.suggestion, refusal.allowed, refusal.value) == ("batch-high", "batch-low, batch-high", "batch-hi")


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("rules", "use", "refused"),
    [
        ({"secrets": {"denied": ["ADMIN_*"]}}, "ADMIN_KEY", True),
        ({"secrets": {"denied": ["ADMIN_*"]}}, {"name": "ADMIN_KEY", "mount_path": "/s"}, True),
        ({"secrets": {"denied": ["ADMIN_*"]}}, "HF_TOKEN", False),
        ({"secrets": {"allowed": ["HF_*"]}}, "HF_TOKEN", False),
        ({"secrets": {"allowed": ["HF_*"]}}, "ADMIN_KEY", True),
        ({"envs": {"denied": ["ADMIN_*"]}}, "ADMIN_KEY", True),
        ({"envs": {"denied": ["ADMIN_*"]}}, {"name": "ADMIN_KEY", "mount_path": "/s"}, False),
        ({"envs": {"allowed": ["HF_*"]}}, "ADMIN_KEY", True),
    ],
)
def test_a_secret_is_judged_by_its_name_and_as_a_variable_when_both_are_ruled(
    rules: Any, use: Any, refused: bool, scope: str
) -> None:
    ours = ProjectInventory(secrets=frozenset({"ADMIN_KEY", "HF_TOKEN"}))

    assert bool(decide({"secrets": [use]}, policy=_in_scope(scope, rules), inventory=ours).refusals) == refused
    assert not decide(profile={"secrets": [use]}, policy=_in_scope(scope, rules), inventory=ours).refusals


VARIABLES = ProjectInventory(secrets=frozenset({"LD_PRELOAD", "A", "B"}))


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "PYTHONPATH"])
@pytest.mark.parametrize("layer", ["run", "task", "function"])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_secret_is_refused_when_envs_are_locked_and_it_would_set_a_variable(
    name: str, layer: str, scope: str
) -> None:
    policy, ours = _in_scope(scope, {"envs": {"locked": True}}), ProjectInventory(secrets=frozenset({name}))
    layers: dict[str, Any] = {"run": {}, layer: {"secrets": [name]}}

    (refusal,) = decide(layers.pop("run"), policy=policy, inventory=ours, **layers).refusals

    assert (refusal.code, refusal.where, refusal.value) == ("policy.locked", f"secrets.{name}", name)
    assert refusal.message.endswith(f"locks `envs`; without a `mount_path` the secret `{name}` would set a variable")
    assert refusal.allowed == "secrets with a `mount_path`"


def test_a_secret_is_used_when_envs_are_locked_and_it_is_a_file_or_the_profiles() -> None:
    file, policy = {"name": "LD_PRELOAD", "mount_path": "/s"}, {"envs": {"locked": True}}

    assert decide({"secrets": [file]}, policy=policy, inventory=VARIABLES).refusals == ()
    resolution = decide(profile={"secrets": ["LD_PRELOAD"]}, policy=policy, inventory=VARIABLES)
    assert (resolution.refusals, show(resolution, "secrets", "LD_PRELOAD")) == ((), {"name": "LD_PRELOAD"})


@pytest.mark.parametrize("who", ["run", "profile"])
@pytest.mark.parametrize("name", ["A", "B"])
def test_a_secret_is_ignored_when_envs_are_locked_to_a_value_and_it_would_set_a_variable(name: str, who: str) -> None:
    policy = {"envs": {"default": {"A": "p"}, "locked": True}}
    world: dict[str, Any] = {who: {"secrets": [name, {"name": "LD_PRELOAD", "mount_path": "/s"}]}}

    resolution = decide(world.pop("run", None), policy=policy, inventory=VARIABLES, **world)

    assert resolution.refusals == ()
    assert [use.name for use in resolution.spec.secrets] == ["LD_PRELOAD"]
    assert dict(resolution.spec.envs) == {"A": "p"}
    told = [(warning.where, warning.message) for warning in resolution.warnings]
    message = f"the policy locks `envs`; the secret `{name}`, which would set a variable, from you is ignored"
    assert told == ([(f"secrets.{name}", message)] if who == "run" else [])


def test_a_requirement_is_met_when_a_secret_sets_the_variable() -> None:
    policy = {"envs": {"required": ["A"]}}

    assert decide({"secrets": ["A"]}, policy=policy, inventory=VARIABLES).refusals == ()
    assert decide({"secrets": ["A"]}, policy={"envs": {"required": True}}, inventory=VARIABLES).refusals == ()
    as_file = decide({"secrets": [{"name": "A", "mount_path": "/a"}]}, policy=policy, inventory=VARIABLES)
    assert list_refusals(as_file) == [("policy.required", "envs.A")]


@pytest.mark.parametrize("rule", [{"locked": True}, {"default": "a:1", "locked": True}])
def test_an_image_volume_is_refused_when_it_would_bring_another_image_past_a_lock(rule: Any) -> None:
    policy = {"image": rule}

    assert list_refusals(decide(_volume("image", image="b:1"), policy=policy)) == [("policy.locked", "volumes.v.image")]
    assert bool(decide(_volume("image", image="a:1"), policy=policy).refusals) == ("default" not in rule)
    assert decide(profile=_volume("image", image="b:1"), policy=policy).refusals == ()


def test_a_run_is_refused_when_the_limit_that_follows_from_it_is_no_option() -> None:
    policy = {"resources.cpu.limits": {"default": 2, "options": [2, 4]}}

    assert decide({"resources": {"cpu": 1}}, policy=policy).refusals == ()
    assert list_refusals(decide({"resources": {"cpu": 16}}, policy=policy)) == [
        ("policy.options", "resources.cpu.limits")
    ]


@pytest.mark.parametrize(
    ("rule", "keys", "refused"),
    [
        ({"denied": ["node-role.kubernetes.io/*"]}, ["node-role.kubernetes.io/control-plane"], True),
        ({"denied": ["node-role.kubernetes.io/*"]}, ["zone"], False),
        ({"allowed": ["zone"]}, ["zone", "rack"], True),
        ({"allowed": ["zone"]}, ["zone"], False),
        ({"locked": True}, ["zone"], True),
        ({"default": {"zone": "a"}, "locked": True}, ["zone"], True),
    ],
)
def test_a_node_affinity_is_judged_as_a_selector_when_labels_are_ruled(
    rule: Any, keys: list[str], refused: bool
) -> None:
    assert bool(decide(_nodes(*keys), policy={"node_selector": rule}).refusals) == refused


@pytest.mark.parametrize(
    ("matcher", "toleration", "allowed"),
    [
        ({"key": "spot"}, {"key": "spot", "operator": "Exists"}, True),
        ({"key": "spot"}, {"key": "spot", "operator": "Equal", "value": "x", "effect": "NoExecute"}, True),
        ({"key": "spot*"}, {"key": "spot-gpu", "operator": "Exists"}, True),
        ({"key": "spot"}, {"key": "spotty", "operator": "Exists"}, False),
        ({"key": "spot", "effect": "NoSchedule"}, {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "spot", "effect": "NoSchedule"}, {"key": "spot", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "spot", "effect": "NoSchedule"}, {"key": "spot", "operator": "Exists"}, False),
        ({"key": "spot", "value": "a"}, {"key": "spot", "operator": "Equal", "value": "a"}, True),
        ({"key": "spot", "value": "a"}, {"key": "spot", "value": "a"}, True),
        ({"key": "spot", "value": "a"}, {"key": "spot", "operator": "Equal", "value": "b"}, False),
        ({"key": "spot", "value": "a"}, {"key": "spot", "operator": "Exists"}, False),
        ({"key": "spot", "value": ""}, {"key": "spot", "operator": "Exists"}, False),
        ({"key": "spot", "value": "*"}, {"key": "spot", "operator": "Exists"}, True),
        ({"key": "spot", "operator": "Equal"}, {"key": "spot", "value": "a"}, True),
        ({"key": "spot", "operator": "Equal"}, {"key": "spot", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_passes_only_when_all_that_it_reaches_is_allowed(
    matcher: Any, toleration: Any, allowed: bool
) -> None:
    resolution = decide({"tolerations": [toleration]}, policy={"tolerations": {"allowed": [matcher]}})

    assert (not resolution.refusals) == allowed


@pytest.mark.parametrize(
    ("matcher", "toleration", "denied"),
    [
        ({"key": "gpu"}, {"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu"}, {"key": "cpu", "operator": "Exists"}, False),
        ({"key": "gpu*"}, {"key": "gpu-a", "value": "x"}, True),
        ({"key": "gpu", "effect": "NoExecute"}, {"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "effect": "NoExecute"}, {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "gpu", "value": "a"}, {"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "a"}, {"key": "gpu", "value": "b"}, False),
        ({"key": "gpu", "value": "a"}, {"key": "gpu", "value": "a"}, True),
        ({"key": "gpu", "operator": "Equal"}, {"key": "gpu", "value": "a"}, True),
        ({"key": "gpu", "operator": "Equal"}, {"key": "gpu", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Exists"}, {"key": "gpu", "value": "a"}, False),
    ],
)
def test_a_toleration_is_refused_when_anything_that_it_reaches_is_denied(
    matcher: Any, toleration: Any, denied: bool
) -> None:
    resolution = decide({"tolerations": [toleration]}, policy={"tolerations": {"denied": [matcher]}})

    assert bool(resolution.refusals) == denied


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("name", "good", "action"),
    [
        ("resources.cpu", {"resources": {"cpu": 1}}, "job"),
        ("resources.mem.limits", {"resources": {"mem": "1Gi"}}, "job"),
        ("resources.gpu", {"resources": {"gpu": 0}}, "job"),
        ("image", {"image": "a:1"}, "job"),
        ("profile", {"profile": "p"}, "job"),
        ("priority_class", {"priority_class": "low"}, "job"),
        ("run_as_user", {"run_as_user": 1}, "job"),
        ("timeout", {"timeout": "1h"}, "job"),
        ("replicas", {"replicas": 1}, "serve"),
        ("node_selector", {"node_selector": {"a": "b"}}, "job"),
    ],
)
def test_a_run_is_refused_when_it_leaves_blank_what_is_required(name: str, good: Any, action: str, scope: str) -> None:
    admin_rules = prepare(_in_scope(scope, {name: {"required": True}}), make_profile("p"))

    assert resolve(make_request(good, action=action), admin_rules, ProjectInventory()).refusals == ()
    blank = resolve(make_request(action=action), admin_rules, ProjectInventory())
    assert list_refusals(blank) == [("policy.required", name)]


@pytest.mark.parametrize("name", ["node_selector", "envs"])
def test_a_run_is_refused_when_a_required_key_is_missing(name: str) -> None:
    resolution = decide({name: {"a": "x"}}, policy={name: {"required": ["a", "b"]}})

    assert list_refusals(resolution) == [("policy.required", f"{name}.b")]


def test_a_requirement_is_met_when_the_profile_or_a_default_says_it() -> None:
    assert decide(profile={"fs_group": 1}, policy={"fs_group": {"required": True}}).refusals == ()
    assert decide(policy={"fs_group": {"required": True, "default": 1}}).refusals == ()


@pytest.mark.parametrize(
    ("name", "action"),
    [("timeout", "serve"), ("backoff_limit", "deploy"), ("replicas", "job"), ("service_type", "job")],
)
def test_nothing_is_required_when_the_field_says_nothing_to_the_action(name: str, action: str) -> None:
    assert decide(policy={name: {"required": True}}, action=action).refusals == ()


LOCKED: list[tuple[str, Any, Any, tuple[str | int, ...], Any]] = [
    ("resources.cpu", "1", {"resources": {"cpu": 2}}, ("resources", "cpu"), {"requests": "1"}),
    ("resources.cpu", "1", {"resources": {"cpu": {"limits": 2}}}, ("resources", "cpu"), {"requests": "1"}),
    ("resources.cpu.limits", "4", {"resources": {"cpu": 2}}, ("resources", "cpu"), {"requests": "2", "limits": "4"}),
    ("resources.cpu.limits", "4", {"resources": {"cpu": 8}}, ("resources", "cpu"), {"requests": "4", "limits": "4"}),
    (
        "resources.mem.requests",
        "4Gi",
        {"resources": {"mem": {"limits": "2Gi"}}},
        ("resources", "mem", "requests"),
        "4Gi",
    ),
    ("resources.gpu", 0, {"resources": {"gpu": 2}}, ("resources", "gpu"), {"limits": "0"}),
    ("resources.disk", "1Gi", {"resources": {"disk": "2Gi"}}, ("resources", "disk", "size"), "1Gi"),
    ("node_selector", {"a": "p"}, {"node_selector": {"a": "u", "b": "u"}}, ("node_selector",), {"a": "p"}),
    ("envs", {"A": "p"}, {"envs": {"A": "u", "B": "u"}}, ("envs",), {"A": "p"}),
    (
        "tolerations",
        [{"key": "p", "operator": "Exists"}],
        {"tolerations": [{"key": "u", "operator": "Exists"}]},
        ("tolerations",),
        [{"key": "p", "operator": "Exists"}],
    ),
    ("tolerations", [], {"tolerations": [{"key": "u", "operator": "Exists"}]}, ("tolerations",), None),
    ("runtime_class", "p", {"runtime_class": "u"}, ("runtime_class",), "p"),
    ("image", "p:1", {"image": "u:1"}, ("image",), "p:1"),
    ("image_pull_policy", "Always", {"image_pull_policy": "Never"}, ("image_pull_policy",), "Always"),
    ("run_as_user", 1, {"run_as_user": 2}, ("run_as_user",), 1),
    ("timeout", "1h", {"timeout": "2h"}, ("timeout",), 3600),
    ("volumes.size", "1Gi", _claim(size="2Gi"), ("volumes", "v", "size"), "1Gi"),
    ("volumes.storage_class", "p", _claim(storageClass="u"), ("volumes", "v", "storage_class"), "p"),
    ("volumes.size_limit", "1Gi", _volume("empty_dir", size="2Gi"), ("volumes", "v", "size"), "1Gi"),
    ("affinity", _nodes("p")["affinity"], _nodes("u"), ("affinity",), _nodes("p")["affinity"]),
]
"""Field, locked value, what is asked, where to look, what holds."""


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("layer", ["run", "profile"])
@pytest.mark.parametrize(("name", "value", "asked", "path", "expected"), LOCKED)
def test_the_locked_value_holds_when_anybody_says_otherwise(
    name: str, value: Any, asked: Any, path: tuple[str | int, ...], expected: Any, layer: str, scope: str
) -> None:
    policy = _in_scope(scope, {name: {"default": value, "locked": True}})

    resolution = decide(asked, policy=policy) if layer == "run" else decide(profile=asked, policy=policy)

    assert show(resolution, *path) == expected
    assert resolution.refusals == ()


@pytest.mark.parametrize(("name", "value", "asked", "path", "expected"), LOCKED)
def test_a_user_is_warned_when_a_lock_overrides(
    name: str, value: Any, asked: Any, path: tuple[str | int, ...], expected: Any
) -> None:
    resolution = decide(asked, policy={name: {"default": value, "locked": True}})

    is_both_possible = asked == {"resources": {"cpu": 2}} and name == "resources.cpu.limits"
    codes = {code for code, _ in list_warnings(resolution)} & {"override", "resources.contradiction"}
    assert bool(codes) != is_both_possible


@pytest.mark.parametrize("asked", ["same", "other"])
@pytest.mark.parametrize("name", ["envs", "node_selector"])
def test_a_user_is_told_once_when_a_lock_takes_away_what_the_profile_said_too(name: str, asked: str) -> None:
    resolution = decide(
        {name: {"A": asked}}, profile={name: {"A": "same"}}, policy={name: {"default": {"B": "x"}, "locked": True}}
    )

    assert list_warnings(resolution) == [("override", f"{name}.A")]


@pytest.mark.parametrize(("name", "value", "asked", "path", "expected"), LOCKED)
def test_the_wider_default_is_locked_when_the_project_locks_without_one(
    name: str, value: Any, asked: Any, path: tuple[str | int, ...], expected: Any
) -> None:
    policy = {name: {"default": value}, "projects": {"vision": {name: {"locked": True}}}}

    resolution = decide(asked, policy=policy)

    assert show(resolution, *path) == expected
    assert resolution.refusals == ()


@pytest.mark.parametrize(("name", "value", "asked", "path", "expected"), LOCKED)
def test_the_platforms_lock_holds_when_the_project_has_another_default(
    name: str, value: Any, asked: Any, path: tuple[str | int, ...], expected: Any
) -> None:
    (other,) = [row[1] for row in DEFAULTED if row[0] == name] or [value]
    policy = {name: {"default": value, "locked": True}, "projects": {"vision": {name: {"default": other}}}}

    assert show(decide(asked, policy=policy), *path) == expected


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("name", "asked", "where"),
    [
        ("resources.cpu", {"resources": {"cpu": 2}}, "resources.cpu.requests"),
        ("resources.cpu.limits", {"resources": {"cpu": {"limits": 2}}}, "resources.cpu.limits"),
        ("resources.cpu.requests", {"resources": {"cpu": {"limits": 2}}}, "resources.cpu.requests"),
        ("resources.gpu", {"resources": {"gpu": 2}}, "resources.gpu.limits"),
        ("resources.disk", {"resources": {"disk": "2Gi"}}, "resources.disk.size"),
        ("node_selector", {"node_selector": {"a": "b"}}, "node_selector.a"),
        ("envs", {"envs": {"A": "b"}}, "envs.A"),
        ("tolerations", {"tolerations": [{"key": "a", "operator": "Exists"}]}, "tolerations[0]"),
        ("runtime_class", {"runtime_class": "a"}, "runtime_class"),
        ("image", {"image": "a:1"}, "image"),
        ("run_as_user", {"run_as_user": 1}, "run_as_user"),
        ("volumes.size", _claim(size="1Gi"), "volumes.v.size"),
        ("volumes.storage_class", _claim(storageClass="a"), "volumes.v.storage_class"),
        ("affinity", _nodes("a"), "affinity"),
    ],
)
def test_only_a_profile_may_set_it_when_it_is_locked_without_a_value(
    name: str, asked: Any, where: str, scope: str
) -> None:
    policy = _in_scope(scope, {name: {"locked": True}})

    assert ("policy.locked", where) in list_refusals(decide(asked, policy=policy))
    assert decide(profile=asked, policy=policy).refusals == ()
    assert decide(policy=policy).refusals == ()


def test_a_claim_may_leave_its_size_blank_when_sizes_are_locked() -> None:
    assert decide(_claim(), policy={"volumes.size": {"locked": True}}).refusals == ()


@pytest.mark.parametrize("name", ["replicas", "service_type", "timeout", "backoff_limit"])
def test_a_lock_says_nothing_when_the_field_says_nothing_to_the_action(name: str) -> None:
    value = "ClusterIP" if name == "service_type" else 5
    action = "job" if name in ("replicas", "service_type") else "serve"

    assert show(decide(policy={name: {"default": value, "locked": True}}, action=action), name) is None


@pytest.mark.parametrize("scope", SCOPES)
def test_the_locked_profile_applies_when_the_user_names_another(scope: str) -> None:
    admin_rules = prepare(
        _in_scope(scope, {"profile": {"default": "small", "locked": True}}),
        make_profile("small", {"fs_group": 1}),
        make_profile("big", {"fs_group": 2}),
    )

    resolution = resolve(make_request({"profile": "big"}), admin_rules, ProjectInventory())

    assert (resolution.spec.profile, resolution.spec.fs_group) == ("small", 1)
    assert list_warnings(resolution) == [("override", "profile")]


def test_the_platforms_profile_is_locked_when_the_project_locks_without_one() -> None:
    policy = {"profile": {"default": "small"}, "projects": {"vision": {"profile": {"locked": True}}}}
    admin_rules = prepare(policy, make_profile("small"), make_profile("big"))

    assert resolve(make_request({"profile": "big"}), admin_rules, ProjectInventory()).spec.profile == "small"
    assert (
        resolve(make_request({"profile": "big"}, project="audio"), admin_rules, ProjectInventory()).spec.profile
        == "big"
    )


def test_nobody_may_choose_a_profile_when_it_is_locked_without_one() -> None:
    admin_rules = prepare({"profile": {"locked": True}}, make_profile("default"), make_profile("big"))

    assert list_refusals(resolve(make_request({"profile": "big"}), admin_rules, ProjectInventory())) == [
        ("policy.locked", "profile")
    ]
    assert resolve(make_request(), admin_rules, ProjectInventory()).spec.profile == "default"


def test_the_policys_profile_applies_when_the_user_names_none() -> None:
    admin_rules = prepare({"profile": {"default": "small"}}, make_profile("small"), make_profile("default"))

    resolution = resolve(make_request(), admin_rules, ProjectInventory())

    assert (resolution.spec.profile, get_leaf(resolution, "profile").owner) == ("small", "policy")


def test_a_run_is_refused_when_the_policys_profile_is_not_loaded() -> None:
    (refusal,) = resolve(
        make_request(), prepare({"profile": {"default": "smal"}}, make_profile("small")), ProjectInventory()
    ).refusals

    assert (refusal.code, refusal.suggestion) == ("profile.unknown", "small")


@pytest.mark.parametrize(
    ("platform", "project", "level"),
    [
        (None, None, "restricted"),
        ("baseline", None, "baseline"),
        ("restricted", None, "restricted"),
        (None, "baseline", "restricted"),
        ("restricted", "baseline", "restricted"),
        ("baseline", "restricted", "restricted"),
        ("baseline", "baseline", "baseline"),
        (None, "restricted", "restricted"),
    ],
)
def test_only_the_platform_relaxes_pod_security_when_a_project_wants_less(
    platform: str | None, project: str | None, level: str
) -> None:
    policy: dict[str, Any] = {"projects": {"vision": {"platform": {"pod_security": project}}}}
    policy |= {"platform": {"pod_security": platform}}

    assert decide(policy=policy).spec.pod_security == level


def test_the_admins_pull_secrets_are_used_when_no_profile_names_any() -> None:
    policy = {"platform": {"image_pull_secrets": ["registry"]}}

    assert decide(policy=policy).spec.image_pull_secrets == ("registry",)
    assert decide(policy=policy, profile={"image_pull_secrets": ["other"]}).spec.image_pull_secrets == ("other",)


def test_every_refusal_is_told_when_a_run_breaks_several_rules() -> None:
    resolution = decide(
        {"resources": {"cpu": 9, "gpu": 9}, "image": "evil:1", "run_as_user": 5, "priority_class": "x"},
        policy={
            "resources.cpu": {"max": 1},
            "resources.gpu": {"max": 1},
            "image": {"denied": ["evil"]},
            "run_as_user": {"min": 1000},
            "priority_class": {"options": ["low"]},
            "timeout": {"required": True},
        },
    )

    assert {code for code, _ in list_refusals(resolution)} == {
        "policy.max",
        "policy.min",
        "policy.denied",
        "policy.options",
        "policy.required",
    }
    assert len(resolution.refusals) == 6
