"""Which pods changed, coalesced, for everybody who follows."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Collection, Iterable


class _Follower:
    def __init__(self, keys: Collection[str]) -> None:
        self.pending = set(keys)
        self.is_told = True
        self.arrived = asyncio.Event()
        self.arrived.set()


class ChangeFeed:
    """Level-based: a follower is told that something changed, and looks for itself. Bounded by the distinct keys."""

    def __init__(self) -> None:
        self._followers: weakref.WeakSet[_Follower] = weakref.WeakSet()

    def publish(self, keys: Iterable[str]) -> None:
        """Tell every follower of these keys; of none: that something else changed."""
        told = frozenset(keys)
        for follower in self._followers:
            follower.pending |= told
            follower.is_told = follower.is_told or not told
            follower.arrived.set()

    async def follow(self, keys: Collection[str]) -> AsyncIterator[frozenset[str]]:
        """Batches of keys, beginning with `keys`; an empty one where `publish` had none."""
        follower = _Follower(keys)
        self._followers.add(follower)
        while True:
            await follower.arrived.wait()
            follower.arrived.clear()
            batch, follower.pending = frozenset(follower.pending), set()
            is_told, follower.is_told = follower.is_told, False
            if batch:
                yield batch
            if is_told:
                yield frozenset()
