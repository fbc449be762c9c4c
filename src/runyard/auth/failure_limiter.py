"""How many wrong passwords are borne: counted by account, by address, and by both together, before any hashing.

An attempt takes from its buckets first and gets it back if the password was right, so that many attempts at once do
not slip through. Buckets fill again by themselves: nobody is locked out for good. Who has signed in from an address
before is counted there alone, so that strangers who guess at an account do not lock its owner out.
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
    """So many at once, then one every so often."""

    burst: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was taken for one attempt, and from where."""

    pair: bytes
    buckets: tuple[tuple[bytes, Allowance], ...]


PER_ACCOUNT_AND_ADDRESS = Allowance(burst=10, seconds=15)
PER_ACCOUNT = Allowance(burst=50, seconds=15)
PER_ADDRESS = Allowance(burst=50, seconds=2)
MOST_BUCKETS = 20_000
MOST_KNOWN = 10_000


class FailureLimiter:
    """Bounded in memory: the buckets that were not asked for longest go first."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._buckets: LruMap[bytes, tuple[float, float]] = LruMap(most=MOST_BUCKETS)
        self._known: LruMap[bytes, bool] = LruMap(most=MOST_KNOWN)

    def take(self, account: str, *, address: str | None) -> Attempt:
        """Before an attempt. Raises `TooMany`, and then nothing was taken."""
        attempt = self._plan(account, address)
        waits = [self._find_wait(key, allowance) for key, allowance in attempt.buckets]
        if (wait := max(waits)) > 0:
            raise TooMany(f"too many wrong passwords; try again in {math.ceil(wait)} s", retry_after=wait)
        for key, allowance in attempt.buckets:
            self._change(key, allowance, by=-1)
        return attempt

    def give_back(self, attempt: Attempt, *, is_right: bool = True) -> None:
        """After an attempt that counts for nothing: the password was right, or was not looked at."""
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
    """Whoever has one address of IPv6 has the whole network of 64 bits."""
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
    """Of one size, however long a name somebody sends."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return blake2b(b"".join(len(part).to_bytes(8, "big") + part for part in encoded), digest_size=16).digest()
