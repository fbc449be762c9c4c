"""How far a pod has come, from its phase, its conditions and its containers."""

from collections.abc import Iterator
from enum import StrEnum

from runyard.engines.kubernetes.views import Condition, ContainerStatus, PodView, Terminated

CRASH_LOOP = "CrashLoopBackOff"
DEADLINE_EXCEEDED = "DeadlineExceeded"
"""Of a pod or Job that was ended by its deadline, which is also how the engine stops a pod."""
UNKNOWN_END = "ContainerStatusUnknown"
"""The kubelet found no container when the pod ended; the exit code with it (137) is made up."""


class PodStep(StrEnum):
    """The step that a pod is at, in the order of a pod's life."""

    SCHEDULING = "scheduling"
    """It has no node yet."""
    PREPARING = "preparing"
    """Its volumes are mounted and its network is set up."""
    PULLING = "pulling"
    """An image is pulled, or the container is created."""
    INIT = "init"
    """Its init containers run."""
    RUNNING = "running"
    """It runs, and is not ready."""
    READY = "ready"
    RESTARTING = "restarting"
    """A container has ended and is started again, after a back-off."""
    DRAINING = "draining"
    """It is being deleted, and its containers have time to end."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"


def find_step(pod: PodView) -> PodStep:
    """The step that a pod is at."""
    if is_finished(pod):
        return PodStep.SUCCEEDED if pod.status.phase == "Succeeded" else PodStep.FAILED
    if pod.metadata.deleted_at:
        return PodStep.DRAINING
    if not pod.spec.node_name:
        return PodStep.SCHEDULING
    if any(is_restarting(status) for status in iter_statuses(pod)):
        return PodStep.RESTARTING
    if is_ready(pod):
        return PodStep.READY
    if any(status.state.running for status in pod.status.containers):
        return PodStep.RUNNING
    return _find_start(pod)


def _find_start(pod: PodView) -> PodStep:
    is_initialised = has_condition(pod.status.conditions, "Initialized")
    if not is_initialised and any(
        status.state.running or status.state.terminated for status in pod.status.init_containers
    ):
        return PodStep.INIT
    return PodStep.PULLING if has_condition(pod.status.conditions, "PodReadyToStartContainers") else PodStep.PREPARING


def is_finished(pod: PodView) -> bool:
    """Whether all its containers have ended for good. The kubelet sets these phases only then."""
    return pod.status.phase in ("Succeeded", "Failed")


def has_started(pod: PodView) -> bool:
    """Whether a container of the pod runs or has run, so that there may be output."""
    return any(
        status.restart_count or status.state.running or find_ended(status) or status.last_state.terminated
        for status in iter_statuses(pod)
    )


def find_ended(status: ContainerStatus) -> Terminated | None:
    """How the current instance of a container ended, if it ever ran.

    When a pod is deleted before a container was created, the kubelet makes up an end of it, with exit code 137.
    """
    ended = status.state.terminated
    return None if ended is not None and ended.reason == UNKNOWN_END and not status.container_id else ended


def is_ready(pod: PodView) -> bool:
    """Whether the pod takes requests. One that is being deleted gets none."""
    return not pod.metadata.deleted_at and has_condition(pod.status.conditions, "Ready")


def is_disrupted(pod: PodView) -> bool:
    """Whether the cluster ended the pod: evicted, preempted, drained. That does not count as a failure of the run."""
    return has_condition(pod.status.conditions, "DisruptionTarget")


def is_restarting(status: ContainerStatus) -> bool:
    """Whether a container of a pod that has not finished has ended and is to be started again."""
    if status.state.waiting is not None:
        return status.state.waiting.reason == CRASH_LOOP or status.restart_count > 0
    ended = status.state.terminated
    return ended is not None and ended.exit_code != 0


def iter_statuses(pod: PodView) -> Iterator[ContainerStatus]:
    """Init containers first, as they run."""
    yield from pod.status.init_containers
    yield from pod.status.containers


def find_condition(conditions: tuple[Condition, ...], name: str) -> Condition | None:
    """The condition of that type, whatever its status."""
    return next((condition for condition in conditions if condition.type == name), None)


def has_condition(conditions: tuple[Condition, ...], name: str) -> bool:
    """Whether the condition of that type is true."""
    found = find_condition(conditions, name)
    return found is not None and found.status == "True"
