"""Keeps the ledger equal to the truth: rebuilt from both sides, released when a pod is gone on both.

A reservation is made by the binder before it binds. It ends when the pod at the provider has ended or is gone; what
nobody reports is found by `sweep`. What the watch of the local cluster shows may be older than that end.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from runyard.kube import Object, Reflector
from runyard.node.ledger import Ledger
from runyard.node.offer import Amounts
from runyard.node.providers.provider import Link, Provider
from runyard.pods.fields import UnreadablePod

SWEEP_SECONDS = 30.0
UNSEEN_SECONDS = 60.0
"""How long a reservation may be unknown to both sides: longer than a binding takes to be seen."""
TERMINAL = frozenset({"Succeeded", "Failed"})

_log = logging.getLogger(__name__)


class Reservations:
    """One term's ledger, and who holds what in it."""

    def __init__(
        self,
        ledger: Ledger,
        provider: Provider,
        bound: Reflector[Object],
        *,
        is_ours: Callable[[Object], bool],
        find_demand: Callable[[Object], Amounts],
        is_binding: Callable[[str], bool],
        read_link: Callable[[], Link],
        on_changed: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._provider = provider
        self._bound = bound
        self._is_ours = is_ours
        self._find_demand = find_demand
        """What a bound pod holds. Raises `UnreadablePod`."""
        self._is_binding = is_binding
        """Whether a pod is being bound, or nobody knows whether it was."""
        self._read_link = read_link
        self._on_changed = on_changed
        self._unseen_since: dict[str, float] = {}
        self._gone: set[str] = set()
        """Pods that hold nothing any more, although the local list may show for a while that they run."""

    def rebuild(self) -> None:
        """Reserve for every pod that is bound here or lives at the provider. Idempotent; releases nothing."""
        self._reserve_bound(self._bound.store.views())
        for uid, remote in self._provider.pods.items():
            is_ended = remote.status.get("phase") in TERMINAL
            if uid not in self._ledger.reserved and not is_ended:
                self._ledger.reserve(uid, remote.requests)
        self._on_changed()

    def note_bound(self, pods: Iterable[Object]) -> None:
        """Pods that were seen on the node; most of them are known."""
        if self._reserve_bound(pods):
            self._on_changed()

    def release(self, uid: str) -> None:
        """The pod holds nothing any more, for good. Idempotent."""
        self._gone.add(uid)
        self._release(uid)

    async def run(self) -> None:
        """Sweep, for ever."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            is_local_known = self._bound.has_synced and self._bound.last_error is None
            link = self._read_link()
            if is_local_known and link.is_up and link.has_listed:
                self.rebuild()
                self.sweep(now=asyncio.get_running_loop().time())

    def sweep(self, *, now: float) -> Collection[str]:
        """Release what neither side has known for a while; returns the uids."""
        bound = {
            pod["metadata"]["uid"]
            for pod in self._bound.store.views()
            if self._is_ours(pod) and not self._has_ended(pod)
        }
        alive = {uid for uid, remote in self._provider.pods.items() if remote.status.get("phase") not in TERMINAL}
        known = bound | alive
        unseen = [uid for uid in self._ledger.reserved if uid not in known and not self._is_binding(uid)]
        self._unseen_since = {uid: self._unseen_since.get(uid, now) for uid in unseen}
        stale = [uid for uid, since in self._unseen_since.items() if now - since >= UNSEEN_SECONDS]
        for uid in stale:
            _log.warning("a reservation of a pod that nobody knows is released", extra={"uid": uid})
            self._release(uid)
        self._gone &= {pod["metadata"]["uid"] for pod in self._bound.store.views()}
        return stale

    def _release(self, uid: str) -> None:
        if uid in self._ledger.reserved:
            self._ledger.release(uid)
            self._on_changed()

    def _reserve_bound(self, pods: Iterable[Object]) -> bool:
        """Whether one of them was not counted yet."""
        count = len(self._ledger.reserved)
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if uid in self._ledger.reserved or uid in self._gone or not self._is_ours(pod) or self._has_ended(pod):
                continue
            try:
                self._ledger.reserve(uid, self._find_demand(pod))
            except UnreadablePod as error:
                _log.error("a bound pod cannot be counted: %s", error, extra={"uid": uid})
        return len(self._ledger.reserved) > count

    def _has_ended(self, pod: Object) -> bool:
        """Whether it has ended on both sides: a pod whose local status says so may still live at the provider."""
        remote = self._provider.pods.get(pod["metadata"]["uid"])
        if remote is not None:
            return remote.status.get("phase") in TERMINAL
        return (pod.get("status") or {}).get("phase") in TERMINAL
