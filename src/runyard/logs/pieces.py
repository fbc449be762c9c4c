"""The parts of a stream: pieces as appended, compressed chunks of pieces, and extents, which locate them.

Times are whole microseconds since 1970, UTC.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from runyard.app.ports import Stream
from runyard.logs.errors import LogsUnavailable

LARGEST_PIECE = 256 * 1024
"""Larger contents are split, so that a short read does not decompress much."""
CHUNK_BYTES = 64 * 1024
"""Pieces are compacted into a chunk at this size."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNT = struct.Struct(">I")
_MARK = struct.Struct(">Iq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes at an offset, written at one time."""

    offset: int
    at: int
    content: bytes

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + len(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Where a part of a stream is stored, and its times. `place` is backend-specific."""

    offset: int
    length: int
    first_at: int
    """The time of its first bytes."""
    last_at: int
    """The latest time in it."""
    place: Any = None

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something is missing at an offset."""

    offset: int
    since: int
    until: int
    cause: str


def check_stream(stream: Stream) -> None:
    """Raises `ValueError` for names that a backend cannot store."""
    for name in (stream.run_uid, stream.pod, stream.container):
        if not name or len(name) > 1000:
            raise ValueError("run, pod and container of a stream have 1 to 1000 characters each")
        name.encode()  # an unpaired surrogate raises UnicodeEncodeError, which is a ValueError


def to_microseconds(at: datetime) -> int:
    """Raises `ValueError` for a time without a time zone."""
    if at.tzinfo is None:
        raise ValueError("a time of a log needs its time zone")
    return (at - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(at: int) -> datetime:
    """An aware time in UTC."""
    return _EPOCH + timedelta(microseconds=at)


def cut_new(content: bytes, *, offset: int, size: int, at: int) -> Iterator[Piece]:
    """The part of the content that is not stored yet, as pieces. Raises `ValueError` if it would leave a hole."""
    if offset < 0 or offset > size:
        raise ValueError(f"offset {offset} is not within the {size} bytes that are stored: nothing was appended")
    for start in range(size - offset, len(content), LARGEST_PIECE):
        yield Piece(offset=offset + start, at=at, content=content[start : start + LARGEST_PIECE])


def make_extent(pieces: Sequence[Piece], place: Any = None) -> Extent:
    """The extent of consecutive pieces."""
    return Extent(
        offset=pieces[0].offset,
        length=pieces[-1].end - pieces[0].offset,
        first_at=pieces[0].at,
        last_at=max(piece.at for piece in pieces),
        place=place,
    )


def pack(pieces: Sequence[Piece]) -> bytes:
    """Encode a chunk: lengths and times of the pieces, then their bytes, compressed together."""
    marks = b"".join(_MARK.pack(len(piece.content), piece.at) for piece in pieces)
    return zlib.compress(_COUNT.pack(len(pieces)) + marks + b"".join(piece.content for piece in pieces))


def unpack(packed: bytes, *, offset: int) -> list[Piece]:
    """Decode the chunk at an offset."""
    try:
        body = zlib.decompress(packed)
        (count,) = _COUNT.unpack_from(body)
        position = _COUNT.size + count * _MARK.size
        pieces = []
        for length, at in _MARK.iter_unpack(body[_COUNT.size : position]):
            pieces.append(Piece(offset=offset, at=at, content=body[position : position + length]))
            position, offset = position + length, offset + length
    except (zlib.error, struct.error) as error:
        raise LogsUnavailable(f"a chunk of a log is damaged: {error}") from error
    return pieces


def drop_overlaps(extents: Sequence[Extent]) -> list[Extent]:
    """Extents in order, without overlaps: after an interrupted compaction, a chunk and its pieces may both exist."""
    kept: list[Extent] = []
    end = 0
    for extent in sorted(extents, key=lambda extent: (extent.offset, -extent.length)):
        if extent.end <= end:
            continue
        start = max(extent.offset, end)
        kept.append(replace(extent, offset=start, length=extent.end - start))
        end = extent.end
    return kept
