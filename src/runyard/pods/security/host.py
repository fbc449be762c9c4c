"""Checks of a pod's access to its host: namespaces, ports, paths, processes, privileged mode."""

from runyard.pods.security.facts import Pod
from runyard.pods.security.violations import (
    Finding,
    choose,
    name_containers,
    name_setters,
    quote_each,
    select_names,
)


def check_host_namespaces(pod: Pod) -> Finding | None:
    """No host network, PID or IPC namespace."""
    if not pod.host_namespaces:
        return None
    return Finding("host namespaces", ", ".join(f"{name}=true" for name in pod.host_namespaces))


def check_privileged(pod: Pod) -> Finding | None:
    """No privileged containers."""
    names = select_names(pod, lambda container: container.privileged is True)
    if not names:
        return None
    return Finding("privileged", f"{name_containers(names)} must not set securityContext.privileged=true")


def check_host_ports(pod: Pod) -> Finding | None:
    """No host ports."""
    names = select_names(pod, lambda container: any(port.host for port in container.ports))
    if not names:
        return None
    ports = sorted({str(port.host) for container in pod.containers for port in container.ports if port.host})
    use, noun = choose("uses", "use", count=len(names)), choose("hostPort", "hostPorts", count=len(ports))
    return Finding("hostPort", f"{name_containers(names)} {use} {noun} {', '.join(ports)}")


def check_handler_hosts(pod: Pod) -> Finding | None:
    """No explicit hosts in probes and lifecycle handlers: the kubelet would connect to them."""
    names = sorted(set(select_names(pod, lambda container: bool(container.handler_hosts))))
    if not names:
        return None
    hosts = sorted({host for container in pod.containers for host in container.handler_hosts})
    noun = choose("probe or lifecycle host", "probe or lifecycle hosts", count=len(hosts))
    use = choose("uses", "use", count=len(names))
    return Finding("probe or lifecycle host", f"{name_containers(names)} {use} {noun} {quote_each(hosts)}")


def check_host_process(pod: Pod) -> Finding | None:
    """No Windows HostProcess containers."""
    setters = name_setters(pod, lambda context: context.host_process is True)
    if not setters:
        return None
    return Finding("hostProcess", f"{setters} must not set securityContext.windowsOptions.hostProcess=true")
