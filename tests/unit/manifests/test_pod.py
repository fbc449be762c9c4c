"""The pod: its container, placement, identity and resources."""

import pytest

from runyard.pods.security import check_template_security
from tests.unit.manifests.object_views import get_container, get_pod, get_workload, render
from tests.unit.manifests.samples import SPECS, make_sides, make_spec


def test_pod_is_locked_down_when_nothing_is_said() -> None:
    assert get_pod(make_spec(image="busybox:1.36")) == {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "env": [{"name": "PROJECT_NAME", "value": "vision"}, {"name": "RUN_ID", "value": "r1"}],
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "securityContext": {
                    "privileged": False,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }


def test_container_has_command_args_and_pull_policy_when_they_are_given() -> None:
    container = get_container(SPECS["command and args"])
    assert container["command"] == ["sh", "-c"]
    assert container["args"] == ["echo $0 $1", "a b", ""]
    assert container["imagePullPolicy"] == "Always"
    assert container["workingDir"] == "/tmp"


@pytest.mark.parametrize(
    ("sample", "field", "value"),
    [
        ("node selector", "nodeSelector", {"disktype": "ssd", "example.com/pool": "a"}),
        ("scheduler", "schedulerName", "runyard-gpu"),
        ("priority class", "priorityClassName", "urgent"),
        ("runtime class", "runtimeClassName", "gvisor"),
        ("service account", "serviceAccountName", "trainer"),
        ("host aliases", "hostAliases", [{"ip": "10.1.2.3", "hostnames": ["store", "store.local"]}]),
        ("pull secrets", "imagePullSecrets", [{"name": "registry-a"}, {"name": "registry-b"}]),
    ],
)
def test_pod_has_the_field_as_it_is_when_it_is_given(sample: str, field: str, value: object) -> None:
    assert get_pod(SPECS[sample])[field] == value
    assert field not in get_pod(make_spec())


def test_pod_is_placed_in_kubernetes_own_words_when_placement_is_given() -> None:
    tolerations = get_pod(SPECS["tolerations"])["tolerations"]
    assert tolerations[1] == {
        "key": "gone",
        "operator": "Equal",
        "value": "x",
        "effect": "NoExecute",
        "tolerationSeconds": 30,
    }
    required = get_pod(SPECS["affinity"])["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["ssd", "nvme"]
    assert get_pod(SPECS["topology spread"])["topologySpreadConstraints"][0]["topologyKey"] == "zone"


def test_pod_runs_as_asked_when_user_groups_and_fs_group_are_given() -> None:
    context = get_pod(make_spec(run_as_user=1000, run_as_group=3000, fs_group=2000))["securityContext"]
    assert context == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 1000,
        "runAsGroup": 3000,
        "fsGroup": 2000,
        "fsGroupChangePolicy": "OnRootMismatch",
    }


def test_container_may_escalate_but_is_never_root_when_the_policy_says_baseline() -> None:
    spec = make_spec(pod_security="baseline")
    assert get_container(spec)["securityContext"] == {"privileged": False}
    assert get_pod(spec)["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize("version", ["1.34", "1.36"])
@pytest.mark.parametrize("sample", SPECS)
def test_pod_security_finds_nothing_when_a_sample_is_rendered(sample: str, version: str) -> None:
    spec = SPECS[sample]
    template = get_workload(render(spec))["spec"]["template"]
    assert check_template_security(template, level=spec.pod_security, version=version) == ()


def test_pod_security_finds_what_is_relaxed_when_baseline_is_judged_as_restricted() -> None:
    template = get_workload(render(SPECS["baseline"]))["spec"]["template"]
    found = {violation.check for violation in check_template_security(template, level="restricted")}
    assert found == {"allowPrivilegeEscalation", "capabilities_restricted"}


def test_resources_have_kubernetes_names_and_texts_when_sides_are_given() -> None:
    assert get_container(SPECS["resources"])["resources"] == {
        "requests": {"cpu": "500m", "memory": "1536Mi", "ephemeral-storage": "1G"},
        "limits": {"cpu": "2", "memory": "1771674010"},
    }


def test_gpus_are_request_and_limit_when_there_are_any() -> None:
    assert get_container(SPECS["gpus"])["resources"] == {
        "requests": {"nvidia.com/gpu": "2"},
        "limits": {"cpu": "4", "nvidia.com/gpu": "2"},
    }
    assert "resources" not in get_container(SPECS["no gpus"])


def test_resources_keep_a_zero_when_it_was_asked_for() -> None:
    assert get_container(make_spec(resources={"cpu": make_sides("0")}))["resources"] == {"requests": {"cpu": "0"}}


def test_functions_own_fields_stay_out_when_a_python_run_has_them() -> None:
    plain = make_spec(kind="python", command=["python3"])
    full = make_spec(
        kind="python",
        command=["python3"],
        parameters={"x": 1},
        inputs={"d": "store://p/dataitem/x"},
        init_parameters={"y": 2},
        source={"handler": "main"},
    )
    assert render(full) == render(plain)
