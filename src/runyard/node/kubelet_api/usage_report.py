"""What pods use, in the two forms that are read of a kubelet: Prometheus text for metrics-server, and the summary.

A provider says how many cores a container uses now; the readers want seconds used since it began. So the figures are
summed up here, from one reading to the next. Whoever computes a rate again gets the provider's figure back.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runyard.node.providers.provider import Object, PodUsage, Usage
from runyard.node.timestamps import write_time

READ_EVERY_SECONDS = 5.0
"""Readings within this time share one answer of the provider."""
_STALE_SECONDS = 180.0
# What a first reading counts for: metrics-server takes a counter of zero for missing.
_FIRST_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFigures:
    """A container's figures; None where the provider has none."""

    name: str
    cpu_cores: float | None = None
    cpu_seconds: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFigures:
    """A pod's figures."""

    namespace: str
    name: str
    uid: str
    started_at: str
    containers: Sequence[ContainerFigures]


class UsageReports:
    """Reads the provider's figures, and sums up the seconds of each container."""

    def __init__(self, usage: Usage | None, *, clock: Callable[[], float] = time.time) -> None:
        self._usage = usage
        self._clock = clock
        self._seconds: dict[tuple[str, str], float] = {}
        self._readings: dict[str, PodUsage] = {}
        self._read_at: float | None = None
        self._lock = asyncio.Lock()

    async def read(self, pods: Sequence[Object]) -> list[PodFigures]:
        """The figures of pods that run. Raises ProviderError."""
        async with self._lock:
            if self._usage is not None and (
                self._read_at is None or not 0 <= self._clock() - self._read_at < READ_EVERY_SECONDS
            ):
                self._add(await self._usage.read_usage())
        return [self._figures(pod) for pod in pods if is_running(pod)]

    def _add(self, readings: Sequence[PodUsage]) -> None:
        now = self._clock()
        passed_seconds = _FIRST_SECONDS if self._read_at is None else max(now - self._read_at, 0.0)
        self._read_at = now
        fresh = [reading for reading in readings if now - reading.at.timestamp() < _STALE_SECONDS]
        seconds: dict[tuple[str, str], float] = {}
        for reading in fresh:
            for container in reading.containers:
                key = (reading.uid, container.name)
                since = passed_seconds if key in self._seconds else _FIRST_SECONDS
                seconds[key] = self._seconds.get(key, 0.0) + container.cpu_cores * since
        self._seconds = seconds
        self._readings = {reading.uid: reading for reading in fresh}

    def _figures(self, pod: Object) -> PodFigures:
        metadata, status = pod["metadata"], pod.get("status") or {}
        reading = self._readings.get(metadata["uid"])
        used = {container.name: container for container in reading.containers} if reading else {}
        containers = []
        for name in (container["name"] for container in pod["spec"]["containers"]):
            usage = used.get(name)
            containers.append(
                ContainerFigures(name=name)
                if usage is None
                else ContainerFigures(
                    name=name,
                    cpu_cores=usage.cpu_cores,
                    cpu_seconds=self._seconds.get((metadata["uid"], name), 0.0),
                    memory_bytes=usage.memory_bytes,
                )
            )
        return PodFigures(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            started_at=status.get("startTime") or metadata["creationTimestamp"],
            containers=containers,
        )


def is_running(pod: Object) -> bool:
    """Whether a pod runs and nobody has asked it to end."""
    return (pod.get("status") or {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def render_metrics(pods: Sequence[PodFigures], *, now: datetime) -> str:
    """The text of `/metrics/resource`. The pod is the second label, as the tests of virtual-kubelet want it."""
    stamp = int(now.timestamp() * 1000)
    families: dict[str, list[str]] = {name: [] for name in _FAMILIES}
    total_seconds, total_bytes = 0.0, 0
    for pod in pods:
        where = f'namespace="{_escape(pod.namespace)}",pod="{_escape(pod.name)}"'
        known = [container for container in pod.containers if container.cpu_seconds is not None]
        for container in known:
            labels = f'{{{where},container="{_escape(container.name)}"}}'
            begun = datetime.fromisoformat(pod.started_at).timestamp()
            families["container_cpu_usage_seconds_total"].append(f"{labels} {container.cpu_seconds:.9f} {stamp}")
            families["container_memory_working_set_bytes"].append(f"{labels} {container.memory_bytes} {stamp}")
            families["container_start_time_seconds"].append(f"{labels} {begun:.3f}")
        if known:
            seconds = sum(container.cpu_seconds or 0.0 for container in known)
            used_bytes = sum(container.memory_bytes or 0 for container in known)
            families["pod_cpu_usage_seconds_total"].append(f"{{{where}}} {seconds:.9f} {stamp}")
            families["pod_memory_working_set_bytes"].append(f"{{{where}}} {used_bytes} {stamp}")
            total_seconds += seconds
            total_bytes += used_bytes
    families["node_cpu_usage_seconds_total"].append(f" {total_seconds:.9f} {stamp}")
    families["node_memory_working_set_bytes"].append(f" {total_bytes} {stamp}")
    return "".join(_render_family(name, lines) for name, lines in families.items())


_FAMILIES: Mapping[str, tuple[str, str]] = {
    "container_cpu_usage_seconds_total": ("counter", "Cumulative cpu time consumed by the container in core-seconds"),
    "container_memory_working_set_bytes": ("gauge", "Current working set of the container in bytes"),
    "container_start_time_seconds": ("gauge", "Start time of the container since unix epoch in seconds"),
    "node_cpu_usage_seconds_total": ("counter", "Cumulative cpu time consumed by the pods of the node in core-seconds"),
    "node_memory_working_set_bytes": ("gauge", "Current working set of the pods of the node in bytes"),
    "pod_cpu_usage_seconds_total": ("counter", "Cumulative cpu time consumed by the pod in core-seconds"),
    "pod_memory_working_set_bytes": ("gauge", "Current working set of the pod in bytes"),
}


def render_summary(pods: Sequence[PodFigures], *, node: str, now: datetime) -> dict[str, Any]:
    """The object of `/stats/summary`."""
    at = write_time(now)
    return {
        "node": {"nodeName": node, **_usage_of([each for pod in pods for each in pod.containers], at)},
        "pods": [
            {
                "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
                "startTime": pod.started_at,
                "containers": [
                    {"name": each.name, "startTime": pod.started_at, **_usage_of([each], at)} for each in pod.containers
                ],
                **_usage_of(pod.containers, at),
            }
            for pod in pods
        ],
    }


def _usage_of(containers: Sequence[ContainerFigures], at: str) -> dict[str, Any]:
    known = [each for each in containers if each.cpu_cores is not None]
    if not known:
        return {}
    return {
        "cpu": {
            "time": at,
            "usageNanoCores": round(sum(each.cpu_cores or 0.0 for each in known) * 1e9),
            "usageCoreNanoSeconds": round(sum(each.cpu_seconds or 0.0 for each in known) * 1e9),
        },
        "memory": {"time": at, "workingSetBytes": sum(each.memory_bytes or 0 for each in known)},
    }


def _render_family(name: str, lines: Sequence[str]) -> str:
    kind, help_text = _FAMILIES[name]
    head = f"# HELP {name} [STABLE] {help_text}\n# TYPE {name} {kind}\n"
    return head + "".join(f"{name}{line}\n" for line in lines)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
