"""One connection of a relay: heads and bodies taken as they come, and the three ways to end it."""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import NamedTuple

from testbed.faults.http1 import Ending, Framing, ProtocolError

HEAD_LIMIT_BYTES = 256 * 1024
BLOCK_BYTES = 64 * 1024
CLOSE_SECONDS = 2.0


class Piece(NamedTuple):
    """A part of a body as it came: payload, with the framing before it, and behind it what ends a chunk."""

    before: bytes
    payload: bytes
    behind: bytes

    @property
    def wire(self) -> bytes:
        """The bytes as they came."""
        return self.before + self.payload + self.behind


class Wire:
    """One of the two connections of a relay: what came is buffered, so that one can look before one takes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._buffer = bytearray()
        self._closing: asyncio.Task[None] | None = None

    async def fill(self) -> bool:
        """Wait for more bytes; False when the peer has closed. Losing no byte when cancelled."""
        block = await self._reader.read(BLOCK_BYTES)
        self._buffer += block
        return bool(block)

    async def until_eof(self) -> None:
        """Return when the peer has closed; what it sends meanwhile stays buffered."""
        while await self.fill():
            if len(self._buffer) > HEAD_LIMIT_BYTES:
                await asyncio.Event().wait()  # it sends ahead without end: let TCP hold it back

    async def take_head(self) -> bytes | None:
        """The bytes through the next empty line; None when the peer closed before it."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > HEAD_LIMIT_BYTES:
                raise ProtocolError(f"a head above {HEAD_LIMIT_BYTES} bytes")
            if not await self.fill():
                return None
        return self._take(end + 4)

    async def iter_body(self, framing: Framing) -> AsyncGenerator[Piece, None]:
        """The body's pieces as they come; raises EOFError when the peer closes before its end."""
        if framing is Ending.CHUNKS:
            async for piece in self._iter_chunks():
                yield piece
        elif framing is Ending.CLOSE:
            while self._buffer or await self.fill():
                yield Piece(b"", self._take(len(self._buffer)), b"")
        else:
            rest = framing
            while rest:
                block = await self._take_some(rest)
                rest -= len(block)
                yield Piece(b"", block, b"")

    async def _iter_chunks(self) -> AsyncGenerator[Piece, None]:
        while True:
            line = await self._take_line()
            try:
                rest = int(line.split(b";")[0], 16)
            except ValueError as error:
                raise ProtocolError(f"not a chunk's size: {bytes(line[:80])!r}") from error
            if not rest:
                break
            has_end = False
            while rest:
                payload = await self._take_some(rest)
                rest -= len(payload)
                # With the CRLF behind it when that is here already: one piece, one packet, as it came.
                has_end = not rest and self._buffer.startswith(b"\r\n")
                yield Piece(line, payload, self._take(2) if has_end else b"")
                line = b""
            if not has_end:
                yield Piece(b"", b"", await self._take_line())
        while line != b"\r\n":  # trailers, up to the empty line
            yield Piece(line, b"", b"")
            line = await self._take_line()
        yield Piece(line, b"", b"")

    async def _take_line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > HEAD_LIMIT_BYTES:
                raise ProtocolError("a line without end between chunks")
            if not await self.fill():
                raise EOFError("closed between chunks")
        return self._take(end + 1)

    async def _take_some(self, most: int) -> bytes:
        if not self._buffer and not await self.fill():
            raise EOFError("closed in the middle of a body")
        return self._take(min(most, len(self._buffer)))

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    async def send(self, data: bytes) -> None:
        """Send, with the peer's back-pressure; raises ConnectionError when it is gone."""
        if data:
            self._writer.write(data)
            await self._writer.drain()

    def end(self) -> bool:
        """Tell the peer that nothing more comes; False where the connection cannot say so (TLS)."""
        can_end = self._writer.can_write_eof()
        if can_end:
            self._writer.write_eof()
        return can_end

    async def close(self) -> None:
        """Send what is buffered, then close; a peer that does not take it is cut off after a moment."""
        self._writer.close()
        await self.closed()
        self.abort()

    def reset(self) -> None:
        """Close at once with a TCP reset."""
        with suppress(AttributeError):  # as in `abort`: a TLS transport that is closed already has no socket
            connection = self._writer.get_extra_info("socket")
            if connection is not None and connection.fileno() >= 0:
                _arm_reset(connection)
        self.abort()

    def abort(self) -> None:
        """Close at once, whatever is buffered. Idempotent."""
        # Python 3.11 stumbles over a TLS transport that is closed already.
        with suppress(AttributeError):
            self._writer.transport.abort()

    async def closed(self) -> None:
        """Wait until a connection that was closed or aborted is gone, for a moment at most."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._writer.wait_closed())
        done, _ = await asyncio.wait({self._closing}, timeout=CLOSE_SECONDS)
        if done:
            self._closing.exception()  # that the peer was gone before us is no news


def reset(connection: socket.socket) -> None:
    """Close a bare socket with a TCP reset."""
    _arm_reset(connection)
    connection.close()


def _arm_reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
