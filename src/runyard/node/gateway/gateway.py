"""The gateway: hosts from the provider's Services, pods from their EndpointSlices, HTTPS for clients."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Self

from aiohttp import ClientSession, web

from runyard.kube import Client
from runyard.kube.reflector import Reflector
from runyard.kube.resources import ENDPOINT_SLICES, SERVICES
from runyard.node.certificate_authority import CertificateAuthority
from runyard.node.gateway.certificates import HostCertificates
from runyard.node.gateway.gateway_settings import GatewaySettings
from runyard.node.gateway.proxy import HEAD_BYTES, open_session, pass_on
from runyard.node.gateway.route_views import (
    HOST_INDEX,
    SERVICE_INDEX,
    RouteView,
    SliceView,
    Target,
    find_targets,
    index_host,
    index_service,
)
from runyard.node.providers.kubernetes.route_objects import SERVICE_UID_LABEL

SYNC_SECONDS = 60.0
SHUTDOWN_SECONDS = 5.0
HANDSHAKE_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Gateway:
    """Serves while it is entered. Knows every route of one namespace of the provider, or of all."""

    def __init__(self, client: Client, settings: GatewaySettings) -> None:
        self._settings = settings
        self._routes: Reflector[RouteView] = Reflector(
            client,
            SERVICES,
            view=RouteView,
            namespace=settings.namespace,
            label_selector=SERVICE_UID_LABEL,
            indexes={HOST_INDEX: index_host},
        )
        self._slices: Reflector[SliceView] = Reflector(
            client,
            ENDPOINT_SLICES,
            view=SliceView,
            namespace=settings.namespace,
            label_selector=SERVICE_UID_LABEL,
            indexes={SERVICE_INDEX: index_service},
        )
        self._authority = CertificateAuthority(settings.folder)
        self._listener: HostListener | None = None
        self._exits = AsyncExitStack()

    @property
    def port(self) -> int:
        """Where it listens."""
        if self._listener is None:
            raise RuntimeError("the gateway has not been entered")
        return self._listener.port

    @property
    def authority_pem(self) -> bytes:
        """The certificate of its CA."""
        return self._authority.certificate_pem

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as exits:
            await exits.enter_async_context(self._routes)
            await exits.enter_async_context(self._slices)
            async with asyncio.timeout(SYNC_SECONDS):
                await self._routes.wait_synced()
                await self._slices.wait_synced()
            table = RouteTable(self._routes, self._slices, domain=self._settings.domain)
            self._listener = HostListener(table, self._authority, self._settings)
            await exits.enter_async_context(self._listener)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._exits.aclose()


class RouteTable:
    """Finds the pods of a host."""

    def __init__(self, routes: Reflector[RouteView], slices: Reflector[SliceView], *, domain: str) -> None:
        self._routes = routes
        self._slices = slices
        self._suffix = f".{domain}"

    def is_routed(self, host: str) -> bool:
        """Whether a Service has this host."""
        return host.endswith(self._suffix) and bool(self._routes.store.find_keys_by_index(HOST_INDEX, host))

    def find_targets(self, host: str) -> list[Target]:
        """The ready pods behind a host."""
        found = self._routes.store.find_by_index(HOST_INDEX, host)
        return find_targets(found[0], self._slices.store) if found else []


class HostListener:
    """HTTPS on one port, for the hosts of a table."""

    def __init__(self, table: RouteTable, authority: CertificateAuthority, settings: GatewaySettings) -> None:
        self._table = table
        self._settings = settings
        self._certificates = HostCertificates(authority, domain=settings.domain, is_routed=table.is_routed)
        self._session: ClientSession | None = None
        self._web_server: _BoundedServer | None = None
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        if self._server is None:
            raise RuntimeError("the listener has not been entered")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        settings = self._settings
        self._session = open_session(settings)
        self._web_server = _BoundedServer(
            self._answer,
            most_connections=settings.most_connections,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=settings.head_seconds,
            max_field_size=HEAD_BYTES,
            max_line_size=HEAD_BYTES,
        )
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._web_server,
                settings.listen_host,
                settings.listen_port,
                ssl=self._certificates.server_context(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except OSError:
            await self._session.close()
            raise
        _log.info("the gateway serves https://*.%s on port %d", settings.domain, self.port)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.close()
        if self._web_server is not None:
            await self._web_server.shutdown(SHUTDOWN_SECONDS)
        if self._session is not None:
            await self._session.close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        host = request.headers.get("Host", "").lower().partition(":")[0]
        if self._session is None or not self._table.is_routed(host):
            return web.Response(status=404, text="no Service has this host\n")
        targets = self._table.find_targets(host)
        return await pass_on(request, targets, session=self._session, settings=self._settings)


class _BoundedServer(web.Server):
    """Cuts connections above a number: aiohttp has no bound of its own."""

    def __init__(self, handler: object, *, most_connections: int, **options: object) -> None:
        super().__init__(handler, **options)  # type: ignore[arg-type]
        self._most_connections = most_connections

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Refuse what is too much at once; a client sees a closed connection."""
        super().connection_made(handler, transport)
        if len(self._connections) > self._most_connections:
            transport.abort()
