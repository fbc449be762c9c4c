"""A token bucket with priorities: how fast one client sends to its apiserver, and what goes first when it must wait.

A request takes a token, and a slot until it is answered. Watches, logs and WebSockets take a token only: they live
long, and many of them must not keep others from being sent. What has to wait is sent by priority, and first come
first served within one priority. No priority starves:

- Every `_TURN_OF_THE_OLDEST`-th grant goes to the request that has waited longest, whatever its priority. So a request
  with n older ones before it waits for at most `_TURN_OF_THE_OLDEST * (n + 1)` tokens.
- A lower priority may use only its share of the slots (`_SHARES`), so that slow creations leave slots for a stop. But
  one request of each priority may always be under way, beyond the others' slots.

After a 429 with Retry-After (API Priority and Fairness), nothing of that priority or a lower one is sent for that
time. Higher ones still go: the server may have room for them, and says so with a 429 of their own if not.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import IntEnum

from runyard.kube.errors import Throttled, Unreachable

MOST_WAITING = 10_000
"""Requests of one priority that may wait; the next one fails with Unreachable (nothing was sent)."""
LONGEST_PAUSE_SECONDS = 30.0
"""The cap of Retry-After for all requests of a priority: a proxy may ask for a day."""
_TURN_OF_THE_OLDEST = 10


class Priority(IntEnum):
    """What is sent first; a smaller number goes before a larger one."""

    STOP = 0
    """Ends work or keeps a promise in time: stops, deletions, leases."""
    STATUS = 1
    """Finds out what is: reads, lists, watches."""
    CREATE = 2
    """Begins or changes work."""
    LOGS = 3
    """Can be read later as well."""


# The share of the slots that a priority may use together with all above it.
_SHARES = {Priority.STOP: 1.0, Priority.STATUS: 0.875, Priority.CREATE: 0.75, Priority.LOGS: 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """The figures of one client's limiter."""

    requests_per_second: float = 500.0
    burst: int = 1000
    """Requests that may be sent at once after a quiet time."""
    most_in_flight: int = 64
    """Requests under way at a time, streams not counted; besides one of each priority."""

    def __post_init__(self) -> None:
        for name in ("requests_per_second", "burst", "most_in_flight"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; allowed: more than 0")


@dataclass(slots=True, eq=False)
class _Waiter:
    order: int
    priority: Priority
    has_slot: bool
    granted: asyncio.Future[None]


class RateLimiter:
    """The limiter of one transport, within one event loop. Safe to cancel at any await: nothing is leaked."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._tokens = float(limit.burst)
        self._filled_at: float | None = None
        self._caps = {each: max(1, int(limit.most_in_flight * share)) for each, share in _SHARES.items()}
        self._in_flight = dict.fromkeys(Priority, 0)
        # What needs a slot waits apart: a watch must not wait for one behind a request that does.
        self._waiting: dict[tuple[Priority, bool], OrderedDict[int, _Waiter]] = {
            (each, has_slot): OrderedDict() for each in Priority for has_slot in (True, False)
        }
        self._paused_until = dict.fromkeys(Priority, 0.0)
        self._arrivals = 0
        self._grants = 0
        self._timer: asyncio.Handle | None = None
        self._wakes_at = 0.0

    @property
    def waiting(self) -> int:
        """How many requests wait to be sent."""
        return sum(len(queue) for queue in self._waiting.values())

    @property
    def in_flight(self) -> int:
        """How many requests hold a slot."""
        return sum(self._in_flight.values())

    @asynccontextmanager
    async def slot(self, priority: Priority) -> AsyncIterator[None]:
        """Wait for a token and a slot; the slot is free again after the block."""
        await self._acquire(priority, has_slot=True)
        try:
            yield
        finally:
            self._free(priority)

    async def take_token(self, priority: Priority) -> None:
        """Wait for a token alone: for what lives long."""
        await self._acquire(priority, has_slot=False)

    @contextmanager
    def obeying(self, priority: Priority) -> Iterator[None]:
        """Obey the Retry-After of a 429 that leaves the block: pause this priority and those below."""
        try:
            yield
        except Throttled as refusal:
            if refusal.retry_after_seconds and not refusal.is_decision:
                self._pause(priority, refusal.retry_after_seconds)
            raise

    def _pause(self, priority: Priority, seconds: float) -> None:
        until = self._now() + min(seconds, LONGEST_PAUSE_SECONDS)
        for each in Priority:
            if each >= priority:
                self._paused_until[each] = max(self._paused_until[each], until)

    def close(self) -> None:
        """Fail everything that waits. Idempotent; a request that comes later is granted as usual."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for queue in self._waiting.values():
            while queue:
                waiter = queue.popitem(last=False)[1]
                if not waiter.granted.done():
                    waiter.granted.set_exception(Unreachable("the client was closed: not sent"))

    async def _acquire(self, priority: Priority, *, has_slot: bool) -> None:
        if sum(len(self._waiting[priority, each]) for each in (True, False)) >= MOST_WAITING:
            raise Unreachable(f"{MOST_WAITING} requests of this priority wait to be sent: not sent")
        self._arrivals += 1
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(self._arrivals, priority, has_slot, granted)
        queue = self._waiting[priority, has_slot]
        queue[waiter.order] = waiter
        self._dispatch()
        try:
            await granted
        except asyncio.CancelledError:
            if queue.pop(waiter.order, None) is None and not granted.cancelled():
                self._give_back(waiter)
            raise

    def _give_back(self, waiter: _Waiter) -> None:
        """Undo a grant that came together with a cancellation: nothing was sent."""
        if waiter.granted.exception() is not None:
            return
        self._tokens = min(self._tokens + 1, self._limit.burst)
        if waiter.has_slot:
            self._free(waiter.priority)
        else:
            self._dispatch()

    def _free(self, priority: Priority) -> None:
        self._in_flight[priority] -= 1
        self._dispatch()

    def _dispatch(self) -> None:
        """Grant what can be granted now, and come back when there is the next token or the end of a pause."""
        now = self._now()
        self._fill(now)
        while self._tokens >= 1 and (waiter := self._choose(now)) is not None:
            del self._waiting[waiter.priority, waiter.has_slot][waiter.order]
            self._grants += 1
            self._tokens -= 1
            if waiter.has_slot:
                self._in_flight[waiter.priority] += 1
            waiter.granted.set_result(None)
        self._schedule(now)

    def _choose(self, now: float) -> _Waiter | None:
        """The next request: the most urgent one, and by turns the oldest."""
        heads = [head for kind in self._waiting if (head := self._find_head(kind, now=now)) is not None]
        if not heads:
            return None
        is_turn_of_the_oldest = (self._grants + 1) % _TURN_OF_THE_OLDEST == 0
        return min(heads, key=lambda waiter: waiter.order) if is_turn_of_the_oldest else heads[0]

    def _find_head(self, kind: tuple[Priority, bool], *, now: float) -> _Waiter | None:
        """The oldest request of one kind that may be sent now."""
        priority, has_slot = kind
        if now < self._paused_until[priority]:
            return None
        if has_slot and self._in_flight[priority] and self.in_flight >= self._caps[priority]:
            return None
        queue = self._waiting[kind]
        while queue:
            head = next(iter(queue.values()))
            if not head.granted.done():
                return head
            del queue[head.order]  # Cancelled; its task has not run yet.
        return None

    def _fill(self, now: float) -> None:
        if self._filled_at is not None:
            gained = (now - self._filled_at) * self._limit.requests_per_second
            self._tokens = min(self._tokens + gained, self._limit.burst)
        self._filled_at = now

    def _schedule(self, now: float) -> None:
        """Set the timer for what waits for time; what waits for a slot is granted by who frees one."""
        resumptions = [self._paused_until[priority] for (priority, _), queue in self._waiting.items() if queue]
        if self._tokens < 1:
            token_at = now + (1 - self._tokens) / self._limit.requests_per_second
            resumptions = [max(token_at, at) for at in resumptions]
        moment = min((at for at in resumptions if at > now), default=None)
        # uvloop's handle of a moment that has come by now does not know the moment, so it is kept here.
        if moment is None or (self._timer is not None and self._wakes_at <= moment):
            return  # An early timer looks again.
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._wakes_at = asyncio.get_running_loop().call_at(moment, self._wake), moment

    def _wake(self) -> None:
        self._timer = None
        self._dispatch()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
