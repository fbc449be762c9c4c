"""`python -m tests.integration.kube.hasty_client URL CA SECONDS`: requests on uvloop, most of which are soon cancelled.

Prints how many were answered. An answer to another request ends it with an exception.
"""

import asyncio
import itertools
import random
import sys
from pathlib import Path

import uvloop

from runyard.kube.config import ClusterConfig
from runyard.kube.errors import KubeError
from runyard.kube.transport import Transport

AT_ONCE = 12
PATIENCE_SECONDS = (0.002, 0.005, 0.01, 0.02, 5.0)


async def main(url: str, ca: bytes, seconds: float) -> int:
    """Return how many requests were answered."""
    loop = asyncio.get_running_loop()
    ends_at, numbers, answered = loop.time() + seconds, itertools.count(), 0
    choose = random.Random(7)
    async with Transport(ClusterConfig(server=url, ca=ca)) as transport:

        async def work() -> None:
            nonlocal answered
            while loop.time() < ends_at:
                path = f"/{next(numbers)}"
                try:
                    async with asyncio.timeout(choose.choice(PATIENCE_SECONDS)):
                        answer = await transport.request("GET", path, deadline_seconds=4)
                except (TimeoutError, KubeError):
                    continue
                if answer != path.encode():
                    raise RuntimeError(f"{answer!r} is the answer to another request than {path}")
                answered += 1

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return answered


if __name__ == "__main__":
    sys.stdout.write(f"{uvloop.run(main(sys.argv[1], Path(sys.argv[2]).read_bytes(), float(sys.argv[3])))}\n")
