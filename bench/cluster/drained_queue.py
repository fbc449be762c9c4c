"""A queue of thousands of runs, drained on nodes that KWOK pretends: by the server, and by raw loops beside it."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from bench.cluster.beds import Bed
from bench.cluster.raw_runs import RawRuns, watch_runs
from bench.cluster.recorded_objects import record_template
from bench.cluster.server import ClusterServer, open_server
from bench.report import progress

NAMESPACE = "queue"
RAW_NAMESPACE = "queue-raw"
RAW_IN_FLIGHT = 32
"""As many as the server creates at the same time."""
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Drained:
    """One queue."""

    runs: int
    seconds: float
    cluster_cpu: Mapping[str, float]
    own_cpu: float
    """Of the server; of the raw client, those of this process."""
    submit_seconds: float = 0.0
    """Of the server: how long it took to take all of them."""

    @property
    def per_second(self) -> float:
        """Runs a second."""
        return self.runs / self.seconds

    def get_cpu_ms(self, component: str) -> float:
        """CPU milliseconds of a component per run."""
        return self.cluster_cpu.get(component, 0.0) * 1000 / self.runs

    @property
    def own_cpu_ms(self) -> float:
        """CPU milliseconds of the server or client per run."""
        return self.own_cpu * 1000 / self.runs

    def __add__(self, other: "Drained") -> "Drained":
        """Two parts of one queue, one after the other."""
        cluster_cpu = {key: used + other.cluster_cpu.get(key, 0.0) for key, used in self.cluster_cpu.items()}
        return Drained(self.runs + other.runs, self.seconds + other.seconds, cluster_cpu, self.own_cpu + other.own_cpu)


@dataclass(frozen=True, slots=True)
class Queues:
    """The same queue three times: with the server's writes, by the server, and only created."""

    same_writes: Drained
    server: Drained
    create_only: Drained


async def measure_queue(bed: Bed, *, runs: int) -> Queues:
    """Each queue is drained to its last run before the next begins.

    A cluster gets slower with the Jobs that it holds. So the raw client drains one half of its queue before the server,
    and the other half after it: both meet as many Jobs of the other on the average.
    """
    async with bed.connect("bench") as api, bed.connect("bench-raw") as raw_api:
        for namespace in (NAMESPACE, RAW_NAMESPACE):
            await bed.create_namespace(api, namespace)
        async with open_server(bed, namespace=NAMESPACE) as server:
            template = await record_template(server, api)
            async with watch_runs(raw_api, template, namespace=RAW_NAMESPACE) as raw:
                progress(f"queue: {runs // 2} runs by the raw client")
                first = await _drain_raw(bed, raw, raw.live, runs=runs // 2, name="live")
                progress(f"queue: {runs} runs by the server")
                drained = await server.profile(_drain_server(bed, server, runs=runs))
                progress(f"queue: {runs - runs // 2} runs by the raw client")
                second = await _drain_raw(bed, raw, raw.live, runs=runs - runs // 2, name="live-again")
                progress(f"queue: {runs} Jobs, only created")
                created = await _drain_raw(bed, raw, raw.create, runs=runs, name="create")
    return Queues(first + second, drained, created)


async def _drain_raw(
    bed: Bed, raw: RawRuns, act: Callable[[str], Coroutine[Any, Any, None]], *, runs: int, name: str
) -> Drained:
    """A raw loop that works off a queue: no more than so many writes at once, no wait for an end in between."""
    cluster, own, before = bed.read_cpu(), time.process_time(), raw.ended
    began = time.perf_counter()
    limit = asyncio.Semaphore(RAW_IN_FLIGHT)
    async with asyncio.TaskGroup() as group:
        for number in range(runs):
            await limit.acquire()
            raw.on_released(f"{name}-{number}", limit.release)
            group.create_task(act(f"{name}-{number}"))
    await raw.wait_ended(before + runs)
    seconds = time.perf_counter() - began
    own, after = time.process_time() - own, bed.read_cpu()
    return Drained(runs, seconds, {key: after[key] - cluster[key] for key in after}, own)


async def _drain_server(bed: Bed, server: ClusterServer, *, runs: int) -> Drained:
    cluster, own, before = bed.read_cpu(), server.read_cpu().own, server.count("settled_at IS NOT NULL")
    began = time.perf_counter()
    await server.submit_many("short", runs)
    submitted = time.perf_counter() - began
    await server.wait_count("settled_at IS NOT NULL AND state = 'COMPLETED'", before + runs, pause=POLL_SECONDS)
    seconds = time.perf_counter() - began
    own, after = server.read_cpu().own - own, bed.read_cpu()
    return Drained(runs, seconds, {key: after[key] - cluster[key] for key in after}, own, submitted)
