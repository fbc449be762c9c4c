"""The values that rules apply to, by ruled field."""

from dataclasses import dataclass, field
from typing import Any

from runyard.spec.problems import Path


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a ruled field; None where it is not set. A policy's lists do not apply to what the admin set."""

    path: Path
    value: Any
    is_set_by_admin: bool = False


@dataclass(slots=True)
class Facts:
    """Values by ruled field. Fields that these objects cannot have are absent."""

    values: dict[str, list[Value]] = field(default_factory=dict)
    wholes: dict[str, Any] = field(default_factory=dict)
    """Mappings and lists that can be locked as a whole."""
    names: dict[str, frozenset[str]] = field(default_factory=dict)
    """Keys that are present, for fields whose keys can be required."""

    def add(self, name: str, path: Path, value: Any, *, is_set_by_admin: bool = False) -> None:
        """Add one value of a field."""
        self.values.setdefault(name, []).append(Value(path, value, is_set_by_admin))
