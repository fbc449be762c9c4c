"""A queue of keys for level-based work: a key waits once, is worked on by one worker, and backs off when it fails."""

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

from runyard.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys that are due, each at most once. Within one event loop. Bounded by the number of distinct keys.

    A key that is added while it is worked on comes again afterwards.
    """

    def __init__(self, *, backoff_seconds: tuple[float, float] = (0.5, 30.0)) -> None:
        self._backoff_seconds = backoff_seconds
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        self._working: set[K] = set()
        self._backoffs: dict[K, Backoff] = {}
        self._delayed: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._numbers = count()
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Make a key due now."""
        self._due.pop(key, None)
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._working:
            self._ready.append(key)
            self._arrived.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Make a key due later, unless it is due earlier already."""
        at = asyncio.get_running_loop().time() + seconds
        if key in self._waiting or self._due.get(key, at + 1) <= at:
            return
        self._due[key] = at
        heapq.heappush(self._delayed, (at, next(self._numbers), key))
        self._arrived.set()

    def retry(self, key: K) -> None:
        """Make a key due after its backoff, which grows until `forget`."""
        initial_seconds, maximum_seconds = self._backoff_seconds
        backoff = self._backoffs.get(key)
        if backoff is None:
            backoff = Backoff(initial_seconds=initial_seconds, maximum_seconds=maximum_seconds)
            self._backoffs[key] = backoff
        self.add_after(key, backoff.next_seconds())

    def forget(self, key: K) -> None:
        """The key succeeded: its next backoff is short."""
        self._backoffs.pop(key, None)

    async def take(self) -> K:
        """The next key that is due; `done` must follow."""
        while True:
            self._promote()
            if self._ready:
                key = self._ready.popleft()
                self._waiting.discard(key)
                self._working.add(key)
                if self._ready:
                    self._arrived.set()
                return key
            self._arrived.clear()
            await self._wait()

    def done(self, key: K) -> None:
        """The work on a key has ended."""
        self._working.discard(key)
        if key in self._waiting:
            self._ready.append(key)
            self._arrived.set()

    def _promote(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._delayed and self._delayed[0][0] <= now:
            at, _, key = heapq.heappop(self._delayed)
            if self._due.get(key) == at:
                self.add(key)

    async def _wait(self) -> None:
        seconds = self._delayed[0][0] - asyncio.get_running_loop().time() if self._delayed else None
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            return
