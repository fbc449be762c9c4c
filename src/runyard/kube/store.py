"""The objects a reflector holds, by key and by index.

Resource versions: officially opaque, and since Kubernetes 1.35 declared comparable as decimal numbers within one
resource type (KEP-5504), which they have been in etcd all along. Hence the rule: of two states of one name, a
smaller decimal version is the older one and never replaces the newer, whichever apiserver sent it; versions of any
other form cannot be compared, and are taken in the order of delivery. A complete list is always believed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from runyard.kube.views import Key, Lens

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Tombstone(Generic[V]):
    """The last state of an object that was deleted, or that no longer matches the selector."""

    view: V
    is_final: bool
    """True: the state in its DELETED event, such as the exit codes of a pod. False: the deletion itself was missed, and
    this is the last state that was seen; what came after it is unknown (client-go: DeletedFinalStateUnknown)."""


IndexFunction = Callable[[V], Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits(Generic[V]):
    """Which objects a store holds, and how many: for objects that others create without bound, such as Events."""

    holds: Callable[[V], bool]
    """Pure. What it does not hold costs no memory beyond the page or line that it came in."""
    index: str
    """The newest of each of its values are held."""
    most_per_value: int
    most: int
    """In all, the latest that came."""


class Store(Generic[V]):
    """The readers' side. Every result is a snapshot that later changes do not affect; its views are shared."""

    def __init__(self, lens: Lens[V], *, indexes: Mapping[str, IndexFunction[V]] | None = None) -> None:
        self.lens = lens
        self._views: dict[Key, V] = {}
        self._indexes = {name: Index(function) for name, function in (indexes or {}).items()}

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[Key]:
        """The keys of all objects, in no particular order."""
        return iter(tuple(self._views))

    def __contains__(self, key: object) -> bool:
        return key in self._views

    def find(self, key: tuple[str, str], *, uid: str | None = None) -> V | None:
        """The object of that name; with `uid`, only that object and not a later one of the same name."""
        view = self._views.get(Key(*key))
        if view is None or (uid is not None and self.lens.uid(view) != uid):
            return None
        return view

    def views(self) -> list[V]:
        """All objects, in no particular order."""
        return list(self._views.values())

    def items(self) -> list[tuple[Key, V]]:
        """All objects with their keys, in no particular order."""
        return list(self._views.items())

    def version(self, key: tuple[str, str]) -> str | None:
        """The resourceVersion of the object of that name."""
        view = self._views.get(Key(*key))
        return None if view is None else self.lens.version(view)

    def find_by_index(self, index: str, value: str) -> list[V]:
        """The objects for which the index function gave this value; KeyError when there is no such index."""
        return [self._views[key] for key in self._indexes[index].keys(value)]

    def find_keys_by_index(self, index: str, value: str) -> list[Key]:
        """The keys of `find_by_index`."""
        return list(self._indexes[index].keys(value))

    def index_values(self, index: str) -> list[str]:
        """The values that at least one object has now."""
        return self._indexes[index].values()


class WritableStore(Store[V]):
    """The writer's side, for the one reflector that fills it. Each method returns what changed.

    The last states of what it drops are kept until `take_tombstones`.
    """

    def __init__(
        self,
        lens: Lens[V],
        *,
        indexes: Mapping[str, IndexFunction[V]] | None = None,
        limits: StoreLimits[V] | None = None,
    ) -> None:
        super().__init__(lens, indexes=indexes)
        self._limits = limits
        self._tombstones: list[tuple[Key, Tombstone[V]]] = []

    def take_tombstones(self) -> list[tuple[Key, Tombstone[V]]]:
        """What was dropped since the last call, in order."""
        taken, self._tombstones = self._tombstones, []
        return taken

    def upsert(self, view: V) -> Key | None:
        """Store a newer state; None when the held state is the same or newer, or it is not to be held."""
        if self._limits is not None and not self._limits.holds(view):
            return None
        key = self.lens.settle(view)
        held = self._views.get(key)
        if held is not None and not self._is_news(view, held):
            return None
        self._put(key, view, held)
        if self._limits is not None:
            self._views[key] = self._views.pop(key)  # the latest that came is the last
            self._evict(self._limits, key)
        return key if key in self._views else None

    def remove(self, view: V) -> Key | None:
        """Remove a deleted object; None when it is not held, or the held object is newer than the deletion."""
        key = self.lens.settle(view)
        held = self._views.get(key)
        if held is None:
            return None
        is_other = self.lens.uid(view) != self.lens.uid(held)
        if is_other and is_older(self.lens.version(view), than=self.lens.version(held)):
            return None
        self._drop(key, held)
        if is_other:
            self._bury(key, held, is_final=False)
        self._bury(key, view, is_final=True)
        return key

    def stage(self, staged: dict[Key, V], view: V, *, is_past_valid: bool = True) -> None:
        """Add an item of a list under way to `staged`, keeping the held view where nothing changed.

        Unless the past is valid, a held view of the same version is of another history.
        """
        if self._limits is not None:
            if not self._limits.holds(view):
                return
            if len(staged) >= self._limits.most:
                del staged[next(iter(staged))]
        key = self.lens.settle(view)
        held = self._views.get(key) if is_past_valid else None
        staged[key] = held if held is not None and self._is_same(view, held) else view

    def keep(self, staged: dict[Key, V], key: Key) -> None:
        """Add what is held of an object to `staged`, because the list shows a state that cannot be read."""
        if (held := self._views.get(key)) is not None:
            staged[key] = held

    def replace(self, staged: Mapping[Key, V]) -> list[Key]:
        """Replace the content by the complete list `staged`; returns the keys that were deleted, added or changed."""
        deleted = [key for key in self._views if key not in staged]
        changed = [key for key, view in staged.items() if self._views.get(key) is not view]
        for key in deleted:
            held = self._views[key]
            self._drop(key, held)
            self._bury(key, held, is_final=False)
        for key in changed:
            self._put(key, staged[key], self._views.get(key))
            if self._limits is not None:
                self._evict(self._limits, key)
        return deleted + changed

    def _put(self, key: Key, view: V, held: V | None) -> None:
        # All values before the first change: an index function that raises leaves the store as it was.
        values = [index.evaluate(view) for index in self._indexes.values()]
        for index, after in zip(self._indexes.values(), values, strict=True):
            index.move(key, before=() if held is None else index.evaluate(held), after=after)
        if held is not None:
            self.lens.share(view, held)
            if self.lens.uid(view) != self.lens.uid(held):
                self._bury(key, held, is_final=False)
        self._views[key] = view

    def _evict(self, limits: StoreLimits[V], key: Key) -> None:
        """Drop the oldest beside an object that was just put. Nobody is told: the object still exists."""
        index = self._indexes[limits.index]
        for value in index.evaluate(self._views[key]):
            bucket = index.keys(value)
            if len(bucket) > limits.most_per_value:
                oldest = min(bucket, key=self._rank)
                self._drop(oldest, self._views[oldest])
        if len(self._views) > limits.most:
            first = next(iter(self._views))
            self._drop(first, self._views[first])

    def _rank(self, key: Key) -> tuple[int, str]:
        """The order of a held object by its version; one that is not a number is the oldest."""
        version = self.lens.version(self._views[key])
        return (len(version), version) if _is_decimal(version) else (0, "")

    def _drop(self, key: Key, held: V) -> None:
        for index in self._indexes.values():
            index.move(key, before=index.evaluate(held), after=())
        del self._views[key]

    def _bury(self, key: Key, view: V, *, is_final: bool) -> None:
        self._tombstones.append((key, Tombstone(view, is_final)))

    def _is_same(self, view: V, held: V) -> bool:
        lens, version = self.lens, self.lens.version(view)
        # An aggregated server may leave the version out; then nothing proves that two states are the same.
        return version != "" and version == lens.version(held) and lens.uid(view) == lens.uid(held)

    def _is_news(self, view: V, held: V) -> bool:
        return not self._is_same(view, held) and not is_older(self.lens.version(view), than=self.lens.version(held))


class Index(Generic[V]):
    """An index from value to keys. `function` must be pure: it is called again to remove old entries."""

    def __init__(self, function: IndexFunction[V]) -> None:
        self._function = function
        self._buckets: dict[str, set[Key]] = {}

    def keys(self, value: str) -> Collection[Key]:
        return self._buckets.get(value, ())

    def values(self) -> list[str]:
        return list(self._buckets)

    def evaluate(self, view: V) -> tuple[str, ...]:
        """The index values of a view."""
        values = self._function(view)
        if isinstance(values, str):
            raise TypeError(f"an index function returns several values, not the bare string {values!r}")
        return tuple(values)

    def move(self, key: Key, *, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        """Move a key from its old buckets to its new ones."""
        if before == after:
            return
        for value in before:
            bucket = self._buckets.get(value)
            if bucket is not None:
                bucket.discard(key)
                if not bucket:
                    del self._buckets[value]
        for value in after:
            self._buckets.setdefault(value, set()).add(key)


def is_older(version: str, *, than: str) -> bool:
    """Whether both are decimal numbers and the first is smaller; compared as text, for they may be any length."""
    if not (_is_decimal(version) and _is_decimal(than)):
        return False
    return (len(version), version) < (len(than), than)


def _is_decimal(version: str) -> bool:
    return version.isascii() and version.isdigit() and not version.startswith("0")
