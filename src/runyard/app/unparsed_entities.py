"""Entities whose documents are still text, for pages: a page as objects takes twenty times its bytes, and whoever
makes or frees millions of objects holds the event loop meanwhile, on whichever thread.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from runyard.app.model import Entity

LARGE_TEXT_CHARACTERS = 1 << 13
"""Documents with more characters, as JSON, are parsed and written on the document thread."""
ENTITY_CHARACTERS = 1 << 8
"""What an entity counts besides its documents: to write one without any takes as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparsed:
    """An entity as it is stored. `parse` makes it anew with each call, in milliseconds if it is large."""

    id: str
    uid: str
    """Of a run; of other entities their id."""
    characters: int
    """Of its documents as JSON."""
    parse: Callable[[], Entity]


class UnparsedEntities(Sequence[Entity]):
    """Entities that are parsed one by one, whenever one is taken. Take each once, and keep none."""

    def __init__(self, entries: Iterable[Unparsed]) -> None:
        self.entries = tuple(entries)

    @property
    def is_large(self) -> bool:
        """Whether to go over them on the document thread."""
        return are_large(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Entity: ...
    @overload
    def __getitem__(self, index: slice) -> "UnparsedEntities": ...
    def __getitem__(self, index: int | slice) -> "Entity | UnparsedEntities":
        return UnparsedEntities(self.entries[index]) if isinstance(index, slice) else self.entries[index].parse()


def are_large(entries: Iterable[Unparsed]) -> bool:
    """Whether to parse them on the document thread."""
    return sum(ENTITY_CHARACTERS + entry.characters for entry in entries) > LARGE_TEXT_CHARACTERS
