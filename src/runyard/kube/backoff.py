"""Exponential backoff with jitter: how long to wait before the next attempt."""

import asyncio
import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from runyard.kube.errors import (
    ApiError,
    ConfigError,
    Forbidden,
    Gone,
    KubeError,
    ServerError,
    Throttled,
    Unauthorized,
    Unavailable,
    Untrusted,
)

# Retrying helps only after a change of rights, credentials or certificates.
DENIED = (Unauthorized, Forbidden, Untrusted, ConfigError)
# Transient: the same request may succeed a moment later.
TRANSIENT = (Unavailable, Throttled, ServerError)

# The cap of Retry-After: a proxy may ask for a day, and a store must not be stale that long.
_MAX_RETRY_AFTER_SECONDS = 300.0

_log = logging.getLogger(__name__)


class Backoff:
    """Exponential delays with jitter: the n-th lies between half and all of `initial · 2ⁿ`, capped at `maximum`."""

    def __init__(self, *, initial_seconds: float, maximum_seconds: float) -> None:
        self._initial_seconds = initial_seconds
        self._maximum_seconds = maximum_seconds
        self._ceiling_seconds = initial_seconds

    def next_seconds(self) -> float:
        """The delay before the next attempt; each call returns a longer one."""
        ceiling_seconds = self._ceiling_seconds
        self._ceiling_seconds = min(2 * ceiling_seconds, self._maximum_seconds)
        return random.uniform(ceiling_seconds / 2, ceiling_seconds)  # noqa: S311 - jitter, not a secret

    def reset(self) -> None:
        """Return to the shortest delay."""
        self._ceiling_seconds = self._initial_seconds


class LoopBackoff:
    """Backoff for a loop that never gives up. Waits after each failure and logs each change of the failure once.

    Three rows of delays: for failures in passing, where a repeat is cheap; for those after which everything is
    done from the beginning; and for denials, which are asked about again only seldom (`denied_seconds`).
    """

    def __init__(self, name: str, *, seconds: tuple[float, float], denied_seconds: tuple[float, float]) -> None:
        self._name = name
        self._passing = _build(seconds)
        self._restart = _build(seconds)
        self._denied = _build(denied_seconds)
        self.last_error: KubeError | None = None
        """The last failure; None after a success."""

    @contextmanager
    def working(self, *, healthy_after_seconds: float) -> Iterator[None]:
        """Wrap the time in which the attempt works; resets all delays if it lasts at least this long."""
        if self.last_error is not None:
            _log.info("%s: recovered", self._name)
            self.last_error = None
        began_at = time.monotonic()
        try:
            yield
        finally:
            if time.monotonic() - began_at >= healthy_after_seconds:
                for backoff in (self._passing, self._restart, self._denied):
                    backoff.reset()

    def note_progress(self) -> None:
        """Reset the delays of transient failures: the attempt made progress, and the next one continues from there."""
        self._passing.reset()

    async def pause(self, error: KubeError | None = None) -> None:
        """Wait before the next attempt: longer each time, plus the server's Retry-After, up to its cap."""
        delay_seconds = self._choose(error).next_seconds()
        if isinstance(error, ApiError | Unavailable) and error.retry_after_seconds is not None:
            delay_seconds += min(error.retry_after_seconds, _MAX_RETRY_AFTER_SECONDS)
        if error is not None:
            self._note_failure(error, delay_seconds)
        await asyncio.sleep(delay_seconds)

    def _choose(self, error: KubeError | None) -> Backoff:
        if isinstance(error, DENIED):
            return self._denied
        return self._passing if error is None or isinstance(error, TRANSIENT) else self._restart

    def _note_failure(self, error: KubeError, delay_seconds: float) -> None:
        level = logging.DEBUG
        if type(error) is not type(self.last_error):
            # An expired resourceVersion is a routine reason to list again, not a problem.
            level = logging.INFO if isinstance(error, Gone) else logging.WARNING
        _log.log(level, "%s: %s; retrying in %.1f s", self._name, error, delay_seconds)
        # The traceback would keep the frames' objects alive.
        self.last_error = error.with_traceback(None)


def _build(seconds: tuple[float, float]) -> Backoff:
    return Backoff(initial_seconds=seconds[0], maximum_seconds=seconds[1])
