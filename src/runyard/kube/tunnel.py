"""The raw bytes of a connection after an HTTP upgrade, whatever protocol they are: SPDY, WebSocket or another.

`RawConnection` takes a connection over from aiohttp, of its client as of its server. Nothing is read ahead beyond a
fixed buffer and nothing is written further than the peer reads, so a slow side slows the other one down.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from runyard.kube.errors import Disconnected

READ_AHEAD_BYTES = 1 << 18
"""What is kept of the peer's bytes before it is told to wait; besides one read of asyncio's, of at most as much."""
_MOST_CHUNKS = 1024
CLOSE_SECONDS = 5.0
STALLED_SECONDS = 20.0
"""How long a send to a peer that has closed waits while none of the peer's bytes is received."""
BULK_BYTES = 1 << 16
"""After so many bytes one way, or more where answers end sooner, asyncio is woken for so many at once."""
_BULK_PAUSE_SECONDS = 0.002
"""How long bytes wait for others at most."""
_FEW_BYTES = 1 << 12
"""Not worth such a wait."""
_LONG_ANSWER_BYTES = 1 << 22
"""An answer so long may always cost a wait for its last bytes."""
# A peer that vanished without a word is noticed after a minute.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
_UPGRADE_HEADERS = frozenset({"upgrade", "x-stream-protocol-version"})
_WEBSOCKET_PREFIX = "sec-websocket-"
_WEBSOCKET_PROTOCOL = "sec-websocket-protocol"
# The subprotocol by which a browser hands a bearer token to an apiserver.
_BEARER_PROTOCOL = "base64url.bearer.authorization.k8s.io."


class _UpgradedProtocol(Protocol):
    """What aiohttp's client and server protocols have in common, as far as an upgrade needs it."""

    @property
    def set_parser(self) -> Callable[..., None]:
        """Hand over what has come after the head; the second argument means something else to each, and may be None."""

    def connection_lost(self, exc: Exception | None, /) -> None:
        """Forget the connection."""


class RawConnection(asyncio.Protocol):
    """Bytes both ways until either side ends. One task may receive while another sends."""

    def __init__(
        self,
        transport: asyncio.Transport,
        previous: _UpgradedProtocol,
        *,
        headers: Sequence[tuple[str, str]] = (),
        reports_loss_late: bool = False,
    ) -> None:
        self.headers = headers
        """The upgrade headers of the answer; empty on a server's side."""
        self._transport = transport
        self._previous = previous
        self._reports_loss_late = reports_loss_late
        self._chunks: list[bytes] = []
        self._buffered_bytes = 0
        self._received_bytes = 0
        self._ended = asyncio.Event()
        self._is_reading_paused = False
        self._is_discarding = False
        self._failure: Exception | None = None
        self._is_loss_reported = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._incoming = select.poll()
        self._bulk = _BulkReads(transport.get_extra_info("socket"))
        self._watch_socket(transport.get_extra_info("socket"))

    @classmethod
    def take_over(
        cls,
        transport: asyncio.Transport,
        previous: _UpgradedProtocol,
        *,
        headers: Sequence[tuple[str, str]] = (),
        reports_loss_late: bool = False,
    ) -> "RawConnection":
        """From here on all bytes of the connection are this object's; `previous` only hears of its end.

        With `reports_loss_late`, it hears of it at `close` or `release`: a server's protocol cancels its handler then,
        which may still have bytes to pass on.
        """
        connection = cls(transport, previous, headers=headers, reports_loss_late=reports_loss_late)
        remainder = _Remainder()
        previous.set_parser(remainder, None)
        transport.set_protocol(connection)
        for chunk in remainder.chunks:
            connection.data_received(chunk)
        return connection

    async def receive(self) -> bytes:
        """The next bytes; empty when the peer has ended. Disconnected when the connection was cut."""
        while not self._chunks:
            if self._ended.is_set():
                if self._failure is not None:
                    raise Disconnected("the connection was cut") from self._failure
                return b""
            self._readable.clear()
            await self._readable.wait()
        data = b"".join(self._chunks)
        self._received_bytes += len(data)
        self._bulk.note_received(len(data))
        self._chunks.clear()
        self._resume_reading()
        return data

    async def send(self, data: bytes) -> None:
        """Send bytes; waits while the peer does not read. Disconnected when the connection is gone.

        A peer that has closed is sent nothing before all of its bytes were received, as long as somebody receives.
        """
        self._bulk.note_sent()
        await self._read_first()
        self._check_open()
        self._transport.write(data)
        await self._writable.wait()
        self._check_open()

    async def close_sending(self) -> None:
        """Half-close, where the connection can; TLS cannot, and nothing happens."""
        if not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()

    @property
    def is_lost(self) -> bool:
        """Whether the connection is gone in both directions."""
        return self._lost.is_set() or self._transport.is_closing()

    async def close(self, *, patience_seconds: float = CLOSE_SECONDS, peer_first_seconds: float = 0.0) -> None:
        """Send what is buffered, say that nothing follows, and wait until the peer closes too. Idempotent.

        What the peer still sends is read and thrown away: closed before, the connection would be reset by it, and the
        last bytes to the peer lost. A peer that knows the end from the bytes may close first, for
        `peer_first_seconds`. After `patience_seconds` in all it is cut off.
        """
        try:
            async with asyncio.timeout(patience_seconds):
                await self._flush()
                with suppress(TimeoutError):
                    async with asyncio.timeout(peer_first_seconds):
                        await self._ended.wait()
                await self._say_end()
                await self._ended.wait()
        except TimeoutError:
            pass
        finally:
            self.release()

    def release(self) -> None:
        """Drop the connection at once, if it is still there, and tell the protocol that had it. Idempotent."""
        if not self._lost.is_set():
            self._transport.abort()
        self._report_loss()

    def data_received(self, data: bytes) -> None:
        """Called by the transport."""
        if self._is_discarding:
            return
        self._chunks.append(data)
        self._buffered_bytes += len(data)
        self._readable.set()
        is_full = self._buffered_bytes > READ_AHEAD_BYTES or len(self._chunks) > _MOST_CHUNKS
        if is_full and not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Called by the transport. The other direction stays open where the connection can be half-closed."""
        self._ended.set()
        self._readable.set()
        return self._transport.get_extra_info("ssl_object") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport."""
        # TLS that was ended by both sides is said to have failed with "zero return".
        self._failure = None if self._ended.is_set() or isinstance(exc, ssl.SSLZeroReturnError) else exc
        self._bulk.end()
        self._ended.set()
        self._lost.set()
        self._readable.set()
        self._writable.set()
        if not self._reports_loss_late:
            self._report_loss()

    def pause_writing(self) -> None:
        """Called by the transport."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by the transport."""
        self._writable.set()

    def _report_loss(self) -> None:
        if not self._is_loss_reported:
            self._is_loss_reported = True
            asyncio.get_running_loop().call_soon(self._previous.connection_lost, self._failure)

    def _check_open(self) -> None:
        if self._lost.is_set() or self._transport.is_closing():
            raise Disconnected("the connection was closed while sending") from self._failure

    async def _read_first(self) -> None:
        """Let the event loop take what has come, before a send.

        A peer that has answered and closed resets whoever goes on sending, and asyncio drops what it has not read when
        a send fails: the answer. A send that need not wait would let nobody else run at all.
        """
        await asyncio.sleep(0)
        events = dict(self._incoming.poll(0))
        if events:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if any(event & select.POLLRDHUP for event in events.values()):
            await self._wait_received()

    async def _wait_received(self) -> None:
        """Wait for the peer's last byte; not for ever: whoever receives may itself wait for this send."""
        received = -1
        while received != self._received_bytes and not self._ended.is_set():
            received = self._received_bytes
            with suppress(TimeoutError):
                async with asyncio.timeout(STALLED_SECONDS):
                    await self._ended.wait()

    async def _flush(self) -> None:
        self._is_discarding = True
        self._chunks.clear()
        self._resume_reading()
        if not self.is_lost:
            self._transport.set_write_buffer_limits(high=1, low=0)
            await self._writable.wait()

    async def _say_end(self) -> None:
        if self.is_lost:
            return
        tls = self._transport.get_extra_info("ssl_object")
        if tls is None:
            await self.close_sending()
            return
        # The transport's own close gives up on a peer that sends something meanwhile, and after 30 s in any case, with
        # all that is still buffered. So the end is said here, and the transport reads on.
        with suppress(ssl.SSLError):
            tls.unwrap()
        self._transport.writelines([])  # Sends what TLS has to send.

    def _resume_reading(self) -> None:
        self._buffered_bytes = 0
        if self._is_reading_paused:
            self._is_reading_paused = False
            self._transport.resume_reading()

    def _watch_socket(self, connection: Any) -> None:
        if connection is None:
            return
        self._incoming.register(connection, select.POLLIN | select.POLLRDHUP)
        for level, option, value in _KEEPALIVE:
            # A Unix socket has no such options.
            with suppress(OSError):
                connection.setsockopt(level, option, value)


class _BulkReads:
    """Has the kernel gather bytes that come one way, many and small.

    A kubelet passes every header of a frame and every piece of output on by itself, so a relay would be woken for a few
    bytes at a time, and the next relay for each of its records. That costs both more CPU time than the bytes do.

    The price is a wait: bytes that are not followed by enough others are received when the timer ends the gathering.
    So only many bytes since the last send start it. A send ends it, since an answer may come, and so does a wait that
    was for few bytes. Where long answers end in a wait again and again, ever more bytes are needed to start it.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection if connection is not None and connection.family != socket.AF_UNIX else None
        self._loop = asyncio.get_running_loop()
        self._received_at = 0.0
        self._one_way_bytes = 0
        self._enough_bytes = BULK_BYTES
        self._timer: asyncio.TimerHandle | None = None

    def note_received(self, size_bytes: int) -> None:
        """Bytes were received. Those that follow may be gathered."""
        now = self._loop.time()
        has_waited = self._is_bulk and now - self._received_at >= _BULK_PAUSE_SECONDS
        self._received_at = now
        if has_waited and size_bytes < _FEW_BYTES:
            self._one_way_bytes = 0
        self._one_way_bytes += size_bytes
        if self._is_bulk and self._timer is None:
            # Before the mark is raised: without a timer nobody would lower it.
            self._timer = self._loop.call_later(_BULK_PAUSE_SECONDS, self._watch_for_pause)
            self._wake_at(BULK_BYTES)

    def note_sent(self) -> None:
        """Something is about to be sent. What has come, and what answers it, is received at once."""
        if self._is_bulk:
            is_long = self._one_way_bytes >= _LONG_ANSWER_BYTES
            self._enough_bytes = BULK_BYTES if is_long else min(2 * self._enough_bytes, _LONG_ANSWER_BYTES)
        self._one_way_bytes = 0
        self._stop_gathering()

    def end(self) -> None:
        """The connection is gone."""
        self._connection = None
        self._stop_gathering()

    @property
    def _is_bulk(self) -> bool:
        return self._one_way_bytes >= self._enough_bytes

    def _watch_for_pause(self) -> None:
        left = self._received_at + _BULK_PAUSE_SECONDS - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._watch_for_pause)
        else:
            self._stop_gathering()

    def _stop_gathering(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._wake_at(1)

    def _wake_at(self, size_bytes: int) -> None:
        if self._connection is None:
            return
        with suppress(OSError):
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size_bytes)


class _Remainder:
    """Takes what came after the head, by the interface that aiohttp has for its WebSocket parser."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        if data:
            self.chunks.append(data)
        return False, b""

    def feed_eof(self) -> None:
        """The connection ended: `RawConnection` knows."""


def pick_upgrade_headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """The headers that describe an upgrade, and nothing that tells who asks for it.

    A repeated header becomes one with commas. A bearer token among the WebSocket subprotocols is left out.
    """
    picked: dict[str, tuple[str, str]] = {}
    for name, value in headers.items():
        lower = name.lower()
        if lower not in _UPGRADE_HEADERS and not lower.startswith(_WEBSOCKET_PREFIX):
            continue
        kept = _without_bearer(value) if lower == _WEBSOCKET_PROTOCOL else value
        if kept:
            picked[lower] = (name, f"{picked[lower][1]}, {kept}" if lower in picked else kept)
    return list(picked.values())


def _without_bearer(protocols: str) -> str:
    names = (name.strip() for name in protocols.split(","))
    return ", ".join(name for name in names if name and not name.startswith(_BEARER_PROTOCOL))
