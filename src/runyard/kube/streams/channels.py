"""Numbered byte channels over one WebSocket: the first byte of every message names its channel.

Nothing is read ahead of the caller or written further than the peer reads: bytes in flight are bounded by the buffers
of kernel, TLS and aiohttp (a few megabytes, nearly all of them the kernel's), whatever the speeds of the two sides.

A ping every 20 s keeps proxies from taking a quiet connection for a dead one. Pongs are not waited for: the servers
answer pings in order with stdin, so a command that does not read its stdin for an hour would look dead. A path that
is really dead is noticed by the kernel, when it gives up on an unacknowledged ping.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import aiohttp

from runyard.kube.client import Client
from runyard.kube.errors import Disconnected, KubeError
from runyard.kube.rate_limiter import Priority
from runyard.kube.streams.errors import recognised

# The servers' library refuses messages above 32 MiB; ours are small enough to take turns with pings.
_MESSAGE_BYTES = 1 << 16
_PING_SECONDS = 20.0
_CLOSE_SECONDS = 2.0
_HALF_CLOSE = 255
_CLOSED_NORMALLY = aiohttp.WSCloseCode.OK
_CLOSED_WITHOUT_CODE = 0


class Message(NamedTuple):
    """What came on one channel."""

    channel: int
    data: bytes


class ChannelSocket:
    """One WebSocket with numbered channels. One task may receive while others send."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._incoming = select.poll()
        connection = socket.get_extra_info("socket")
        if connection is not None:
            self._incoming.register(connection, select.POLLIN)

    @property
    def protocol(self) -> str | None:
        """The subprotocol that the server chose."""
        return self._socket.protocol

    async def send(self, channel: int, data: bytes | bytearray | memoryview) -> None:
        """Send on a channel, in as many messages as it takes; waits while the peer does not read."""
        prefix = bytes([channel])
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _MESSAGE_BYTES):
            await self._read_first()
            await self._send(prefix + view[start : start + _MESSAGE_BYTES])

    async def end_channel(self, channel: int) -> None:
        """Close one channel for sending (half-close). Only v5 has this message."""
        await self._send(bytes([_HALF_CLOSE, channel]))

    async def receive(self) -> Message | None:
        """The next message, or None after an orderly close; raises Disconnected on a lost connection."""
        while True:
            message = await self._socket.receive()
            match message.type:
                case aiohttp.WSMsgType.BINARY if message.data:
                    return Message(message.data[0], message.data[1:])
                case aiohttp.WSMsgType.BINARY:
                    continue
                # aiohttp reports a connection that just ended as CLOSED with code 1000: only a close message counts.
                case aiohttp.WSMsgType.CLOSE if message.data in (_CLOSED_NORMALLY, _CLOSED_WITHOUT_CODE):
                    return None
                case aiohttp.WSMsgType.CLOSE:
                    raise Disconnected(f"the server closed with code {message.data}: {message.extra or 'no reason'}")
                case aiohttp.WSMsgType.TEXT:
                    raise Disconnected("the server sent text where the protocol has bytes")
                case _:
                    cause = message.data if isinstance(message.data, Exception) else self._socket.exception()
                    raise Disconnected("the connection was cut") from cause

    async def close(self) -> None:
        """Close, in order if the peer answers at once. Idempotent."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._socket.close()
        except TimeoutError:
            pass  # aiohttp dropped the connection; it waits anew after every message of a peer that still talks.

    async def ping_forever(self) -> None:
        """Send pings so that the connection does not look idle; returns when it is gone, as the receiver is told."""
        while not self._socket.closed:
            await asyncio.sleep(_PING_SECONDS)
            try:
                await self._socket.ping()
            except ConnectionError:
                return

    async def _read_first(self) -> None:
        """Let the event loop take what has come, before a send.

        A server that has answered and closed resets a peer that goes on sending, and asyncio drops what it has not
        read when a send fails: the answer. A send that need not wait would let nobody else run at all.
        """
        await asyncio.sleep(0)
        if self._incoming.poll(0):
            # The first turn lets the loop notice, the second lets it read.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def _send(self, message: bytes) -> None:
        try:
            await self._socket.send_bytes(message)
        except ConnectionError as error:
            raise Disconnected("the connection was closed while sending") from error


@asynccontextmanager
async def open_channels(
    client: Client,
    path: str,
    *,
    params: Sequence[tuple[str, str]],
    protocols: Sequence[str],
    deadline_seconds: float,
) -> AsyncIterator[ChannelSocket]:
    """A socket with channels, closed at the end of the block; `deadline_seconds` runs until the upgrade."""
    opening = client.transport.websocket(
        path,
        params=params,
        protocols=protocols,
        priority=Priority.CREATE if client.priority is None else client.priority,
        deadline_seconds=deadline_seconds,
    )
    stack = AsyncExitStack()
    with recognised():
        socket = await stack.enter_async_context(opening)
    channels = ChannelSocket(socket)
    pinging = asyncio.create_task(channels.ping_forever())
    try:
        if channels.protocol is None:
            raise Disconnected(f"the server speaks none of {', '.join(protocols)}")
        yield channels
    except KubeError as error:
        error.request = error.request or f"GET {path}"
        raise
    finally:
        pinging.cancel()
        await channels.close()
        # Not `async with stack`: the transport must not translate what the caller's block raises.
        await stack.aclose()
