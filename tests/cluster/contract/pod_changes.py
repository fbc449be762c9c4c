"""What a generated pod may do that *restricted* forbids, what *baseline* forbids, and what nobody minds."""

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.cluster.contract.pod_volumes import FORBIDDEN_SOURCES

Object = dict[str, Any]
Change = Callable[[random.Random, Object], None]

APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
DEFAULT_CAPABILITIES = ("AUDIT_WRITE", "CHOWN", "KILL", "MKNOD", "SETUID", "SYS_CHROOT")
OTHER_CAPABILITIES = ("ALL", "BPF", "CAP_SYS_ADMIN", "NET_RAW", "SYS_ADMIN", "net_raw", 'od"d', "")
SAFE_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
)
OTHER_SYSCTLS = ("kernel.msgmax", "net.core.somaxconn", "net/ipv4/tcp_syncookies", "vm.swappiness")
HOSTS = ("127.0.0.1", "example.com", "169.254.169.254", 'a"b')


def iter_containers(pod: Object) -> Iterator[Object]:
    yield from pod["spec"].get("initContainers") or ()
    yield from pod["spec"]["containers"]


def get_context(owner: Object) -> Object:
    context: Object = owner.setdefault("securityContext", {})
    return context


def add_volume(spec: Object, kind: str, source: Object) -> None:
    volumes = spec.setdefault("volumes", [])
    volumes.append({"name": f"volume-{len(volumes)}", kind: source})


def _some_containers(chance: random.Random, pod: Object) -> list[Object]:
    containers = list(iter_containers(pod))
    return chance.sample(containers, k=chance.randint(1, len(containers)))


def _set_somewhere(chance: random.Random, pod: Object, field: str, value: Callable[[], Any]) -> None:
    """In the pod's context or in those of some containers."""
    for owner in [pod["spec"]] if chance.random() < 0.4 else _some_containers(chance, pod):
        get_context(owner)[field] = value()


def _drop_field(field: str) -> Change:
    def change(chance: random.Random, pod: Object) -> None:
        owners = list(iter_containers(pod)) if chance.random() < 0.5 else _some_containers(chance, pod)
        for owner in [*owners, *([pod["spec"]] if chance.random() < 0.6 else [])]:
            if owner.get("securityContext") and chance.random() < 0.9:
                owner["securityContext"].pop(field, None)

    return change


def _set_field(field: str, *values: Any) -> Change:
    def change(chance: random.Random, pod: Object) -> None:
        _set_somewhere(chance, pod, field, lambda: copy.deepcopy(chance.choice(values)))

    return change


def _set_container_field(field: str, *values: Any) -> Change:
    def change(chance: random.Random, pod: Object) -> None:
        for container in _some_containers(chance, pod):
            get_context(container)[field] = copy.deepcopy(chance.choice(values))

    return change


def _set_spec(field: str, *values: Any) -> Change:
    def change(chance: random.Random, pod: Object) -> None:
        pod["spec"][field] = chance.choice(values)

    return change


def _add_capabilities(*names: str) -> Change:
    def change(chance: random.Random, pod: Object) -> None:
        for container in _some_containers(chance, pod):
            capabilities = get_context(container).setdefault("capabilities", {})
            capabilities["add"] = chance.sample(names, k=chance.randint(1, min(3, len(names))))

    return change


def _add_sysctls(*names: str) -> Change:
    def change(chance: random.Random, pod: Object) -> None:
        sysctls = get_context(pod["spec"]).setdefault("sysctls", [])
        said = {sysctl["name"] for sysctl in sysctls}
        for name in chance.sample(names, k=chance.randint(1, 3)):
            if name not in said:
                sysctls.append({"name": name, "value": "1"})

    return change


def _add_forbidden_volumes(chance: random.Random, pod: Object) -> None:
    for kind in chance.choices([kind for kind in FORBIDDEN_SOURCES if kind != "hostPath"], k=chance.randint(1, 3)):
        add_volume(pod["spec"], kind, copy.deepcopy(FORBIDDEN_SOURCES[kind]))


def _add_host_paths(chance: random.Random, pod: Object) -> None:
    for _ in range(chance.randint(1, 2)):
        add_volume(pod["spec"], "hostPath", copy.deepcopy(FORBIDDEN_SOURCES["hostPath"]))


def _add_ports(*, on_host: bool) -> Change:
    def change(chance: random.Random, pod: Object) -> None:
        for index, container in enumerate(_some_containers(chance, pod)):
            number = 1000 * (index + 1) + chance.randint(0, 99)
            port: Object = {"containerPort": number}
            if on_host:
                port["hostPort"] = chance.choice((number, 8000 + index))
            container["ports"] = [port]
            if chance.random() < 0.3:
                container["ports"].append({**port, "protocol": "UDP"})

    return change


def _add_handlers(*, hosts: tuple[str, ...]) -> Change:
    """Probes and lifecycle handlers, where they may be: not in init containers that end."""

    def change(chance: random.Random, pod: Object) -> None:
        lasting = [c for c in iter_containers(pod) if c in pod["spec"]["containers"] or "restartPolicy" in c]
        for container in chance.sample(lasting, k=chance.randint(1, len(lasting))):
            for name in chance.sample(("livenessProbe", "readinessProbe", "startupProbe"), k=chance.randint(0, 2)):
                container[name] = _make_handler(chance, hosts)
            if chance.random() < 0.6:
                container["lifecycle"] = {chance.choice(("postStart", "preStop")): _make_handler(chance, hosts)}

    return change


def _make_handler(chance: random.Random, hosts: tuple[str, ...]) -> Object:
    action: Object = {"port": 80}
    if hosts:
        action["host"] = chance.choice(hosts)
    return {"httpGet": {"path": "/", **action}} if chance.random() < 0.5 else {"tcpSocket": action}


def _annotate(prefix: str, *values: str) -> Change:
    def change(chance: random.Random, pod: Object) -> None:
        annotations = pod["metadata"].setdefault("annotations", {})
        for container in _some_containers(chance, pod):
            annotations[prefix + container["name"]] = chance.choice(values)

    return change


def _annotate_pod(*values: str) -> Change:
    def change(chance: random.Random, pod: Object) -> None:
        pod["metadata"].setdefault("annotations", {})[SECCOMP_POD] = chance.choice(values)

    return change


def _take_host_process(chance: random.Random, pod: Object) -> None:
    pod["spec"]["hostNetwork"] = True
    by_pod = chance.random() < 0.5
    if by_pod:
        get_context(pod["spec"])["windowsOptions"] = {"hostProcess": True}
    for container in iter_containers(pod):
        if not by_pod or chance.random() < 0.4:
            get_context(container)["windowsOptions"] = {"hostProcess": True}


def _forget_contexts(chance: random.Random, pod: Object) -> None:
    for owner in [pod["spec"], *iter_containers(pod)]:
        if chance.random() < 0.6:
            owner["securityContext"] = {}


def _write_zero_values(chance: random.Random, pod: Object) -> None:
    """Nulls, empty lists and explicit defaults in place of nothing."""
    spec = pod["spec"]
    said: dict[str, tuple[Any, ...]] = {
        "hostNetwork": (None, False),
        "hostPID": (None, False),
        "hostIPC": (False,),
        "hostUsers": (None, True),
        "volumes": (None, []),
        "initContainers": (None, []),
        "os": (None,),
    }
    for field, values in said.items():
        if field not in spec and chance.random() < 0.5:
            spec[field] = chance.choice(values)
    for container in iter_containers(pod):
        context = get_context(container)
        for field in ("privileged", "procMount", "seLinuxOptions", "runAsUser", "windowsOptions", "appArmorProfile"):
            if field not in context and chance.random() < 0.3:
                context[field] = None
        container.setdefault("ports", None)
        container.setdefault("lifecycle", None)


LOOSE_SELINUX = (
    {"type": "spc_t"},
    {"user": "system_u"},
    {"role": "system_r", "type": "container_t"},
    {"user": "u", "role": "r", "type": "unconfined_t", "level": "s0"},
    {"type": "container_engine_t"},
)
RELAXATIONS: tuple[Change, ...] = (
    _drop_field("allowPrivilegeEscalation"),
    _drop_field("capabilities"),
    _drop_field("runAsNonRoot"),
    _drop_field("seccompProfile"),
    _set_container_field("allowPrivilegeEscalation", True),
    _set_container_field("capabilities", {}, {"drop": ["all"]}, {"drop": []}, {"drop": None}, {"add": ["KILL"]}),
    _set_field("runAsNonRoot", False),
    _set_field("runAsUser", 0),
    _add_capabilities(*DEFAULT_CAPABILITIES),
    _add_forbidden_volumes,
    _forget_contexts,
)
VIOLATIONS: tuple[Change, ...] = (
    _set_spec("hostNetwork", True),
    _set_spec("hostPID", True),
    _set_spec("hostIPC", True),
    _set_container_field("privileged", True),
    _set_container_field("procMount", "Unmasked"),
    _set_field("seccompProfile", {"type": "Unconfined"}),
    _set_field("appArmorProfile", {"type": "Unconfined"}),
    _set_field("seLinuxOptions", *LOOSE_SELINUX),
    _add_capabilities(*DEFAULT_CAPABILITIES, *OTHER_CAPABILITIES),
    _add_sysctls(*SAFE_SYSCTLS, *OTHER_SYSCTLS),
    _add_host_paths,
    _add_ports(on_host=True),
    _add_handlers(hosts=HOSTS),
    _annotate(APPARMOR, "unconfined"),
    _annotate(SECCOMP, "unconfined"),
    _annotate_pod("unconfined"),
    _take_host_process,
)
HARMLESS: tuple[Change, ...] = (
    _set_field("runAsUser", 1000, 2**31 - 1),
    _set_field("appArmorProfile", {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "ours"}),
    _set_field("seLinuxOptions", {}, {"type": "container_t"}, {"type": "container_init_t", "level": "s0:c1"}),
    _set_container_field("procMount", "Default"),
    _set_container_field("privileged", False),
    _set_spec("hostUsers", False, True),
    _set_spec("os", {"name": "linux"}),
    _add_capabilities("NET_BIND_SERVICE"),
    _add_sysctls(*SAFE_SYSCTLS[:3]),
    _add_ports(on_host=False),
    _add_handlers(hosts=("",)),
    _add_handlers(hosts=()),
    _annotate(APPARMOR, "runtime/default", "localhost/ours", ""),
    _annotate(SECCOMP, "runtime/default", "docker/default", "localhost/ours.json"),
    _annotate_pod("runtime/default", "localhost/ours.json"),
    _write_zero_values,
)
