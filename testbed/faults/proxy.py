"""The proxy itself: its thread, its two kinds of TLS, and what a test may tell and ask it while it runs."""

import asyncio
import logging
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from testbed.faults.http1 import Request
from testbed.faults.journal import Entry, Journal
from testbed.faults.listener import Listener
from testbed.faults.plan import Fault, FaultPlan
from testbed.faults.relay import Relay
from testbed.faults.wire import CLOSE_SECONDS, Wire, reset

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
STOP_SECONDS = 15.0


class FaultProxy:
    """An HTTP/1.1 reverse proxy that passes everything on byte for byte, except for the faults of its plan.

    It runs in a thread with an event loop of its own, so that neither blocking code in a test nor the client
    under test can hold it up. Use it as `with` or `async with`, once. `certificate` (chain and key) makes
    it speak TLS to clients. Their own certificates end here: `upstream_identity` is what the upstream sees.
    """

    def __init__(
        self,
        upstream: str,
        *,
        plan: FaultPlan | None = None,
        certificate: tuple[Path, Path] | None = None,
        upstream_ca: Path | None = None,
        upstream_identity: tuple[Path, Path] | None = None,
        host: str = "127.0.0.1",
        connection_limit: int = 512,
    ) -> None:
        parts = urlsplit(upstream)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"an upstream is a scheme, a host and a port, not {upstream!r}")
        is_tls = parts.scheme == "https"
        self.plan = plan or FaultPlan()  # may be replaced while running: the next request asks the new one
        self.enabled = True  # False: everything passes, and faults that wait for their byte do not strike
        self._upstream = (parts.hostname, parts.port or (443 if is_tls else 80))
        self._upstream_tls = _client_tls(upstream_ca, identity=upstream_identity) if is_tls else None
        self._tls = _server_tls(certificate) if certificate else None
        self._host, self._limit = host, connection_limit
        self._journal = Journal()
        self._relays: dict[asyncio.Task[None], Relay | None] = {}  # None during the handshake

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"{'https' if self._tls else 'http'}://{self._host}:{self._listener.port}"

    @property
    def journal(self) -> list[Entry]:
        """What was done so far, oldest first."""
        return self._journal.entries()

    @property
    def counts(self) -> Counter[str]:
        """How often each kind of fault was done."""
        return self._journal.counts()

    def refuse(self, seconds: float) -> None:
        """Refuse new connections for so long, from now on; open ones stay."""
        self._journal.record("refuse")
        self._call(self._listener.pause(seconds))

    def sever(self) -> None:
        """Reset every open connection; returns when that is done."""
        self._call(self._sever())

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(STOP_SECONDS)

    def __enter__(self) -> Self:
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._main, args=(started,), name="fault-proxy", daemon=True)
        self._thread.start()
        started.result()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._is_stopping.set)
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            raise RuntimeError(f"the fault proxy did not stop within {STOP_SECONDS:.0f} s")

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.__exit__, *error)

    # From here on: the Switchboard of the relays, and all else that runs in the proxy's own loop.

    def decide(self, request: Request) -> Fault | None:
        """The fault that this request is to meet."""
        return self.plan.decide(request) if self.enabled else None

    def commit(self, fault: Fault, request: Request) -> bool:
        """Record a fault that is done now; False when faults were switched off meanwhile."""
        if not self.enabled:
            return False
        self._journal.record(fault.kind, request=request, fault=fault)
        return True

    async def close_listener(self, seconds: float) -> None:
        """Refuse new connections for so long; returns when it does."""
        await self._listener.pause(seconds)

    async def connect(self, request: Request) -> Wire:
        """A new connection to the upstream; raises OSError."""
        host, port = self._upstream
        try:
            return Wire(*await self._open_upstream())
        except OSError as error:  # TimeoutError and ssl.SSLError are OSErrors, too
            log.info("upstream %s:%d is unreachable: %s", host, port, error)
            self._journal.record("unreachable", request=request)
            raise

    async def _open_upstream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """When cancelled, wait for the connection and abort it: asyncio would close one with TLS gently, which takes
        longer than this loop lives.
        """
        host, port = self._upstream
        opening = asyncio.create_task(asyncio.open_connection(host, port, ssl=self._upstream_tls))
        try:
            done, _ = await asyncio.wait({opening}, timeout=CONNECT_SECONDS)
        except asyncio.CancelledError:
            done, _ = await asyncio.wait({opening}, timeout=CLOSE_SECONDS)
            if done and opening.exception() is None:
                opening.result()[1].transport.abort()
            opening.cancel()
            raise
        if not done:
            opening.cancel()
            raise TimeoutError(f"no connection within {CONNECT_SECONDS:.0f} s")
        return opening.result()

    async def _sever(self) -> None:
        for relay in [relay for relay in self._relays.values() if relay is not None]:
            self._journal.record("sever", request=relay.request)
            relay.reset()

    def _main(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._run(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)  # raised by the thread that waits for us

    async def _run(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_stopping = asyncio.Event()
        async with Listener(self._host, accepted=self._take) as self._listener:
            started.set_result(None)
            await self._is_stopping.wait()
        for task in self._relays:
            task.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def _take(self, connection: socket.socket) -> None:
        if len(self._relays) >= self._limit:
            self._journal.record("overflow")
            reset(connection)
            return
        task = asyncio.create_task(self._relay(connection))
        self._relays[task] = None
        task.add_done_callback(self._relays.pop)

    async def _relay(self, connection: socket.socket) -> None:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport = await self._shake_hands(connection, protocol)
        except OSError as error:
            log.info("a client did not finish its handshake: %s", error)
            return
        relay = Relay(Wire(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)), switchboard=self)
        task = asyncio.current_task()
        if task is not None:
            self._relays[task] = relay
        await relay.run()

    async def _shake_hands(self, connection: socket.socket, protocol: asyncio.Protocol) -> asyncio.WriteTransport:
        """Make an accepted socket a transport. When cancelled, the socket is ended first and the rest follows:
        Pythons before 3.11.4 leave the transport of a cancelled handshake open.
        """
        timeout = CONNECT_SECONDS if self._tls else None
        shaking = asyncio.ensure_future(
            self._loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        )
        try:
            transport, _ = await asyncio.shield(shaking)
        except asyncio.CancelledError:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            (outcome,) = await asyncio.gather(shaking, return_exceptions=True)
            if not isinstance(outcome, BaseException):
                outcome[0].abort()
            raise
        return transport


def _server_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _client_tls(ca: Path | None, *, identity: tuple[Path, Path] | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    if identity:
        context.load_cert_chain(*identity)
    context.set_alpn_protocols(["http/1.1"])
    return context
