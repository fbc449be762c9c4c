"""What a pod's status says of one container: which instances it has had, and whether the last one runs. Pure.

A restarted container is another instance with a log of its own. Kubernetes keeps the last two: the log of the one
before is read with `previous=true`.
"""

from dataclasses import dataclass
from datetime import datetime

from runyard.kube.objects import Object
from runyard.kube.streams.errors import ContainerUnspecified, ContainerWaiting, UnknownContainer

_KINDS = (
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerInstance:
    """One instance of a container."""

    container_id: str
    restart_count: int
    """How many instances came before: 0 for the first."""
    is_running: bool
    is_previous: bool
    """Whether its log is read with `previous=true`; then it stays readable while the next instance starts."""
    started_ns: int | None = None
    finished_ns: int | None = None
    """Nanoseconds since 1970 by the node's clock, known to the second only."""


def list_instances(pod: Object, container: str | None) -> list[ContainerInstance]:
    """The instances whose log the kubelet may still have: one or two, the newest first.

    Raises ContainerWaiting while there never was one. `container` may be left out if the pod has only one.
    """
    name = _container_name(pod, container)
    status = _find_status(pod, name) or {}
    state = status.get("state", {})
    running, ended = state.get("running"), state.get("terminated", {})
    before = status.get("lastState", {}).get("terminated", {})
    current_id = status.get("containerID") if running is not None else ended.get("containerID")
    count = int(status.get("restartCount", 0))
    found = []
    if current_id:
        times = ended if running is None else running
        found.append(_build(current_id, times, count, is_running=running is not None, is_previous=False))
    if before.get("containerID"):
        # Without a current one, as in CrashLoopBackOff, the count is that of the instance that ended last.
        count = max(0, count - 1) if current_id else count
        found.append(_build(before["containerID"], before, count, is_running=False, is_previous=True))
    if not found:
        raise ContainerWaiting(f"container {name} has not started: {_reason(pod, state)}")
    return found


def get_instance(pod: Object, container: str | None) -> ContainerInstance:
    """The container's newest instance; ContainerWaiting while it never had one."""
    return list_instances(pod, container)[0]


def can_restart(pod: Object, container: str | None) -> bool:
    """Whether the container may get another instance: not in a pod with `restartPolicy: Never` and no other rule."""
    name = _container_name(pod, container)
    specs = [each for kind, _ in _KINDS for each in pod["spec"].get(kind, []) if each["name"] == name]
    own = any("restartPolicy" in each or "restartPolicyRules" in each for each in specs)
    return own or pod["spec"].get("restartPolicy", "Always") != "Never"


def _build(
    container_id: str, times: Object, restart_count: int, *, is_running: bool, is_previous: bool
) -> ContainerInstance:
    return ContainerInstance(
        container_id=container_id,
        restart_count=restart_count,
        is_running=is_running,
        is_previous=is_previous,
        started_ns=_nanoseconds(times.get("startedAt")),
        finished_ns=_nanoseconds(times.get("finishedAt")),
    )


def _nanoseconds(moment: object) -> int | None:
    try:
        return int(datetime.fromisoformat(str(moment)).timestamp()) * 1_000_000_000
    except ValueError:
        return None


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
