"""Level-based subscriptions: which keys changed, coalesced, with back-pressure.

A subscriber is told *that* a key changed and reads the store for *what* it is now; a key that changes ten times
while the subscriber is busy comes once, a deletion is a key the store no longer has, and an object that was
replaced by another of the same name is one changed key whose view has another UID. Nothing is lost, because a key
stays pending until it is handed out; a new subscriber begins with every key the store holds.

The last state of a deleted object is not lost either: `Subscription.deleted(key)` gives the tombstones of a key of the
batch in hand. Tombstones count as pending, like keys.

The trade-off: while a subscriber has more than `max_pending` keys waiting, the reflector reads no further (what it
has read by then, a chunk or a list, may lie beyond the limit). Memory stays bounded and the apiserver, not this
process, absorbs the backlog: it ends a watch that falls too far behind, and the reflector resumes or lists again,
which coalesces more. The price is that one slow subscriber makes the store stale for all: so do slow work
elsewhere, and never wait inside the loop for the store to show something.
`max_pending=None` never holds the reflector up; its memory is bounded by the number of distinct names. It keeps the
newest `MOST_TOMBSTONES` only, and counts what it forgot.
"""

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from runyard.kube.errors import KubeError
from runyard.kube.store import Tombstone
from runyard.kube.views import Key

V = TypeVar("V")

MAX_PENDING = 10_000
MOST_TOMBSTONES = 10_000
"""Tombstones that a subscription without `max_pending` keeps."""
_COMPLAIN_AFTER_SECONDS = 30.0

_log = logging.getLogger(__name__)


class ReflectorStopped(KubeError):
    """The reflector ended before, or while, something waited for it; the cause is there when it failed."""


class Subscription(Generic[V]):
    """An async iterator of batches of changed keys, each batch in the order of first change.

    Close it (it is a context manager) or drop it when done; either way it no longer holds the reflector up.
    Iteration ends after `close`, or when the reflector has stopped and everything pending was handed out.
    """

    def __init__(self, keys: Collection[Key], *, max_pending: int | None, on_taken: Callable[[], None]) -> None:
        self._pending = dict.fromkeys(keys)
        self._buried: deque[tuple[Key, Tombstone[V]]] = deque()
        self._deleted: dict[Key, list[Tombstone[V]]] = {}
        self._max_pending = max_pending
        self.forgotten_tombstones = 0
        """How many tombstones were dropped, oldest first: only without `max_pending`."""
        self._on_taken = on_taken
        self._arrived = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None

    @property
    def pending(self) -> int:
        """The number of keys that wait to be taken."""
        return len(self._pending)

    @property
    def is_full(self) -> bool:
        """Whether the reflector must wait for this subscriber (back-pressure)."""
        return self._max_pending is not None and max(len(self._pending), len(self._buried)) > self._max_pending

    def deleted(self, key: Key) -> Sequence[Tombstone[V]]:
        """The objects of that name that were deleted before the last batch was taken and after the one before.

        Oldest first; more than one where a name was used again. Kept until the next batch is asked for. Objects that
        were deleted before the subscription began are not known.
        """
        return tuple(self._deleted.get(key, ()))

    def add(self, keys: Collection[Key], tombstones: Sequence[tuple[Key, Tombstone[V]]] = ()) -> None:
        """Mark keys as changed; called by the reflector. The key of each tombstone is one of `keys`."""
        if self._ended:
            return
        self._pending.update(dict.fromkeys(keys))
        self._buried.extend(tombstones)
        while self._max_pending is None and len(self._buried) > MOST_TOMBSTONES:
            self._buried.popleft()
            self.forgotten_tombstones += 1
        self._arrived.set()

    def end(self, error: BaseException | None) -> None:
        """Announce that no more keys will come; called by the reflector."""
        self._ended = True
        self._error = error
        self._arrived.set()

    def close(self) -> None:
        """Cancel the subscription: pending keys are dropped and iteration ends. Idempotent."""
        self._pending.clear()
        self._buried.clear()
        self._deleted.clear()
        self.end(None)
        self._on_taken()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Key]:
        """The keys that changed since the last batch; waits for the first. Cancelling it loses nothing."""
        self._deleted = {}
        while not self._pending:
            if self._error is not None:
                raise ReflectorStopped("the reflector failed") from self._error
            if self._ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        batch, self._pending = self._pending, {}
        while self._buried:
            key, tombstone = self._buried.popleft()
            self._deleted.setdefault(key, []).append(tombstone)
        self._on_taken()
        return list(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._on_taken()


class Fanout(Generic[V]):
    """The subscriptions of one reflector. Held weakly: one that nobody iterates any more does not count."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._subscriptions: weakref.WeakSet[Subscription[V]] = weakref.WeakSet()
        self._taken = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None

    def subscribe(self, keys: Collection[Key], *, max_pending: int | None) -> Subscription[V]:
        """A subscription that begins with `keys`."""
        if max_pending is not None and max_pending < 1:
            raise ValueError(f"max_pending is at least 1 or None, not {max_pending}")
        subscription: Subscription[V] = Subscription(keys, max_pending=max_pending, on_taken=self._taken.set)
        self._subscriptions.add(subscription)
        if self._ended:
            subscription.end(self._error)
        return subscription

    def publish(self, keys: Collection[Key], tombstones: Sequence[tuple[Key, Tombstone[V]]] = ()) -> None:
        """Mark keys as changed for everyone, and hand out the last states of what was deleted."""
        if keys:
            for subscription in self._subscriptions:
                subscription.add(keys, tombstones)

    def end(self, error: BaseException | None) -> None:
        """Let every subscriber finish: nothing will be published any more."""
        self._ended = True
        self._error = error
        for subscription in self._subscriptions:
            subscription.end(error)

    async def wait_drained(self) -> None:
        """Return once no subscriber has more pending than it allows; at once in the usual case."""
        if not self._is_full():
            return
        try:
            async with asyncio.timeout(_COMPLAIN_AFTER_SECONDS):
                await self._wait_drained()
        except TimeoutError:
            pending = max((subscription.pending for subscription in self._subscriptions), default=0)
            _log.warning("%s: paused for a subscriber that leaves %d keys pending", self._name, pending)
            await self._wait_drained()

    async def _wait_drained(self) -> None:
        while self._is_full():
            self._taken.clear()
            await self._taken.wait()

    def _is_full(self) -> bool:
        return any(subscription.is_full for subscription in self._subscriptions)
