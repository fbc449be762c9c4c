"""Runs that only exist: the memory and CPU time of the server per run, and of each supervisor."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.local.processes import Memory, read_cpu, read_memory
from bench.local.server import IDLE, LocalServer

QUIET_SECONDS = 2.0
WATCHED_SECONDS = 10.0
"""How long CPU time is added up."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Of one run: bytes, and CPU milliseconds per second."""

    server: Memory
    """By how much the server has grown."""
    server_cpu: float
    supervisor: Memory
    supervisor_cpu: float


async def measure_idle(server: LocalServer, *, runs: int, seconds: float = WATCHED_SECONDS) -> Idle:
    """So many runs that sleep. They are left to `open_server`."""
    await asyncio.sleep(QUIET_SECONDS)
    before = server.read_memory()
    for _ in range(runs):
        await server.submit(IDLE)
    await server.wait_running(runs)
    await asyncio.sleep(QUIET_SECONDS)
    after = server.read_memory()
    pss = None if after.pss is None or before.pss is None else (after.pss - before.pss) / runs
    supervisors = server.list_supervisors()
    used, own, began = await server.read_cpu(), _add_cpu(supervisors), time.perf_counter()
    await asyncio.sleep(seconds)
    used, own = await server.read_cpu() - used, _add_cpu(supervisors) - own
    each = 1000 / runs / (time.perf_counter() - began)
    grown = Memory((after.rss - before.rss) / runs, pss)
    return Idle(grown, used.own * each, _find_mean(supervisors), own * each)


def _add_cpu(pids: Sequence[int]) -> float:
    return sum(read_cpu(pid).own for pid in pids)


def _find_mean(pids: Sequence[int]) -> Memory:
    found = [read_memory(pid) for pid in pids]
    shared = [one.pss for one in found if one.pss is not None]
    return Memory(statistics.mean(one.rss for one in found), statistics.mean(shared) if shared else None)
