"""Supervises the loops: restarts one that fails with exponential backoff; the others go on."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
LASTING_SECONDS = 300.0
"""After that long without a failure the backoff starts anew."""

_log = logging.getLogger(__name__)

Loop = Callable[[], Awaitable[None]]
Sleep = Callable[[float], Awaitable[None]]


async def supervise(
    loops: Mapping[str, Loop], *, sleep: Sleep = asyncio.sleep, count_failure: Callable[[str], None] | None = None
) -> None:
    """Run all loops until cancelled; failures are logged, and counted by `count_failure`."""
    async with asyncio.TaskGroup() as group:
        for name, loop in loops.items():
            group.create_task(keep_going(name, loop, sleep=sleep, count_failure=count_failure), name=name)


async def keep_going(
    name: str, loop: Loop, *, sleep: Sleep = asyncio.sleep, count_failure: Callable[[str], None] | None = None
) -> None:
    """Run one loop; restart it whenever it fails or returns."""
    clock = asyncio.get_running_loop().time
    pause = FIRST_PAUSE_SECONDS
    while True:
        began = clock()
        try:
            await loop()
        except Exception:  # noqa: BLE001 - whatever it is: no loop may end in silence
            _log.exception("loop failed", extra={"loop": name})
        else:
            _log.error("loop returned", extra={"loop": name})
        if count_failure is not None:
            count_failure(name)
        if clock() - began > LASTING_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        await sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
