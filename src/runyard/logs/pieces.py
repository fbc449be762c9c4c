"""The parts of a stream: pieces as appended, compressed chunks of pieces, and extents, which locate them.

Times are whole microseconds since 1970, UTC.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from runyard.app.log_store import (
    ANY_POSITION,
    LARGEST_CAUSE_BYTES,
    LARGEST_POSITION_BYTES,
    AnyPosition,
    Stream,
    StreamComplete,
)
from runyard.app.ports import Stale
from runyard.logs.errors import LogsUnavailable

LARGEST_PIECE = 256 * 1024
"""Larger contents are split, so that a short read does not decompress much."""
CHUNK_BYTES = 64 * 1024
"""Pieces are compacted into a chunk at this size."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNT = struct.Struct(">I")
_MARK = struct.Struct(">Iq")
_CHECKPOINT = struct.Struct(">Q")
_LARGEST_INSTANCE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An engine's position, and the offset of the first byte after it.

    Every piece and gap carries the checkpoint that holds after it, so that the last one of a stream is enough.
    """

    position: str
    offset: int


@dataclass(frozen=True, slots=True)
class Completion:
    """A stream is complete since then; `cause` says why it was cut."""

    cause: str | None
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes at an offset, written at one time."""

    offset: int
    at: int
    content: bytes
    checkpoint: Checkpoint | None = None

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
    checkpoint: Checkpoint | None = None


def check_stream(stream: Stream) -> None:
    """Raises `ValueError` for names that a backend cannot store."""
    for name in (stream.run_uid, stream.pod, stream.container):
        if not name or len(name) > 1000:
            raise ValueError("run, pod and container of a stream have 1 to 1000 characters each")
        name.encode()  # an unpaired surrogate raises UnicodeEncodeError, which is a ValueError
    if not 0 <= stream.instance <= _LARGEST_INSTANCE:
        raise ValueError(f"the instance of a container is 0 to {_LARGEST_INSTANCE}")


def check_position(position: str | None) -> None:
    """Raises `ValueError` for a position that is too long, or is not text."""
    if position is not None and len(position.encode()) > LARGEST_POSITION_BYTES:
        raise ValueError(f"a position in a log has at most {LARGEST_POSITION_BYTES} bytes")


def cut_cause(cause: str) -> str:
    """At most `LARGEST_CAUSE_BYTES`. Raises `ValueError` if it is empty."""
    if not cause:
        raise ValueError("a gap or a cut needs its cause")
    return cause.encode(errors="replace")[:LARGEST_CAUSE_BYTES].decode(errors="ignore")


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


def set_checkpoints(
    pieces: Sequence[Piece], position: str | None, *, after: str | AnyPosition | None, before: Checkpoint | None
) -> list[Piece]:
    """The pieces of one append with their checkpoints: only the last one has reached the position. Raises `Stale`."""
    check_after(after, before=before)
    kept = [replace(piece, checkpoint=before) for piece in pieces]
    if position is not None and kept:
        kept[-1] = replace(kept[-1], checkpoint=Checkpoint(position, kept[-1].end))
    return kept


def plan_gap(
    gap: Gap,
    position: str | None,
    *,
    after: str | AnyPosition | None,
    known: Sequence[Gap],
    before: Checkpoint | None,
) -> Gap | None:
    """The gap at the end with its checkpoint; None if it is already known. Raises `Stale`."""
    if any((one.offset, one.since, one.cause) == (gap.offset, gap.since, gap.cause) for one in known):
        return None
    # A gap that does not move the position is not told from the bytes before it by the position.
    if known and position not in (None, after) and before == Checkpoint(position or "", gap.offset):
        return None
    check_after(after, before=before)
    return replace(gap, checkpoint=before if position is None else Checkpoint(position, gap.offset))


def check_after(after: str | AnyPosition | None, *, before: Checkpoint | None) -> None:
    """Raises `Stale` if another position is stored."""
    if after is not ANY_POSITION and after != (before and before.position):
        raise Stale("another position is stored: nothing was written")


def find_checkpoint(last: Piece | None, gaps: Sequence[Gap]) -> Checkpoint | None:
    """The checkpoint of a stream, from its last piece and from its gaps in the order in which they were recorded."""
    end = 0 if last is None else last.end
    if gaps and gaps[-1].offset >= end:
        return gaps[-1].checkpoint
    return None if last is None else last.checkpoint


def refuse_complete(stream: Stream) -> StreamComplete:
    """The error for a write to a complete stream."""
    return StreamComplete(f"{stream.name} is complete: nothing was appended")


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
    """Encode a chunk: lengths and times of the pieces, their bytes, the last checkpoint, compressed together."""
    marks = b"".join(_MARK.pack(len(piece.content), piece.at) for piece in pieces)
    content = b"".join(piece.content for piece in pieces)
    return zlib.compress(_COUNT.pack(len(pieces)) + marks + content + dump_checkpoint(pieces[-1].checkpoint))


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
        if pieces:
            pieces[-1] = replace(pieces[-1], checkpoint=load_checkpoint(body[position:]))
    except (zlib.error, struct.error, UnicodeDecodeError) as error:
        raise LogsUnavailable(f"a chunk of a log is damaged: {error}") from error
    return pieces


def dump_checkpoint(checkpoint: Checkpoint | None) -> bytes:
    """Encode a checkpoint; no bytes for None."""
    return b"" if checkpoint is None else _CHECKPOINT.pack(checkpoint.offset) + checkpoint.position.encode()


def load_checkpoint(content: bytes) -> Checkpoint | None:
    """Decode what `dump_checkpoint` wrote. Raises `struct.error`, `UnicodeDecodeError`."""
    if not content:
        return None
    (offset,) = _CHECKPOINT.unpack_from(content)
    return Checkpoint(content[_CHECKPOINT.size :].decode(), offset)


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
