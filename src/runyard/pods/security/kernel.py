"""Checks on kernel features: capabilities, sysctls, an unmasked /proc."""

from runyard.pods.security.facts import Container, Pod
from runyard.pods.security.violations import Finding, name_containers, quote_each, select_names

DEFAULT_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_LOW_PORTS_ONLY = frozenset({"NET_BIND_SERVICE"})
_SYSCTLS_SINCE = {
    0: (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ),
    27: ("net.ipv4.ip_local_reserved_ports",),
    29: (
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    ),
    32: ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
}


def check_added_capabilities(pod: Pod) -> Finding | None:
    """*Baseline*: no capabilities beyond the runtime's defaults."""
    detail = _describe_added(pod, DEFAULT_CAPABILITIES)
    return Finding("non-default capabilities", detail) if detail else None


def check_all_capabilities_dropped(pod: Pod) -> Finding | None:
    """*Restricted*: all capabilities dropped, and none added except NET_BIND_SERVICE."""
    details = []
    if names := select_names(pod, lambda container: "ALL" not in container.dropped_capabilities):
        details.append(f'{name_containers(names)} must set securityContext.capabilities.drop=["ALL"]')
    if added := _describe_added(pod, _LOW_PORTS_ONLY):
        details.append(added)
    return Finding("unrestricted capabilities", "; ".join(details)) if details else None


def check_all_capabilities_dropped_unless_windows(pod: Pod) -> Finding | None:
    """Since 1.25 Windows pods need not drop capabilities; they may not add any."""
    if not pod.is_windows:
        return check_all_capabilities_dropped(pod)
    added = _describe_added(pod, _LOW_PORTS_ONLY)
    return Finding("unrestricted capabilities", added) if added else None


def check_sysctls(pod: Pod, *, minor: int) -> Finding | None:
    """Only sysctls that are safe in the version."""
    safe = {name for since, names in _SYSCTLS_SINCE.items() if since <= minor for name in names}
    forbidden = [name for name in pod.sysctls if name not in safe]
    return Finding("forbidden sysctls", ", ".join(forbidden)) if forbidden else None


def check_proc_mount(pod: Pod) -> Finding | None:
    """No unmasked /proc."""
    names = select_names(pod, _unmasks_proc)
    if not names:
        return None
    kinds = sorted({container.proc_mount or "" for container in pod.containers if _unmasks_proc(container)})
    return Finding(
        "procMount", f"{name_containers(names)} must not set securityContext.procMount to {quote_each(kinds)}"
    )


def check_proc_mount_unless_own_users(pod: Pod) -> Finding | None:
    """Since 1.35, *baseline* allows an unmasked /proc in the pod's own user namespace."""
    return None if pod.has_own_users else check_proc_mount(pod)


def _unmasks_proc(container: Container) -> bool:
    return container.proc_mount not in (None, "Default")


def _describe_added(pod: Pod, allowed: frozenset[str]) -> str:
    names = select_names(pod, lambda container: not allowed.issuperset(container.added_capabilities))
    if not names:
        return ""
    added = sorted({name for container in pod.containers for name in container.added_capabilities} - allowed)
    return f"{name_containers(names)} must not include {quote_each(added)} in securityContext.capabilities.add"
