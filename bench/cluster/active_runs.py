"""Thousands of active runs: the memory and CPU time of the server per run, and how fast ends are seen."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.cluster.beds import Bed
from bench.cluster.fake_kubelet import HELD
from bench.cluster.latencies import Ends, measure_ends
from bench.cluster.server import ClusterServer, open_server
from bench.report import progress

QUIET_SECONDS = 5.0
IDLE_SECONDS = 20.0
SEED = 14


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes of the server, with so many active runs."""

    runs: int
    rss: float


@dataclass(frozen=True, slots=True)
class ActiveRuns:
    """Everything that was measured."""

    memories: Sequence[Memory]
    bytes_per_run: float
    idle_cpu: float
    """CPU seconds per second of the server, while nothing happens to the runs."""
    create_per_second: float
    ends: Ends


async def measure_active(bed: Bed, *, few: int, runs: int, events: int, seconds: float) -> ActiveRuns:
    """With one server; `few` runs are more than it follows the logs of."""
    async with bed.connect("bench") as api:
        await bed.create_namespace(api, HELD)
    async with open_server(bed, namespace=HELD) as server:
        await grow(server, few)
        memories = [await _read_memory(server, few)]
        began = time.perf_counter()
        await grow(server, runs)
        per_second = (runs - few) / (time.perf_counter() - began)
        memories.append(await _read_memory(server, runs))
        idle = await server.profile(_measure_idle(server), phase="idle")
        measuring = measure_ends(bed, server, events=events, seconds=seconds, seed=SEED)
        ends = await server.profile(measuring, phase="ends")
    bytes_per_run = (memories[1].rss - memories[0].rss) / (runs - few)
    return ActiveRuns(memories, bytes_per_run, idle, per_second, ends)


async def grow(server: ClusterServer, count: int) -> None:
    """Submit until so many runs are RUNNING."""
    progress(f"active runs: up to {count}")
    await server.submit_many("long", count - server.count("state = 'RUNNING'"))
    await server.wait_count("state = 'RUNNING'", count, pause=0.5)


async def _read_memory(server: ClusterServer, runs: int) -> Memory:
    await asyncio.sleep(QUIET_SECONDS)
    rss = statistics.median([server.read_memory().rss for _ in range(3)])
    progress(f"memory: {rss / 1e6:.1f} MB with {runs} active runs")
    return Memory(runs, rss)


async def _measure_idle(server: ClusterServer) -> float:
    used, began = server.read_cpu().own, time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    return (server.read_cpu().own - used) / (time.perf_counter() - began)
