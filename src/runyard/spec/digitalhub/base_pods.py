"""The pod of a base object: keys that become fields, keys that the platform sets itself, and refused ones."""

from typing import Any

from runyard.spec.digitalhub.takeover import Shape, Takeover
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Path, Problem

_RUNTIME_DEFAULT = {"type": "RuntimeDefault"}


def _take_volumes(takeover: Takeover, given: Any, path: Path) -> None:
    for index, entry in enumerate(takeover.open_list(given, path, of="volumes")):
        place = (*path, index)
        if takeover.open_mapping(entry, place, of="a volume's fields").get("hostPath") is not None:
            takeover.refuse(Code.BASE_FORBIDDEN, (*place, "hostPath"), "`hostPath` volumes are not allowed")
    if given:
        takeover.warn(path)


def _take_containers(takeover: Takeover, given: Any, path: Path) -> None:
    for index, container in enumerate(takeover.open_list(given, path, of="containers")):
        place = (*path, index)
        if index == 0:
            takeover.walk(container, _CONTAINER, place)
            continue
        # Only the first container is used, but forbidden settings of the others are refused as well.
        other = Takeover()
        other.walk(container, _CONTAINER, place)
        takeover.findings.problems += other.findings.problems
        takeover.warnings.append(Problem(Code.BASE_OVERWRITTEN, place, "only the first container is used; ignored"))


def _take_env(takeover: Takeover, given: Any, path: Path) -> None:
    envs: list[Any] = []
    for index, entry in enumerate(takeover.open_list(given, path, of="variables")):
        variable = takeover.open_mapping(entry, (*path, index), of="`name` and `value`")
        envs.append({"value": "", **{key: value for key, value in variable.items() if value is not None}})
    takeover.take("envs", envs, path)


def _take_ports(takeover: Takeover, given: Any, path: Path) -> None:
    for index, entry in enumerate(takeover.open_list(given, path, of="ports")):
        port = takeover.open_mapping(entry, (*path, index), of="a port's fields")
        if port.get("hostPort"):
            takeover.refuse(Code.BASE_FORBIDDEN, (*path, index, "hostPort"), "`hostPort` is not allowed")
    if given:
        takeover.warn(path)


def _take_capabilities(takeover: Takeover, given: Any, path: Path) -> None:
    capabilities = takeover.open_mapping(given, path, of="`drop`")
    for key, value in capabilities.items():
        if value and key != "drop":
            takeover.refuse(Code.BASE_FORBIDDEN, (*path, key), "capabilities cannot be added")


POD_CONTEXT = Shape(
    taken={"runAsUser": "run_as_user", "runAsGroup": "run_as_group", "fsGroup": "fs_group"},
    fixed={"runAsNonRoot": True, "seccompProfile": _RUNTIME_DEFAULT},
    overwritten=("fsGroupChangePolicy",),
)
_CONTAINER_CONTEXT = Shape(
    taken={"runAsUser": "run_as_user", "runAsGroup": "run_as_group"},
    readers={"capabilities": _take_capabilities},
    fixed={
        "runAsNonRoot": True,
        "seccompProfile": _RUNTIME_DEFAULT,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": False,
        "procMount": "Default",
    },
)
_CONTAINER = Shape(
    taken={"resources": "resources", "imagePullPolicy": "image_pull_policy"},
    parts={"securityContext": _CONTAINER_CONTEXT},
    readers={"env": _take_env, "ports": _take_ports},
    overwritten=(
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "volumeMounts",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "stdin",
        "tty",
    ),
)
_POD = Shape(
    taken={
        "terminationGracePeriodSeconds": "grace_period",
        "serviceAccountName": "service_account",
        "schedulerName": "scheduler_name",
        "hostAliases": "host_aliases",
        "topologySpreadConstraints": "topology_spread",
        "nodeSelector": "node_selector",
        "tolerations": "tolerations",
        "affinity": "affinity",
        "runtimeClassName": "runtime_class",
        "priorityClassName": "priority_class",
        "imagePullSecrets": "image_pull_secrets",
    },
    parts={"securityContext": POD_CONTEXT},
    readers={"containers": _take_containers, "volumes": _take_volumes},
    fixed={
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": False,
    },
    overwritten=("restartPolicy", "dnsPolicy", "dnsConfig", "preemptionPolicy", "setHostnameAsFQDN", "os"),
)
POD_TEMPLATE = Shape(parts={"spec": _POD}, overwritten=("metadata",))
