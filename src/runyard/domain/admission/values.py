"""What rules are held against."""

from dataclasses import dataclass, field
from typing import Any

from runyard.spec.problems import Path


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a rule is about; None where nothing is said. Lists of a policy do not bind the admin's own word."""

    path: Path
    value: Any
    is_admins: bool = False


@dataclass(slots=True)
class Facts:
    """Values by ruled field. A field that cannot stand in these objects is not there."""

    values: dict[str, list[Value]] = field(default_factory=dict)
    wholes: dict[str, Any] = field(default_factory=dict)
    """Mappings and lists that can be locked as a whole."""
    names: dict[str, frozenset[str]] = field(default_factory=dict)
    """Keys that are there, of fields whose keys can be required."""

    def add(self, name: str, path: Path, value: Any, *, is_admins: bool = False) -> None:
        """Note one value of a field."""
        self.values.setdefault(name, []).append(Value(path, value, is_admins))
