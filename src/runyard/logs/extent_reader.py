"""Reading from extents, the same for every store."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from runyard.app.ports import LogPiece, Stream, StreamInfo
from runyard.logs.pieces import Extent, Gap, Piece, from_microseconds


class Source(Protocol):
    """What a store must be able to say of a stream; of one that is not there it says nothing."""

    async def list_extents(self, stream: Stream, *, offset: int = 0) -> Sequence[Extent]:
        """In order, without overlaps; those that end after the offset."""

    async def list_gaps(self, stream: Stream, *, offset: int = 0) -> Sequence[Gap]:
        """In order of offset and time; those at the offset or after it."""

    async def load(self, stream: Stream, extent: Extent) -> Sequence[Piece]:
        """The pieces in it, in order. They may begin before it and end after it; none if the stream was deleted."""


async def read(source: Source, stream: Stream, *, offset: int, limit: int) -> list[LogPiece]:
    """As `LogStore.read`."""
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
    # A gap at the place where the limit cut is for who reads on from there.
    gaps = [gap for gap in await source.list_gaps(stream, offset=offset) if gap.offset < end or end < most]
    return list(_weave(found, gaps))


async def find_since(source: Source, stream: Stream, since: int) -> int:
    """As `LogStore.find_since`; only extents that hold such bytes are loaded."""
    end = 0
    for extent in await source.list_extents(stream):
        if extent.last_at >= since:
            for piece in _clip(await source.load(stream, extent), start=extent.offset, end=extent.end):
                if piece.at >= since:
                    return piece.offset
        end = extent.end
    return end


async def find_tail(source: Source, stream: Stream, lines: int) -> int:
    """As `LogStore.find_tail`: from the end backwards, no further than needed."""
    extents = await source.list_extents(stream)
    if not extents or lines <= 0:
        return extents[-1].end if extents else 0
    is_last = True
    for extent in reversed(extents):
        pieces = _clip(await source.load(stream, extent), start=extent.offset, end=extent.end)
        content = b"".join(piece.content for piece in pieces)
        # The newline at the very end ends the last line and begins none.
        end = len(content) - 1 if is_last and content.endswith(b"\n") else len(content)
        is_last = False
        while (end := content.rfind(b"\n", 0, end)) >= 0:
            lines -= 1
            if not lines:
                return extent.offset + end + 1
    return extents[0].offset


def make_info(stream: Stream, extents: Sequence[Extent]) -> StreamInfo:
    """What is stored of a stream, from all its extents."""
    return StreamInfo(
        stream=stream,
        size=extents[-1].end if extents else 0,
        first_at=from_microseconds(extents[0].first_at) if extents else None,
        last_at=from_microseconds(max(extent.last_at for extent in extents)) if extents else None,
    )


def find_beginning(extents: Sequence[Extent], gaps: Sequence[Gap]) -> int:
    """When a stream began: its first bytes, or what is missing before them."""
    return min([*(extent.first_at for extent in extents[:1]), *(gap.since for gap in gaps)], default=0)


def find_end(extents: Sequence[Extent], gaps: Sequence[Gap]) -> int:
    """The time of its last bytes; of a stream without any, the end of what is missing."""
    times = [extent.last_at for extent in extents] or [gap.until for gap in gaps]
    return max(times, default=0)


def _clip(pieces: Sequence[Piece], *, start: int, end: int) -> Iterator[Piece]:
    for piece in pieces:
        first, last = max(piece.offset, start), min(piece.end, end)
        if first < last:
            content = piece.content[first - piece.offset : last - piece.offset]
            yield Piece(offset=first, at=piece.at, content=content)


def _weave(pieces: Sequence[Piece], gaps: Sequence[Gap]) -> Iterator[LogPiece]:
    """Both in order; a gap stands before the bytes that came after it."""
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
