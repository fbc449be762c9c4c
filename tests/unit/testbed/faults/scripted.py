"""A scripted upstream and a raw client, so that what passes a proxy is known to the byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from testbed.faults import FaultPlan, FaultProxy, Request, Rule
from testbed.faults.http1 import parse_request

DEADLINE_SECONDS = 40
GET = b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n"
WATCH = b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /api/v1/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass
class Connection:
    """A raw connection, so that what is sent and what comes is known to the byte."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def take(self, count: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(count), DEADLINE_SECONDS)

    async def take_rest(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), DEADLINE_SECONDS)

    async def take_answer(self) -> tuple[int, dict[str, str], bytes]:
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), DEADLINE_SECONDS)
        status, *lines = head.decode().strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return int(status.split()[1]), headers, await self.take(int(headers["content-length"]))

    async def close(self) -> None:
        self.writer.transport.abort()
        with suppress(OSError):  # how it ended is not asked here
            await self.writer.wait_closed()

    async def is_silent(self, seconds: float = 0.2) -> bool:
        try:
            await asyncio.wait_for(self.reader.readexactly(1), seconds)
        except TimeoutError:
            return True
        return False


Handler = Callable[[Request, bytes, Connection], Awaitable[None]]


async def answer_ok(request: Request, body: bytes, peer: Connection) -> None:
    await peer.send(OK)


@dataclass
class Upstream:
    """A server that plays what `handler` says, and remembers what it was sent."""

    handler: Handler
    received: list[bytes] = field(default_factory=list)
    peers: list[Connection] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)  # set when a client closed its connection
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Connection(reader, writer)
        self.peers.append(peer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                request = parse_request(head)
                body = await reader.readexactly(int(request.headers.get("content-length", 0)))
                self.received.append(head + body)
                await self.handler(request, body, peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()


@asynccontextmanager
async def upstream_of(handler: Handler = answer_ok, tls: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    upstream = Upstream(handler)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        upstream.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        yield upstream
        for peer in upstream.peers:
            await peer.close()


@asynccontextmanager
async def connection_to(url: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[Connection]:
    parts = urlsplit(url)
    connection = Connection(*await asyncio.open_connection(parts.hostname, parts.port, ssl=tls))
    try:
        yield connection
    finally:
        await connection.close()


async def wait_until_open(url: str) -> None:
    """Until somebody listens there."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            with suppress(ConnectionRefusedError):
                async with connection_to(url):
                    return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def proxied(
    *rules: Rule, handler: Handler = answer_ok, **options: Any
) -> AsyncIterator[tuple[FaultProxy, Upstream, Connection]]:
    async with (
        upstream_of(handler) as upstream,
        FaultProxy(upstream.url, plan=FaultPlan(rules=rules), **options) as proxy,
        connection_to(proxy.url) as client,
    ):
        yield proxy, upstream, client


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
