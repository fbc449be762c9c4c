"""Bounds the open connections, so that stalled ones cannot use up the file descriptors of the process.

When the limit is reached, connections of strangers are closed to make room: a slowloris attack then ends its own
connections, and everybody else is served. Clients that sent credentials are spared as long as possible.
"""

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

MOST_CONNECTIONS = 1000
"""Default limit of open connections."""
RESERVED_DESCRIPTORS = 64
"""File descriptors that are never used for connections: databases, logs, profiles and the listener need them."""
LEAST_CONNECTIONS = 16
"""The limit is never lower, however few file descriptors the process may open."""
CLOSED_SHARE = 20
"""One in so many connections is closed at once to make room, so that not every new connection searches all others."""
TOLD_EVERY_SECONDS = 10.0
"""How often the operator is told that the limit was reached."""


class Connection(Protocol):
    """What the limits need to know of a connection."""

    @property
    def address(self) -> str | None:
        """The address of the peer: the client, or a proxy."""

    @property
    def waiting_since(self) -> float:
        """When it was opened, or its last response was complete, by the monotonic clock."""

    @property
    def is_authenticated(self) -> bool:
        """Whether a request with valid credentials is in progress."""

    @property
    def is_receiving(self) -> bool:
        """Whether the server waits for bytes of a request."""

    def abort(self) -> None:
        """Close it at once, without a response."""


class ConnectionLimits:
    """The open connections. One per process."""

    def __init__(self, *, most: int, tell: Callable[[int], None] = lambda _closed: None) -> None:
        self._most = most
        self._tell = tell
        self._open: dict[Connection, None] = {}
        self._closed = 0
        self._told_at = float("-inf")

    def admit(self, connection: Connection) -> bool:
        """Count a new connection, and close others if there are too many. Returns False if there is no room for it."""
        if len(self._open) >= self._most:
            victims = _choose_victims(self._open, most=max(1, self._most // CLOSED_SHARE))
            for victim in victims:
                del self._open[victim]
                victim.abort()
            self._note_full(len(victims) or 1)
            if not victims:
                return False
        self._open[connection] = None
        return True

    def replace(self, connection: Connection, by: Connection) -> None:
        """Count another object for the same connection, as after an upgrade to WebSocket."""
        if connection in self._open:
            del self._open[connection]
            self._open[by] = None

    def release(self, connection: Connection) -> None:
        """Stop counting a connection. Idempotent."""
        self._open.pop(connection, None)

    def _note_full(self, closed: int) -> None:
        self._closed += closed
        now = time.monotonic()
        if now - self._told_at >= TOLD_EVERY_SECONDS:
            self._tell(self._closed)
            self._closed, self._told_at = 0, now


def limit_by_descriptors(wanted: int = MOST_CONNECTIONS) -> int:
    """The number of connections that the process may keep open, given its limit of file descriptors (`ulimit -n`)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(LEAST_CONNECTIONS, min(wanted, soft - RESERVED_DESCRIPTORS))


def _choose_victims(connections: Iterable[Connection], *, most: int) -> list[Connection]:
    """The connections to close: the oldest ones of the address that has most.

    Strangers come first, whatever they do. Authenticated clients follow only while they are sending a request.
    """
    candidates = [one for one in connections if not one.is_authenticated]
    if not candidates:
        candidates = [one for one in connections if one.is_receiving]
    if not candidates:
        return []
    (address, _), *_ = Counter(one.address for one in candidates).most_common(1)
    oldest = sorted((one for one in candidates if one.address == address), key=lambda one: one.waiting_since)
    return oldest[:most]
