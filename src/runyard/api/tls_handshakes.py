"""TLS handshakes that count as connections from the start, so that stalled ones can be closed like any other.

The event loop's own TLS server hides a connection until its handshake is complete. Hundreds of clients that never
complete it would use up the file descriptors of the process.
"""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

from runyard.api.connection_limits import ConnectionLimits

HANDSHAKE_SECONDS = 10.0
"""How long a TLS handshake may take."""


class TlsHandshake(asyncio.Protocol):
    """A connection during its handshake; `connection_limits.Connection`. Afterwards another protocol takes over."""

    is_authenticated = False
    is_receiving = True

    def __init__(
        self, context: ssl.SSLContext, make_protocol: Callable[[], asyncio.Protocol], *, limits: ConnectionLimits
    ) -> None:
        self.waiting_since = time.monotonic()
        self.address: str | None = None
        self._context = context
        self._make_protocol = make_protocol
        self._limits = limits
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    def abort(self) -> None:
        """Close at once."""
        if self._socket is not None:
            # The event loop owns the descriptor; it closes it when it sees this.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop has its own class
        """Start the handshake, if there is room."""
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if peer else None
        if self._limits.admit(self):
            # `loop.start_tls` would lose bytes that uvloop reads before it: hand the socket over instead, unread.
            self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
            self._socket.setblocking(False)
            self._task = asyncio.get_running_loop().create_task(self._shake_hands(self._socket))
        transport.abort()

    async def _shake_hands(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._make_protocol, connection, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError:
            # A handshake that fails is routine: scanners, probes, clients that do not trust the certificate.
            connection.close()
        finally:
            self._limits.release(self)
