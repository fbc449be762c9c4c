"""A server that starts again: `python -m bench.loop.restart …` in a fresh process, so that its memory is its own.

The database has runs that are RUNNING; while no loop ran, some of them ended at the engine. The time counts from the
start of the loop until every stored state is the engine's. Memory is the growth of the process until the loop is quiet.
"""

import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.loop.world import COMPLETED, LIMIT_SECONDS, RUNNING, open_world
from runyard.domain.outcomes import Seen


@dataclass(frozen=True, slots=True)
class Restart:
    """What it took."""

    active: int
    seconds: float
    cpu_seconds: float
    grown_bytes: int


def run_restart(url: str, folder: Path, *, changed: int) -> Restart:
    """Restart with the runs of the database that are RUNNING; so many of them have ended meanwhile."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.loop.restart", url, str(folder), str(changed)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=LIMIT_SECONDS * 3,
        text=True,
    )
    return Restart(**json.loads(done.stdout))


async def _restart(url: str, folder: Path, *, changed: int) -> Restart:
    async with open_world(url, folder) as world:
        ended = await world.count(COMPLETED)
        uids = sorted(await world.list_uids(RUNNING))
        # Those that ended are spread over the whole, in whichever order the loop goes through it.
        gone = uids[:: len(uids) // changed][:changed]
        world.engine.adopt(uids, seen=Seen.RUNNING)
        world.engine.adopt(gone, seen=Seen.SUCCEEDED)
        gc.collect()
        before_bytes, before = _read_memory(), world.read_counter()
        began = time.perf_counter()
        await world.start()
        await world.wait(COMPLETED, ended + changed)
        seconds = time.perf_counter() - began
        usage = world.measure_since(before)
        await world.wait_until_quiet()
        gc.collect()
        grown = _read_memory() - before_bytes
        await world.stop()
    return Restart(len(uids), seconds, usage.cpu_seconds, grown)


def _read_memory() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{os.getpid()}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def main() -> None:
    """Called by `run_restart`."""
    url, folder, changed = sys.argv[1:]
    result = asyncio.run(_restart(url, Path(folder), changed=int(changed)))
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
