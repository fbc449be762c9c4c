"""Rate limiting: a token bucket per principal for requests, a count of open streams, turns for large answers."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from runyard.api.context import get_context
from runyard.app.errors import TooMany
from runyard.app.lru_map import LruMap
from runyard.app.model import Principal

MOST_KNOWN = 10_000
"""Principals whose buckets are kept; a forgotten one starts full."""
BODIES_EACH = 16
"""Request bodies of one principal that are in memory at a time; the others wait in the sockets."""
WRITES_EACH = 3
"""Requests with a body of one principal that are processed at a time; the others wait. They share one thread for large
documents, and hold one of few database connections meanwhile: many of one user would keep everybody waiting."""
READS_EACH = 32
"""Reading requests of one principal at a time; the others wait. Each may have an entity of many megabytes in memory."""
MOST_ANONYMOUS_BODIES = 64
"""Request bodies that are read before anybody is authenticated, at a time. The form of a client arrives within
milliseconds, so the oldest one is that of an attacker, and goes."""
PAGES_EACH = 2
"""Pages of one principal that are read and written at a time; the others wait. Each may be 16 MiB of text and
as much of an answer."""


class Throttle:
    """The token buckets and the open streams. One per process."""

    def __init__(self, *, per_second: float, streams: int, streams_each: int) -> None:
        self._per_second = per_second
        self._burst = per_second * 2
        self._streams, self._streams_each = streams, streams_each
        self._buckets: LruMap[str, tuple[float, float]] = LruMap(most=MOST_KNOWN)
        self._open: dict[str, int] = {}
        self._turns: dict[str, tuple[asyncio.Semaphore, int]] = {}
        self._anonymous: dict[asyncio.Timeout, None] = {}

    def take(self, name: str, *, now: float | None = None) -> None:
        """Take one token from a bucket; raises `TooMany` if it is empty."""
        now = time.monotonic() if now is None else now
        left, at = self._buckets.find(name) or (self._burst, now)
        left = min(self._burst, left + (now - at) * self._per_second)
        is_allowed = left >= 1
        self._buckets.put(name, (left - 1 if is_allowed else left, now))
        if not is_allowed:
            wait = (1 - left) / self._per_second
            raise TooMany(f"more than {self._per_second:g} requests per second", retry_after=wait)

    @contextmanager
    def hold_stream(self, name: str) -> Iterator[None]:
        """Count a stream while it is open; raises `TooMany`."""
        mine = self._open.get(name, 0)
        if sum(self._open.values()) >= self._streams or mine >= self._streams_each:
            raise TooMany(f"too many streams are open: {mine} of yours", retry_after=5)
        self._open[name] = mine + 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

    @asynccontextmanager
    async def take_turn(self, name: str, *, most: int) -> AsyncIterator[None]:
        """Wait until fewer than `most` others have a turn under this name."""
        turn, _ = self._turns.get(name) or (asyncio.Semaphore(most), 0)
        self._count_turn(name, turn, 1)
        try:
            async with turn:
                yield
        finally:
            self._count_turn(name, turn, -1)

    @asynccontextmanager
    async def hold_anonymous_body(self) -> AsyncIterator[None]:
        """Count a body of somebody unknown while it is read. Raises 503 if newer ones need its place."""
        if len(self._anonymous) >= MOST_ANONYMOUS_BODIES:
            oldest = next(iter(self._anonymous))
            del self._anonymous[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(None) as reading:
                self._anonymous[reading] = None
                try:
                    yield
                finally:
                    self._anonymous.pop(reading, None)
        except TimeoutError:
            # Closed, because the rest of the body may never come.
            headers = {"Retry-After": "1", "Connection": "close"}
            raise HTTPException(503, "too many bodies arrive; send the whole form at once", headers=headers) from None

    def _count_turn(self, name: str, turn: asyncio.Semaphore, change: int) -> None:
        count = self._turns.get(name, (turn, 0))[1] + change
        self._turns[name] = (turn, count)
        if not count:
            del self._turns[name]


def get_throttle(connection: HTTPConnection) -> Throttle:
    """The throttle of this process."""
    throttle: Throttle = connection.app.state.throttle
    return throttle


def limit_failures(connection: HTTPConnection, address: str | None) -> None:
    """Count a failed sign-in: failures from one address share a bucket. Raises `TooMany`."""
    get_throttle(connection).take(f"failures of {address}")


def limit_rate(connection: HTTPConnection, who: Principal) -> None:
    """Count a request of a principal; raises `TooMany`."""
    get_throttle(connection).take(throttle_key(connection, who))


def throttle_key(connection: HTTPConnection, who: Principal) -> str:
    """The bucket of a principal: its run, its user, or in open mode, where all are one user, its address."""
    if who.run_id is not None:
        return f"run {who.run_uid}"
    return f"{who.name}@{who.address}" if get_context(connection).is_open else who.name
