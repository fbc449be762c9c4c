"""The tree of a YAML document: values with their positions."""

from dataclasses import dataclass
from typing import Any

from runyard.spec.yaml.scalars import Scalar

Place = tuple[int, int]
"""Line and column, counted from 1."""


@dataclass(slots=True)
class Node:
    """A value and its position. `size` and `height` are those of the subtree, with aliases expanded."""

    place: Place
    scalar: Scalar = None
    text: str | None = None
    """The source text of a scalar, without quotes."""
    items: "list[Node] | None" = None
    entries: "dict[str, Entry] | None" = None
    size: int = 1
    height: int = 0

    def is_empty(self) -> bool:
        """Whether the value is empty or null."""
        return self.text is not None and self.scalar is None

    def find_child(self, part: str | int) -> "Entry | None":
        """The value under a key or at an index."""
        if self.entries is not None and isinstance(part, str):
            return self.entries.get(part)
        if self.items is not None and isinstance(part, int) and 0 <= part < len(self.items):
            return Entry(self.items[part].place, self.items[part])
        return None

    def to_data(self) -> Any:
        """The plain value; every alias becomes a separate copy."""
        if self.items is not None:
            return [item.to_data() for item in self.items]
        if self.entries is not None:
            return {key: entry.node.to_data() for key, entry in self.entries.items()}
        return self.scalar


@dataclass(slots=True)
class Entry:
    """A value and the position of its key; for a list item, of the item itself."""

    place: Place
    node: Node

    def get_best_place(self) -> Place:
        """The position of a scalar; for a list, a mapping or an empty value that of its key."""
        return self.node.place if self.node.text else self.place
