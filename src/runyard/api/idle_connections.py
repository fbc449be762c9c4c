"""Connections that bring no request: whoever opens many and says nothing, or little, must not take all that there are.

The HTTP server has a time limit between two requests, and none for the first, nor for a head that comes in drops.
"""

import time
from collections.abc import Iterable
from typing import Protocol

HEAD_SECONDS = 30.0
"""How long a connection may take to bring the head of a request."""


class Cycle(Protocol):
    """A request and its answer."""

    @property
    def response_complete(self) -> bool:
        """Whether all of the answer was sent."""


class Connection(Protocol):
    """As uvicorn's protocols are; `cycle` is the last request whose head has come."""

    @property
    def cycle(self) -> Cycle | None:
        """None before the first."""

    def shutdown(self) -> None:
        """Close it, if nothing is being answered."""


class IdleConnections:
    """Looks at all connections now and then, and ends the silent ones."""

    def __init__(self) -> None:
        self._waiting: dict[Connection, tuple[Cycle | None, float]] = {}

    def close_stale(self, connections: Iterable[Connection], *, now: float | None = None) -> None:
        """End those that have waited too long since they were first seen waiting for the same request."""
        now = time.monotonic() if now is None else now
        waiting: dict[Connection, tuple[Cycle | None, float]] = {}
        for connection in connections:
            cycle = connection.cycle
            if cycle is not None and not cycle.response_complete:
                continue
            known, since = self._waiting.get(connection, (cycle, now))
            waiting[connection] = (cycle, since if known is cycle else now)
        self._waiting = waiting
        for connection, (_, since) in waiting.items():
            if now - since >= HEAD_SECONDS:
                connection.shutdown()
