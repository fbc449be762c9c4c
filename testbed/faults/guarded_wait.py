"""Waits for a task while another may end the wait."""

import asyncio
from collections.abc import Coroutine
from math import inf
from typing import Any, TypeVar

T = TypeVar("T")


async def unless(guard: Coroutine[Any, Any, object], main: Coroutine[Any, Any, T]) -> T | None:
    """The result of `main`, or None when `guard` ends before it; the other one is cancelled."""
    tasks = guarding, working = asyncio.create_task(guard), asyncio.create_task(main)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        guarding.result()
        return None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def pause(seconds: float) -> bool:
    """Wait so long, perhaps for ever; always True."""
    if seconds == inf:
        await asyncio.Event().wait()
    await asyncio.sleep(seconds)
    return True
