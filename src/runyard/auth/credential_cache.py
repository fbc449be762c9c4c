"""A short-lived cache of verified credentials, which never stores them in clear text."""

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
    """Values by the HMAC of the credential, with a random key of this process. Bounded (LRU)."""

    def __init__(self, *, most: int = 4096, now: Callable[[], float] = time.monotonic) -> None:
        self._key = secrets.token_bytes(32)
        self._now = now
        self._entries: LruMap[bytes, tuple[float, _Value]] = LruMap(most=most)

    def make_key(self, *parts: str) -> bytes:
        """The HMAC of the parts and their lengths, so that no two different lists have the same key."""
        digest = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        return digest.digest()

    def find(self, key: bytes) -> _Value | None:
        """The cached value, unless it has expired."""
        entry = self._entries.find(key)
        if entry is None:
            return None
        if self._now() >= entry[0]:
            self._entries.discard(key)
            return None
        return entry[1]

    def put(self, key: bytes, value: _Value, *, seconds: float = LONGEST_SECONDS) -> None:
        """Cache a value, for at most a minute."""
        self._entries.put(key, (self._now() + min(seconds, LONGEST_SECONDS), value))
