"""The memory of runs that only exist: of the server per run, and of each supervisor."""

import asyncio
import statistics
from dataclasses import dataclass

from bench.local.processes import Memory, read_memory
from bench.local.server import IDLE, LocalServer

QUIET_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class IdleMemory:
    """Bytes."""

    server: Memory
    """By how much the server has grown, per run."""
    supervisor: Memory
    """The mean."""


async def measure_idle(server: LocalServer, *, runs: int) -> IdleMemory:
    """So many runs that sleep. They are left to `open_server`."""
    await asyncio.sleep(QUIET_SECONDS)
    before = server.read_memory()
    for _ in range(runs):
        await server.submit(IDLE)
    await server.wait_running(runs)
    await asyncio.sleep(QUIET_SECONDS)
    after = server.read_memory()
    pss = None if after.pss is None or before.pss is None else (after.pss - before.pss) / runs
    return IdleMemory(Memory((after.rss - before.rss) / runs, pss), _find_mean(server))


def _find_mean(server: LocalServer) -> Memory:
    found = [read_memory(pid) for pid in server.list_supervisors()]
    shared = [one.pss for one in found if one.pss is not None]
    return Memory(statistics.mean(one.rss for one in found), statistics.mean(shared) if shared else None)
