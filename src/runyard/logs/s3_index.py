"""The keys of a stream's objects in S3 are its index: they contain offset, length and times, and sort by offset."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from runyard.logs.pieces import Extent, drop_overlaps

NAMES_KEY = "stream.json"
COMPLETION_KEY = "stream-complete.json"
# The two keys above sort after all of these.
_KEY = re.compile(r"([0-9a-f]{16})_([0-9]+)_(-?[0-9]+)_(-?[0-9]+)(?:_([0-9]+))?\.(raw|packed|gap)", re.ASCII)

Kind = Literal["raw", "packed", "gap", "complete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object (pieces or a gap), as described by its key."""

    key: str
    offset: int
    length: int
    first_at: int
    last_at: int
    kind: Kind
    sequence: int = 0
    """Of a gap: how many were recorded before it at its offset."""

    @property
    def extent(self) -> Extent:
        """The same as an extent."""
        return Extent(offset=self.offset, length=self.length, first_at=self.first_at, last_at=self.last_at, place=self)


@dataclass(slots=True)
class Index:
    """The known objects of a stream."""

    found: dict[str, Stored] = field(default_factory=dict)

    @property
    def last_chunk(self) -> str:
        """The key of the last chunk. Objects before it do not change; those after it may be compacted."""
        return max((key for key, stored in self.found.items() if stored.kind == "packed"), default="")

    @property
    def is_complete(self) -> bool:
        """Whether the stream is complete."""
        return any(stored.kind == "complete" for stored in self.found.values())

    @property
    def last(self) -> Stored | None:
        """The object that was stored last: at the end of the stream, a gap after bytes."""
        data = [stored for stored in self.found.values() if stored.kind != "complete"]
        return max(
            data, key=lambda one: (one.offset + one.length, one.kind == "gap", one.sequence, one.length), default=None
        )

    @property
    def size(self) -> int:
        """The size of the stream."""
        return max((stored.offset + stored.length for stored in self.found.values()), default=0)

    def renew(self, stored: Iterable[Stored]) -> "Index":
        """A new index in which the objects after the last chunk are replaced."""
        last_chunk = self.last_chunk
        known = {key: one for key, one in self.found.items() if key <= last_chunk}
        return Index(known | {one.key: one for one in stored})

    def add(self, stored: Iterable[Stored]) -> None:
        """Add objects."""
        self.found.update({one.key: one for one in stored})

    def list_extents(self) -> list[Extent]:
        """The extents in order, without overlaps."""
        return drop_overlaps([stored.extent for stored in self.found.values() if stored.kind in ("raw", "packed")])

    def list_gaps(self) -> list[Stored]:
        """The gaps, by offset and time."""
        gaps = [stored for stored in self.found.values() if stored.kind == "gap"]
        return sorted(gaps, key=lambda gap: (gap.offset, gap.sequence, gap.first_at, gap.key))

    def list_loose(self) -> list[Stored]:
        """Pieces that are not in a chunk yet."""
        places = [extent.place for extent in self.list_extents()]
        return [place for place in places if place.kind == "raw"]


def make_stored(
    folder: str, *, offset: int, length: int, first_at: int, last_at: int, kind: Kind, sequence: int = 0
) -> Stored:
    """Make an object, with its key."""
    end = f"_{sequence}" if sequence else ""
    key = f"{folder}/{offset:016x}_{length}_{first_at}_{last_at}{end}.{kind}"
    return Stored(
        key=key, offset=offset, length=length, first_at=first_at, last_at=last_at, kind=kind, sequence=sequence
    )


def find_stored(key: str) -> Stored | None:
    """Parse a key; None for any other key."""
    name = key.rpartition("/")[2]
    if name == COMPLETION_KEY:
        return Stored(key=key, offset=0, length=0, first_at=0, last_at=0, kind="complete")
    match = _KEY.fullmatch(name)
    if match is None:
        return None
    offset, length, first_at, last_at, sequence, kind = match.groups()
    return Stored(
        key=key,
        offset=int(offset, 16),
        length=int(length),
        first_at=int(first_at),
        last_at=int(last_at),
        sequence=int(sequence or 0),
        kind=kind,  # type: ignore[arg-type]  # the pattern knows no other
    )
