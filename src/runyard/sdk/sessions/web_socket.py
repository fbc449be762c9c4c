"""A WebSocket on the connection of an HTTP request: sign-in, proxies, TLS and errors are those of every call."""

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace

import httpcore2
import httpx2
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping
from wsproto.utilities import ProtocolError

from runyard.sdk.aio.transport import AsyncTransport
from runyard.sdk.calls import Call
from runyard.sdk.connections import make_connection_error
from runyard.sdk.errors import Refused, ServerUnreachable, UnexpectedResponse
from runyard.sdk.sessions.channels import SUBPROTOCOL

READ_BYTES = 64 << 10
MOST_MESSAGE_BYTES = 1 << 20
"""The largest message that is taken; the server's have at most 256 KiB."""
DEAD_SECONDS = 90.0
"""How long the server may be silent: it pings every 20 seconds."""
CLOSE_SECONDS = 1.0
_ACCEPT_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BROKEN = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, OSError)


class AsyncWebSocket:
    """An open WebSocket. One task receives; others may send meanwhile."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self.end = "the server closed the connection"
        """How it ended, once `receive` has returned None."""
        self.close_code: int | None = None
        self._stream = stream
        self._protocol = Connection(ConnectionType.CLIENT)
        self._turn = asyncio.Lock()
        self._pong: bytes = b""
        self._answering: asyncio.Task[None] | None = None
        self._message = bytearray()

    async def send(self, content: bytes) -> None:
        """Send a message; waits while the server does not read. Raises `ServerUnreachable`."""
        async with self._turn:
            if self._protocol.state is not ConnectionState.OPEN:
                raise ServerUnreachable(self.end)
            try:
                await self._stream.write(self._protocol.send(BytesMessage(data=content)))
            except _BROKEN as error:
                raise ServerUnreachable("the connection to the server broke") from error

    async def receive(self) -> bytes | None:
        """The next message; None at the end. Raises `ServerUnreachable` and `UnexpectedResponse`."""
        while True:
            try:
                for event in self._protocol.events():
                    if isinstance(event, CloseConnection):
                        self._note_end(event)
                        return None
                    if (message := self._take(event)) is not None:
                        return message
            except ProtocolError as error:
                raise UnexpectedResponse(f"the server does not speak WebSocket: {error}") from error
            await self._read()

    async def aclose(self) -> None:
        """Say that it ends. The connection is closed by its response."""
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.gather(self._answering, return_exceptions=True)
        if self._protocol.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            farewell = self._protocol.send(CloseConnection(code=1000))
            with suppress(TimeoutError, *_BROKEN):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._stream.write(farewell)

    async def _read(self) -> None:
        try:
            data = await self._stream.read(READ_BYTES, timeout=DEAD_SECONDS)
        except httpcore2.TimeoutException:
            raise ServerUnreachable(f"the server was silent for {DEAD_SECONDS:g} seconds") from None
        except _BROKEN as error:
            raise ServerUnreachable("the connection to the server broke") from error
        self._protocol.receive_data(data or None)

    def _take(self, event: Event) -> bytes | None:
        """A message that is complete now."""
        if isinstance(event, Ping):
            self._answer(event)
        if not isinstance(event, BytesMessage):
            return None
        self._message += event.data
        if len(self._message) > MOST_MESSAGE_BYTES:
            raise UnexpectedResponse(f"a message of the server has more than {MOST_MESSAGE_BYTES} bytes")
        if not event.message_finished:
            return None
        message, self._message = bytes(self._message), bytearray()
        return message

    def _answer(self, ping: Ping) -> None:
        """Answer the newest ping from a task of its own: while the server reads nothing, its output must be read."""
        self._pong = self._protocol.send(ping.response())
        if self._answering is None or self._answering.done():
            self._answering = asyncio.create_task(self._send_pong())

    async def _send_pong(self) -> None:
        async with self._turn:
            with suppress(*_BROKEN):  # whoever receives sees it as well
                await self._stream.write(self._pong)

    def _note_end(self, event: CloseConnection) -> None:
        self.close_code = event.code
        if event.reason:
            self.end = event.reason[:300]


@asynccontextmanager
async def open_web_socket(transport: AsyncTransport, call: Call) -> AsyncIterator[AsyncWebSocket]:
    """Send a call that becomes a WebSocket. Raises `RunyardError`."""
    key = base64.b64encode(os.urandom(16)).decode()
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": SUBPROTOCOL,
    }
    async with AsyncExitStack() as stack:
        try:
            response = await stack.enter_async_context(transport.stream(replace(call, headers=headers)))
        except httpx2.TransportError as error:
            raise make_connection_error(error, transport.credentials.endpoint) from error
        except Refused as error:
            if error.status == 426:
                raise UnexpectedResponse("a proxy before the server does not pass WebSockets on") from error
            raise
        _check_upgrade(response, key)
        socket = AsyncWebSocket(response.extensions["network_stream"])
        stack.push_async_callback(socket.aclose)
        yield socket


def _check_upgrade(response: httpx2.Response, key: str) -> None:
    """Raise `UnexpectedResponse` if the answer is not that of a WebSocket server."""
    digest = hashlib.sha1(key.encode() + _ACCEPT_KEY, usedforsecurity=False).digest()
    is_accepted = response.headers.get("sec-websocket-accept") == base64.b64encode(digest).decode()
    if response.status_code != 101 or not is_accepted:
        raise UnexpectedResponse(
            f"the server, or a proxy before it, did not open a WebSocket (HTTP {response.status_code})"
        )
