"""The tree of a YAML document: values that know where they stood."""

from dataclasses import dataclass
from typing import Any

from runyard.spec.yaml.scalars import Scalar

Place = tuple[int, int]
"""Line and column, counted from 1."""


@dataclass(slots=True)
class Node:
    """A value and its place. `size` and `height` are those of the tree below it, aliases unfolded."""

    place: Place
    scalar: Scalar = None
    text: str | None = None
    """A scalar as it was written, without quotes."""
    items: "list[Node] | None" = None
    entries: "dict[str, Entry] | None" = None
    size: int = 1
    height: int = 0

    def is_empty(self) -> bool:
        """Whether nothing was written, or null."""
        return self.text is not None and self.scalar is None

    def find_child(self, part: str | int) -> "Entry | None":
        """What stands under a key, or at an index."""
        if self.entries is not None and isinstance(part, str):
            return self.entries.get(part)
        if self.items is not None and isinstance(part, int) and 0 <= part < len(self.items):
            return Entry(self.items[part].place, self.items[part])
        return None

    def to_data(self) -> Any:
        """The plain value, with a copy of its own wherever an alias stands."""
        if self.items is not None:
            return [item.to_data() for item in self.items]
        if self.entries is not None:
            return {key: entry.node.to_data() for key, entry in self.entries.items()}
        return self.scalar


@dataclass(slots=True)
class Entry:
    """A value under its key; an item of a list has its own place instead of a key's."""

    place: Place
    node: Node

    def get_best_place(self) -> Place:
        """A scalar's own place; of a list, a mapping and an empty value that of its key."""
        return self.node.place if self.node.text else self.place
