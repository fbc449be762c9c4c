"""Gaps in the output of a container: their causes in words, and why the cluster removed a pod or its log. Pure."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from runyard.app.engine import LogGap
from runyard.engines.kubernetes.views import PodView

END = "end"
"""The position behind a gap that ends an output."""

_LOST_NODE = frozenset({"NodeLost", "NodeStatusUnknown", "DeletionByTaintManager", "DeletionByPodGC"})
_EVICTED = frozenset({"Evicted", "EvictionByEvictionAPI", "TerminationByKubelet"})
_PREEMPTED = frozenset({"Preempting", "PreemptionByScheduler"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Cause(StrEnum):
    """Why output is missing, for people; the words before the colon name the cause."""

    ROTATED = "rotated: the node keeps only the newest part of a log; older lines were replaced before they were read"
    MAYBE_ROTATED = "rotated: possibly; the log was first read after this time, and the node keeps only its newest part"
    MAYBE_SKIPPED = "rotated: possibly; the log was read so late that the node may have replaced lines before"
    RESTARTED = "restarted: the node keeps the logs of the last two instances of a container only"
    DELETED = "pod deleted: the log was removed with the pod before all of it was read"
    UNCONFIRMED = "pod deleted: the log ended, but the pod was gone before that could be confirmed"
    UNSEEN = "pod deleted: this pod came and went while no server watched, and its log with it"
    MAYBE_RAN = "pod deleted: possibly; nobody reported whether the pod ran before it was deleted, and its log is gone"
    EVICTED = "pod evicted: the log was removed with the pod before all of it was read"
    PREEMPTED = "pod preempted: the log was removed with the pod before all of it was read"
    NODE_LOST = "node lost: the node could not be reached until the pod was deleted, and its log with it"
    REMOVED = "log removed: the node does not have the log anymore"


def explain_removal(pod: PodView | None, otherwise: Cause) -> Cause:
    """Why the cluster itself removed a pod or its log, as the pod's last state says."""
    if pod is None:
        return otherwise
    reasons = _list_reasons(pod)
    if reasons & _LOST_NODE:
        return Cause.NODE_LOST
    if reasons & _EVICTED:
        return Cause.EVICTED
    return Cause.PREEMPTED if reasons & _PREEMPTED else otherwise


def is_on_lost_node(pod: PodView) -> bool:
    """Whether the pod was removed because its node could not be reached."""
    return bool(_list_reasons(pod) & _LOST_NODE)


def _list_reasons(pod: PodView) -> set[str]:
    return {pod.status.reason, *(one.reason for one in pod.status.conditions if one.type in _TELLING)}


_TELLING = frozenset({"DisruptionTarget", "Ready"})


def make_gap(
    cause: str, *, since: datetime | None, until: datetime | None, now: datetime, position: str = END
) -> LogGap:
    """A gap; a time that is not known is now, or that of the other end."""
    until = until or now
    since = since or until
    return LogGap(since=min(since, until), until=until, cause=cause, position=position)


def from_nanoseconds(moment_ns: int | None) -> datetime | None:
    """A moment of `kube.streams` as a time."""
    return None if moment_ns is None else _EPOCH + timedelta(microseconds=moment_ns // 1000)


def parse_time(text: str) -> datetime | None:
    """A time of the Kubernetes API; None if it is empty or malformed."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
