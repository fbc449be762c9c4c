"""Pods for comparing our Pod Security with the plugin's: valid ones, some obeying, some not, all from one seed.

Validation comes before the plugin, so a pod that is not valid would prove nothing: `_repair` undoes the combinations
that the apiserver refuses.
"""

import copy
import random
from collections.abc import Callable
from typing import Any

from tests.cluster.contract.pod_changes import (
    APPARMOR,
    HARMLESS,
    RELAXATIONS,
    SECCOMP,
    SECCOMP_POD,
    VIOLATIONS,
    Object,
    add_volume,
    get_context,
    iter_containers,
)
from tests.cluster.contract.pod_volumes import ALLOWED_SOURCES, FORBIDDEN_SOURCES, IMAGE_SOURCE


def make_pod(chance: random.Random, *, minor: int) -> Object:
    """A valid pod for an apiserver of that minor version."""
    if chance.random() < 0.08:
        return make_windows_pod(chance)
    pod = _make_obeying_pod(chance, minor=minor)
    aim = chance.choices(("restricted", "baseline", "neither"), (46, 14, 40))[0]
    if aim != "restricted" and chance.random() < 0.9:
        for change in chance.sample(RELAXATIONS, k=chance.randint(1, 4)):
            change(chance, pod)
    if aim == "neither":
        for change in chance.choices(VIOLATIONS, k=chance.randint(1, 3)):
            change(chance, pod)
    for change in chance.sample(HARMLESS, k=chance.randint(0, 4)):
        change(chance, pod)
    _repair(pod)
    _leave_out_empty_contexts(chance, pod)
    return pod


def make_windows_pod(chance: random.Random) -> Object:
    """A pod for Windows, where most of a security context may not be said at all."""
    spec: Object = {"os": {"name": "windows"}, "containers": [_make_container(name) for name in _draw_names(chance)]}
    if chance.random() < 0.7:
        spec["securityContext"] = {"runAsNonRoot": chance.random() < 0.8}
    if chance.random() < 0.3:
        spec["hostNetwork"] = True
        where = chance.choice((spec, *spec["containers"]))
        for owner in [spec, *spec["containers"]] if where is spec else spec["containers"]:
            if owner is not spec or chance.random() < 0.8:
                owner.setdefault("securityContext", {})["windowsOptions"] = {"hostProcess": True}
    if chance.random() < 0.3:
        chance.choice(spec["containers"])["ports"] = [{"containerPort": 80, "protocol": "TCP"}]
    if chance.random() < 0.3:
        source = chance.choice([*ALLOWED_SOURCES, "nfs", "hostPath"])
        spec["volumes"] = [{"name": "volume", source: (ALLOWED_SOURCES | FORBIDDEN_SOURCES)[source]}]
    return {"metadata": {"generateName": "pod-"}, "spec": copy.deepcopy(spec)}


def _make_obeying_pod(chance: random.Random, *, minor: int) -> Object:
    names = _draw_names(chance)
    containers = [_make_container(name) for name in names]
    split = chance.randint(0, len(names) - 1) if chance.random() < 0.5 else 0
    spec: Object = {"containers": containers[split:]}
    if split:
        spec["initContainers"] = containers[:split]
        for container in spec["initContainers"]:
            if chance.random() < 0.4:
                container["restartPolicy"] = "Always"
    pod: Object = {"metadata": {"generateName": "pod-", "annotations": {}}, "spec": spec}
    for container in containers:
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": chance.choice((["ALL"], ["CHOWN", "ALL"]))},
        }
    _say_somewhere(chance, pod, "runAsNonRoot", lambda: True)
    _say_somewhere(chance, pod, "seccompProfile", lambda: _make_profile(chance))
    kinds = ALLOWED_SOURCES | ({"image": IMAGE_SOURCE} if minor >= 35 else {})
    for kind in chance.sample(sorted(kinds), k=chance.randint(0, 3)):
        add_volume(spec, kind, kinds[kind])
    return copy.deepcopy(pod)


def _draw_names(chance: random.Random) -> list[str]:
    return chance.sample(("main", "fetch", "proxy", "a", "z9", "log-shipper"), k=chance.choice((1, 1, 2, 3, 4)))


def _make_container(name: str) -> Object:
    return {"name": name, "image": "registry.example.com/tool:1"}


def _make_profile(chance: random.Random) -> Object:
    if chance.random() < 0.3:
        return {"type": "Localhost", "localhostProfile": "profiles/ours.json"}
    return {"type": "RuntimeDefault"}


def _say_somewhere(chance: random.Random, pod: Object, field: str, value: Callable[[], Any]) -> None:
    """By the pod, by every container, or by both."""
    where = chance.choice(("pod", "containers", "both"))
    if where != "containers":
        get_context(pod["spec"])[field] = value()
    if where != "pod":
        for container in iter_containers(pod):
            get_context(container)[field] = value()


def _repair(pod: Object) -> None:
    spec = pod["spec"]
    if any(spec.get(field) for field in ("hostNetwork", "hostPID", "hostIPC")):
        spec.pop("hostUsers", None)
        for container in iter_containers(pod):
            if get_context(container).get("procMount") == "Unmasked":
                get_context(container).pop("procMount")
    if any(get_context(container).get("procMount") == "Unmasked" for container in iter_containers(pod)):
        spec["hostUsers"] = False
    _repair_contexts(pod)
    _repair_sysctls(spec)
    _repair_annotations(pod)
    _repair_ports(pod)


def _repair_contexts(pod: Object) -> None:
    for container in iter_containers(pod):
        context = get_context(container)
        added = (context.get("capabilities") or {}).get("add") or ()
        if context.get("privileged") or "CAP_SYS_ADMIN" in added:
            context.pop("allowPrivilegeEscalation", None)
    says_windows = any(get_context(owner).get("windowsOptions") for owner in [pod["spec"], *iter_containers(pod)])
    if says_windows:
        pod["spec"].pop("os", None)


def _repair_sysctls(spec: Object) -> None:
    context = get_context(spec)
    sysctls = context.get("sysctls") or []
    if spec.get("hostNetwork"):
        sysctls = [sysctl for sysctl in sysctls if not sysctl["name"].startswith("net")]
    if spec.get("hostIPC"):
        sysctls = [sysctl for sysctl in sysctls if not sysctl["name"].startswith("kernel.")]
    if context.get("sysctls"):
        context["sysctls"] = sysctls


def _repair_annotations(pod: Object) -> None:
    """An annotation and a field that say different things are not valid together."""
    annotations = pod["metadata"].get("annotations") or {}
    pod_context = get_context(pod["spec"])
    if pod_context.get("seccompProfile"):
        annotations.pop(SECCOMP_POD, None)
    for container in iter_containers(pod):
        context = get_context(container)
        if context.get("seccompProfile"):
            annotations.pop(SECCOMP + container["name"], None)
        profile = context.get("appArmorProfile") or pod_context.get("appArmorProfile")
        said = annotations.get(APPARMOR + container["name"])
        if profile and said != {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}.get(profile["type"]):
            annotations.pop(APPARMOR + container["name"], None)


def _repair_ports(pod: Object) -> None:
    """On the host's network a host port is the container's, and each may be taken once."""
    taken: set[tuple[int, str]] = set()
    for container in iter_containers(pod):
        kept = []
        for port in container.get("ports") or ():
            if pod["spec"].get("hostNetwork") and "hostPort" in port:
                port["hostPort"] = port["containerPort"]
            host = port["containerPort"] if pod["spec"].get("hostNetwork") else port.get("hostPort", 0)
            key = (host, port.get("protocol", "TCP"))
            if not host or key not in taken:
                kept.append(port)
                taken.add(key)
        if container.get("ports"):
            container["ports"] = kept


def _leave_out_empty_contexts(chance: random.Random, pod: Object) -> None:
    for owner in [pod["spec"], *iter_containers(pod)]:
        if not owner["securityContext"] and chance.random() < 0.7:
            owner["securityContext"] = None
            if chance.random() < 0.7:
                del owner["securityContext"]
