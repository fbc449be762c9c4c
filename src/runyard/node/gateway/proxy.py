"""Passes one request on to a pod: bodies are streamed both ways, WebSockets message by message.

A broken connection is never reported as the end of a body: the client's connection is cut then.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from aiohttp import (
    ClientConnectionError,
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    DummyCookieJar,
    TCPConnector,
    web,
)
from yarl import URL

from runyard.node.gateway.gateway_settings import GatewaySettings
from runyard.node.gateway.route_views import Target
from runyard.node.gateway.websockets import is_websocket, relay_websocket

MOST_ATTEMPTS = 3
HEAD_BYTES = 16_384
"""Of one header, or of the first line, in either direction."""
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_FORWARDED = frozenset({"forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"})


def open_session(settings: GatewaySettings) -> ClientSession:
    """The connections to pods: their number is bounded by that of the clients' connections."""
    return ClientSession(
        auto_decompress=False,
        connector=TCPConnector(limit=0, keepalive_timeout=15.0),
        cookie_jar=DummyCookieJar(),
        max_field_size=HEAD_BYTES,
        max_line_size=HEAD_BYTES,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        timeout=ClientTimeout(total=None, sock_connect=settings.connect_seconds, sock_read=settings.idle_seconds),
        trust_env=False,
    )


async def pass_on(
    request: web.BaseRequest, targets: Sequence[Target], *, session: ClientSession, settings: GatewaySettings
) -> web.StreamResponse:
    """Answer a request by one of the pods; another one is tried if a pod cannot be connected to."""
    if not request.raw_path.startswith("/"):
        return _refuse(400, "the request target must be a path that begins with /")
    for target in random.sample(targets, min(MOST_ATTEMPTS, len(targets))):
        url = URL(f"http://{target.authority}{request.raw_path}", encoded=True)
        try:
            if is_websocket(request):
                return await relay_websocket(request, url, session=session, headers=_request_headers(request))
            return await _exchange(request, url, session=session, settings=settings)
        except (ClientConnectorError, ConnectionTimeoutError):
            continue
        except (ClientConnectionError, TimeoutError) as error:
            return _refuse(504 if isinstance(error, TimeoutError) else 502, "the pod did not answer")
        except ClientError:
            return _refuse(502, "the pod's answer cannot be passed on")
    return _refuse(503, "no pod behind this Service is ready")


async def _exchange(
    request: web.BaseRequest, url: URL, *, session: ClientSession, settings: GatewaySettings
) -> web.StreamResponse:
    body = _read_body(request, settings) if request.can_read_body else None
    async with session.request(
        request.method, url, data=body, headers=_request_headers(request), allow_redirects=False
    ) as answer:
        response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=_end_to_end(answer.headers))
        try:
            async with asyncio.timeout(settings.idle_seconds):
                await response.prepare(request)
            await _write_body(answer, response, settings)
        except (ClientError, TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        return response


async def _read_body(request: web.BaseRequest, settings: GatewaySettings) -> AsyncIterator[bytes]:
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    while True:
        async with asyncio.timeout(settings.idle_seconds):
            chunk = await request.content.readany()
        if not chunk:
            return
        yield chunk


async def _write_body(answer: ClientResponse, response: web.StreamResponse, settings: GatewaySettings) -> None:
    async for chunk in answer.content.iter_any():
        async with asyncio.timeout(settings.idle_seconds):
            await response.write(chunk)
    async with asyncio.timeout(settings.idle_seconds):
        await response.write_eof()


def _request_headers(request: web.BaseRequest) -> list[tuple[str, str]]:
    dropped = _FORWARDED if request.can_read_body else _FORWARDED | {"content-length"}
    return [
        *_end_to_end(request.headers, dropped=dropped),
        ("X-Forwarded-For", request.remote or "unknown"),
        ("X-Forwarded-Host", request.headers.get("Host", "")),
        ("X-Forwarded-Proto", "https"),
    ]


def _end_to_end(headers: Mapping[str, str], *, dropped: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Without what is meant for one connection only, also by the `Connection` header (RFC 9110, 7.6.1)."""
    named = (value for name, value in headers.items() if name.lower() == "connection")
    skipped = {name.strip().lower() for value in named for name in value.split(",")}.union(_HOP_BY_HOP, dropped)
    return [(name, value) for name, value in headers.items() if name.lower() not in skipped]


def _refuse(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=f"{message}\n")
