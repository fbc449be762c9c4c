"""What the pods of the node hold, and what is left: the node's `capacity` and `allocatable`.

Pure, and written by one process only. Every call takes the time of one pod's resources, however many pods there are.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from runyard.node.amounts import EPHEMERAL_STORAGE, count_down, count_up, format_amount, format_count
from runyard.node.offer import PODS, Amounts

_COUNTED_IF_OFFERED = frozenset({EPHEMERAL_STORAGE, PODS})
"""Resources that every pod may use where the capacity says nothing about them. Of any other there is none then."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which a pod asks for more than is free."""

    resource: str
    asked: str
    free: str
    """As `Ledger.allocatable` prints it."""

    def __str__(self) -> str:
        return f"{self.resource}: {self.asked} asked, {self.free} free"


class Ledger:
    """Reservations by the uid of the pod. It may be over-committed: whoever reserves asks `find_shortage` first."""

    def __init__(self, capacity: Amounts) -> None:
        self._reserved: dict[str, Amounts] = {}
        self._held: Counter[str] = Counter()
        self._capacity: dict[str, int] = {}
        self.set_capacity(capacity)

    @property
    def reserved(self) -> Mapping[str, Amounts]:
        """What each pod holds, by uid."""
        return MappingProxyType(self._reserved)

    def reserve(self, uid: str, requests: Amounts) -> None:
        """Note what a pod holds. Idempotent; other amounts for the same uid replace the earlier ones."""
        self.release(uid)
        self._reserved[uid] = requests
        self._held.update(_count(requests))

    def release(self, uid: str) -> None:
        """Forget a pod. No error if it is not there."""
        held = self._reserved.pop(uid, None)
        for name, count in _count(held).items() if held is not None else ():
            self._held[name] -= count
            if not self._held[name]:
                del self._held[name]

    def find_shortage(self, requests: Amounts) -> tuple[Shortage, ...]:
        """The resources of which one more pod asks for more than is free; empty if there is room."""
        return tuple(
            Shortage(name, _format_asked(name, requests), format_count(name, self._free(name)))
            for name, count in _count(requests).items()
            if count > self._free(name) and (name in self._capacity or name not in _COUNTED_IF_OFFERED)
        )

    def set_capacity(self, capacity: Amounts) -> None:
        """Replace the capacity. Reservations stay, even above it."""
        self._capacity = {name: count_down(name, amount) for name, amount in capacity.items()}

    def capacity(self) -> dict[str, str]:
        """For the node's `status.capacity`."""
        return {name: format_count(name, count) for name, count in self._capacity.items()}

    def allocatable(self) -> dict[str, str]:
        """For the node's `status.allocatable`: the capacity without what pods hold, 0 at least."""
        return {name: format_count(name, self._free(name)) for name in self._capacity}

    def _free(self, name: str) -> int:
        return max(0, self._capacity.get(name, 0) - self._held[name])


def _format_asked(name: str, requests: Amounts) -> str:
    return "1" if name == PODS else format_amount(name, requests[name])


def _count(requests: Amounts) -> dict[str, int]:
    counts = {name: count_up(name, amount) for name, amount in requests.items()}
    return {name: count for name, count in counts.items() if count} | {PODS: 1}
