"""Fails closed: unreadable and unknown fields are refused, and the error has their path."""

from collections.abc import Callable
from typing import Any

import pytest

from runyard.pods.fields import UnreadablePod
from runyard.pods.security import check_pod_security, check_template_security
from tests.unit.pods.security.pods import Object, container, judge, pod


def in_spec(**spec: Any) -> Object:
    return pod(**spec)


def in_pod_context(**context: Any) -> Object:
    return pod(context=context)


def in_container(**fields: Any) -> Object:
    return pod(container(**fields))


def in_context(**context: Any) -> Object:
    return pod(container(context=context))


UNREADABLE = {
    "spec.hostNetwork": lambda: in_spec(hostNetwork="true"),
    "spec.hostPID": lambda: in_spec(hostPID=1),
    "spec.hostIPC": lambda: in_spec(hostIPC=[]),
    "spec.hostUsers": lambda: in_spec(hostUsers="false"),
    "spec.os": lambda: in_spec(os="windows"),
    "spec.os.name": lambda: in_spec(os={"name": ["windows"]}),
    "spec.volumes": lambda: in_spec(volumes={"name": "v", "hostPath": {}}),
    "spec.volumes[0]": lambda: in_spec(volumes=["hostPath"]),
    "spec.volumes[0].hostPath": lambda: in_spec(volumes=[{"name": "v", "hostPath": "/"}]),
    "spec.volumes[1].name": lambda: in_spec(volumes=[{"name": "v"}, {"name": 1}]),
    "spec.initContainers": lambda: in_spec(initContainers="privileged"),
    "spec.ephemeralContainers[0]": lambda: in_spec(ephemeralContainers=[[]]),
    "spec.securityContext": lambda: in_spec(securityContext=[]),
    "spec.securityContext.runAsUser": lambda: in_pod_context(runAsUser="0"),
    "spec.securityContext.runAsNonRoot": lambda: in_pod_context(runAsNonRoot="true"),
    "spec.securityContext.sysctls": lambda: in_pod_context(sysctls="vm.swappiness"),
    "spec.securityContext.sysctls[0].name": lambda: in_pod_context(sysctls=[{"name": 0}]),
    "spec.securityContext.seccompProfile": lambda: in_pod_context(seccompProfile="RuntimeDefault"),
    "spec.securityContext.seccompProfile.type": lambda: in_pod_context(seccompProfile={"type": True}),
    "spec.securityContext.windowsOptions.hostProcess": lambda: in_pod_context(windowsOptions={"hostProcess": "yes"}),
    "spec.containers[0].name": lambda: in_container(name=7),
    "spec.containers[0].ports": lambda: in_container(ports=80),
    "spec.containers[0].ports[0].hostPort": lambda: in_container(ports=[{"hostPort": "80"}]),
    "spec.containers[0].livenessProbe": lambda: in_container(livenessProbe="httpGet"),
    "spec.containers[0].lifecycle.preStop.httpGet.host": lambda: in_container(
        lifecycle={"preStop": {"httpGet": {"host": 1}}}
    ),
    "spec.containers[0].securityContext": lambda: in_container(securityContext="privileged"),
    "spec.containers[0].securityContext.privileged": lambda: in_context(privileged="false"),
    "spec.containers[0].securityContext.allowPrivilegeEscalation": lambda: in_context(allowPrivilegeEscalation=0),
    "spec.containers[0].securityContext.runAsUser": lambda: in_context(runAsUser=0.0),
    "spec.containers[0].securityContext.procMount": lambda: in_context(procMount={"Default": 1}),
    "spec.containers[0].securityContext.capabilities": lambda: in_context(capabilities=["ALL"]),
    "spec.containers[0].securityContext.capabilities.add": lambda: in_context(capabilities={"add": "SYS_ADMIN"}),
    "spec.containers[0].securityContext.capabilities.drop[0]": lambda: in_context(capabilities={"drop": [["ALL"]]}),
    "spec.containers[0].securityContext.appArmorProfile.type": lambda: in_context(appArmorProfile={"type": 1}),
    "spec.containers[0].securityContext.seLinuxOptions.user": lambda: in_context(seLinuxOptions={"user": False}),
}


@pytest.mark.parametrize("where", UNREADABLE)
def test_pod_is_refused_at_every_level_when_a_value_has_the_wrong_type(where: str) -> None:
    make: Callable[[], Object] = UNREADABLE[where]
    for version in ("1.0", "latest"):
        with pytest.raises(UnreadablePod) as caught:
            check_pod_security(make(), level="baseline", version=version)
        assert caught.value.problem.where == where


UNKNOWN = {
    "x": lambda: {**pod(), "x": 1},
    "metadata.annotation": lambda: {**pod(), "metadata": {"annotation": {}}},
    "spec.hostnetwork": lambda: in_spec(hostnetwork=True),
    "spec.template": lambda: in_spec(template={}),
    "spec.volumes[0].hostpath": lambda: in_spec(volumes=[{"name": "v", "hostpath": {"path": "/"}}]),
    "spec.volumes[0].newKind": lambda: in_spec(volumes=[{"name": "v", "newKind": {}}]),
    "spec.os.Name": lambda: in_spec(os={"Name": "linux"}),
    "spec.securityContext.privileged": lambda: in_pod_context(privileged=True),
    "spec.securityContext.sysctls[0].key": lambda: in_pod_context(sysctls=[{"key": "vm.swappiness"}]),
    "spec.containers[0].securitycontext": lambda: in_container(securitycontext={"privileged": True}),
    "spec.containers[0].ports[0].hostport": lambda: in_container(ports=[{"hostport": 80}]),
    "spec.containers[0].livenessProbe.http": lambda: in_container(livenessProbe={"http": {}}),
    "spec.containers[0].lifecycle.prestop": lambda: in_container(lifecycle={"prestop": {}}),
    "spec.containers[0].lifecycle.preStop.tcp": lambda: in_container(lifecycle={"preStop": {"tcp": {}}}),
    "spec.containers[0].livenessProbe.httpGet.Host": lambda: in_container(livenessProbe={"httpGet": {"Host": "h"}}),
    "spec.containers[0].targetContainerName": lambda: in_container(targetContainerName="main"),
    "spec.containers[0].securityContext.Privileged": lambda: in_context(Privileged=True),
    "spec.containers[0].securityContext.capabilities.adds": lambda: in_context(capabilities={"adds": ["ALL"]}),
    "spec.containers[0].securityContext.seccompProfile.Type": lambda: in_context(seccompProfile={"Type": "x"}),
    "spec.containers[0].securityContext.seLinuxOptions.types": lambda: in_context(seLinuxOptions={"types": "x"}),
    "spec.containers[0].securityContext.windowsOptions.host": lambda: in_context(windowsOptions={"host": True}),
}


@pytest.mark.parametrize("where", UNKNOWN)
def test_pod_is_refused_when_a_field_is_not_known(where: str) -> None:
    make: Callable[[], Object] = UNKNOWN[where]
    with pytest.raises(UnreadablePod) as caught:
        check_pod_security(make(), level="baseline")
    assert caught.value.problem.code == "field.unknown"
    assert caught.value.problem.where == where


def test_nearest_field_is_proposed_when_one_is_misspelt() -> None:
    with pytest.raises(UnreadablePod, match="did you mean: hostNetwork"):
        check_pod_security(in_spec(hostnetwork=True), level="baseline")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"spec": None},
        {"spec": {}},
        {"spec": {"containers": []}},
        {"spec": {"containers": None, "initContainers": [{"name": "a"}]}},
        {"kind": "Job", "spec": {"containers": [{"name": "a"}]}},
        {"kind": 1, "spec": {"containers": [{"name": "a"}]}},
        {1: 2},
        [],
        None,
        "pod",
    ],
)
def test_pod_is_refused_when_it_is_none(given: Any) -> None:
    with pytest.raises(UnreadablePod):
        check_pod_security(given, level="baseline")


def test_template_is_refused_when_a_whole_pod_is_given() -> None:
    with pytest.raises(UnreadablePod, match=r"apiVersion: unknown field `apiVersion`; allowed: metadata, spec"):
        check_template_security(pod(), level="baseline")


@pytest.mark.parametrize("annotations", [{"a": 1}, {1: "a"}, ["a"], {"a": "\ud800"}])
def test_pod_is_refused_when_its_annotations_cannot_be_read(annotations: Any) -> None:
    with pytest.raises(UnreadablePod):
        check_pod_security({**pod(), "metadata": {"annotations": annotations}}, level="baseline")


def test_null_reads_as_kubernetes_reads_it_when_it_stands_for_anything() -> None:
    nothing = dict.fromkeys(("volumes", "initContainers", "ephemeralContainers", "os", "hostUsers", "hostPID"))
    assert judge(pod(**nothing)) == {}
    assert judge(in_context(capabilities={"add": [None], "drop": ["ALL"]}), level="baseline") == {
        "capabilities_baseline": 'container "main" must not include "" in securityContext.capabilities.add'
    }
    assert judge(in_context(seccompProfile={"type": None}), level="baseline").keys() == {"seccompProfile_baseline"}


@pytest.mark.parametrize("number", [True, 2**63, -(2**63) - 1, 1 << 20_000], ids=["flag", "large", "small", "huge"])
def test_number_is_refused_when_kubernetes_could_not_hold_it(number: int) -> None:
    with pytest.raises(UnreadablePod, match=r"spec\.securityContext\.runAsUser"):
        check_pod_security(in_pod_context(runAsUser=number), level="restricted")


def test_deep_nesting_is_refused_when_it_stands_where_text_belongs() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UnreadablePod, match="given: a list"):
        check_pod_security(in_container(name=deep), level="baseline")
    while isinstance(deep, list):  # unwound by hand: the interpreter's own way down is not deep enough
        deep = deep.pop()
