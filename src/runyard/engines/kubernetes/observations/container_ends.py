"""How the containers of a run ended, instance by instance."""

from collections.abc import Iterable, Iterator

from runyard.app.engine import MOST_ENDS, ContainerEnd
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.observations.container_exits import (
    OUT_OF_MEMORY,
    classify_exit,
    find_signal,
    read_memory,
)
from runyard.engines.kubernetes.observations.pod_faults import explain_loss
from runyard.engines.kubernetes.observations.pod_steps import DEADLINE_EXCEEDED, UNKNOWN_END, find_ended, is_finished
from runyard.engines.kubernetes.run_objects import RunObjects
from runyard.engines.kubernetes.views import ContainerStatus, PodView, Terminated
from runyard.pods.termination import read_termination

MOST_CONTAINERS = 32
"""How many containers of a pod, and as many init containers, an observation looks at."""


def collect_ends(pod: PodView, *, is_gone: bool = False) -> tuple[ContainerEnd, ...]:
    """The ended instances that a pod shows, in the order of their instances; of init containers only failed ones.

    A pod that the cluster ended is listed itself, if none of its containers says so: it never started, or its node is
    lost. `is_gone`: it was deleted, so nothing more is to be heard of its containers.
    """
    ends: list[ContainerEnd] = []
    for status in pod.status.init_containers[:MOST_CONTAINERS]:
        ends += [end for end in _iter_instances(pod, status) if end.exit_code != 0]
    for status in pod.status.containers[:MOST_CONTAINERS]:
        ends += _iter_instances(pod, status)
    loss = explain_loss(pod) if is_gone or is_finished(pod) else None
    if loss is not None and not any(end.reason == loss.reason for end in ends):
        ends.append(ContainerEnd(pod=pod.metadata.name, container="", reason=loss.reason))
    return tuple(ends)


def list_ends(objects: RunObjects) -> tuple[ContainerEnd, ...]:
    """The ends of all instances that are known, each once, the newest last; at most `MOST_ENDS`."""
    gone = (collect_ends(gone.pod, is_gone=True) for gone in objects.gone_pods)
    return merge_ends(objects.past_ends, *gone, *(collect_ends(pod) for pod in objects.pods))


def merge_ends(*parts: Iterable[ContainerEnd]) -> tuple[ContainerEnd, ...]:
    """The ends of all parts, each instance once, in the order given; at most the last `MOST_ENDS`."""
    found: dict[tuple[str, str, int], ContainerEnd] = {}
    for part in parts:
        for end in part:
            found[end.pod, end.container, end.instance] = end
    return tuple(found.values())[-MOST_ENDS:]


def _iter_instances(pod: PodView, status: ContainerStatus) -> Iterator[ContainerEnd]:
    current, before = find_ended(status), status.last_state.terminated
    has_current = current is not None or status.state.running is not None
    if before is not None:
        # While a container waits to be started again, the count is still that of the instance that ended last.
        yield _make_end(pod, status, before, instance=max(0, status.restart_count - has_current))
    if current is not None:
        yield _make_end(pod, status, current, instance=status.restart_count)


def _make_end(pod: PodView, status: ContainerStatus, ended: Terminated, *, instance: int) -> ContainerEnd:
    is_unknown, is_out_of_memory = ended.reason == UNKNOWN_END, ended.reason == OUT_OF_MEMORY
    _, peak = read_termination(ended.message)
    if peak is None and is_out_of_memory:
        peak, _ = read_memory(pod, status.name)  # it used at least that much
    return ContainerEnd(
        pod=pod.metadata.name,
        container=status.name,
        instance=instance,
        exit_code=None if is_unknown else ended.exit_code,
        signal=None if is_unknown else find_signal(ended),
        is_out_of_memory=is_out_of_memory,
        peak_bytes=peak,
        reason=_find_reason(pod, ended, is_last=ended is status.state.terminated),
    )


def _find_reason(pod: PodView, ended: Terminated, *, is_last: bool) -> Reason | None:
    """Why an instance ended; the last one of a pod that the cluster ended, for the cluster's reason.

    A process that was ended with its pod did not fail: a deadline is how a job is stopped, a deletion how a service is.
    """
    own = None if ended.exit_code == 0 else classify_exit(ended)
    if not is_last or ended.reason == OUT_OF_MEMORY:
        return own
    if (loss := explain_loss(pod)) is not None:
        return loss.reason
    is_stopped = bool(pod.metadata.deleted_at) or pod.status.reason == DEADLINE_EXCEEDED
    return None if is_stopped and own is Reason.RUN_FAILED else own
