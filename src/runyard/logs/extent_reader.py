"""Reads from extents, the same for every backend."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from runyard.app.log_store import LogPiece, Stream, StreamInfo
from runyard.logs.pieces import Checkpoint, Completion, Extent, Gap, Piece, from_microseconds


class Source(Protocol):
    """What a backend must provide for a stream; everything is empty for an unknown stream."""

    async def list_extents(self, stream: Stream, *, offset: int = 0) -> Sequence[Extent]:
        """The extents that end after the offset, in order, without overlaps."""

    async def list_gaps(self, stream: Stream, *, offset: int = 0) -> Sequence[Gap]:
        """The gaps at or after the offset, by offset and time."""

    async def load(self, stream: Stream, extent: Extent) -> Sequence[Piece]:
        """The pieces of an extent, in order. They may exceed it on both sides; empty if the stream was deleted."""


async def read(source: Source, stream: Stream, *, offset: int, limit: int) -> list[LogPiece]:
    """See `LogStore.read`."""
    if offset < 0:
        raise ValueError(f"offset {offset} is before the beginning")
    found: list[Piece] = []
    end, most = offset, offset + max(1, limit)
    for extent in await source.list_extents(stream, offset=offset):
        if end >= most:
            break
        for piece in _clip(await source.load(stream, extent), start=end, end=min(extent.end, most)):
            found.append(piece)
            end = piece.end
    # A gap at the cut belongs to the next read.
    gaps = [gap for gap in await source.list_gaps(stream, offset=offset) if gap.offset < end or end < most]
    return list(_weave(found, gaps))


async def find_since(source: Source, stream: Stream, since: int) -> int:
    """See `LogStore.find_since`. Loads only extents with such bytes."""
    end = 0
    for extent in await source.list_extents(stream):
        if extent.last_at >= since:
            for piece in _clip(await source.load(stream, extent), start=extent.offset, end=extent.end):
                if piece.at >= since:
                    return piece.offset
        end = extent.end
    return end


async def find_tail(source: Source, stream: Stream, lines: int) -> int:
    """See `LogStore.find_tail`. Reads backwards, no further than needed."""
    extents = await source.list_extents(stream)
    if not extents or lines <= 0:
        return extents[-1].end if extents else 0
    is_last = True
    for extent in reversed(extents):
        pieces = _clip(await source.load(stream, extent), start=extent.offset, end=extent.end)
        content = b"".join(piece.content for piece in pieces)
        # A final newline ends the last line and does not begin another.
        end = len(content) - 1 if is_last and content.endswith(b"\n") else len(content)
        is_last = False
        while (end := content.rfind(b"\n", 0, end)) >= 0:
            lines -= 1
            if not lines:
                return extent.offset + end + 1
    return extents[0].offset


def make_info(
    stream: Stream, extents: Sequence[Extent], *, checkpoint: Checkpoint | None, completion: Completion | None
) -> StreamInfo:
    """What is stored of a stream, from all its extents."""
    return StreamInfo(
        stream=stream,
        size=extents[-1].end if extents else 0,
        first_at=from_microseconds(extents[0].first_at) if extents else None,
        last_at=from_microseconds(max(extent.last_at for extent in extents)) if extents else None,
        position=checkpoint.position if checkpoint else None,
        position_offset=checkpoint.offset if checkpoint else 0,
        is_complete=completion is not None,
        cause=completion.cause if completion else None,
    )


def find_beginning(extents: Sequence[Extent], gaps: Sequence[Gap], completion: Completion | None) -> int:
    """When a stream began: the time of its first bytes or of a gap before them; of its end if it has neither."""
    times = [*(extent.first_at for extent in extents[:1]), *(gap.since for gap in gaps)]
    return min(times, default=0 if completion is None else completion.at)


def find_end(extents: Sequence[Extent], gaps: Sequence[Gap], completion: Completion | None) -> int:
    """The time of its last bytes, or the end of its last gap if it has none; of its end if it has neither."""
    times = [extent.last_at for extent in extents] or [gap.until for gap in gaps]
    return max(times, default=0 if completion is None else completion.at)


def sort_infos(found: Sequence[tuple[int, StreamInfo]]) -> list[StreamInfo]:
    """Streams in the order of the times at which they began."""
    return [
        info
        for _, info in sorted(
            found, key=lambda one: (one[0], one[1].stream.pod, one[1].stream.container, one[1].stream.instance)
        )
    ]


def _clip(pieces: Sequence[Piece], *, start: int, end: int) -> Iterator[Piece]:
    for piece in pieces:
        first, last = max(piece.offset, start), min(piece.end, end)
        if first < last:
            content = piece.content[first - piece.offset : last - piece.offset]
            yield Piece(offset=first, at=piece.at, content=content)


def _weave(pieces: Sequence[Piece], gaps: Sequence[Gap]) -> Iterator[LogPiece]:
    """Merge pieces and gaps in order; a gap comes before the bytes at its offset."""
    waiting = list(gaps)
    for piece in pieces:
        while waiting and waiting[0].offset <= piece.offset:
            yield _make_gap(waiting.pop(0))
        yield LogPiece(offset=piece.offset, at=from_microseconds(piece.at), content=piece.content)
    yield from map(_make_gap, waiting)


def _make_gap(gap: Gap) -> LogPiece:
    return LogPiece(
        offset=gap.offset, at=from_microseconds(gap.since), gap=gap.cause, until=from_microseconds(gap.until)
    )
