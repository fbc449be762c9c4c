"""Limits the memory of a process tree where no cgroup can: looks at it ten times a second, and kills it."""

from __future__ import annotations

import os

from runyard.procs.supervisor.process_tree import (
    list_descendants,
    sum_proportional_bytes,
    sum_resident_bytes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from runyard.procs.supervisor.poll_loop import PollLoop

PERIOD_SECONDS = 0.1


class MemoryWatchdog:
    """Knows the peak of the tree, and calls back once when it exceeds the limit."""

    def __init__(self, limit: int, loop: PollLoop, exceed: Callable[[], None]) -> None:
        self.peak = 0
        self.is_exceeded = False
        self._limit = limit
        self._loop = loop
        self._exceed = exceed
        loop.call_later(PERIOD_SECONDS, self._look)

    def close(self) -> None:
        """Look no more."""
        self._loop.cancel(self._look)

    def _look(self) -> None:
        processes = list_descendants(os.getpid())
        # Resident memory counts shared pages several times, but is cheap: only if that is too much, look closer.
        used = sum_resident_bytes(processes)
        if used > self._limit:
            used = sum_proportional_bytes(processes)
        self.peak = max(self.peak, used)
        if used > self._limit:
            self.is_exceeded = True
            self._exceed()
        else:
            self._loop.call_later(PERIOD_SECONDS, self._look)
