from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest

from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import BUILT_IN, Policy, lint_policy, read_policy
from runyard.spec.problems import Problem
from runyard.spec.rule_grammar import RULED, Rule
from tests.unit.spec.refusals import find_problem, find_problems


def _rule(name: str, **clauses: Any) -> Rule:
    return read_policy({name: clauses}).scope.rules[name]


def _refuse(name: str, **clauses: Any) -> dict[str, Problem]:
    return find_problems(read_policy, {name: clauses})


def test_the_issues_examples_are_read_when_they_stand_as_they_are() -> None:
    policy = read_policy(
        {
            "resources.mem": {"default": "256Mi", "max": "64Gi"},
            "tolerations": {"allowed": [{"key": "spot"}]},
            "projects": {"vision": {"resources.mem": {"max": "32Gi"}}},
        }
    )

    assert policy.scope.rules["resources.mem"] == Rule(default=Quantity.parse("256Mi"), max=Quantity.parse("64Gi"))
    assert policy.scope.rules["tolerations"].allowed == ({"key": "spot"},)
    assert policy.projects["vision"].rules["resources.mem"] == Rule(max=Quantity.parse("32Gi"))


@pytest.mark.parametrize(
    ("name", "clauses", "expected"),
    [
        ("resources.cpu", {"default": "100m", "min": 0.1, "max": 16}, {"default": "100m", "min": "100m", "max": "16"}),
        ("resources.gpu", {"max": 4, "options": [0, 1, 2]}, {"max": "4"}),
        ("resources.disk", {"max": "500Gi"}, {"max": "500Gi"}),
        ("volumes.size", {"default": "2Gi", "max": "100Gi"}, {"default": "2Gi", "max": "100Gi"}),
        ("volumes.size_limit", {"default": "128Mi"}, {"default": "128Mi"}),
    ],
)
def test_amounts_are_read_when_a_rule_holds_them(name: str, clauses: dict[str, Any], expected: dict[str, str]) -> None:
    rule = _rule(name, **clauses)

    assert {clause: getattr(rule, clause) for clause in expected} == {
        clause: Quantity.parse(text) for clause, text in expected.items()
    }


@pytest.mark.parametrize(
    ("name", "clauses", "expected"),
    [
        ("timeout", {"default": "3d", "max": "7d"}, Rule(default=259_200, max=604_800)),
        ("ttl", {"min": 60}, Rule(min=60)),
        ("replicas", {"max": 10}, Rule(max=10)),
        ("run_as_user", {"default": "8877", "min": 1000}, Rule(default=8877, min=1000)),
        ("fs_group", {"options": [1000, "2000"]}, Rule(options=(1000, 2000))),
        (
            "priority_class",
            {"options": ["low", "high"], "default": "low"},
            Rule(options=("low", "high"), default="low"),
        ),
        ("image", {"allowed": ["registry.example.org/*"]}, Rule(allowed=("registry.example.org/*",))),
        ("image_pull_policy", {"default": "Always", "locked": True}, Rule(default="Always", locked=True)),
        ("service_type", {"options": ["ClusterIP"]}, Rule(options=("ClusterIP",))),
        ("volumes.type", {"denied": ["image"]}, Rule(denied=("image",))),
        ("volumes.storage_class", {"options": ["fast"], "default": "fast"}, Rule(options=("fast",), default="fast")),
        ("volumes.claim_name", {"allowed": ["datasets-*"]}, Rule(allowed=("datasets-*",))),
        ("node_selector", {"denied": ["node-role.kubernetes.io/*"]}, Rule(denied=("node-role.kubernetes.io/*",))),
        ("node_selector", {"required": ["zone"]}, Rule(required=("zone",))),
        ("node_selector", {"default": {"zone": "a"}}, Rule(default={"zone": "a"})),
        ("envs", {"default": [{"name": "A", "value": 1}]}, Rule(default={"A": "1"})),
        ("secrets", {"denied": ["ADMIN_*"]}, Rule(denied=("ADMIN_*",))),
        ("profile", {"required": True, "allowed": ["small*"]}, Rule(required=True, allowed=("small*",))),
        ("runtime_class", {"locked": True}, Rule(locked=True)),
        ("affinity", {"default": {}, "locked": True}, Rule(default={}, locked=True)),
        ("affinity.namespaces", {"allowed": ["monitoring"]}, Rule(allowed=("monitoring",))),
        ("tolerations", {"default": [], "locked": True}, Rule(default=[], locked=True)),
        (
            "tolerations",
            {"denied": [{"key": "gpu", "effect": "NoExecute"}]},
            Rule(denied=({"key": "gpu", "effect": "NoExecute"},)),
        ),
        ("resources.mem", {"max": None, "locked": False}, Rule()),
    ],
)
def test_a_rule_is_read_when_the_field_has_such_clauses(name: str, clauses: dict[str, Any], expected: Rule) -> None:
    assert _rule(name, **clauses) == expected


@pytest.mark.parametrize("name", RULED)
def test_every_field_of_the_issue_can_be_ruled_when_its_clauses_are_its_own(name: str) -> None:
    assert read_policy({name: {}}).scope.rules == {name: Rule()}


def test_all_that_the_issue_names_can_be_ruled_when_an_admin_writes_a_policy() -> None:
    assert set(RULED) >= {
        *("resources.cpu", "resources.mem", "resources.gpu", "resources.disk", "volumes.size", "volumes.storage_class"),
        *("node_selector", "tolerations", "runtime_class", "priority_class", "image", "volumes.type", "service_type"),
        *("run_as_user", "run_as_group", "fs_group"),
    }


def test_nested_names_are_dotted_ones_when_an_admin_prefers_them() -> None:
    nested = {
        "resources": {
            "mem": {"max": "64Gi"},
            "cpu": {"max": 8, "limits": {"default": 4}},
            "disk": {"storage_class": {"default": "fast"}},
        },
        "volumes": {"size": {"max": "1Gi"}},
        "affinity": {"locked": True, "namespaces": {"allowed": ["a"]}},
        "projects": {"vision": {"resources": {"gpu": {"max": 1}}}},
    }
    dotted = {
        "resources.mem": {"max": "64Gi"},
        "resources.cpu": {"max": 8},
        "resources.cpu.limits": {"default": 4},
        "resources.disk.storage_class": {"default": "fast"},
        "volumes.size": {"max": "1Gi"},
        "affinity": {"locked": True},
        "affinity.namespaces": {"allowed": ["a"]},
        "projects": {"vision": {"resources.gpu": {"max": 1}}},
    }

    assert read_policy(nested) == read_policy(dotted)


def test_a_field_is_refused_when_it_is_ruled_in_both_ways() -> None:
    given = {"resources": {"mem": {"max": "1Gi"}}, "resources.mem": {"max": "2Gi"}}

    assert find_problem(read_policy, given).code == "policy.twice"


@pytest.mark.parametrize("given", [None, {}, {"projects": None}, {"projects": {}}, {"projects": {"vision": None}}])
def test_nothing_is_ruled_when_the_policy_is_empty(given: Any) -> None:
    assert dict(read_policy(given).scope.rules) == {}


@pytest.mark.parametrize("given", [[], "policy", "", 3, 0, False, [{"resources.mem": {}}]])
def test_a_policy_is_refused_when_it_is_no_mapping(given: Any) -> None:
    assert find_problem(read_policy, given).code == "type.mapping"


@pytest.mark.parametrize("given", [[], 0, "vision"])
def test_projects_are_refused_when_they_are_no_mapping(given: Any) -> None:
    assert find_problem(read_policy, {"projects": given}).where == "projects"
    assert find_problem(read_policy, {"projects": {"vision": given}}).where == "projects.vision"


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("resources.memory", "resources.mem"),
        ("resource.cpu", "resources.cpu"),
        ("toleration", "tolerations"),
        ("node_selectors", "node_selector"),
        ("run_as_usr", "run_as_user"),
        ("bananas", None),
    ],
)
def test_a_field_is_refused_with_the_nearest_when_it_cannot_be_ruled(name: str, suggestion: str | None) -> None:
    (problem,) = find_problems(read_policy, {name: {"max": 1}}).values()

    assert (problem.code, problem.suggestion) == ("policy.field", suggestion)
    assert "resources.mem" in (problem.allowed or "")


@pytest.mark.parametrize(
    ("name", "clause", "suggestion"),
    [
        ("resources.mem", "maximum", "max"),
        ("resources.mem", "defualt", "default"),
        ("resources.mem", "lock", "locked"),
        ("image", "max", None),
        ("tolerations", "required", None),
        ("volumes.type", "default", None),
    ],
)
def test_a_clause_is_refused_with_the_nearest_when_the_field_has_none_such(
    name: str, clause: str, suggestion: str | None
) -> None:
    (problem,) = _refuse(name, **{clause: 1}).values()

    assert (problem.code, problem.path) == ("field.unknown", (*name.split("."), clause))
    assert problem.suggestion == suggestion


@pytest.mark.parametrize(
    ("name", "clauses", "where"),
    [
        ("resources.mem", {"default": "x"}, "resources.mem.default"),
        ("resources.mem", {"max": "1000E"}, "resources.mem.max"),
        ("resources.mem", {"min": -1}, "resources.mem.min"),
        ("resources.mem", {"options": ["1Gi", "x", "y"]}, "resources.mem.options[1]"),
        ("resources.mem", {"options": "1Gi"}, "resources.mem.options"),
        ("resources.mem", {"locked": "yes"}, "resources.mem.locked"),
        ("resources.mem", {"required": 1}, "resources.mem.required"),
        ("resources.mem", {"required": ["x"]}, "resources.mem.required"),
        ("resources.gpu", {"default": "0.5"}, "resources.gpu.default"),
        ("resources.gpu", {"options": [1, "0.5"]}, "resources.gpu.options[1]"),
        ("resources.disk", {"default": 0}, "resources.disk.default"),
        ("volumes.size", {"default": 0}, "volumes.size.default"),
        ("volumes.size_limit", {"default": "0"}, "volumes.size_limit.default"),
        ("run_as_user", {"default": 0}, "run_as_user.default"),
        ("run_as_user", {"min": 0}, "run_as_user.min"),
        ("fs_group", {"default": "x"}, "fs_group.default"),
        ("timeout", {"max": "soon"}, "timeout.max"),
        ("replicas", {"max": -1}, "replicas.max"),
        ("image_pull_policy", {"default": "Allways"}, "image_pull_policy.default"),
        ("image_pull_policy", {"options": ["always"]}, "image_pull_policy.options[0]"),
        ("service_type", {"default": "Cluster"}, "service_type.default"),
        ("service_type", {"options": ["LoadBalancer", "x"]}, "service_type.options[1]"),
        ("runtime_class", {"default": "A B"}, "runtime_class.default"),
        ("priority_class", {"options": ["A B"]}, "priority_class.options[0]"),
        ("volumes.storage_class", {"default": "A B"}, "volumes.storage_class.default"),
        ("resources.disk.storage_class", {"default": "A B"}, "resources.disk.storage_class.default"),
        ("image", {"default": "a b"}, "image.default"),
        ("profile", {"default": "a b"}, "profile.default"),
        ("volumes.type", {"options": ["hostPath"]}, "volumes.type.options[0]"),
        ("node_selector", {"default": {"a b": "c"}}, "node_selector.default[a b]"),
        ("node_selector", {"required": [3]}, "node_selector.required[0]"),
        ("envs", {"default": {"1": "c"}}, "envs.default.1"),
        ("tolerations", {"default": [{"key": 3}]}, "tolerations.default[0].key"),
        ("tolerations", {"allowed": [{"effect": "NoSchedule"}]}, "tolerations.allowed[0]"),
        ("tolerations", {"allowed": [{"kei": "a", "key": "b"}]}, "tolerations.allowed[0].kei"),
        ("tolerations", {"allowed": [{"key": 3}]}, "tolerations.allowed[0].key"),
        ("tolerations", {"allowed": ["spot"]}, "tolerations.allowed[0]"),
        ("affinity", {"default": {"nodeAffinty": {}}}, "affinity.default.nodeAffinty"),
        ("image", {"allowed": [3]}, "image.allowed[0]"),
        ("image", {"allowed": "registry.example.org/*"}, "image.allowed"),
        ("image", {"denied": [""]}, "image.denied[0]"),
    ],
)
def test_a_value_is_refused_when_the_field_itself_could_not_have_it(
    name: str, clauses: dict[str, Any], where: str
) -> None:
    assert where in _refuse(name, **clauses)


@pytest.mark.parametrize(
    ("name", "clauses", "where"),
    [
        ("resources.mem", {"min": "2Gi", "max": "1Gi"}, "resources.mem.min"),
        ("resources.mem", {"default": "2Gi", "max": "1Gi"}, "resources.mem.default"),
        ("resources.mem", {"default": "1Gi", "min": "2Gi"}, "resources.mem.default"),
        ("resources.mem", {"default": "1Gi", "options": ["2Gi"]}, "resources.mem.default"),
        ("timeout", {"default": "2h", "max": "1h"}, "timeout.default"),
        ("run_as_user", {"default": 10, "min": 1000}, "run_as_user.default"),
        ("priority_class", {"default": "c", "options": ["a", "b"]}, "priority_class.default"),
    ],
)
def test_a_rule_is_refused_when_it_contradicts_itself(name: str, clauses: dict[str, Any], where: str) -> None:
    (problem,) = _refuse(name, **clauses).values()

    assert (problem.code, problem.where) == ("policy.contradiction", where)


LOCK_MEM, LOCK_REQUEST, LOCK_LIMIT = "resources.mem", "resources.mem.requests", "resources.mem.limits"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({LOCK_MEM: "2Gi"}, {LOCK_REQUEST: "1Gi"}),
        ({LOCK_REQUEST: "2Gi"}, {LOCK_LIMIT: "1Gi"}),
        ({LOCK_MEM: "2Gi"}, {LOCK_LIMIT: "1Gi"}),
    ],
)
@pytest.mark.parametrize("is_apart", [False, True])
def test_a_policy_is_refused_when_two_locks_cannot_both_hold(first: Any, second: Any, is_apart: bool) -> None:
    rules, others = (
        {name: {"default": value, "locked": True} for name, value in each.items()} for each in (first, second)
    )
    policies = [{**rules, "projects": {"vision": others}}, {**others, "projects": {"vision": rules}}]

    for policy in policies if is_apart else [{**rules, **others}]:
        assert {problem.code for problem in find_problems(read_policy, policy).values()} == {"policy.contradiction"}


@pytest.mark.parametrize(
    ("name", "clauses", "can_refuse"),
    [
        ("resources.mem", {"default": "1Gi"}, False),
        ("resources.mem", {"required": False, "locked": False}, False),
        ("resources.mem", {"min": "0"}, True),
        ("resources.mem", {"max": "1Gi"}, True),
        ("resources.mem", {"options": []}, True),
        ("resources.mem", {"required": True}, True),
        ("resources.mem", {"locked": True}, True),
        ("envs", {"required": ["A"]}, True),
        ("envs", {"allowed": []}, True),
        ("envs", {"denied": ["A"]}, True),
    ],
)
def test_a_rule_can_refuse_when_it_has_more_than_a_default(name: str, clauses: Any, can_refuse: bool) -> None:
    assert _rule(name, **clauses).can_refuse is can_refuse


def test_the_platforms_lock_counts_when_a_project_locks_the_same_amount() -> None:
    """The widest scope that locks a field decides, so the project's limit is below the platform's request."""
    project = {LOCK_REQUEST: {"default": "1Gi", "locked": True}, LOCK_LIMIT: {"default": "2Gi", "locked": True}}

    problem = find_problem(
        read_policy, {LOCK_REQUEST: {"default": "4Gi", "locked": True}, "projects": {"vision": project}}
    )

    assert (problem.code, problem.where) == ("policy.contradiction", "projects.vision.resources.mem")
    assert problem.value == "4Gi, 2Gi"


def test_a_pattern_of_tolerations_is_read_when_its_key_is_empty() -> None:
    policy = read_policy({"tolerations": {"allowed": [{"key": ""}], "denied": [{"key": "", "effect": "NoExecute"}]}})

    rule = policy.scope.rules["tolerations"]
    assert (rule.allowed, rule.denied) == (({"key": ""},), ({"key": "", "effect": "NoExecute"},))


@pytest.mark.parametrize(
    "locks",
    [
        {LOCK_MEM: "1Gi", LOCK_REQUEST: "1024Mi"},
        {LOCK_REQUEST: "1Gi", LOCK_LIMIT: "2Gi"},
        {LOCK_MEM: "1Gi", LOCK_LIMIT: "1Gi"},
    ],
)
def test_a_policy_is_read_when_its_locks_agree(locks: dict[str, str]) -> None:
    policy = read_policy({name: {"default": value, "locked": True} for name, value in locks.items()})

    assert set(policy.scope.rules) == set(locks)


def test_a_contradiction_is_told_once_when_projects_add_nothing_to_it() -> None:
    locks = {name: {"default": value, "locked": True} for name, value in ((LOCK_MEM, "2Gi"), (LOCK_REQUEST, "1Gi"))}

    problem = find_problem(read_policy, {**locks, "projects": {"vision": {"fs_group": {"min": 1}}, "audio": {}}})

    assert problem.where == "resources.mem"


def test_every_problem_is_told_when_platform_and_projects_are_wrong() -> None:
    given = {
        "resources.mem": {"default": "x", "max": "y"},
        "bananas": {"max": 1},
        "platform": {"pod_security": "privileged", "gpus": 1},
        "projects": {"vision": {"timeout": {"max": "soon"}}, "Not A Project": {}},
    }

    assert set(find_problems(read_policy, given)) == {
        "resources.mem.default",
        "resources.mem.max",
        "bananas",
        "platform.pod_security",
        "platform.gpus",
        "projects.vision.timeout.max",
        "projects[Not A Project]",
    }


def test_the_platforms_choices_are_read_when_they_are_said() -> None:
    platform = read_policy(
        {
            "platform": {
                "pod_security": "baseline",
                "mem_tolerance": 1.25,
                "gpu_resources": ["nvidia.com/gpu", "amd.com/gpu"],
                "disk_medium": "empty_dir",
                "image_pull_secrets": ["registry"],
                "python_images": {"PYTHON3_11": "registry.example.org/python:3.11"},
            }
        }
    ).scope.platform

    assert (platform.pod_security, platform.disk_medium) == ("baseline", "empty_dir")
    assert platform.mem_tolerance == Decimal("1.25")
    assert platform.gpu_resources == ("nvidia.com/gpu", "amd.com/gpu")
    assert platform.image_pull_secrets == ("registry",)
    assert platform.python_images == {"PYTHON3_11": "registry.example.org/python:3.11"}


@pytest.mark.parametrize(
    ("key", "value", "where"),
    [
        ("pod_security", "privileged", "pod_security"),
        ("pod_security", "Restricted", "pod_security"),
        ("mem_tolerance", 0.9, "mem_tolerance"),
        ("mem_tolerance", 11, "mem_tolerance"),
        ("mem_tolerance", "nan", "mem_tolerance"),
        ("mem_tolerance", True, "mem_tolerance"),
        ("mem_tolerance", [1.1], "mem_tolerance"),
        ("gpu_resources", [], "gpu_resources"),
        ("gpu_resources", "gpu", "gpu_resources"),
        ("gpu_resources", ["nvidia.com/gpu", "a b/c"], "gpu_resources[1]"),
        ("gpu_resources", [3], "gpu_resources[0]"),
        ("disk_medium", "tmpfs", "disk_medium"),
        ("image_pull_secrets", ["A B", 3], "image_pull_secrets[1]"),
        ("image_pull_secrets", ["A B"], "image_pull_secrets[0]"),
        ("python_images", {"PYTHON2_7": "x:1"}, "python_images.PYTHON2_7"),
        ("python_images", {"PYTHON3_11": "a b"}, "python_images.PYTHON3_11"),
    ],
)
def test_a_platforms_choice_is_refused_when_it_is_none(key: str, value: Any, where: str) -> None:
    assert f"platform.{where}" in find_problems(read_policy, {"platform": {key: value}})


def test_the_scopes_of_a_project_are_the_widest_first_when_it_has_rules() -> None:
    policy = read_policy({"projects": {"vision": {"resources.gpu": {"max": 1}}}})

    assert [scope.name for scope in policy.get_scopes("vision")] == [
        "platform default",
        "policy",
        "policy of project vision",
    ]
    assert policy.get_scopes("other") == (BUILT_IN, policy.scope)


@pytest.mark.parametrize(
    ("platform", "project", "where"),
    [
        ({"resources.mem": {"max": "4Gi"}}, {"resources.mem": {"max": "8Gi"}}, "resources.mem"),
        ({"timeout": {"min": 60}}, {"timeout": {"min": 30}}, "timeout"),
        (
            {"image_pull_policy": {"default": "Always", "locked": True}},
            {"image_pull_policy": {"default": "Never"}},
            "image_pull_policy",
        ),
        ({}, {"platform": {"pod_security": "baseline"}}, "platform"),
        ({"platform": {"pod_security": "restricted"}}, {"platform": {"pod_security": "baseline"}}, "platform"),
    ],
)
def test_a_projects_rule_is_told_when_it_does_nothing(platform: Any, project: Any, where: str) -> None:
    (problem,) = lint_policy(read_policy({**platform, "projects": {"vision": project}}))

    assert problem.code == "policy.idle"
    assert problem.path[:3] == ("projects", "vision", where)


@pytest.mark.parametrize(
    ("platform", "project"),
    [
        ({"resources.mem": {"max": "4Gi"}}, {"resources.mem": {"max": "2Gi"}}),
        ({"resources.mem": {"max": "4Gi"}}, {"resources.cpu": {"max": 2}}),
        ({"timeout": {"min": 60}}, {"timeout": {"min": 90}}),
        ({"platform": {"pod_security": "baseline"}}, {"platform": {"pod_security": "restricted"}}),
    ],
)
def test_a_projects_rule_is_not_told_when_it_tightens(platform: Any, project: Any) -> None:
    assert lint_policy(read_policy({**platform, "projects": {"vision": project}})) == []


def test_what_was_given_stays_as_it_was_when_it_is_read() -> None:
    given = {
        "resources": {"mem": {"max": "1Gi"}},
        "tolerations": {"allowed": [{"key": "spot"}]},
        "projects": {"vision": {"envs": {"default": {"A": 1}}}},
    }
    before = deepcopy(given)

    policy = read_policy(given)

    assert given == before
    with pytest.raises(TypeError):
        policy.scope.rules["resources.mem"] = Rule()  # type: ignore[index]  # that it cannot be changed is the point


def test_the_built_in_policy_is_restricted_when_no_admin_says_anything() -> None:
    assert Policy().get_scopes("any")[0].platform.pod_security == "restricted"
    assert BUILT_IN.platform.mem_tolerance == Decimal("1.1")
    assert BUILT_IN.platform.gpu_resources == ("nvidia.com/gpu",)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ({"resources.mem.limit": {"max": "8Gi"}}, ("resources", "mem", "limit")),
        ({"resources": {"mem": {"limit": {"max": "8Gi"}}}}, ("resources", "mem", "limit")),
        ({"resources.mem": {"limit": {"max": "8Gi"}}}, ("resources", "mem", "limit")),
    ],
)
def test_the_other_spelling_of_a_side_is_read_with_a_note_when_a_rule_uses_it(
    written: dict[str, Any], path: tuple[str, ...]
) -> None:
    policy = read_policy(written)

    assert policy == read_policy({"resources.mem.limits": {"max": "8Gi"}})
    assert [(note.code, note.path, note.suggestion) for note in lint_policy(policy)] == [
        ("field.spelling", path, "limits"),
    ]


def test_the_note_names_the_project_when_its_rule_uses_the_other_spelling() -> None:
    policy = read_policy({"projects": {"vision": {"resources.cpu.request": {"max": 8}}}})

    assert policy == read_policy({"projects": {"vision": {"resources.cpu.requests": {"max": 8}}}})
    assert [note.where for note in lint_policy(policy)] == ["projects.vision.resources.cpu.request"]


def test_rules_are_refused_when_one_field_has_them_in_both_spellings() -> None:
    problem = find_problem(read_policy, {"resources.cpu.limit": {"max": 8}, "resources.cpu.limits": {"max": 8}})

    assert (problem.code, problem.message) == ("policy.twice", "`resources.cpu.limits` has two rules")


def test_the_documented_name_is_suggested_when_a_rule_is_unknown() -> None:
    assert find_problem(read_policy, {"resources.cpu.limts": {"max": 8}}).suggestion == "resources.cpu.limits"


def test_figures_are_for_people_when_a_rule_contradicts_itself() -> None:
    problems = find_problems(
        read_policy, {"timeout": {"min": 691200, "max": "2d"}, "resources.mem": {"min": "37795712205", "max": "1Gi"}}
    )

    assert {problem.message for problem in problems.values()} == {
        "min 8d is above max 2d",
        "min about 35.2Gi (37795712205) is above max 1Gi",
    }


def test_figures_are_for_people_when_a_rule_is_idle() -> None:
    (problem,) = lint_policy(read_policy({"ttl": {"max": 691200}, "projects": {"vision": {"ttl": {"max": 864000}}}}))

    assert problem.message == "max 10d has no effect: the platform's max of 8d is tighter"
