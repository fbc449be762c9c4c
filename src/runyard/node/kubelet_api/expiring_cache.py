"""A cache that is bounded in time and in size, for decisions about strangers."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class ExpiringCache(Generic[_Key, _Value]):
    """At most `most` entries, each for its own time. When it is full, the least recently used one goes."""

    def __init__(self, *, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._entries: OrderedDict[_Key, tuple[float, _Value]] = OrderedDict()

    def find(self, key: _Key) -> _Value | None:
        """The value, unless its time is over."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        ends_at, value = entry
        if self._clock() >= ends_at:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: _Key, value: _Value, *, seconds: float) -> None:
        """Keep a value for so long."""
        self._entries[key] = (self._clock() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)
