"""Waiting for an event, but not for ever."""

import asyncio


async def wait_at_most(event: asyncio.Event, seconds: float) -> bool:
    """Wait until the event is set, or until the time is up; returns whether it was set."""
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            return await event.wait()
    except TimeoutError:
        return False
