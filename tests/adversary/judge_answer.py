"""Complaints about the answer: every leaf of the effective spec has exactly one owner, who holds that value.

Reads the published JSON of the answer with its own code.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from tests.adversary.snapshots import take

Path = tuple[Any, ...]

_OWNERS = frozenset({"platform", "base", "function", "task", "you", "profile", "policy"})
_WHOLE = frozenset({"affinity", "parameters", "inputs", "init_parameters", "source"})
"""Mappings with one owner."""


class OwnedLeaf(Protocol):
    """What the answer says of one leaf."""

    @property
    def path(self) -> Path: ...

    @property
    def value(self) -> Any: ...

    @property
    def owner(self) -> str: ...

    @property
    def source(self) -> str: ...


def iter_owner_complaints(leaves: Iterable[OwnedLeaf], answer: Mapping[str, Any]) -> Iterator[str]:
    """Leaves without an owner, owners without a leaf, and values that differ. `answer` is the spec as JSON."""
    held = dict(_iter_leaves(answer))
    owned: dict[Path, Any] = {}
    for leaf in leaves:
        if leaf.path in owned:
            yield f"owners: {leaf.path} has two"
        if leaf.owner not in _OWNERS or not leaf.source:
            yield f"owners: {leaf.path} is {leaf.owner}'s"
        owned[leaf.path] = leaf.value
    yield from (f"owners: {path} has none" for path in held.keys() - owned.keys())
    yield from (f"owners: {path} has one and is not there" for path in owned.keys() - held.keys())
    for path, value in held.items():
        if path not in owned or (type(value) is str and value == owned[path]):
            continue
        if take(owned[path]) != take(value):
            yield f"owners: {path} is {value!r}, its owner says {owned[path]!r}"


def _iter_leaves(answer: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Mappings are owned per key, volumes per name and key, secrets per name, tolerations per entry, all else whole."""
    for name, value in answer.items():
        if name == "volumes":
            yield from (((name, volume["name"], key), part) for volume in value for key, part in volume.items())
        elif name == "secrets":
            yield from (((name, secret["name"]), secret) for secret in value)
        elif name == "tolerations":
            yield from (((name, index), toleration) for index, toleration in enumerate(value))
        elif name == "resources":
            yield from (((name, key, side), amount) for key, sides in value.items() for side, amount in sides.items())
        elif isinstance(value, dict) and name not in _WHOLE:
            yield from (((name, key), entry) for key, entry in value.items())
        else:
            yield (name,), value
