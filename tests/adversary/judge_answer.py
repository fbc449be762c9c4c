"""Complaints about the answer itself: every leaf has one owner, and what a user asked is there or warned about."""

from collections.abc import Iterator, Mapping
from typing import Any

from runyard.domain.effective_spec import iter_leaves, to_plain
from runyard.domain.resolution import Resolution
from runyard.spec.kubernetes.quantity import Quantity
from runyard.spec.run_fields import RunFields
from tests.adversary.snapshots import take

_MAPS = ("node_selector", "envs")
_OWNERS = frozenset({"platform", "base", "function", "task", "you", "profile", "policy"})


def iter_owner_complaints(resolution: Resolution, plain: Mapping[str, Any]) -> Iterator[str]:
    """Leaves without an owner, owners without a leaf, and values that differ. `plain` is the spec as a dictionary."""
    held = dict(iter_leaves(plain))
    owned: dict[Any, Any] = {}
    for leaf in resolution.leaves:
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


def iter_silence_complaints(layers: list[RunFields], resolution: Resolution, held: Mapping[str, Any]) -> Iterator[str]:
    """What users asked, is not there, and nobody said so. A stronger layer of the user's own may replace a weaker.

    An empty list or mapping says nothing.
    """
    warned = {warning.path for warning in resolution.warnings}
    asked: dict[tuple[Any, ...], Any] = {}
    tolerations: list[Any] = []
    for layer in layers:
        for name, value in layer.__dict__.items():
            if value is None:
                continue
            if name == "tolerations":
                tolerations += to_plain(value)
            else:
                asked |= dict(_iter_asked(name, value))
    for path, value in asked.items():
        if not _is_held(held, path, value) and not _is_warned(path, warned):
            yield f"silence: {path} {value!r} is not used and nobody says so"
    for toleration in tolerations:
        if toleration not in held.get("tolerations", []) and not any(path[0] == "tolerations" for path in warned):
            yield f"silence: toleration {toleration} is not used and nobody says so"


def _iter_asked(name: str, value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    plain = to_plain(value)
    if name in _MAPS:
        yield from (((name, key), entry) for key, entry in plain.items())
    elif name in ("volumes", "secrets"):
        yield from (((name, entry["name"]), entry) for entry in plain)
    elif name == "resources":
        for resource, sides in plain.items():
            whole = {"gpu": "limit", "disk": "size"}.get(resource)
            yield from (((name, resource, whole or side), amount) for side, amount in sides.items())
    elif plain not in ([], {}):
        yield (name,), plain


def _is_held(held: Mapping[str, Any], path: tuple[Any, ...], value: Any) -> bool:
    match path:
        case ("volumes" | "secrets", name):
            entry = next((each for each in held.get(path[0], []) if each["name"] == name), None)
            return entry is not None and all(
                entry.get(key) == value[key] for key in ("type", "mount_path") if key in value
            )
        case ("resources", name, side):
            amount = held.get("resources", {}).get(name, {}).get(side)
            return amount is not None and Quantity.parse(amount) == Quantity.parse(value)
        case (name, key):
            return bool(held.get(name, {}).get(key) == value)
    return bool(held.get(path[0]) == value)


def _is_warned(path: tuple[Any, ...], warned: set[tuple[Any, ...]]) -> bool:
    return any(warning[: len(path)] == path or path[: len(warning)] == warning for warning in warned if warning)
