"""Remembers for a short while what was costly to verify, without keeping any of it in clear."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from runyard.app.lru_map import LruMap

LONGEST_SECONDS = 60.0
_Value = TypeVar("_Value")


class CredentialCache(Generic[_Value]):
    """Values by the keyed hash of what was verified; the key is random and of this process alone. Bounded."""

    def __init__(self, *, most: int = 4096, now: Callable[[], float] = time.monotonic) -> None:
        self._key = secrets.token_bytes(32)
        self._now = now
        self._entries: LruMap[bytes, tuple[float, _Value]] = LruMap(most=most)

    def make_key(self, *parts: str) -> bytes:
        """Stands for the parts; their lengths are part of it, so that no two different lists are alike."""
        digest = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        return digest.digest()

    def find(self, key: bytes) -> _Value | None:
        """What was put there, unless its time is over."""
        entry = self._entries.find(key)
        if entry is None:
            return None
        if self._now() >= entry[0]:
            self._entries.discard(key)
            return None
        return entry[1]

    def put(self, key: bytes, value: _Value, *, seconds: float = LONGEST_SECONDS) -> None:
        """Keep it, for at most a minute."""
        self._entries.put(key, (self._now() + min(seconds, LONGEST_SECONDS), value))
