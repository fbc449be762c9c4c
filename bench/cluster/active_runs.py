"""Thousands of active runs: the memory and CPU time of the server per run, how fast ends are seen, and a restart."""

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cluster.beds import Bed
from bench.cluster.fake_kubelet import HELD
from bench.cluster.latencies import Ends, end_some, measure_ends
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
class Restart:
    """A server that starts while so many runs are active."""

    runs: int
    changed: int
    """How many of them had ended while no server lived."""
    listening_seconds: float
    true_seconds: float
    """From the start of the process until every stored state is the cluster's."""
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class ActiveRuns:
    """Everything that was measured."""

    memories: Sequence[Memory]
    bytes_per_run: float
    idle_cpu: float
    """CPU seconds per second of the server, while nothing happens to the runs."""
    create_per_second: float
    ends: Ends
    restarts: Sequence[Restart]


async def measure_active(
    bed: Bed, *, few: int, runs: int, restarted: int, changed: int, events: int, seconds: float
) -> ActiveRuns:
    """One server after the other on the same runs; `few` runs are more than it follows the logs of."""
    folder = Path(tempfile.mkdtemp(prefix="runyard-bench-"))
    try:
        async with bed.connect("bench") as api:
            await bed.create_namespace(api, HELD)
        async with open_server(bed, namespace=HELD, folder=folder) as server:
            tasks = dict(server.tasks)
            await _grow(server, few)
            memories = [await _read_memory(server, few)]
            began, known = time.perf_counter(), few
            await _grow(server, runs)
            per_second = (runs - known) / (time.perf_counter() - began)
            memories.append(await _read_memory(server, runs))
            idle = await server.profile(_measure_idle(server), phase="idle")
            measuring = measure_ends(bed, server, events=events, seconds=seconds, seed=SEED)
            ends = await server.profile(measuring, phase="ends")
            await server.wait_count("state = 'COMPLETED' AND settled_at IS NOT NULL", 2 * events)
            if restarted > runs - 2 * events:
                progress(f"restart: up to {restarted} active runs")
                await _grow(server, restarted)
        restarts = [await _restart(bed, folder, tasks, changed=changed) for _ in range(2)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    few_bytes, many_bytes = memories[0].rss, memories[1].rss
    return ActiveRuns(memories, (many_bytes - few_bytes) / (runs - few), idle, per_second, ends, restarts)


async def _grow(server: ClusterServer, count: int) -> None:
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


async def _wait_true(server: ClusterServer, ended: Sequence[str], began: float) -> tuple[float, float]:
    """Until the runs that have ended are known to; returns the seconds, and the CPU seconds of the server."""
    ids = ", ".join(f"'{run_id}'" for run_id in ended)
    await server.wait_count(f"id IN ({ids}) AND state = 'COMPLETED'", len(ended), pause=0.05)
    return time.perf_counter() - began, server.read_cpu().own


async def _restart(bed: Bed, folder: Path, tasks: dict[str, str], *, changed: int) -> Restart:
    """Runs end while no server lives; then one starts."""
    async with bed.connect("bench") as api:
        ended = await end_some(bed, api, HELD, count=changed, seed=SEED)
    progress(f"restart: {len(ended)} runs have ended meanwhile")
    began = time.perf_counter()
    async with open_server(bed, namespace=HELD, folder=folder, tasks=tasks) as server:
        listening = time.perf_counter() - began
        seconds, used = await server.profile(_wait_true(server, ended, began), phase="restart", is_from_start=True)
        runs = server.count("state = 'RUNNING'")
        progress(f"restart: listens after {listening:.1f} s, true after {seconds:.1f} s, {used:.1f} s of CPU")
        await server.wait_none("state = 'COMPLETED' AND settled_at IS NULL")
    return Restart(runs, len(ended), listening, seconds, used)
