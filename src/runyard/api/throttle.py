"""Nobody takes all: requests per principal by a token bucket, streams by counting."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import HTTPConnection

from runyard.api.context import get_context
from runyard.app.errors import TooMany
from runyard.app.lru_map import LruMap
from runyard.app.model import Principal

MOST_KNOWN = 10_000
"""Principals whose buckets are kept; a forgotten one starts full."""


class Throttle:
    """Buckets by principal, and the streams that are open. One per process."""

    def __init__(self, *, per_second: float, streams: int, streams_each: int) -> None:
        self._per_second = per_second
        self._burst = per_second * 2
        self._streams, self._streams_each = streams, streams_each
        self._buckets: LruMap[str, tuple[float, float]] = LruMap(most=MOST_KNOWN)
        self._open: dict[str, int] = {}

    def take(self, name: str, *, now: float | None = None) -> None:
        """One request; raises `TooMany`."""
        now = time.monotonic() if now is None else now
        left, at = self._buckets.find(name) or (self._burst, now)
        left = min(self._burst, left + (now - at) * self._per_second)
        is_allowed = left >= 1
        self._buckets.put(name, (left - 1 if is_allowed else left, now))
        if not is_allowed:
            wait = (1 - left) / self._per_second
            raise TooMany(f"more than {self._per_second:g} requests a second", retry_after=wait)

    @contextmanager
    def hold_stream(self, name: str) -> Iterator[None]:
        """A stream, as long as it is open; raises `TooMany`."""
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


def get_throttle(connection: HTTPConnection) -> Throttle:
    """The one of this process."""
    throttle: Throttle = connection.app.state.throttle
    return throttle


def limit_failures(connection: HTTPConnection, address: str | None) -> None:
    """One request of nobody known, which was refused: those of an address have a bucket of their own."""
    get_throttle(connection).take(f"failures of {address}")


def limit_rate(connection: HTTPConnection, who: Principal) -> None:
    """One request of a principal; raises `TooMany`."""
    get_throttle(connection).take(throttle_key(connection, who))


def throttle_key(connection: HTTPConnection, who: Principal) -> str:
    """Who is counted: the run, the user, or, without accounts, where everybody is one user, the address."""
    if who.run_id is not None:
        return f"run {who.run_id}"
    return f"{who.name}@{who.address}" if get_context(connection).is_open else who.name
