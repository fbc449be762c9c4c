"""The gateway's HTTPS port before a real web server on loopback."""

import asyncio
import hashlib
import io
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from runyard.node.certificate_authority import CertificateAuthority
from runyard.node.gateway.gateway import HostListener, RouteTable
from runyard.node.gateway.gateway_settings import GatewaySettings
from runyard.node.gateway.route_views import Target

DOMAIN = "example.org"
HOST = "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76-skg00000.example.org"


@dataclass
class FixedTable:
    """One host; stands for `RouteTable`, whose reflectors need a cluster."""

    targets: list[Target] = field(default_factory=list)

    def is_routed(self, host: str) -> bool:
        return host == HOST

    def find_targets(self, host: str) -> list[Target]:
        return self.targets


class Loopback(AbstractResolver):
    """Every name is this machine: `curl --resolve`."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        pass


@dataclass
class Setup:
    client: aiohttp.ClientSession
    port: int
    table: FixedTable

    def url(self, path: str = "/", *, host: str = HOST) -> str:
        return f"https://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(**options: float) -> AsyncIterator[Setup]:
    """A pod on loopback, the gateway before it, and a client that trusts the gateway's CA."""
    authority, table = CertificateAuthority(), FixedTable()
    settings = GatewaySettings(domain=DOMAIN, listen_port=0, **options)  # type: ignore[arg-type]
    runner = web.AppRunner(_pod(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    table.targets = [Target("127.0.0.1", runner.addresses[0][1])]
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    connector = aiohttp.TCPConnector(resolver=Loopback(), ssl=trust)
    try:
        async with (
            HostListener(cast("RouteTable", table), authority, settings) as listener,
            aiohttp.ClientSession(connector=connector, auto_decompress=False) as client,
        ):
            yield Setup(client, listener.port, table)
    finally:
        await runner.cleanup()


def _pod() -> web.Application:
    gone = asyncio.Event()

    async def works(request: web.Request) -> web.Response:
        return web.Response(text="It works!\n")

    async def echo(request: web.Request) -> web.Response:
        names = [name for name, _ in request.headers.items()]
        return web.json_response(
            {"target": request.raw_path, "headers": dict(request.headers), "count": names.count("X-Forwarded-For")}
        )

    async def digest(request: web.Request) -> web.StreamResponse:
        sha = hashlib.sha256()
        async for chunk in request.content.iter_any():
            sha.update(chunk)
        return web.Response(text=sha.hexdigest())

    async def ticks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await gone.wait()
        await response.write(b"second")
        return response

    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    async def chat(request: web.Request) -> web.WebSocketResponse:
        channel = web.WebSocketResponse(protocols=("v2.chat",))
        await channel.prepare(request)
        async for message in channel:
            if message.type is aiohttp.WSMsgType.TEXT:
                await channel.send_str(f"you said {message.data}")
            else:
                await channel.send_bytes(message.data)
        return channel

    async def go(request: web.Request) -> web.Response:
        gone.set()
        return web.Response(status=204)

    app = web.Application(client_max_size=0)
    app.router.add_get("/", works)
    app.router.add_get("/ticks", ticks)
    app.router.add_post("/go", go)
    app.router.add_get("/broken", broken)
    app.router.add_get("/chat", chat)
    app.router.add_post("/digest", digest)
    app.router.add_route("*", "/{path:.*}", echo)
    return app


async def test_pod_answers_when_its_host_is_called_with_the_gateways_certificate() -> None:
    async with serving() as setup, setup.client.get(setup.url()) as answer:
        assert (answer.status, await answer.text()) == (200, "It works!\n")


async def test_unknown_hosts_get_404_and_the_wildcard_certificate_when_called() -> None:
    async with serving() as setup:
        async with setup.client.get(setup.url(host="unknown.example.org")) as answer:
            assert answer.status == 404
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await setup.client.get(setup.url(host="elsewhere.net"))
        async with setup.client.get(setup.url(host="elsewhere.net"), ssl=False) as answer:
            assert answer.status == 404


async def test_target_and_headers_arrive_unchanged_when_passed_on() -> None:
    async with serving() as setup:
        spoofed = {"X-Forwarded-For": "1.2.3.4", "Connection": "X-Hop", "X-Hop": "1", "X-Kept": "2"}
        async with setup.client.get(setup.url("/a%2Fb/../c?q=%20+"), headers=spoofed) as answer:
            seen = await answer.json()
        async with setup.client.get(URL(setup.url("/a%2Fb//c?q=%20+"), encoded=True)) as answer:
            assert (await answer.json())["target"] == "/a%2Fb//c?q=%20+"
    headers = seen["headers"]
    assert headers["Host"] == f"{HOST}:{setup.port}"
    assert (headers["X-Forwarded-For"], headers["X-Forwarded-Proto"], seen["count"]) == ("127.0.0.1", "https", 1)
    assert headers["X-Kept"] == "2"
    assert "X-Hop" not in headers


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("expects", [False, True])
async def test_body_arrives_whole_when_it_is_large(is_chunked: bool, expects: bool) -> None:
    body = b"0123456789abcdef" * 65536 * 4

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100_000):
            yield body[start : start + 100_000]

    async with serving() as setup:
        data = chunks() if is_chunked else io.BytesIO(body)
        async with setup.client.post(setup.url("/digest"), data=data, expect100=expects) as answer:
            assert await answer.text() == hashlib.sha256(body).hexdigest()


async def test_answer_arrives_in_pieces_when_the_pod_streams() -> None:
    async with serving() as setup, setup.client.get(setup.url("/ticks")) as answer:
        assert await answer.content.readany() == b"first"
        async with setup.client.post(setup.url("/go")) as gone:
            assert gone.status == 204
        assert await answer.content.read() == b"second"


async def test_truncated_answer_is_an_error_when_the_pod_breaks_off() -> None:
    async with serving() as setup, setup.client.get(setup.url("/broken")) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_websocket_messages_pass_both_ways_when_upgraded() -> None:
    async with (
        serving() as setup,
        setup.client.ws_connect(setup.url("/chat"), protocols=("v1.chat", "v2.chat")) as channel,
    ):
        assert channel.protocol == "v2.chat"
        await channel.send_str("hello")
        assert await channel.receive_str() == "you said hello"
        await channel.send_bytes(b"\0\1")
        assert await channel.receive_bytes() == b"\0\1"


async def test_websocket_is_refused_when_the_pod_does_not_speak_it() -> None:
    async with serving() as setup:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await setup.client.ws_connect(setup.url("/plain"))
    assert caught.value.status == 502


async def test_another_pod_answers_when_the_first_cannot_be_connected_to() -> None:
    async with serving() as setup:
        setup.table.targets += [Target("127.0.0.1", 1), Target("127.0.0.1", 2)]
        for _ in range(4):
            async with setup.client.get(setup.url()) as answer:
                assert answer.status == 200
        setup.table.targets = [Target("127.0.0.1", 1)]
        async with setup.client.get(setup.url()) as answer:
            assert (answer.status, await answer.text()) == (503, "no pod behind this Service is ready\n")


async def test_connection_is_cut_when_there_are_too_many() -> None:
    async with serving(most_connections=1) as setup, setup.client.get(setup.url("/ticks")) as answer:
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            await setup.client.get(setup.url())


async def test_connection_is_closed_when_its_head_does_not_come() -> None:
    async with serving(head_seconds=0.2) as setup:
        insecure = ssl.create_default_context()
        insecure.check_hostname, insecure.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", setup.port, ssl=insecure, server_hostname=HOST)
        writer.write(b"GET / HTTP/1.1\r\nHost: slow")
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_head_is_refused_when_it_is_too_long() -> None:
    async with serving() as setup, setup.client.get(setup.url(), headers={"X-Long": "x" * 20_000}) as answer:
        assert answer.status == 400
