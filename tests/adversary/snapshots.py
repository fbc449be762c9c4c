"""Deep snapshots of values for comparison, including types and order.

Not `repr`, which Python refuses for very long numbers, and not `==`, to which 1Ki and 1024 are the same.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

_LEAVES = (str, int, float, bool, type(None))


def take(value: Any) -> Any:
    """Take a snapshot."""
    if isinstance(value, _LEAVES):
        return type(value), value
    if isinstance(value, Mapping):
        return "mapping", tuple((take(key), take(item)) for key, item in value.items())
    if isinstance(value, BaseModel):
        return type(value), take(value.__dict__)
    if is_dataclass(value):
        return type(value), tuple(take(getattr(value, item.name)) for item in fields(value))
    if isinstance(value, list | tuple):
        return type(value), tuple(map(take, value))
    if isinstance(value, frozenset):
        return "set", value
    return type(value), repr(value)
