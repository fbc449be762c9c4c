"""Full runs: submitted over HTTP, executed, COMPLETED and settled; and the CPU time of each process that takes part."""

import asyncio
import time
from dataclasses import dataclass

from bench.local.server import LocalServer


@dataclass(frozen=True, slots=True)
class FullRuns:
    """Per run."""

    per_second: float
    server_cpu_ms: float
    processes_cpu_ms: float
    """Of the supervisor and of everything that it started."""
    client_cpu_ms: float
    """Of the bench, which shares the cores."""


async def measure_runs(server: LocalServer, function: str, *, runs: int, in_flight: int) -> FullRuns:
    """So many runs, so many at a time."""
    left = iter(range(runs))

    async def work() -> None:
        for _ in left:
            await server.wait_settled(await server.submit(function))

    before, client = await server.read_cpu(), time.process_time()
    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    seconds, client = time.perf_counter() - began, time.process_time() - client
    used = await server.read_cpu() - before
    each = 1000 / runs
    return FullRuns(runs / seconds, used.own * each, used.children * each, client * each)
