"""HTTP, WebSocket and raw upgrades to one apiserver: one attempt per call, a deadline on each, every failure typed.

The only second attempt is after a 401, with credentials that were renewed. Redirects are not followed: the
token belongs to one host. What aiohttp raises does not leave this module.
"""

import asyncio
import io
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
from aiohttp.connector import NEEDS_CLEANUP_CLOSED
from yarl import URL

from runyard import __version__
from runyard.kube.config import ClusterConfig
from runyard.kube.credentials import Credential
from runyard.kube.errors import MESSAGE_CHARACTERS, Disconnected, Unauthorized, error_from_status
from runyard.kube.rate_limiter import Priority, RateLimit, RateLimiter
from runyard.kube.tls import ClientCertificate, build_ssl_context
from runyard.kube.transport_errors import TRANSPORT_FAILURES, deadline, read_deadline, typed_errors, typed_socket_errors
from runyard.kube.tunnel import RawConnection, pick_upgrade_headers

logger = logging.getLogger(__name__)

T = TypeVar("T")
Params = Mapping[str, str] | Sequence[tuple[str, str]]

_ERROR_BODY_BYTES = 1 << 20
_READ_BUFFER_BYTES = 1 << 18
_CHUNKED_BODY_BYTES = 1 << 18
# The apiserver closes idle connections after 90 s; ours go first, so that no request meets a closing one.
_KEEPALIVE_SECONDS = 30.0
_ADDRESS_SECONDS = 5.0
"""How long one address of several is tried."""
_CONNECTS_AT_A_TIME = 8
_WEBSOCKET_CLOSE_SECONDS = 2.0
_WARNINGS = 1000
_HEADERS = {
    "User-Agent": f"runyard/{__version__}",
    "Accept": "application/json, */*",
    # gzip costs both sides more CPU than it saves on a cluster's network.
    "Accept-Encoding": "identity",
}


class Transport:
    """One cluster's connections. An async context manager; use it from the event loop that entered it.

    `rate_limit` bounds how fast requests are sent and how many are under way; a call's deadline covers its wait.
    Streams and WebSockets live long: they are counted when they are opened, and bounded by whoever opens them.
    """

    def __init__(self, config: ClusterConfig, *, rate_limit: RateLimit | None = None) -> None:
        self._config = config
        self._base = config.server.rstrip("/")
        self.limiter = RateLimiter(rate_limit or RateLimit())
        self._session: aiohttp.ClientSession | None = None
        self._upgrades: aiohttp.ClientSession | None = None
        self._tls: dict[ClientCertificate | None, ssl.SSLContext] = {}
        self._tls_lock = asyncio.Lock()
        self._warnings: set[str] = set()

    async def __aenter__(self) -> Self:
        self._session = self._make_session(_Connector(keepalive_timeout=_KEEPALIVE_SECONDS))
        # An apiserver that refuses an upgrade says nothing of the connection, and closes it: it must not be used again.
        self._upgrades = self._make_session(_Connector(force_close=True))
        return self

    def _make_session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            # Deadlines are ours (`transport_errors.deadline`), so that they also cover what comes before a connection.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            middlewares=(self._attempt_once,),
            read_bufsize=_READ_BUFFER_BYTES,
        )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; calls under way fail with Disconnected. Idempotent."""
        self.limiter.close()
        sessions = (self._session, self._upgrades)
        self._session = self._upgrades = None
        for session in sessions:
            if session is not None:
                await session.close()
        await self._config.credentials.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        priority: Priority = Priority.STATUS,
        deadline_seconds: float = 30.0,
    ) -> bytes:
        """One request and its whole body. A non-2xx answer raises its typed error."""
        headers = {"Content-Type": content_type} if body is not None else {}
        with typed_errors(f"{method} {path}"), self.limiter.obeying(priority):
            async with deadline(deadline_seconds), self.limiter.slot(priority):
                response = await self._open(method, path, params=params, body=body, headers=headers)
                async with response:
                    return await response.read()

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        params: Params | None = None,
        priority: Priority = Priority.STATUS,
        deadline_seconds: float = 30.0,
        read_deadline_seconds: float | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """GET whose body comes in chunks as they arrive.

        `deadline_seconds` runs until the headers; `read_deadline_seconds` between chunks, then Stalled.
        The iterator ends where the server ended the body; a cut is Disconnected.
        """
        request = f"GET {path}"
        with typed_errors(request), self.limiter.obeying(priority):
            async with deadline(deadline_seconds):
                await self.limiter.take_token(priority)
                response = await self._open("GET", path, params=params, body=None, headers={})
        try:
            async with aclosing(_iter_chunks(response, request, read_deadline_seconds)) as chunks:
                yield chunks
        finally:
            response.close()

    @asynccontextmanager
    async def websocket(
        self,
        path: str,
        *,
        params: Params | None = None,
        protocols: Sequence[str],
        priority: Priority = Priority.STATUS,
        deadline_seconds: float = 30.0,
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket; a refused upgrade raises the typed error of the server's answer.

        Which of `protocols` was chosen is `socket.protocol` (None: none). `deadline_seconds` runs until the
        upgrade. Failures of the socket inside the block leave it as Disconnected.
        """

        async def connect(url: URL, options: Mapping[str, Any]) -> aiohttp.ClientWebSocketResponse:
            socket: aiohttp.ClientWebSocketResponse = await _get_open(self._upgrades).ws_connect(
                url,
                protocols=protocols,
                compress=0,
                max_msg_size=0,
                timeout=aiohttp.ClientWSTimeout(ws_close=_WEBSOCKET_CLOSE_SECONDS),
                **options,
            )
            return socket

        request = f"GET {path}"
        with typed_errors(request), self.limiter.obeying(priority):
            async with deadline(deadline_seconds):
                await self.limiter.take_token(priority)
                socket = await self._authenticated(connect, path, params=params, headers={})
        with typed_socket_errors(request):
            try:
                yield socket
            finally:
                await socket.close()

    @asynccontextmanager
    async def tunnel(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        headers: Mapping[str, str],
        priority: Priority = Priority.CREATE,
        deadline_seconds: float = 30.0,
    ) -> AsyncIterator[RawConnection]:
        """The raw bytes of an upgraded connection, for a protocol that two others speak across us.

        Of `headers` only those that describe the upgrade are sent, with our own credentials; the answer's are
        `connection.headers`. A refused upgrade raises the typed error of the server's answer. `deadline_seconds` runs
        until the upgrade.
        """
        upgrade = {**dict(pick_upgrade_headers(headers)), "Connection": "Upgrade"}

        async def send(url: URL, options: Mapping[str, Any]) -> aiohttp.ClientResponse:
            return await _get_open(self._upgrades).request(method, url, allow_redirects=False, **options)

        request = f"{method} {path}"
        with typed_errors(request), self.limiter.obeying(priority):
            async with deadline(deadline_seconds):
                await self.limiter.take_token(priority)
                response = await self._authenticated(send, path, params=params, headers=upgrade)
        try:
            with typed_errors(request):
                connection = _take_over(response)
            try:
                yield connection
            finally:
                await connection.close()
        finally:
            response.close()

    async def _open(
        self,
        method: str,
        path: str,
        *,
        params: Params | None,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> aiohttp.ClientResponse:
        async def send(url: URL, options: Mapping[str, Any]) -> aiohttp.ClientResponse:
            # aiohttp writes bytes in one go and a file in chunks between which others get their turn.
            is_large = body is not None and len(body) > _CHUNKED_BODY_BYTES
            data = io.BytesIO(body or b"") if is_large else body
            return await _get_open(self._session).request(method, url, data=data, allow_redirects=False, **options)

        return await self._authenticated(send, path, params=params, headers=headers)

    async def _authenticated(
        self,
        send: Callable[[URL, Mapping[str, Any]], Awaitable[T]],
        path: str,
        *,
        params: Params | None,
        headers: Mapping[str, str],
    ) -> T:
        """Send with the current credentials, and once more after a 401 if newer ones exist."""
        url = self._url(path, params)
        credential = await self._config.credentials.get()
        try:
            return await send(url, await self._options(credential, headers))
        except Unauthorized:
            renewed = await self._config.credentials.renew(credential)
            if renewed == credential:
                raise
        return await send(url, await self._options(renewed, headers))

    async def _options(self, credential: Credential, headers: Mapping[str, str]) -> dict[str, Any]:
        if credential.authorization is not None:
            headers = {**headers, "Authorization": credential.authorization}
        options: dict[str, Any] = {"headers": headers, "proxy": self._config.proxy_url}
        if self._base.startswith("https:"):
            options["ssl"] = await self._ssl_context(credential.certificate)
            options["server_hostname"] = self._config.tls_server_name
        return options

    async def _ssl_context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """Built once per certificate, on a thread: loading the system's roots takes tens of milliseconds."""
        async with self._tls_lock:
            if certificate not in self._tls:
                context = await asyncio.to_thread(
                    build_ssl_context,
                    ca=self._config.ca,
                    certificate=certificate,
                    skip_verify=self._config.skip_tls_verify,
                )
                # Keep only the latest: an earlier certificate has expired or was refused.
                self._tls = {certificate: context}
            return self._tls[certificate]

    async def _attempt_once(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Turn failures and refusals into typed errors below aiohttp's own retry, redirect and handshake logic.

        aiohttp repeats a GET, PUT or DELETE whose connection was cut; here a repeat is the caller's decision, so
        the exception it would repeat on must not reach it. And only here can a refused upgrade's body be read.
        """
        label = f"{request.method} {request.url.raw_path}"
        with typed_errors(label):
            response = await send(request)
        self._pass_on_warnings(label, response.headers.getall("Warning", ()))
        is_upgrade = "Upgrade" in request.headers
        if response.status == 101 if is_upgrade else 200 <= response.status < 300:
            return response
        async with response:
            body = await _read_error_body(response)
        raise error_from_status(response.status, body, headers=response.headers)

    def _pass_on_warnings(self, label: str, warnings: Sequence[str]) -> None:
        """Log the server's warnings, each text once: thousands of requests may carry the same one."""
        for warning in warnings:
            if warning not in self._warnings:
                if len(self._warnings) >= _WARNINGS:
                    self._warnings.clear()
                self._warnings.add(warning)
                logger.warning("%s: the server warns: %s", label, warning[:MESSAGE_CHARACTERS])

    def _url(self, path: str, params: Params | None) -> URL:
        # Encoded here: Go refuses the bare ';' that yarl leaves in a query.
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        return URL(f"{self._base}{path}{query}", encoded=True)


class _Connector(aiohttp.TCPConnector):
    """A connector that opens few connections at the same time; how many are open, `RateLimiter` bounds.

    After an outage every request wants a connection of its own. If all shook hands with a slow server at once, none
    would be done within its deadline, each would be tried again, and the server would never catch up.
    """

    def __init__(self, **options: Any) -> None:
        # Old Pythons wait for the other side to end TLS before they close a socket; aiohttp then aborts it soon after.
        super().__init__(limit=0, enable_cleanup_closed=NEEDS_CLEANUP_CLOSED, **options)
        self._connects = asyncio.Semaphore(_CONNECTS_AT_A_TIME)

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,
    ) -> Any:
        async with self._connects:
            return await super()._create_connection(req, traces, timeout)

    async def _wrap_create_connection(
        self, *args: Any, addr_infos: list[Any], timeout: aiohttp.ClientTimeout, **options: Any
    ) -> Any:
        """Connect to the first address; aiohttp calls again without it if that fails.

        The event loop opens the socket. A socket that aiohttp opens has two owners while it is handed to uvloop: if the
        request is cancelled then, both close its descriptor, the second time perhaps one of another connection.
        """
        host, port = addr_infos[0][-1][:2]
        seconds = _ADDRESS_SECONDS if len(addr_infos) > 1 else None
        async with asyncio.timeout(seconds):
            return await self._wrap_existing_connection(*args, host=host, port=port, timeout=timeout, **options)


def _get_open(session: aiohttp.ClientSession | None) -> aiohttp.ClientSession:
    if session is None:
        raise RuntimeError("the transport is not open: use it inside `async with`")
    return session


def _take_over(response: aiohttp.ClientResponse) -> RawConnection:
    connection = response.connection
    if connection is None or connection.protocol is None or connection.transport is None:
        raise Disconnected("the connection was cut after the upgrade")
    headers = pick_upgrade_headers(response.headers)
    return RawConnection.take_over(connection.transport, connection.protocol, headers=headers)


async def _read_error_body(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.content.readexactly(_ERROR_BODY_BYTES)
    except asyncio.IncompleteReadError as end:
        return end.partial
    except TRANSPORT_FAILURES:
        return b""  # The status is enough; its explanation was cut off.


async def _iter_chunks(
    response: aiohttp.ClientResponse, request: str, read_deadline_seconds: float | None
) -> AsyncGenerator[bytes, None]:
    while True:
        with typed_errors(request):
            async with read_deadline(read_deadline_seconds):
                chunk = await response.content.readany()
        if not chunk:
            return
        yield chunk
