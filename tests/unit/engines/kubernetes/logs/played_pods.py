"""Pods for tests of logs and sessions: JSON as the apiserver sends it, and a cache of them."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from runyard.engines.kubernetes.namespaces import Namespaces
from runyard.engines.kubernetes.run_objects import GonePod, RunObjects
from runyard.engines.kubernetes.views import JobView, PodView

NAMESPACES = Namespaces("ns", "here")
RUN = "r-uid"
NOON = "2026-11-16T12:00:00Z"


def running(name: str = "main", *, restarts: int = 0, since: str = NOON, **fields: Any) -> dict[str, Any]:
    """The status of a container that runs."""
    return {"name": name, "state": {"running": {"startedAt": since}}, "restartCount": restarts, **fields}


def ended(name: str = "main", *, restarts: int = 0, since: str = NOON, until: str = NOON) -> dict[str, Any]:
    """The status of a container that has ended."""
    state = {"terminated": {"exitCode": 0, "startedAt": since, "finishedAt": until}}
    return {"name": name, "state": state, "restartCount": restarts}


def waiting(name: str = "main", *, restarts: int = 0, has_last: bool = False) -> dict[str, Any]:
    """The status of a container that waits: for its first start, or for the next one."""
    last = {"terminated": {"exitCode": 1, "startedAt": NOON, "finishedAt": NOON}} if has_last else {}
    return {"name": name, "state": {"waiting": {"reason": "Waits"}}, "lastState": last, "restartCount": restarts}


def make_pod(
    *containers: dict[str, Any],
    name: str = "pod",
    uid: str | None = None,
    init: Sequence[dict[str, Any]] = (),
    created: str = NOON,
    deleted: str = "",
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> PodView:
    """A pod of the run, as a reflector decodes it."""
    found = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid or f"uid-of-{name}",
            "labels": {"runyard.io/run-uid": RUN},
            "creationTimestamp": created,
            "deletionTimestamp": deleted,
        },
        "spec": spec or {},
        "status": {"containerStatuses": containers, "initContainerStatuses": init, **status},
    }
    return msgspec.json.decode(json.dumps(found).encode(), type=PodView)


def make_job(**status: Any) -> JobView:
    """The Job of the run."""
    metadata = {"name": "run-r1", "namespace": "ns", "uid": "job-uid", "creationTimestamp": NOON}
    found = {"metadata": {**metadata, "labels": {"runyard.io/run-uid": RUN}}, "status": status}
    return msgspec.json.decode(json.dumps(found).encode(), type=JobView)


class PlayedCache:
    """A `PodCache` of one run."""

    pod_lists = 0

    def __init__(
        self,
        *pods: PodView,
        gone: Sequence[GonePod] = (),
        job: JobView | None = None,
        gone_job: JobView | None = None,
    ) -> None:
        self.pods = list(pods)
        self.gone = list(gone)
        self.job = job
        self.gone_job = gone_job

    def find(self, run_uid: str) -> RunObjects | None:
        if self.job is None or run_uid != RUN:
            return None
        return RunObjects(anchor=self.job, pods=tuple(self.pods), gone_pods=tuple(self.gone))

    def find_gone_anchor(self, run_key: str) -> JobView | None:
        return self.gone_job if run_key == RUN else None

    def list_pods(self, run_uid: str) -> Sequence[PodView]:
        return self.pods if run_uid == RUN else []

    def list_gone_pods(self, run_uid: str) -> Sequence[GonePod]:
        return self.gone if run_uid == RUN else []

    def find_pod(self, namespace: str, name: str) -> PodView | None:
        key = (namespace, name)
        return next((pod for pod in self.pods if (pod.metadata.namespace, pod.metadata.name) == key), None)

    def lose(self, pod: PodView, *, is_final: bool = True) -> None:
        """The pod is deleted; `pod` is its last state."""
        self.pods = [one for one in self.pods if one.metadata.uid != pod.metadata.uid]
        self.gone.append(GonePod(pod, is_final))
