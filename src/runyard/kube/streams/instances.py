"""What a pod's status says of one container: which instance ran last, and whether it still does. Pure."""

from dataclasses import dataclass

from runyard.kube.objects import Object
from runyard.kube.streams.errors import ContainerUnspecified, ContainerWaiting, UnknownContainer

_KINDS = (
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)


@dataclass(frozen=True, slots=True)
class Instance:
    """The instance of a container whose log the kubelet gives, and the one before."""

    container_id: str
    is_running: bool
    previous_id: str | None


def get_instance(pod: Object, container: str | None) -> Instance:
    """The container's instance; ContainerWaiting while it never had one."""
    name = _container_name(pod, container)
    status = _find_status(pod, name) or {}
    state = status.get("state", {})
    ended = state.get("terminated", {}).get("containerID")
    before = status.get("lastState", {}).get("terminated", {}).get("containerID")
    current = status.get("containerID") if "running" in state else ended
    if not current and not before:
        raise ContainerWaiting(f"container {name} has not started: {_reason(pod, state)}")
    return Instance(
        container_id=current or before,
        is_running="running" in state,
        previous_id=before if current else None,
    )


def _container_name(pod: Object, container: str | None) -> str:
    """As the apiserver chooses: the only container, if none is named."""
    names = [each["name"] for each in pod["spec"]["containers"]]
    if container is None and len(names) == 1:
        return str(names[0])
    if container is None:
        raise ContainerUnspecified(f"the pod has containers {', '.join(names)}: name one")
    if not any(container == each["name"] for kind, _ in _KINDS for each in pod["spec"].get(kind, [])):
        raise UnknownContainer(f"the pod has no container {container}")
    return container


def _find_status(pod: Object, name: str) -> Object | None:
    statuses = [each for _, kind in _KINDS for each in pod.get("status", {}).get(kind, [])]
    return next((each for each in statuses if each["name"] == name), None)


def _reason(pod: Object, state: Object) -> str:
    if "waiting" in state:
        return str(state["waiting"].get("reason", "waiting"))
    return "its pod has no node yet" if not pod["spec"].get("nodeName") else "its node has not begun"
