"""uvicorn's HTTP protocol with bounds on what a client may send before anybody knows who it is.

httptools has no limit for the size of a request head, and uvicorn none for requests sent ahead (pipelining). Both are
counted here as bytes arrive.
"""

import asyncio
import json
import time
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from runyard.api.connection_limits import ConnectionLimits
from runyard.api.websocket_connections import LimitedWebSocket
from runyard.spec.figures import format_bytes

MOST_HEAD_BYTES = 1 << 16
"""Limit of a request head: request line and header fields. Trailers and chunk extensions have the same limit."""
MOST_PIPELINED = 16
"""Requests that may wait on one connection for the response to an earlier one."""
LINGER_SECONDS = 2.0
"""How long input is discarded after a refusal (lingering close): closing at once would reset the connection, and the
client would not see the response."""
_PIECE_BYTES = 1 << 14
"""Data is parsed in pieces of this size: the limits hold within one read from the socket, too."""
_FIELD_OVERHEAD = 4
"""The colon, the space and the line break of a header field."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection; `connection_limits.Connection`."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        limits: ConnectionLimits,
    ) -> None:
        super().__init__(config, server_state, app_state)
        self.waiting_since = 0.0
        self._limits = limits
        self._bytes_without_body = 0
        self._is_refused = False
        self._is_upgraded = False

    @property
    def address(self) -> str | None:
        """The address of the peer."""
        return None if self.client is None else self.client[0]

    @property
    def is_authenticated(self) -> bool:
        """Whether a request with valid credentials is in progress. A server without accounts asks for none."""
        if not self._is_answering:
            return False
        who = self.cycle.scope["state"].get("who")
        return who is not None and who.via != "open"

    @property
    def is_receiving(self) -> bool:
        """Whether the server waits for a head or a body."""
        return not self._is_answering or self.cycle.more_body

    @property
    def _is_answering(self) -> bool:
        """Whether a request is in progress. uvicorn declares no None for the time before the first."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def abort(self) -> None:
        """Close at once; what was not sent is lost."""
        self._is_refused = True
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        """Begin; a connection for which there is no room gets 503."""
        super().connection_made(transport)
        self.waiting_since = time.monotonic()
        if not self._limits.admit(self):
            self._refuse(503, "too many connections are open; try again later", lingers=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._limits.release(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and refuse a head that is too large as soon as that is known."""
        for start in range(0, len(data), _PIECE_BYTES):
            if self._is_refused or self._is_upgraded or self.transport.is_closing():
                return
            piece = data[start : start + _PIECE_BYTES]
            self._bytes_without_body += len(piece)
            super().data_received(piece)
            if self._bytes_without_body > MOST_HEAD_BYTES and not self._is_refused:
                self._refuse_head()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over. A client waits for the answer to the upgrade; what it sent ahead is dropped."""
        if self._is_answering:
            # Pipelined: the client would take the upgrade for the response to its earlier request.
            self.abort()
            return
        self._is_upgraded = True
        self._bytes_without_body = 0
        self.connections.discard(self)
        websocket = LimitedWebSocket(self.config, self.server_state, self.app_state, limits=self._limits)
        self._limits.replace(self, websocket)
        self.transport.set_protocol(websocket)
        websocket.begin(self.transport, url=self.url, headers=self.scope["headers"])

    def _should_upgrade(self) -> bool:
        return self.scope["method"] == "GET" and super()._should_upgrade()

    def on_headers_complete(self) -> None:
        """Start the request. Raises `ValueError`, which stops the parser, if a limit is exceeded."""
        # Exact, as a head may begin and end within one piece, after the body of another request.
        size = len(self.url) + sum(len(name) + len(value) + _FIELD_OVERHEAD for name, value in self.headers)
        if size > MOST_HEAD_BYTES:
            self._refuse_head()
        elif len(self.pipeline) >= MOST_PIPELINED:
            self.abort()
        if self._is_refused:
            raise ValueError("refused")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._bytes_without_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request was received."""
        self._bytes_without_body = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The response was sent."""
        self.waiting_since = time.monotonic()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed, unless it was answered already."""
        if not self._is_refused:
            self._is_refused = True
            super().send_400_response(msg)

    def _refuse_head(self) -> None:
        if self._is_answering:
            # The client would take another response for that of its earlier request.
            self.abort()
        else:
            self._refuse(431, f"the request head has more than {format_bytes(MOST_HEAD_BYTES)}", lingers=True)

    def _refuse(self, status: int, message: str, *, lingers: bool) -> None:
        self._is_refused = True
        body = json.dumps({"status": status, "message": message, "errorCode": f"http.{status}", "errors": []}).encode()
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + body)
        if lingers and self.transport.can_write_eof():
            self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        else:
            self.transport.close()
