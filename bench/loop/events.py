"""Events of runs that are running: from the engine's report to the stored state, and reports without a change."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.loop.world import COMPLETED, LIMIT_SECONDS, POLL_SECONDS, World
from runyard.app.model import Run
from runyard.domain.outcomes import Seen

CREATE_SECONDS = 0.1
_HINT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Burst:
    """Seconds from the report to the stored state of each run, and the CPU time until the last was stored."""

    seconds: Sequence[float]
    cpu_seconds: float

    def find_percentile(self, part: int) -> float:
        """The time in which that part of the events was stored."""
        return statistics.quantiles(self.seconds, n=100, method="inclusive")[part - 1]


@dataclass(frozen=True, slots=True)
class Hints:
    """Per report that changes nothing."""

    cpu_ms: float
    commits: float


async def measure_burst(world: World, run: Run, *, events: int, creates: int = 0, name: str) -> Burst:
    """All of these runs end at once, and a second connection reads when each is stored.

    `creates` runs are queued before; the engine takes `CREATE_SECONDS` for each of them.
    """
    uids = await world.multiply(run, events, name=name)
    world.engine.adopt(uids)
    waiting_run = await world.submit_held_back() if creates else None
    await world.start()
    await world.wait_until_quiet()
    if waiting_run is not None:
        world.engine.create_seconds = CREATE_SECONDS
        await world.queue_copies(waiting_run, creates, name=f"queued-{name}")
    waiting = set(uids)
    before = world.read_counter()
    began = time.perf_counter()
    world.engine.change(uids, Seen.SUCCEEDED)
    seconds: list[float] = []
    while waiting and time.perf_counter() - began < LIMIT_SECONDS:
        await asyncio.sleep(POLL_SECONDS)
        world.check_loop()
        stored = waiting.intersection(await world.list_uids(f"{COMPLETED} AND uid LIKE '{name}-%'"))
        seconds += [time.perf_counter() - began] * len(stored)
        waiting -= stored
    usage = world.measure_since(before)
    world.engine.create_seconds = 0.0
    await world.wait_until_quiet()
    await world.stop()
    return Burst([*seconds, *([LIMIT_SECONDS] * len(waiting))], usage.cpu_seconds)


async def measure_hints(world: World, run: Run, *, runs: int, rounds: int) -> Hints:
    """The engine reports running runs again and again, and nothing has changed. An idle loop's cost is subtracted."""
    uids = await world.multiply(run, runs, name="hinted")
    world.engine.adopt(uids)
    await world.start()
    await world.wait_until_quiet()
    before = world.read_counter()
    began = time.perf_counter()
    for _ in range(rounds):
        world.engine.repeat(uids)
        await asyncio.sleep(_HINT_SECONDS)
    busy = world.measure_since(before)
    before = world.read_counter()
    await asyncio.sleep(time.perf_counter() - began)
    idle = world.measure_since(before)
    await world.stop()
    count = runs * rounds
    commits = max(0, busy.commits - idle.commits)  # a heartbeat may fall into either
    return Hints((busy.cpu_seconds - idle.cpu_seconds) / count * 1000, commits / count)
