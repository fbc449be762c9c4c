"""Closes idle connections: the defence against slowloris, which opens many and sends request heads byte by byte.

uvicorn has an idle timeout between two requests, but none before the first, nor for a request head that never ends.
"""

import time
from collections.abc import Iterable
from typing import Protocol

HEAD_SECONDS = 30.0
"""Idle timeout: how long a connection may take to send the head of a request."""


class Cycle(Protocol):
    """A request and its response."""

    @property
    def response_complete(self) -> bool:
        """Whether the response was sent completely."""


class Connection(Protocol):
    """A connection, as uvicorn's protocols are; `cycle` is the last request whose head is complete."""

    @property
    def cycle(self) -> Cycle | None:
        """None before the first request."""

    def shutdown(self) -> None:
        """Close it, unless a response is being sent. What was not sent yet is sent before."""

    def abort(self) -> None:
        """Close it at once."""


class IdleConnections:
    """Remembers since when each connection has been waiting for a request."""

    def __init__(self) -> None:
        self._waiting: dict[Connection, tuple[Cycle | None, float]] = {}

    def close_stale(self, connections: Iterable[Connection], *, now: float | None = None) -> None:
        """Close the connections that have waited for one request longer than the idle timeout; call it repeatedly."""
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
            if now - since >= 2 * HEAD_SECONDS:
                # The client does not read the rest of its last response.
                connection.abort()
            elif now - since >= HEAD_SECONDS:
                connection.shutdown()
