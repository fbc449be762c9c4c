"""A map that is bounded in size, for everything that is kept by names which strangers can make up."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class LruMap(Generic[_Key, _Value]):
    """At most `most` entries. When it is full, the least recently used one is evicted."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[_Key, _Value] = OrderedDict()

    def find(self, key: _Key) -> _Value | None:
        """The value, which counts as used now."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: _Key, value: _Value) -> _Key | None:
        """Set the value, which counts as used now. Returns the key that was evicted, if any."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        return self._entries.popitem(last=False)[0] if len(self._entries) > self._most else None

    def discard(self, key: _Key) -> None:
        """Remove an entry, if it is there."""
        self._entries.pop(key, None)

    def __contains__(self, key: _Key) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
