"""Streams, times and whole logs, for the tests of the log stores."""

from datetime import UTC, datetime, timedelta

from runyard.app.log_store import LogPiece, LogStore, Stream

START = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC)
STREAM = Stream("run-1", "run-1-abc", "main")


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


async def write(logs: LogStore, *contents: bytes, stream: Stream = STREAM) -> int:
    """One append each, a second apart, from the beginning on."""
    size = 0
    for second, content in enumerate(contents):
        size = await logs.append(stream, content, offset=size, at=after(second))
    return size


async def read_pieces(
    logs: LogStore, *, stream: Stream = STREAM, offset: int = 0, limit: int = 1 << 20
) -> list[LogPiece]:
    """Read on and on, until no bytes come."""
    found: list[LogPiece] = []
    while True:
        pieces = await logs.read(stream, offset=offset, limit=limit)
        found += pieces
        if not any(piece.content for piece in pieces):
            return found
        offset = max(piece.offset + len(piece.content) for piece in pieces)


async def read_all(logs: LogStore, *, stream: Stream = STREAM, offset: int = 0, limit: int = 1 << 20) -> bytes:
    """The bytes, each where it belongs."""
    content = b""
    for piece in await read_pieces(logs, stream=stream, offset=offset, limit=limit):
        if piece.gap is None:
            assert piece.offset == offset + len(content)
            content += piece.content
    return content
