from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from runyard.spec.digitalhub.core_settings import read_settings
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.policy import Policy
from runyard.spec.problems import Problem, Refused

ENVIRONMENT = Path(__file__).parents[3] / "data" / "digitalhub" / "core.env"

EVERY_SETTING = [
    "K8S_NAMESPACE",
    "K8S_ENABLE_LOGS",
    "K8S_ENABLE_METRICS",
    "K8S_ENABLE_RESULTS",
    "K8S_SEC_DISABLE_ROOT",
    "K8S_SEC_SECCOMP_PROFILE",
    "K8S_SEC_USER",
    "K8S_SEC_GROUP",
    "K8S_IMAGE_PULL_POLICY",
    "K8S_REGISTRY_SECRET",
    "IMAGE_REGISTRY_SECRET",
    "IMAGE_REGISTRY",
    "K8S_INIT_IMAGE",
    "K8S_EMPTY_DIR_SIZE",
    "K8S_EMPTY_DIR_MEDIUM",
    "K8S_SERVICE_TYPE",
    "K8S_RESOURCE_CPU_DEFAULT",
    "K8S_RESOURCE_CPU_LIMIT",
    "K8S_RESOURCE_MEM_DEFAULT",
    "K8S_RESOURCE_MEM_LIMIT",
    "K8S_RESOURCE_MEM_TOLERATION",
    "K8S_RESOURCE_GPU_KEY",
    "K8S_RESOURCE_PVC_DEFAULT",
    "K8S_RESOURCE_PVC_LIMIT",
    "K8S_RESOURCE_PVC_STORAGE_CLASS",
    "K8S_RESOURCE_EPHEMERAL_DEFAULT",
    "K8S_RESOURCE_EPHEMERAL_LIMIT",
    "K8S_RESOURCE_EPHEMERAL_STORAGE_CLASS",
    "K8S_RESOURCE_WORKFLOW_STORAGE_CLASS",
    "K8S_RESOURCE_WORKFLOW_ACCESS_MODE",
    "DH_CONFIG_COMMON_MAPS",
    "DH_CONFIG_COMMON_SECRETS",
    "K8S_TEMPLATES",
    "K8S_JOB_DEADLINE",
    "K8S_JOB_SUSPEND",
    "K8S_CUSTOM_API_GROUPS",
    "MONITORS_DELAY",
    "LOGS_MAX_LENGTH",
    "BUILDER_FRAMEWORK",
    "KANIKO_IMAGE",
    "BUILDKIT_IMAGE",
    "LOKI_URL",
    "LOKI_ORG_ID",
]


def _get_clause(policy: Policy, field: str, clause: str) -> Any:
    if field == "platform":
        return getattr(policy.scope.platform, clause)
    value = getattr(policy.scope.rules[field], clause)
    return str(value) if isinstance(value, Quantity) else value


def test_a_whole_environment_becomes_a_policy_when_an_admin_moves_over() -> None:
    pairs = (line.split("=", 1) for line in ENVIRONMENT.read_text().splitlines())

    policy, warnings = read_settings(dict(pairs))

    platform = policy.scope.platform
    assert platform.mem_tolerance == Decimal("1.25")
    assert platform.gpu_resources == ("amd.com/gpu",)
    assert platform.image_pull_secrets == ("registry",)
    assert {name: rule.default for name, rule in policy.scope.rules.items()} == {
        "resources.cpu": Quantity.parse("100m"),
        "resources.mem": Quantity.parse("256Mi"),
        "volumes.size": Quantity.parse("2Gi"),
        "volumes.storage_class": "fast",
        "resources.ephemeral-storage": Quantity.parse("2Gi"),
        "resources.ephemeral-storage.limits": Quantity.parse("10Gi"),
        "resources.disk.storage_class": "fast",
        "volumes.size_limit": Quantity.parse("128Mi"),
        "run_as_user": 8877,
        "run_as_group": 999,
        "image_pull_policy": "IfNotPresent",
        "service_type": "NodePort",
        "timeout": 259_200,
    }
    assert policy.scope.rules["volumes.size"].max == Quantity.parse("50Gi")
    assert policy.scope.rules["service_type"].allowed is None
    assert [warning.where for warning in warnings] == ["K8S_NAMESPACE"]


@pytest.mark.parametrize(
    ("name", "value", "field", "clause", "expected"),
    [
        ("K8S_RESOURCE_CPU_LIMIT", "4", "resources.cpu.limits", "default", "4"),
        ("K8S_RESOURCE_MEM_LIMIT", "8Gi", "resources.mem.limits", "default", "8Gi"),
        ("K8S_SERVICE_TYPE", "LoadBalancer", "service_type", "allowed", ("ClusterIP", "NodePort", "LoadBalancer")),
        ("IMAGE_REGISTRY_SECRET", "pull", "platform", "image_pull_secrets", ("pull",)),
        ("K8S_SEC_USER", " 1000 ", "run_as_user", "default", 1000),
    ],
)
def test_the_setting_is_a_clause_when_policy_can_say_it(
    name: str, value: str, field: str, clause: str, expected: Any
) -> None:
    policy, _ = read_settings({name: value})

    assert _get_clause(policy, field, clause) == expected


@pytest.mark.parametrize("name", EVERY_SETTING)
def test_no_setting_passes_in_silence_when_its_value_is_nonsense(name: str) -> None:
    found: list[Problem] = []
    policy = Policy()
    try:
        policy, found = read_settings({name: "\U0001f9c5 no such value"})
    except Refused as refused:
        found = list(refused.problems)

    assert policy == Policy()
    assert [problem.where for problem in found] == [name]
    assert found[0].code != "setting.unknown"


@pytest.mark.parametrize("name", EVERY_SETTING)
def test_nothing_is_said_when_a_setting_is_blank(name: str) -> None:
    assert read_settings({name: ""}) == (Policy(), [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("K8S_RESOURCE_CPU_DEFAULT", "fast"),
        ("K8S_RESOURCE_MEM_DEFAULT", "-1Gi"),
        ("K8S_RESOURCE_MEM_TOLERATION", "0.5"),
        ("K8S_RESOURCE_MEM_TOLERATION", "NaN"),
        ("K8S_RESOURCE_GPU_KEY", "gpu"),
        ("K8S_RESOURCE_PVC_LIMIT", "10 GB"),
        ("K8S_SEC_USER", "0"),
        ("K8S_SEC_GROUP", "root"),
        ("K8S_SEC_DISABLE_ROOT", "maybe"),
        ("K8S_SEC_SECCOMP_PROFILE", "Unconfined"),
        ("K8S_JOB_DEADLINE", "3 days"),
        ("K8S_JOB_DEADLINE", "0"),
        ("K8S_IMAGE_PULL_POLICY", "Sometimes"),
        ("K8S_SERVICE_TYPE", "ExternalName"),
        ("K8S_SERVICE_TYPE", "loadbalancer"),
    ],
)
def test_the_setting_is_named_when_its_value_is_bad(name: str, value: str) -> None:
    with pytest.raises(Refused) as refused:
        read_settings({name: value})

    assert [problem.where for problem in refused.value.problems] == [name]


def test_all_bad_values_are_told_at_once_when_there_are_several() -> None:
    with pytest.raises(Refused) as refused:
        read_settings(
            {
                "K8S_RESOURCE_CPU_DEFAULT": "x",
                "K8S_SERVICE_TYPE": "Balancer",
                "K8S_SEC_USER": "-1",
                "K8S_RESOURCE_PVC_DEFAULT": "9Gi",
                "K8S_RESOURCE_PVC_LIMIT": "1Gi",
            }
        )

    assert {problem.where for problem in refused.value.problems} == {
        "K8S_RESOURCE_CPU_DEFAULT",
        "K8S_SERVICE_TYPE",
        "K8S_SEC_USER",
        "K8S_RESOURCE_PVC_DEFAULT",
    }


@pytest.mark.parametrize("value", ["false", "False"])
def test_a_warning_says_so_when_root_was_allowed(value: str) -> None:
    policy, warnings = read_settings({"K8S_SEC_DISABLE_ROOT": value})

    assert policy == Policy()
    assert [warning.code for warning in warnings] == ["setting.root"]


def test_the_nearest_name_is_proposed_when_a_setting_is_not_known() -> None:
    _, warnings = read_settings({"K8S_RESOURCE_CPU_DEFAULTS": "1"})

    assert [(warning.code, warning.suggestion) for warning in warnings] == [
        ("setting.unknown", "K8S_RESOURCE_CPU_DEFAULT")
    ]


def test_other_names_are_told_without_their_values_when_a_whole_environment_is_given() -> None:
    _, warnings = read_settings({"PATH": "/bin", "DB_PASSWORD": "hunter2"})

    assert len(warnings) == 1
    assert "DB_PASSWORD, PATH" in str(warnings[0])
    assert "hunter2" not in str(warnings[0])


def test_a_warning_says_where_they_differ_when_a_setting_reaches_less_or_more_here() -> None:
    values = {"K8S_RESOURCE_MEM_LIMIT": "1Gi", "K8S_RESOURCE_EPHEMERAL_STORAGE_CLASS": "slow"}

    _, warnings = read_settings(values)

    assert {warning.code for warning in warnings} == {"setting.wider", "setting.narrower"}


def test_the_nearer_secret_wins_when_both_registry_secrets_are_given() -> None:
    policy, warnings = read_settings({"IMAGE_REGISTRY_SECRET": "a", "K8S_REGISTRY_SECRET": "b"})

    assert policy.scope.platform.image_pull_secrets == ("b",)
    assert [warning.where for warning in warnings] == ["IMAGE_REGISTRY_SECRET"]
