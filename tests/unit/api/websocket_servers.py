"""The application behind uvicorn on a port of loopback, as `bootstrap` starts it, and raw WebSocket clients of it."""

import asyncio
import base64
import os
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from runyard.api.connection_limits import ConnectionLimits
from runyard.api.websocket_connections import WEBSOCKET_OPTIONS
from runyard.bootstrap import _Server
from tests.http_servers import Server

SECONDS = 60.0
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


@dataclass(frozen=True, slots=True)
class Listening:
    """A server that listens."""

    port: int
    web: _Server
    limits: ConnectionLimits
    server: Server

    def drain(self) -> None:
        """As on the first SIGTERM."""
        self.web.handle_exit(15, None)

    def count_open(self) -> int:
        """How many connections the limits count."""
        return len(self.limits._open)


@asynccontextmanager
async def listen(
    server: Server, *, most_connections: int = 100, certificate: Path | None = None
) -> AsyncIterator[Listening]:
    """Serve on a free port until the block ends; with TLS if there is a folder with a certificate."""
    listener = socket.create_server(("127.0.0.1", 0))
    limits = ConnectionLimits(most=most_connections)
    config = uvicorn.Config(
        server.app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=10,
        ssl_certfile=None if certificate is None else certificate / "cert.pem",
        ssl_keyfile=None if certificate is None else str(certificate / "key.pem"),
        **WEBSOCKET_OPTIONS,
    )
    config.load()
    web = _Server(config, server.application, limits)
    task = asyncio.ensure_future(web._serve([listener]))
    try:
        async with asyncio.timeout(SECONDS):
            while not web.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
        yield Listening(listener.getsockname()[1], web, limits, server)
    finally:
        web.handle_exit(15, None)
        await task


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a handshake."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class RawSocket:
    """A client that sends what it is told, frame by frame, and reads only when it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, content: bytes, *, opcode: int = BINARY, is_last: bool = True) -> None:
        """Send one frame; what the server does not take waits in the writer."""
        self.writer.write(make_frame(content, opcode=opcode, is_last=is_last))

    async def read(self) -> tuple[int, bytes]:
        """The next frame: its opcode and content."""
        async with asyncio.timeout(SECONDS):
            first, second = await self.reader.readexactly(2)
            size = second & 127
            if size == 126:
                (size,) = struct.unpack("!H", await self.reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", await self.reader.readexactly(8))
            return first & 15, await self.reader.readexactly(size)

    async def read_close(self) -> tuple[int, str]:
        """The code and reason of the close frame; frames before it are left out."""
        while True:
            opcode, content = await self.read()
            if opcode == CLOSE:
                return struct.unpack("!H", content[:2])[0], content[2:].decode()

    def abort(self) -> None:
        """Disappear."""
        self.writer.transport.abort()


def make_frame(content: bytes, *, opcode: int = BINARY, is_last: bool = True) -> bytes:
    """A frame of a client, masked with zeros."""
    head = bytes([opcode | (128 if is_last else 0)])
    size = len(content)
    if size < 126:
        head += bytes([128 | size])
    elif size < 1 << 16:
        head += bytes([128 | 126]) + struct.pack("!H", size)
    else:
        head += bytes([128 | 127]) + struct.pack("!Q", size)
    return head + b"\0\0\0\0" + content


def make_head(path: str, headers: Mapping[str, str] | None = None) -> bytes:
    """The head of a request for an upgrade."""
    fields = {
        "Host": "localhost:8080",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()


@asynccontextmanager
async def connect(
    listening: Listening, path: str, *, headers: Mapping[str, str] | None = None, receive_buffer: int | None = None
) -> AsyncIterator[tuple[Answer, RawSocket]]:
    """Ask for an upgrade; the answer, and the connection after it."""
    connection = socket.socket()
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, receive_buffer)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", listening.port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=1 << 16)
    try:
        writer.write(make_head(path, headers))
        async with asyncio.timeout(SECONDS):
            yield await _read_answer(reader), RawSocket(reader, writer)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _read_answer(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fields = (line.partition(": ") for line in head[1:] if line)
    headers = {name.lower(): value for name, _, value in fields}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Answer(int(head[0].split(" ")[1]), headers, body)
