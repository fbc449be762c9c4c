"""Logs and upgraded connections: bytes from the provider to the client, no faster than the client takes them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress

from aiohttp import web

from runyard.kube import Disconnected
from runyard.kube.tunnel import RawConnection, pick_upgrade_headers
from runyard.node.kubelet_api.lost_links import ReadLink, StreamActivity, ended_with_link
from runyard.node.kubelet_api.refusal import Refusal
from runyard.node.providers.provider import (
    LogOptions,
    Logs,
    ProviderError,
    ProviderRefused,
    ProviderUnavailable,
    Relay,
    RemotePodMissing,
    StreamKind,
    Tunnel,
)

SLOW_CLIENT_SECONDS = 300.0
"""How long a client may take for the last bytes of a stream, after the provider has ended it."""
CLIENT_FIRST_SECONDS = 20.0
"""How long a client that knows the end of an exec from its bytes may close first. An apiserver that hears of the end in
another way closes the connection to kubectl, and kubectl's next ping resets it: what was not read is lost."""
LAST_WORDS_SECONDS = 5.0
_STATUS_OF_REASON = {"NotFound": 404, "Forbidden": 502, "MethodNotAllowed": 502}

logger = logging.getLogger(__name__)


class OpenStreams:
    """How many streams are open, at most how many may be, and what went through all of them.

    `read_link` says whether the provider can be reached; `on_lost` is told the uid of a pod and why its stream ended.
    """

    def __init__(
        self,
        most: int,
        *,
        read_link: ReadLink | None = None,
        on_lost: Callable[[str, str], None] = lambda _uid, _why: None,
    ) -> None:
        self._most = most
        self.read_link = read_link
        self.on_lost = on_lost
        self.open = 0
        self.sent_bytes = 0
        """To clients."""
        self.received_bytes = 0
        """From clients."""

    def count_sent(self, data: bytes) -> None:
        """Count bytes on their way to a client."""
        self.sent_bytes += len(data)

    def count_received(self, data: bytes) -> None:
        """Count bytes that came from a client."""
        self.received_bytes += len(data)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a stream for the time of the block; Refusal 429 when there are too many."""
        if self.open >= self._most:
            raise Refusal(429, f"{self.open} logs and connections are open on this node; allowed: {self._most}")
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


@contextmanager
def provider_refusals() -> Iterator[None]:
    """Turn what the provider raises into the answer that a client gets."""
    try:
        yield
    except RemotePodMissing as error:
        raise Refusal(404, f"the provider does not have this pod: {error}") from error
    except ProviderRefused as error:
        raise Refusal(_STATUS_OF_REASON.get(error.reason, 400), str(error)) from error
    except ProviderUnavailable as error:
        raise Refusal(503, f"the provider cannot be reached: {error}") from error
    except ProviderError as error:
        raise Refusal(502, f"the provider failed: {error}") from error


async def send_log(
    request: web.Request, logs: Logs, streams: OpenStreams, *, uid: str, container: str, options: LogOptions
) -> web.StreamResponse:
    """Answer with a log. If it breaks off, the answer is cut, so that nobody takes a part for the whole."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    async with AsyncExitStack() as stack:
        stack.enter_context(streams.counted())
        with provider_refusals():
            chunks = await stack.enter_async_context(logs.read_log(uid, container, options))
        try:
            await response.prepare(request)
            async with ended_with_link(streams.read_link) as activity:
                async for chunk in chunks:
                    activity.note()
                    streams.count_sent(chunk)
                    await response.write(chunk)
        except ProviderError as error:
            logger.info("a log of pod %s broke off: %s", uid, error)
            if isinstance(error, ProviderUnavailable) and options.follow:
                await _say_last(response, f"\n[the log breaks off here: {error}]\n")
            if request.transport is not None:
                request.transport.close()
        except ConnectionError:
            logger.debug("the reader of a log of pod %s left", uid)
    return response


async def _say_last(response: web.StreamResponse, words: str) -> None:
    """The last words of an answer that breaks off; nobody waits for a reader who does not take them."""
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(LAST_WORDS_SECONDS):
            await response.write(words.encode())


async def relay_stream(
    request: web.Request,
    relay: Relay,
    streams: OpenStreams,
    kind: StreamKind,
    *,
    uid: str,
    container: str | None,
    query: list[tuple[str, str]],
) -> web.StreamResponse:
    """Answer with the provider's own upgrade, and pass on the bytes of both sides until one of them ends."""
    headers = dict(pick_upgrade_headers(request.headers))
    if not any(name.lower() == "upgrade" for name in headers):
        raise Refusal(400, "an upgrade is needed here: send Connection: Upgrade, and Upgrade: SPDY/3.1 or websocket")
    if request.can_read_body:
        raise Refusal(400, "a request for an upgrade has no body")
    opening = relay.open_tunnel(kind, uid, container, method=request.method, query=query, headers=headers)
    async with AsyncExitStack() as stack:
        stack.enter_context(streams.counted())
        with provider_refusals():
            tunnel = await stack.enter_async_context(opening)
        return await _switch_protocols(request, tunnel, streams, what=(kind, uid))


async def _switch_protocols(
    request: web.Request, tunnel: Tunnel, streams: OpenStreams, *, what: tuple[StreamKind, str]
) -> web.StreamResponse:
    response = web.StreamResponse(status=101, headers=[*tunnel.headers, ("Connection", "Upgrade")])
    response.force_close()
    await response.prepare(request)
    if request.transport is None:
        return response
    # A lost connection cancels this handler; bytes that came before must still reach the provider.
    client = RawConnection.take_over(request.transport, request.protocol, reports_loss_late=True)
    try:
        peer_first_seconds = 0.0 if what[0] == "portforward" else CLIENT_FIRST_SECONDS
        with suppress(Disconnected):
            try:
                async with ended_with_link(streams.read_link) as activity:
                    await exchange_bytes(client, tunnel, streams, activity)
            except ProviderError as error:
                # Its protocol belongs to both ends: no words can be put in between.
                streams.on_lost(what[1], f"{what[0]} broke off: {error}")
                peer_first_seconds = 0.0
            # Also what came before a failure is the client's.
            await client.close(patience_seconds=SLOW_CLIENT_SECONDS, peer_first_seconds=peer_first_seconds)
    finally:
        client.release()
    return response


async def exchange_bytes(
    client: RawConnection, tunnel: Tunnel, streams: OpenStreams, activity: StreamActivity | None = None
) -> None:
    """Copy both ways until the provider has ended, or the client is gone. `activity` hears of the provider's bytes."""

    def count_sent(data: bytes) -> None:
        streams.count_sent(data)
        if activity is not None:
            activity.note()

    from_client = asyncio.create_task(_copy(client.receive, tunnel.send, streams.count_received))
    to_client = asyncio.create_task(_copy(tunnel.receive, client.send, count_sent))
    tasks = (from_client, to_client)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not to_client.done() and from_client.exception() is None and not client.is_lost:
            await tunnel.close_sending()
            await to_client
        elif not to_client.done() and not client.is_lost:
            # The provider takes no more; what it has said before is still on its way.
            await to_client
        if to_client.done():
            to_client.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(
    receive: Callable[[], Awaitable[bytes]],
    send: Callable[[bytes], Awaitable[None]],
    count: Callable[[bytes], None],
) -> None:
    while data := await receive():
        count(data)
        await send(data)
