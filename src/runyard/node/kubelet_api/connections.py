"""Connections to the port, bounded in number, bytes and time until it is known who sent a request.

Everybody in the cluster can open connections. Each has memory for TLS and for the head of a request, so those of
strangers are counted from the first packet on. Beyond a bound the oldest ones of the address that has most are closed:
who opens thousands closes their own, and everybody else is served.
"""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiohttp import web

MOST_CONNECTIONS = 1000
"""Open connections, those of streams included. One more is closed at once, unless a stranger makes room."""
MOST_STRANGERS = 200
"""Connections that have not sent a request yet whose user is known and may send it."""
MOST_STRANGERS_OF_AN_ADDRESS = 100
"""The apiserver opens one for each log and session: a burst of them must fit."""
HANDSHAKE_SECONDS = 10.0
STRANGER_SECONDS = 20.0
"""How long a connection may take until a known user has sent a request."""
IDLE_SECONDS = 90.0
"""How long it may take afterwards until the head of the next request is complete."""
MOST_HEAD_BYTES = 300 * 1024
"""Of what is sent since the last request was answered."""
_CHECK_SECONDS = 1.0
_BACKLOG = 128

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Connection:
    address: str
    since: float
    """When it was accepted, or the last request of a known user was answered."""
    shaking: asyncio.Task[None] | None = None
    transport: asyncio.Transport | None = None
    handler: web.RequestHandler | None = None
    is_known: bool = False
    requests: int = 0
    """Requests that are being answered."""
    received_bytes: int = 0

    @property
    def is_closed(self) -> bool:
        return self.shaking is None and (self.transport is None or self.transport.is_closing())

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.shaking is not None:
            self.shaking.cancel()


class Connections:
    """Accepts for one server of aiohttp. `serve` until cancelled."""

    def __init__(self, server: Callable[[], web.RequestHandler], *, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._open: set[_Connection] = set()
        self._by_handler: dict[web.RequestHandler, _Connection] = {}

    @property
    def strangers(self) -> int:
        """Connections of which nobody knows whose they are."""
        return sum(not one.is_known for one in self._open)

    def __len__(self) -> int:
        return len(self._open)

    async def serve(self, listener: socket.socket) -> None:
        """Accept connections of a listening socket, and close those that take too long."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._close_late())
                while True:
                    try:
                        accepted, address = await loop.sock_accept(listener)
                    except OSError as error:
                        _log.warning("a connection cannot be accepted: %s", error)
                        await asyncio.sleep(_CHECK_SECONDS)
                        continue
                    self._admit(accepted, str(address[0]), tasks)
                    await asyncio.sleep(0)  # others have their turn, however many wait to be accepted
        finally:
            for connection in tuple(self._open):
                connection.abort()

    @contextmanager
    def answering(self, request: web.Request) -> Iterator[None]:
        """A request is being answered for the time of the block."""
        connection = self._by_handler.get(request.protocol)
        if connection is None:
            yield
            return
        connection.requests += 1
        try:
            yield
        finally:
            connection.requests -= 1
            connection.received_bytes = 0
            if connection.is_known:
                connection.since = asyncio.get_running_loop().time()

    def note_known(self, request: web.Request) -> None:
        """The request is of a user who may send it."""
        connection = self._by_handler.get(request.protocol)
        if connection is not None:
            connection.is_known = True

    def _admit(self, accepted: socket.socket, address: str, tasks: asyncio.TaskGroup) -> None:
        self._prune()
        strangers = [one for one in self._open if not one.is_known]
        own = [one for one in strangers if one.address == address]
        victims: list[_Connection] = []
        if len(own) >= MOST_STRANGERS_OF_AN_ADDRESS:
            victims = own
        elif strangers and (len(strangers) >= MOST_STRANGERS or len(self._open) >= MOST_CONNECTIONS):
            counts = Counter(one.address for one in strangers)
            most = max(counts.values())
            victims = [one for one in strangers if counts[one.address] == most]
        elif len(self._open) >= MOST_CONNECTIONS:
            accepted.close()
            return
        if victims:
            oldest = min(victims, key=lambda one: one.since)
            oldest.abort()
            self._open.discard(oldest)
        accepted.setblocking(False)
        connection = _Connection(address, asyncio.get_running_loop().time())
        self._open.add(connection)
        connection.shaking = tasks.create_task(self._shake_hands(connection, accepted))
        connection.shaking.add_done_callback(lambda _: self._end_handshake(connection, accepted))

    def _end_handshake(self, connection: _Connection, accepted: socket.socket) -> None:
        """Whatever became of it; a task that is cancelled may never have begun."""
        connection.shaking = None
        if connection.transport is None:
            accepted.close()
            self._open.discard(connection)

    async def _shake_hands(self, connection: _Connection, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: _CountedProtocol(self, connection),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except (OSError, ValueError) as error:  # routine: scanners, probes, clients that do not trust the certificate
            _log.debug("a handshake failed: %s", error)

    def attach(self, connection: _Connection, transport: asyncio.Transport) -> web.RequestHandler:
        """The handshake is done: requests may come."""
        handler = self._server()
        connection.transport, connection.handler = transport, handler
        self._by_handler[handler] = connection
        return handler

    def _prune(self) -> None:
        """Forget connections that are closed. After an upgrade nobody else tells."""
        for connection in [one for one in self._open if one.is_closed]:
            self._open.discard(connection)
        for handler in [handler for handler, one in self._by_handler.items() if one.is_closed]:
            del self._by_handler[handler]

    async def _close_late(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            self._prune()
            now = clock()
            for connection in tuple(self._open):
                seconds = IDLE_SECONDS if connection.is_known else STRANGER_SECONDS
                if not connection.requests and now - connection.since > seconds:
                    connection.abort()


class _CountedProtocol(asyncio.Protocol):
    """Passes everything on to aiohttp's handler, as long as a client sends no more than a head may have."""

    def __init__(self, connections: Connections, connection: _Connection) -> None:
        self._connections = connections
        self._connection = connection
        self._handler: web.RequestHandler | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._handler = self._connections.attach(self._connection, transport)
            self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._connection.received_bytes += len(data)
        if self._connection.received_bytes > MOST_HEAD_BYTES:
            self._connection.abort()
        elif self._handler is not None:
            self._handler.data_received(data)

    def eof_received(self) -> None:
        if self._handler is not None:
            self._handler.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._handler is not None:
            self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        if self._handler is not None:
            self._handler.resume_writing()


def open_listener(host: str, port: int) -> socket.socket:
    """A listening socket that `Connections.serve` accepts from."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    listener.setblocking(False)
    return listener
