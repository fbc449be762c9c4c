"""What differs between two documents, such as revisions of a policy: field, before, after. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runyard.spec.problems import shorten

HEAD = ("field", "before", "after")
_ABSENT = object()


def list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields that differ, each with its values; `before` or `after` is absent where the field is.

    Dotted and nested names of a field are the same, as in policies.
    """
    old, new = dict(_iter_leaves(before)), dict(_iter_leaves(after))
    changes = []
    for name in dict.fromkeys([*old, *new]):
        was, will = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if was is _ABSENT or will is _ABSENT or was != will:
            sides = {"before": was, "after": will}
            changes.append({"field": name, **{side: value for side, value in sides.items() if value is not _ABSENT}})
    return changes


def to_row(change: Mapping[str, Any]) -> dict[str, str]:
    """The cells of a change; a side without the field has a dash."""
    return {"field": str(change["field"]), **{side: _show(change, side) for side in ("before", "after")}}


def _show(change: Mapping[str, Any], side: str) -> str:
    if side not in change:
        return "-"
    value = change[side]
    return shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _iter_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted name. A list is one value unless it has mappings."""
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _iter_leaves(part, f"{name}.{key}" if name else str(key))
    elif (
        isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(part, Mapping) for part in value)
    ):
        for index, part in enumerate(value):
            yield from _iter_leaves(part, f"{name}[{index}]")
    elif name:
        yield name, value
