"""Rate limit of wrong passwords (brute force): token buckets by account, by address, and by both, before any hashing.

An attempt takes a token first and gets it back if the password was right, so that concurrent attempts cannot slip
through. Buckets refill, so nobody is locked out for good. A user who has signed in from an address before has a bucket
of their own there, so that an attacker cannot lock them out.
"""

import ipaddress
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from runyard.app.errors import TooMany
from runyard.app.lru_map import LruMap


@dataclass(frozen=True, slots=True)
class Allowance:
    """A token bucket: `burst` at once, then one every `seconds`."""

    burst: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """The buckets that an attempt took a token from."""

    pair: bytes
    buckets: tuple[tuple[bytes, Allowance], ...]


PER_ACCOUNT_AND_ADDRESS = Allowance(burst=10, seconds=15)
PER_ACCOUNT = Allowance(burst=50, seconds=15)
PER_ADDRESS = Allowance(burst=50, seconds=2)
MOST_BUCKETS = 20_000
MOST_KNOWN = 10_000


class FailureLimiter:
    """Bounded in memory (LRU)."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._buckets: LruMap[bytes, tuple[float, float]] = LruMap(most=MOST_BUCKETS)
        self._known: LruMap[bytes, bool] = LruMap(most=MOST_KNOWN)

    def take(self, account: str, *, address: str | None) -> Attempt:
        """Take tokens before an attempt. Raises `TooMany`, and then takes none."""
        attempt = self._plan(account, address)
        waits = [self._find_wait(key, allowance) for key, allowance in attempt.buckets]
        if (wait := max(waits)) > 0:
            raise TooMany(f"too many wrong passwords; try again in {math.ceil(wait)} s", retry_after=wait)
        for key, allowance in attempt.buckets:
            self._change(key, allowance, by=-1)
        return attempt

    def give_back(self, attempt: Attempt, *, is_right: bool = True) -> None:
        """Return the tokens after an attempt whose password was right, or was not checked."""
        for key, allowance in attempt.buckets:
            self._change(key, allowance, by=1)
        if is_right:
            self._known.put(attempt.pair, True)

    def _plan(self, account: str, address: str | None) -> Attempt:
        place = _simplify(address)
        pair = _make_key("pair", account, place)
        chosen = [(pair, PER_ACCOUNT_AND_ADDRESS)]
        if not self._known.find(pair):
            chosen += [(_make_key("account", account), PER_ACCOUNT), (_make_key("address", place), PER_ADDRESS)]
        return Attempt(pair, tuple(chosen))

    def _find_wait(self, key: bytes, allowance: Allowance) -> float:
        level = self._find_level(key, allowance)
        return 0.0 if level >= 1 else (1 - level) * allowance.seconds

    def _find_level(self, key: bytes, allowance: Allowance) -> float:
        level, at = self._buckets.find(key) or (float(allowance.burst), 0.0)
        return min(float(allowance.burst), level + (self._now() - at) / allowance.seconds)

    def _change(self, key: bytes, allowance: Allowance, *, by: int) -> None:
        level = min(float(allowance.burst), self._find_level(key, allowance) + by)
        self._buckets.put(key, (level, self._now()))


def _simplify(address: str | None) -> str:
    """An IPv6 address is reduced to its /64 network, which one host usually owns."""
    try:
        place = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or "unknown"
    if isinstance(place, ipaddress.IPv4Address):
        return str(place)
    if place.ipv4_mapped is not None:
        return str(place.ipv4_mapped)
    return str(ipaddress.IPv6Network((place, 64), strict=False))


def _make_key(*parts: str) -> bytes:
    """A hash of fixed size, however long the name is."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return blake2b(b"".join(len(part).to_bytes(8, "big") + part for part in encoded), digest_size=16).digest()
