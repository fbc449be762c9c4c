"""What the containers of runs use, by metrics.k8s.io (metrics-server), and the most memory that each has used.

The usage of all runs of a namespace is one request, whose answer is used for some seconds. A cluster may lack
metrics.k8s.io: then containers are listed without figures.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from weakref import WeakValueDictionary

from runyard.app.engine import MOST_USAGES, Anchor, ContainerEnd, EngineRefusal, Usage
from runyard.engines.kubernetes.kube_errors import translate_error
from runyard.engines.kubernetes.log_gaps import parse_time
from runyard.engines.kubernetes.pod_cache import PodCache
from runyard.engines.kubernetes.views import PodView
from runyard.kube import Client, KubeError, NotFound, NotServed
from runyard.kube.objects import Object
from runyard.kube.rate_limiter import Priority
from runyard.kube.resources import POD_METRICS
from runyard.manifests.metadata import RUN_UID_LABEL
from runyard.spec.kubernetes.quantity import Quantity, QuantityError
from runyard.spec.problem_codes import Code

USAGE_SECONDS = 5.0
"""How long the usage of a namespace is shown again. Metrics-server measures every 15 seconds."""
SAMPLE_SECONDS = 15.0
"""How often the memory of all running containers is read, for their peaks."""
MISSING_SECONDS = 300.0
"""How long a cluster without metrics.k8s.io is not asked again."""
DEADLINE_SECONDS = 4.0
"""How long a request may take: a user waits for it."""
MOST_SAMPLED_NAMESPACES = 500
"""How many namespaces are read per round; the others follow in the next."""
MOST_PEAKS = 50_000
"""Of how many containers the peak is remembered, those measured last."""
MOST_KEPT_NAMESPACES = 2000
"""Of how many namespaces the last answer is kept."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Measured:
    at: datetime
    cpu_cores: float | None
    memory_bytes: int | None


Figures = dict[tuple[str, str], _Measured]
"""By pod and container."""


class RunUsage:
    """Reads usage, and remembers peaks while `run` runs."""

    def __init__(self, client: Client, cache: PodCache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client.with_priority(Priority.LOGS)
        self._cache = cache
        self._clock = clock
        self._answers: OrderedDict[str, tuple[float, Figures]] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._asked_again_at = float("-inf")
        self._peaks: OrderedDict[tuple[str, str, int], int] = OrderedDict()
        """By pod, container and instance."""

    async def list_usage(self, anchor: Anchor) -> Sequence[Usage]:
        """One entry per running container of the run; without figures where nothing was measured yet."""
        objects = self._cache.find(anchor.run_uid)
        if objects is None or objects.anchor.metadata.uid != anchor.uid:
            raise EngineRefusal(Code.RUN_NOT_RUNNING.value, f"run {anchor.run_id} has no containers on the cluster")
        running = [(pod, name) for pod in objects.pods for name in _list_running(pod)][:MOST_USAGES]
        if not running:
            return []
        try:
            figures = await self._read(objects.anchor.metadata.namespace)
        except KubeError as error:
            raise translate_error(error, doing="read the usage of the run") from error
        now = datetime.now(UTC)
        return [_make_usage(pod, name, figures.get((pod.metadata.name, name)), now) for pod, name in running]

    def sum_disk_bytes(self, anchor: Anchor) -> int:
        """What the claims of the run have: what was asked for, rounded up as the storage class does."""
        objects = self._cache.find(anchor.run_uid)
        if objects is None or objects.anchor.metadata.uid != anchor.uid:
            return 0
        return sum(int(_parse(claim.status.capacity.get("storage")) or 0) for claim in objects.claims)

    def add_peaks(self, ends: Iterable[ContainerEnd]) -> tuple[ContainerEnd, ...]:
        """The ends of containers, with the most memory that was measured where the container itself reported none.

        Not of those that ran out of memory: samples are seconds apart, and miss how it grew at the end.
        """
        return tuple(
            end if end.peak_bytes is not None or end.is_out_of_memory else replace(end, peak_bytes=self._find_peak(end))
            for end in ends
        )

    def _find_peak(self, end: ContainerEnd) -> int | None:
        return self._peaks.get((end.pod, end.container, end.instance))

    async def run(self, list_namespaces: Callable[[], Iterable[str]]) -> None:
        """Until it is cancelled: measure all running containers from time to time, for their peaks."""
        position = 0
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            namespaces = sorted(list_namespaces())
            position = position if position < len(namespaces) else 0
            for namespace in namespaces[position : position + MOST_SAMPLED_NAMESPACES]:
                try:
                    await self._read(namespace)
                except KubeError as error:
                    _log.debug("usage cannot be measured: %s", error, extra={"namespace": namespace})
            position += MOST_SAMPLED_NAMESPACES

    async def _read(self, namespace: str) -> Figures:
        """The figures of a namespace, at most `USAGE_SECONDS` old; concurrent calls share one request."""
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            asked_at, figures = self._answers.get(namespace, (float("-inf"), {}))
            if self._clock() - asked_at < USAGE_SECONDS or self._clock() < self._asked_again_at:
                return figures
            try:
                found = await self._client.list(
                    POD_METRICS, namespace=namespace, label_selector=RUN_UID_LABEL, deadline_seconds=DEADLINE_SECONDS
                )
            except (NotFound, NotServed):
                self._asked_again_at = self._clock() + MISSING_SECONDS
                return {}
            figures = dict(_iter_figures(found.items))
            self._keep(namespace, figures)
            return figures

    def _keep(self, namespace: str, figures: Figures) -> None:
        self._answers[namespace] = (self._clock(), figures)
        self._answers.move_to_end(namespace)
        while len(self._answers) > MOST_KEPT_NAMESPACES:
            self._answers.popitem(last=False)
        for (pod, container), measured in figures.items():
            self._keep_peak(self._cache.find_pod(namespace, pod), container, measured.memory_bytes)
        while len(self._peaks) > MOST_PEAKS:
            self._peaks.popitem(last=False)

    def _keep_peak(self, pod: PodView | None, container: str, memory_bytes: int | None) -> None:
        statuses = () if pod is None else pod.status.containers
        status = next((one for one in statuses if one.name == container and one.state.running is not None), None)
        if pod is None or status is None or memory_bytes is None:
            return
        key = (pod.metadata.name, container, status.restart_count)
        self._peaks[key] = max(self._peaks.get(key, 0), memory_bytes)
        self._peaks.move_to_end(key)


def _list_running(pod: PodView) -> list[str]:
    return [status.name for status in pod.status.containers if status.state.running is not None]


def _make_usage(pod: PodView, container: str, measured: _Measured | None, now: datetime) -> Usage:
    name = pod.metadata.name
    if measured is None:
        return Usage(at=now, pod=name, container=container)
    return Usage(
        at=measured.at,
        pod=name,
        container=container,
        cpu_cores=measured.cpu_cores,
        memory_bytes=measured.memory_bytes,
    )


def _iter_figures(items: Iterable[Object]) -> Iterator[tuple[tuple[str, str], _Measured]]:
    for item in items:
        at = parse_time(str(item.get("timestamp", ""))) or datetime.now(UTC)
        for container in item.get("containers") or ():
            usage = container.get("usage") or {}
            cpu, memory = _parse(usage.get("cpu")), _parse(usage.get("memory"))
            yield (
                (item["metadata"]["name"], container["name"]),
                _Measured(at, None if cpu is None else float(cpu), None if memory is None else int(memory)),
            )


def _parse(quantity: object) -> Decimal | None:
    """An amount as the metrics API writes it; None if it is none, or does not fit into 64 bits."""
    try:
        parsed = Quantity.parse(quantity) if isinstance(quantity, str) else None
    except QuantityError:
        return None
    return parsed.exact if parsed is not None and parsed.is_countable and not parsed.is_negative else None
