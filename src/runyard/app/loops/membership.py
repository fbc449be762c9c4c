"""The live replicas of one place, and which of them owns a run (rendezvous hashing)."""

import logging
from collections.abc import Sequence
from hashlib import blake2b

from runyard.app.core import Core
from runyard.app.loops.pace import Pace

_log = logging.getLogger(__name__)


class Membership:
    """One replica among those that act at the same place. Ownership spreads work; leases keep it safe."""

    def __init__(self, core: Core, *, owner: str, place: str | None, pace: Pace) -> None:
        self._core = core
        self._place = place
        self._pace = pace
        self._replicas: Sequence[str] = (owner,)
        self.owner = owner

    @property
    def shard(self) -> tuple[int, int]:
        """This replica's index and the number of replicas."""
        if self.owner not in self._replicas:
            return 0, 1
        return self._replicas.index(self.owner), len(self._replicas)

    @property
    def is_alone(self) -> bool:
        """Whether no other replica was live at the last heartbeat."""
        return len(self._replicas) <= 1

    def owns(self, run_uid: str) -> bool:
        """Whether this replica is the one to follow that run."""
        if self.is_alone:
            return True
        return max(self._replicas, key=lambda replica: _weigh(replica, run_uid)) == self.owner

    async def beat(self) -> bool:
        """Renew this replica's membership and leases; returns whether the replicas changed.

        A database of one process has one replica: whoever else is noted there was killed before this one started.
        """
        async with self._core.store.begin() as unit:
            noted = await unit.replicas.beat(self.owner, self._place, self._pace.lease)
            live = noted
            if not self._core.store.is_shared:
                live = (self.owner,)
                await unit.replicas.bury_others(self.owner)
            await unit.runs.renew_leases(self.owner, lease_for=self._pace.lease)
            await unit.commit()
        is_changed = list(live) != list(self._replicas)
        self._replicas = live
        return is_changed

    async def leave(self) -> None:
        """End the membership and all leases, so that others need not wait until they expire."""
        async with self._core.store.begin() as unit:
            await unit.runs.end_leases(self.owner)
            await unit.replicas.leave(self.owner)
            await unit.commit()


def _weigh(replica: str, run_uid: str) -> bytes:
    return blake2b(f"{replica}/{run_uid}".encode(), digest_size=8).digest()
