"""The apiserver's defaults for a pod, which it applies before it calls the PodSecurity plugin.

They apply to pods, not to templates, and change only the message of a verdict, never the verdict.
"""

from dataclasses import replace

from runyard.pods.security.facts import Container, Pod
from runyard.pods.security.profiles import APPARMOR_ANNOTATION


def complete_pod(pod: Pod) -> Pod:
    """The pod as the plugin sees it."""
    return replace(pod, containers=tuple(_complete_container(container, pod=pod) for container in pod.containers))


def _complete_container(container: Container, *, pod: Pod) -> Container:
    if "hostNetwork" in pod.host_namespaces:
        ports = tuple(replace(port, host=port.host or port.container) for port in container.ports)
        container = replace(container, ports=ports)
    if _takes_unconfined_from_annotation(container, pod=pod):
        container = replace(container, context=replace(container.context, apparmor_type="Unconfined"))
    return container


def _takes_unconfined_from_annotation(container: Container, *, pod: Pod) -> bool:
    """Whether the deprecated AppArmor annotation sets `Unconfined`; its other values are always allowed."""
    return (
        not pod.is_windows
        and container.context.apparmor_type is None
        and pod.context.apparmor_type != "Unconfined"
        and pod.annotations.get(APPARMOR_ANNOTATION + container.name) == "unconfined"
    )
