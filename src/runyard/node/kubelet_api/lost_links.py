"""Ends streams whose provider has vanished without a word: no packet would ever tell.

A stream is given up when the provider counts as out of reach and nothing has come from it for a while. A stream that
still carries bytes goes on, whatever the link's probe says.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from runyard.node.providers.provider import Link, ProviderUnavailable

SILENT_SECONDS = 20.0
"""How long a stream may be silent while the provider is out of reach."""
CHECK_SECONDS = 2.0

ReadLink = Callable[[], Link]


class StreamActivity:
    """When bytes last came from the provider."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self.last_at = self._clock()

    def note(self) -> None:
        """Bytes have come."""
        self.last_at = self._clock()


@asynccontextmanager
async def ended_with_link(read_link: ReadLink | None) -> AsyncIterator[StreamActivity]:
    """Cancel the block when the provider has vanished, and raise `ProviderUnavailable` with words for the user."""
    activity = StreamActivity()
    if read_link is None:
        yield activity
        return
    watching: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(None) as limit:
            watching = asyncio.create_task(_watch(read_link, activity, limit))
            yield activity
    except TimeoutError:
        link = read_link()
        why = f": {link.message}" if link.message else ""
        raise ProviderUnavailable(
            f"the provider cannot be reached since {link.since:%Y-%m-%dT%H:%M:%SZ}{why}"
        ) from None
    finally:
        if watching is not None:
            watching.cancel()


async def _watch(read_link: ReadLink, activity: StreamActivity, limit: asyncio.Timeout) -> None:
    clock = asyncio.get_running_loop().time
    down_since: float | None = None
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        if read_link().is_up:
            down_since = None
            continue
        down_since = down_since or clock()
        if clock() - max(down_since, activity.last_at) >= SILENT_SECONDS:
            limit.reschedule(clock())
            return
