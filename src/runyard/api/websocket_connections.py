"""uvicorn's WebSocket protocol with bounds on what a client may send, and on how long it may take to read.

Data is parsed in small pieces, and only as fast as the application takes messages (back-pressure). uvicorn would parse
all that one read returned: tens of thousands of tiny frames hold the event loop, and pongs to a client that does not
read fill the memory.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from uvicorn import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from runyard.api.connection_limits import ConnectionLimits
from runyard.api.streams import SEND_SECONDS
from runyard.app.engine import LARGEST_MESSAGE_BYTES

MOST_FRAGMENTS = 256
"""Fragments of one message, empty ones included."""
PING_SECONDS = 20.0
"""How often the client is pinged (keepalive); also keeps proxies from closing the connection."""
PONG_SECONDS = 60.0
"""How long the client may take to answer a ping, which waits behind what it has not read yet."""
RESTARTING = 1012
"""Close code: the server shuts down or restarts."""
TOO_BIG = 1009
"""Close code: a message is too large."""
_PIECE_BYTES = 1 << 13
"""Data is parsed in pieces of this size: the smallest frame has 6 bytes."""
_HANDSHAKE = frozenset({b"host", b"connection", b"upgrade", b"sec-websocket-key", b"sec-websocket-version"})
"""The header fields that the handshake needs. The parser has lower limits than ours and does not need the others."""
_MOST_HANDSHAKE_FIELDS = 32
_MOST_HANDSHAKE_VALUE_BYTES = 1024

_log = logging.getLogger(__name__)
# uvicorn logs the query of every session at INFO, with the command, which may hold secrets. We log and audit sessions.
_log.setLevel(logging.WARNING)

Fields = Iterable[tuple[bytes, bytes]]


class LimitedWebSocket(WebSocketsSansIOProtocol):
    """One connection after its upgrade; `connection_limits.Connection`."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], *, limits: ConnectionLimits
    ) -> None:
        super().__init__(config, server_state, app_state)
        self.logger = self.conn.logger = _log
        self.conn.debug = False
        self.waiting_since = time.monotonic()
        self._limits = limits
        self._request: tuple[bytes, list[tuple[bytes, bytes]]] = (b"/", [])
        self._state: dict[str, Any] = {}
        self._lost = asyncio.Event()
        self._unparsed = bytearray()
        self._is_scheduled = False

    @property
    def address(self) -> str | None:
        """The address of the peer."""
        return None if self.client is None else self.client[0]

    @property
    def is_authenticated(self) -> bool:
        """Whether valid credentials came with the handshake. A server without accounts asks for none."""
        who = self._state.get("who")
        return who is not None and who.via != "open"

    @property
    def is_receiving(self) -> bool:
        """Never: the request was received, and an idle session is ended by its own timeout."""
        return False

    def abort(self) -> None:
        """Close at once; what was not sent is lost."""
        self.transport.abort()

    def begin(self, transport: asyncio.Transport, *, url: bytes, headers: Fields) -> None:
        """Continue a connection whose request asks for the upgrade: check the handshake, start the application."""
        self.connection_made(transport)
        self._request = (url, list(headers))
        fields = [(name, value) for name, value in self._request[1] if name in _HANDSHAKE]
        lines = [
            name + b": " + value + b"\r\n"
            for name, value in fields[:_MOST_HANDSHAKE_FIELDS]
            if len(value) <= _MOST_HANDSHAKE_VALUE_BYTES
        ]
        super().data_received(b"GET / HTTP/1.1\r\n" + b"".join(lines) + b"\r\n")
        if not self.handshake_initiated:
            # The parser refuses bytes that our HTTP parser accepts; it would wait for more for ever.
            self.transport.abort()

    def handle_connect(self, event: Any) -> None:
        """Start the application with the whole request, unless the handshake is wrong."""
        super().handle_connect(event)
        if self.close_sent:
            return
        url, headers = self._request
        path, _, query = url.partition(b"?")
        offered = [value for name, value in headers if name == b"sec-websocket-protocol"]
        self.scope["path"] = self.root_path + unquote(path.decode("latin-1"))
        self.scope["raw_path"] = self.root_path.encode() + path
        self.scope["query_string"] = query
        self.scope["headers"] = headers
        self.scope["subprotocols"] = [
            name.strip() for value in offered for name in value.decode("latin-1").split(",") if name.strip()
        ]
        self._state = self.scope["state"]
        self._state["lost"] = self._lost

    def connection_lost(self, exc: Exception | None) -> None:
        """End; the application may wait for something else than a message, so it is told by an event as well."""
        self._limits.release(self)
        self._unparsed.clear()
        self._lost.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Keep the data, and parse it when its turn comes. At most one read is kept: reading pauses meanwhile."""
        self._unparsed += data
        self._parse()

    def _parse(self) -> None:
        """Parse one piece; the next one in another turn of the event loop, or when all messages were taken."""
        if self.transport.is_closing():
            self._unparsed.clear()
        # Frames before the handshake is answered are not parsed: the application may refuse it.
        if self._unparsed and self.handshake_complete and not self.read_paused:
            piece = bytes(self._unparsed[:_PIECE_BYTES])
            del self._unparsed[:_PIECE_BYTES]
            super().data_received(piece)
        if not self._unparsed:
            return
        self.transport.pause_reading()
        if self.handshake_complete and not self.read_paused and not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._parse_next)

    def _parse_next(self) -> None:
        self._is_scheduled = False
        self._parse()
        if not self._unparsed and not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    async def receive(self) -> Any:
        """The next message; when it was the last one that is parsed, the next piece is."""
        message = await super().receive()
        if not self.read_paused:
            self._parse_next()
        return message

    async def send(self, message: Any) -> None:
        """Send; after the answer to the handshake, and after a close, go on with what the client sent."""
        await super().send(message)
        if message["type"] in ("websocket.accept", "websocket.close"):
            self._parse_next()
        elif message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            # uvicorn would log an error for every refusal.
            self.handshake_complete = True

    def handle_cont(self, event: Any) -> None:
        """Take a fragment of a message. The parser bounds their bytes, but not the number of empty ones."""
        if self.close_sent:
            return
        if len(self.frames) >= MOST_FRAGMENTS:
            self.conn.fail(TOO_BIG, f"a message has more than {MOST_FRAGMENTS} fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def handle_ping(self) -> None:
        """Answer a ping, unless the client does not read: pongs would pile up."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    @property
    def _is_deaf(self) -> bool:
        """Whether nothing is read now, because the application has not taken what was read before."""
        return self.read_paused or bool(self._unparsed)

    def send_keepalive_ping(self) -> None:
        """Ping the client. While its pong cannot be read, writing at least notices a connection that was reset."""
        if not self._is_deaf or self.close_sent or self.transport.is_closing():
            super().send_keepalive_ping()
            return
        self.ping_timer = None
        self.conn.send_ping(b"")
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.schedule_ping()

    def keepalive_timeout(self) -> None:
        """Close the connection of a client that does not answer pings, unless its pong may be among the unread."""
        if self._is_deaf:
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self._abort_later()

    def shutdown(self) -> None:
        """Close for a shutdown of the server; the session cannot be continued elsewhere."""
        self.stop_keepalive()
        if self.transport.is_closing():
            return
        if self.close_sent or not self.handshake_complete:
            super().shutdown()
        else:
            reason = "the server shuts down"
            self.queue.put_nowait({"type": "websocket.disconnect", "code": RESTARTING, "reason": reason})
            self.conn.send_close(RESTARTING, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.close_timer = self.loop.call_later(self.close_timeout, self.transport.close)
        self._abort_later()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """The application has ended: the client gets some time to read the rest and to answer the close."""
        super().on_task_complete(task)
        self._abort_later()

    def _abort_later(self) -> None:
        self.loop.call_later(SEND_SECONDS, self.transport.abort)


WEBSOCKET_OPTIONS: Mapping[str, Any] = {
    "ws": LimitedWebSocket,
    "ws_max_size": LARGEST_MESSAGE_BYTES + 1,
    # A small message could expand to a large one, and each connection would keep a window of its own.
    "ws_per_message_deflate": False,
    "ws_ping_interval": PING_SECONDS,
    "ws_ping_timeout": PONG_SECONDS,
}
"""Arguments of `uvicorn.Config`. A message has one byte more than its content: the channel."""
