"""The server behind the port: TLS, who may ask, bounds, and the loops that keep certificate and authority fresh."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, nullcontext
from datetime import UTC, datetime

from aiohttp import web

from runyard.kube import Client, KubeError, Priority
from runyard.kube.backoff import Backoff
from runyard.node.kubelet_api.authentication import Authentication, PeerCertificate
from runyard.node.kubelet_api.authorization import Authorization, access_of_request
from runyard.node.kubelet_api.client_authority import read_client_authority
from runyard.node.kubelet_api.connections import IDLE_SECONDS, Connections, open_listener
from runyard.node.kubelet_api.local_pods import LocalPods
from runyard.node.kubelet_api.lost_links import ReadLink
from runyard.node.kubelet_api.refusal import Refusal
from runyard.node.kubelet_api.routes import Routes
from runyard.node.kubelet_api.serving_certificate import (
    SIGNER,
    CertificateNotIssued,
    ServingCertificate,
    request_certificate,
)
from runyard.node.kubelet_api.serving_contexts import ServingContexts
from runyard.node.kubelet_api.streams import OpenStreams
from runyard.node.providers.provider import Provider

KUBELET_PORT = 10250
AUTHORITY_SECONDS = 60.0
"""How often the client authority is read again."""
LONGEST_REQUEST_LINE_BYTES = 1 << 18
"""The command of an exec is in the query: a script of some 100 kB fits, percent signs included."""
LONGEST_HEADER_BYTES = 1 << 14
MOST_HEADERS = 64
_SHUTDOWN_SECONDS = 2.0
_RETRY_SECONDS = (1.0, 60.0)

logger = logging.getLogger(__name__)


class KubeletPort:
    """Serves while `run` runs. `problem` says why it does not serve, in words for a condition or the doctor."""

    def __init__(
        self,
        client: Client,
        provider: Provider,
        pods: LocalPods,
        *,
        node: str,
        addresses: Sequence[str],
        listen: str = "0.0.0.0",  # noqa: S104 - the apiserver dials the pod's address
        port: int = KUBELET_PORT,
        signer: str = SIGNER,
        read_link: ReadLink | None = None,
        on_lost: Callable[[str, str], None] = lambda _uid, _why: None,
    ) -> None:
        """`read_link` ends streams of a provider that vanished; `on_lost` is told the pod's uid and why."""
        self._client = client
        self._node = node
        self._addresses = addresses
        self._listen = (listen, port)
        self._signer = signer
        # Somebody waits for the answer, as for a read.
        reviewer = client.with_priority(Priority.STATUS)
        self._authentication = Authentication(reviewer)
        self._authorization = Authorization(reviewer, node=node)
        self._routes = Routes(provider, pods, node=node, read_link=read_link, on_lost=on_lost)
        self._contexts: ServingContexts | None = None
        self._connections: Connections | None = None
        self._is_listening = asyncio.Event()
        self.port = port
        """The port that is listened on; with port 0, known once it listens."""
        self.problem: str | None = "the port has not been opened yet"

    async def wait_listening(self) -> None:
        """Return when the first request can be answered."""
        await self._is_listening.wait()

    @property
    def connections(self) -> Connections | None:
        """Open connections; None before it listens."""
        return self._connections

    @property
    def streams(self) -> OpenStreams:
        """Logs and upgraded connections: how many are open, and their bytes."""
        return self._routes.streams

    async def run(self) -> None:
        """Get a certificate, however long that takes, and serve until cancelled."""
        authority = await self._read_authority()
        certificate = await self._obtain_certificate()
        contexts = self._contexts = await asyncio.to_thread(ServingContexts, certificate, authority=authority)
        async with AsyncExitStack() as stack:
            runner = web.AppRunner(
                self._build_app(),
                access_log=None,
                handler_cancellation=True,
                keepalive_timeout=IDLE_SECONDS,
                max_line_size=LONGEST_REQUEST_LINE_BYTES,
                max_field_size=LONGEST_HEADER_BYTES,
                max_headers=MOST_HEADERS,
                shutdown_timeout=_SHUTDOWN_SECONDS,
                auto_decompress=False,
            )
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            if runner.server is None:
                raise RuntimeError("the runner was not set up")
            connections = self._connections = Connections(runner.server, context=contexts.listening)
            listener = stack.enter_context(open_listener(*self._listen))
            self.port = listener.getsockname()[1]
            self.problem = None
            self._is_listening.set()
            async with asyncio.TaskGroup() as loops:
                loops.create_task(connections.serve(listener))
                loops.create_task(self._renew_certificates(contexts))
                loops.create_task(self._follow_authority(contexts))

    def _build_app(self) -> web.Application:
        app = web.Application(middlewares=[self._check], client_max_size=1)
        self._routes.add_to(app)
        return app

    @web.middleware
    async def _check(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Nothing is answered before it is known who asks and that they may; not even that a path does not exist."""
        with nullcontext() if self._connections is None else self._connections.answering(request):
            try:
                await self._authorize(request)
                return await handler(request)
            except Refusal as refusal:
                return refusal.to_response()

    async def _authorize(self, request: web.Request) -> None:
        user = await self._authentication.authenticate(
            self._find_certificate(request), request.headers.get("Authorization")
        )
        resource = request.match_info.route.resource
        path = resource.canonical if resource is not None else ""
        await self._authorization.authorize(user, access_of_request(request.method, path))
        if self._connections is not None:
            self._connections.note_known(request)
        if not request.raw_path.isascii():
            raise Refusal(400, "the path or query has bytes that are not ASCII: encode them with %")

    def _find_certificate(self, request: web.Request) -> PeerCertificate | None:
        if request.transport is None or self._contexts is None:
            return None
        connection = request.transport.get_extra_info("ssl_object")
        return None if connection is None else self._contexts.find_peer_certificate(connection)

    async def _read_authority(self) -> bytes | None:
        backoff = Backoff(initial_seconds=_RETRY_SECONDS[0], maximum_seconds=_RETRY_SECONDS[1])
        while True:
            try:
                return await read_client_authority(self._client)
            except KubeError as error:
                self._note_problem(f"the authority of client certificates cannot be read: {error}")
                await asyncio.sleep(backoff.next_seconds())

    async def _obtain_certificate(self) -> ServingCertificate:
        backoff = Backoff(initial_seconds=_RETRY_SECONDS[0], maximum_seconds=_RETRY_SECONDS[1])
        while True:
            try:
                return await request_certificate(
                    self._client, node=self._node, addresses=self._addresses, signer=self._signer
                )
            except CertificateNotIssued as error:
                self._note_problem(str(error))
                await asyncio.sleep(backoff.next_seconds())

    async def _renew_certificates(self, contexts: ServingContexts) -> None:
        while True:
            left = contexts.certificate.renewal_at - datetime.now(UTC)
            await asyncio.sleep(max(left.total_seconds(), _RETRY_SECONDS[0]))
            await contexts.present(await self._obtain_certificate())
            self.problem = None
            logger.info("the certificate of the port was renewed, until %s", contexts.certificate.ends_at)

    async def _follow_authority(self, contexts: ServingContexts) -> None:
        while True:
            await asyncio.sleep(AUTHORITY_SECONDS)
            try:
                authority = await read_client_authority(self._client)
                if authority != contexts.authority:
                    await contexts.trust(authority)
                    logger.info("the authority of client certificates has changed")
            except (KubeError, ssl.SSLError) as error:
                logger.warning("the authority of client certificates cannot be read again: %s", error)

    def _note_problem(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("the kubelet port: %s", problem)
        self.problem = problem
