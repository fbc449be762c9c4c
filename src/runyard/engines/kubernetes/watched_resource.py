"""One kind of object that the engine watches: a reflector and its reader, which begin again whatever ends them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from runyard.kube import Reflector, ReflectorStopped, Resource, Store, Subscription, View
from runyard.kube.backoff import Backoff

RESTART_SECONDS = 1.0
"""How long a watch pauses after an unexpected failure; twice as long after each one that follows."""
LONGEST_RESTART_SECONDS = 60.0
"""How long such a pause is at most."""
POLL_SECONDS = 0.25
"""How often it is asked whether a watch that has failed began again."""
LASTING_SECONDS = 300.0
"""After that long without a failure the pauses are short again."""

V = TypeVar("V", bound=View)

_log = logging.getLogger(__name__)


class WatchedResource(Generic[V]):
    """One kind of object, as far as its watch has come."""

    def __init__(self, resource: Resource, make_reflector: Callable[[], Reflector[V]]) -> None:
        self.resource = resource
        self.reflector = make_reflector()
        self.reached = 0
        """The resourceVersion that was taken in."""
        self.taken_in = asyncio.Event()
        """Set once the objects of the first list are taken in."""
        self.has_failed = False
        """Whether nobody takes in what changes, until it begins again with a new list."""
        self._make_reflector = make_reflector
        self._previous: Reflector[V] | None = None
        """The one that failed, whose objects count until everything is listed again: a run without pods looks ended."""
        self._stale_lists = -1

    @property
    def store(self) -> Store[V]:
        """The objects."""
        if self._previous is not None and not self.reflector.has_synced:
            return self._previous.store
        self._previous = None
        return self.reflector.store

    @property
    def is_stale(self) -> bool:
        """Whether it has not been listed since the cluster was restored."""
        return self.reflector.counters.lists <= self._stale_lists

    def relist(self) -> None:
        """Believe nothing of it before it is listed again."""
        self.reached, self._stale_lists = 0, self.reflector.counters.lists
        self.reflector.relist()

    async def wait_synced(self) -> None:
        """Wait for a complete list, without a deadline; if the watch fails, for that of the next one."""
        while not self.reflector.has_synced:
            try:
                await self.reflector.wait_synced()
            except ReflectorStopped:
                await asyncio.sleep(POLL_SECONDS)

    async def run(self, take_in: Callable[[Subscription[V]], Awaitable[None]]) -> None:
        """Watch until cancelled. Without it the engine is blind to this kind: whatever ends it, it begins again."""
        backoff = Backoff(initial_seconds=RESTART_SECONDS, maximum_seconds=LONGEST_RESTART_SECONDS)
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            try:
                await self._run_once(take_in)
            except Exception:  # noqa: BLE001 - see above
                _log.exception("a watch failed, and begins again", extra={"resource": self.resource.plural})
            if clock() - began > LASTING_SECONDS:
                backoff.reset()
            await asyncio.sleep(backoff.next_seconds())
            self._renew()

    async def _run_once(self, take_in: Callable[[Subscription[V]], Awaitable[None]]) -> None:
        async with self.reflector:
            # Without back-pressure: what is pending is bounded by the objects that exist.
            with self.reflector.subscribe(max_pending=None) as subscription:
                try:
                    await take_in(subscription)
                finally:
                    self.has_failed = True

    def _renew(self) -> None:
        """A reflector runs once. The new one has not synced until it has listed everything."""
        if self.reflector.has_synced:
            self._previous = self.reflector
        counters, self.reflector = self.reflector.counters, self._make_reflector()
        self.reflector.counters = counters  # they go on: who compares them learns of the new list
        self.has_failed = False
