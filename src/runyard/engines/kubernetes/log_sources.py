"""The outputs of a run's containers, as its pods show them. Pure.

An output is known by pod, container and instance: the restart count of the container when the instance began.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from runyard.app.engine import LogSource
from runyard.engines.kubernetes.log_gaps import is_on_lost_node, parse_time
from runyard.engines.kubernetes.observations import find_ended
from runyard.engines.kubernetes.run_objects import GonePod, RunObjects
from runyard.engines.kubernetes.views import ContainerState, ContainerStatus, JobView, PodView
from runyard.kube import Object
from runyard.manifests.pod import CONTAINER

MOST_LISTED_SOURCES = 1001
"""How many outputs of a run are listed, the newest: one more than the Core stores, so that its limit is reported."""
MOST_UNSEEN_PODS = 100
"""How many pods that nobody saw are listed per run."""
UNSEEN = "-unseen"
"""How the name ends that stands for pods that nobody saw. The names of real pods end with five random characters."""

_NEVER = "1970-"
"""How the time begins at which a container began that could not be started."""
_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


def list_sources(run_uid: str, pods: Sequence[PodView], gone_pods: Sequence[GonePod]) -> list[LogSource]:
    """The outputs of all pods that exist or were seen, in the order in which they began."""
    found: dict[LogSource, str] = {}
    for pod, is_final in (*((gone.pod, tells_all(gone)) for gone in gone_pods), *((pod, True) for pod in pods)):
        # The kubelet calls an end unknown if it finds no container; on a node that was lost one has probably run.
        is_believed = is_on_lost_node(pod)
        make = partial(LogSource, run_uid=run_uid, pod=pod.metadata.name, since=parse_time(pod.metadata.created_at))
        for status in (*pod.status.init_containers, *pod.status.containers):
            for instance, began_at in _iter_instances(status, is_unknown_believed=is_believed):
                source = make(container=status.name, instance=instance)
                # A kubelet counts a restart too if it cannot find a container, as after an eviction. It does start one
                # again that it could not start, and then says when.
                if began_at or not (instance and is_never_restarted(pod, replace(source, instance=0))):
                    found.setdefault(source, began_at or pod.metadata.created_at)
        if is_start_unknown(pod, is_final=is_final):
            source = make(container=CONTAINER)
            found.setdefault(source, pod.metadata.created_at)
    return sorted(found, key=found.__getitem__)[-MOST_LISTED_SOURCES:]


def list_unseen(run_uid: str, job: JobView, count: int) -> list[LogSource]:
    """Outputs that stand for pods that came and went while nobody watched: each is only a gap."""
    pod = f"{job.metadata.name}{UNSEEN}"
    numbers = range(min(count, MOST_UNSEEN_PODS))
    return [
        LogSource(run_uid=run_uid, pod=pod, container=CONTAINER, instance=number, is_unseen=True) for number in numbers
    ]


def count_pods(job: JobView) -> int:
    """How many pods the Job controller has counted. It may lag behind the pods, and never counts too many."""
    return job.status.active + job.status.succeeded + job.status.failed


def list_known_uids(objects: RunObjects) -> set[str]:
    """The UIDs of the pods that exist or were seen."""
    return {pod.metadata.uid for pod in (*objects.pods, *(gone.pod for gone in objects.gone_pods))}


def has_ended(pod: PodView, source: LogSource) -> bool:
    """Whether the pod's status says that the instance has ended."""
    status = _find_status(pod, source.container)
    if status is None or status.state.running is not None:
        return status is not None and status.restart_count > source.instance
    return status.state.terminated is not None or status.restart_count > source.instance or _has_pod_ended(pod)


def is_end_doubtful(pod: PodView, source: LogSource) -> bool:
    """Whether the node was lost, so that its last words may be older than the end of the instance.

    A kubelet that ends the instance after the disruption lives: somebody has tainted its node.
    """
    if not is_on_lost_node(pod):
        return False
    disrupted = max((one.since or "" for one in pod.status.conditions if one.type == "DisruptionTarget"), default="")
    status = _find_status(pod, source.container)
    ends = () if status is None else (state.terminated for one, state in _iter_states(status) if one == source.instance)
    return not disrupted or all(end is None or (end.finished_at or "") < disrupted for end in ends)


def is_running(pod: PodView, source: LogSource) -> bool:
    """Whether the instance runs in a pod that has not ended, as its status says."""
    status = _find_status(pod, source.container)
    is_this = status is not None and status.state.running is not None and status.restart_count == source.instance
    return is_this and not _has_pod_ended(pod)


def tells_all(gone: GonePod) -> bool:
    """Whether the last state of a deleted pod is its end: not if its deletion was missed, or it was removed by force.

    A kubelet gives a pod a final phase before it lets go of it, also if no container of it was ever started.
    """
    return gone.is_final and (not gone.pod.spec.node_name or _has_pod_ended(gone.pod))


def is_start_unknown(pod: PodView, *, is_final: bool) -> bool:
    """Whether nobody can say if a container of the pod ever ran: then its output may be missing.

    A kubelet that was restarted, and finds no container of a pod that is being deleted, makes up an end of it: most
    such pods were deleted before anything started. Not final: what came before its deletion is not known.
    """
    statuses = (*pod.status.init_containers, *pod.status.containers)
    if any(True for status in statuses for _ in _iter_instances(status)):
        return False
    return not is_final or (can_never_start(pod) and any(status.state.terminated is not None for status in statuses))


def can_never_start(pod: PodView) -> bool:
    """Whether no container of the pod is started anymore."""
    return _has_pod_ended(pod) or bool(pod.metadata.deleted_at)


def may_have_gone_on(pod: PodView, source: LogSource) -> bool:
    """Whether the container may have been started again after this instance, and nobody said so."""
    status = _find_status(pod, source.container)
    if status is None or is_never_restarted(pod, replace(source, instance=0)):
        return False
    return source.instance >= max((instance for instance, _ in _iter_instances(status)), default=0)


def is_start_awaited(pod: PodView, source: LogSource) -> bool:
    """Whether the instance could not be started, and its container may be started once more, or has been by now.

    Also in a pod that is being deleted: of the instance before that nobody has told yet.
    """
    status = _find_status(pod, source.container)
    ended = None if status is None else status.state.terminated or status.last_state.terminated
    has_failed = ended is not None and (not ended.started_at or ended.started_at.startswith(_NEVER))
    return has_failed and may_have_gone_on(pod, source) and not _has_pod_ended(pod)


def is_replaced_twice(pod: PodView, source: LogSource) -> bool:
    """Whether the container was restarted twice since: its node keeps the logs of the last two instances only."""
    status = _find_status(pod, source.container)
    newest = max((instance for instance, _ in _iter_instances(status)), default=0) if status is not None else 0
    return newest > source.instance + 1


def find_span(pod: PodView, source: LogSource) -> tuple[datetime | None, datetime | None]:
    """When the instance began and ended, as far as the pod's status says; else the times of its pod.

    `status.startTime` says nothing: a kubelet that was killed before it wrote it down writes a later one.
    """
    began, ended = pod.metadata.created_at, pod.metadata.deleted_at or _find_end(pod)
    status = _find_status(pod, source.container)
    for instance, state in () if status is None else _iter_states(status):
        if instance == source.instance and state.terminated is not None:
            began, ended = state.terminated.started_at or began, state.terminated.finished_at or ended
        elif instance == source.instance and state.running is not None:
            began = state.running.started_at or began
    # A container that could not be started began in 1970.
    return parse_time(max(began, pod.metadata.created_at)), parse_time(ended)


def is_never_restarted(pod: PodView, source: LogSource) -> bool:
    """Whether the container has one instance in its life: as in the pods of Jobs. Init containers may be sidecars."""
    is_main = any(container.name == source.container for container in pod.spec.containers)
    return is_main and pod.spec.restart_policy == "Never" and source.instance == 0


def to_instance_object(pod: PodView, container: str) -> Object:
    """The pod as `kube.streams` reads it, for the instances of one container."""
    status = _find_status(pod, container)
    return {
        "metadata": {"uid": pod.metadata.uid},
        "spec": {
            "nodeName": pod.spec.node_name,
            "restartPolicy": pod.spec.restart_policy,
            "containers": [{"name": container}],
        },
        "status": {"containerStatuses": [] if status is None else [_to_status_object(status)]},
    }


def _to_status_object(status: ContainerStatus) -> Object:
    return {
        "name": status.name,
        "containerID": status.container_id,
        "restartCount": status.restart_count,
        "state": _to_state_object(status.state),
        "lastState": _to_state_object(status.last_state),
    }


def _to_state_object(state: ContainerState) -> Object:
    if state.running is not None:
        return {"running": {"startedAt": state.running.started_at}}
    if (ended := state.terminated) is not None:
        times = {"startedAt": ended.started_at, "finishedAt": ended.finished_at}
        return {"terminated": {"containerID": ended.container_id, **times}}
    return {} if state.waiting is None else {"waiting": {"reason": state.waiting.reason}}


def _find_status(pod: PodView, container: str) -> ContainerStatus | None:
    statuses = (*pod.status.containers, *pod.status.init_containers)
    return next((status for status in statuses if status.name == container), None)


def _find_end(pod: PodView) -> str:
    """When a pod that has ended was ready for the last time; empty if that is not known."""
    ready = (one.since for one in pod.status.conditions if one.type == "Ready") if _has_pod_ended(pod) else ()
    return next(iter(ready), None) or ""


def _has_pod_ended(pod: PodView) -> bool:
    return pod.status.phase in _ENDED_PHASES


def _iter_states(status: ContainerStatus, *, is_unknown_believed: bool = False) -> Iterator[tuple[int, ContainerState]]:
    """The instances whose state is known: the current one and the one before."""
    ended = status.state.terminated if is_unknown_believed else find_ended(status)
    has_current = status.state.running is not None or ended is not None
    if status.last_state.terminated is not None:
        # Without a current one, as in CrashLoopBackOff, the count is that of the instance that ended last.
        yield max(0, status.restart_count - 1) if has_current else status.restart_count, status.last_state
    if has_current:
        yield status.restart_count, status.state


def _iter_instances(status: ContainerStatus, *, is_unknown_believed: bool = False) -> Iterator[tuple[int, str]]:
    """The instances that have begun, with the time of their beginning; it is empty if it is not known."""
    known = dict(_iter_states(status, is_unknown_believed=is_unknown_believed))
    # A container that waits has begun as often as it was restarted, or once more.
    newest = max(known, default=status.restart_count - 1)
    for instance in range(max(0, newest + 1 - MOST_LISTED_SOURCES), newest + 1):
        state = known.get(instance)
        began = None if state is None else state.running or state.terminated
        yield instance, "" if began is None else began.started_at or ""
