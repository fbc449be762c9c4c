"""One attempt per call, a deadline on each, and nothing but typed errors."""

import asyncio
import gc
import logging
import os
import socket
import socketserver
import ssl
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from runyard import __version__
from runyard.kube.config import ClusterConfig
from runyard.kube.credentials import Credential, StaticCredentials, bearer
from runyard.kube.errors import (
    ApiError,
    ConfigError,
    DeadlineExceeded,
    Disconnected,
    Forbidden,
    KubeError,
    NotFound,
    Stalled,
    Unauthorized,
    Unavailable,
    Unreachable,
    Untrusted,
)
from runyard.kube.rate_limiter import RateLimit
from runyard.kube.tls import ClientCertificate, build_ssl_context
from runyard.kube.transport import Transport
from testbed.pki import Authority
from tests.unit.kube.scripted_apiserver import (
    ScriptedServer,
    Step,
    answer,
    cut,
    cut_in_body,
    hang,
    refuse,
    serve,
)

TOKEN = StaticCredentials(bearer("sesame"))


@asynccontextmanager
async def connected(*steps: Step, **fields: Any) -> AsyncIterator[tuple[Transport, ScriptedServer]]:
    async with serve(*steps) as server, Transport(server.config(**fields)) as transport:
        yield transport, server


class RenewingCredentials:
    """Gives the next token each time one was refused."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)

    async def get(self) -> Credential:
        return bearer(self._tokens[0])

    async def renew(self, refused: Credential) -> Credential:
        if len(self._tokens) > 1 and bearer(self._tokens[0]) == refused:
            self._tokens.pop(0)
        return bearer(self._tokens[0])

    async def close(self) -> None:
        pass


async def test_request_says_who_we_are_when_it_is_sent() -> None:
    async with connected(answer({"a": 1}), credentials=TOKEN) as (transport, server):
        body = await transport.request(
            "PATCH", "/a%20b", params={"q": "x;y+z &%"}, body=b"{}", content_type="application/merge-patch+json"
        )
    assert body == b'{"a": 1}'
    [received] = server.requests
    assert (received.method, received.target, received.body) == ("PATCH", "/a%20b?q=x%3By%2Bz%20%26%25", b"{}")
    assert received.headers["Authorization"] == "Bearer sesame"
    assert received.headers["User-Agent"] == f"runyard/{__version__}"
    assert received.headers["Content-Type"] == "application/merge-patch+json"
    assert received.headers["Accept-Encoding"] == "identity"


async def test_body_arrives_whole_when_it_is_large() -> None:
    body = bytes(range(256)) * 3000
    async with connected(answer({})) as (transport, server):
        await transport.request("POST", "/", body=body)
    assert server.requests[0].body == body
    assert server.requests[0].headers["Content-Length"] == str(len(body))


def resolve_to(*hosts: str) -> Callable[..., Awaitable[list[dict[str, Any]]]]:
    async def resolve(_: object, host: str, port: int, traces: object = None) -> list[dict[str, Any]]:
        shared = {"hostname": host, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}
        return [{**shared, "host": each} for each in hosts]

    return resolve


async def test_the_event_loop_opens_the_socket_when_a_connection_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket of aiohttp's has two owners while uvloop takes it over, and both close its descriptor."""
    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", None)
    async with connected(answer({"a": 1})) as (transport, _):
        assert await transport.request("GET", "/") == b'{"a": 1}'


async def test_next_address_is_tried_when_the_first_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiohttp.TCPConnector._resolve_host", resolve_to("127.0.0.2", "127.0.0.1"))
    async with connected(answer({"a": 1})) as (transport, _):
        assert await transport.request("GET", "/") == b'{"a": 1}'


async def test_next_address_is_tried_when_the_first_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiohttp.TCPConnector._resolve_host", resolve_to("127.0.0.2", "127.0.0.1"))
    monkeypatch.setattr("runyard.kube.transport._ADDRESS_SECONDS", 0.1)
    with socket.socket() as silent:
        async with connected(answer({"a": 1})) as (transport, server):
            silent.bind(("127.0.0.2", int(server.server.rpartition(":")[2])))
            silent.listen(0)
            with suppress(BlockingIOError), socket.socket() as first, socket.socket() as second:
                for filling in (first, second):  # The queue of who waits to be accepted is full.
                    filling.setblocking(False)
                    with suppress(BlockingIOError):
                        filling.connect(silent.getsockname())
                assert await transport.request("GET", "/") == b'{"a": 1}'


async def test_path_is_kept_when_the_server_has_a_prefix() -> None:
    async with serve(answer({})) as server:
        config = ClusterConfig(server=f"{server.server}/k8s/clusters/c-1/")
        async with Transport(config) as transport:
            await transport.request("GET", "/api/v1/pods")
    assert server.requests[0].target == "/k8s/clusters/c-1/api/v1/pods"


async def test_typed_error_is_raised_when_the_server_refuses() -> None:
    async with connected(refuse(404, "NotFound")) as (transport, server):
        with pytest.raises(NotFound, match=r"404 NotFound: scripted \[GET /api/v1/pods\]"):
            await transport.request("GET", "/api/v1/pods", params={"command": "secret"})
    assert len(server.requests) == 1


async def test_warning_is_logged_once_when_the_server_gives_it_often(caplog: pytest.LogCaptureFixture) -> None:
    warning = '299 - "unknown field \\"dta\\""'
    async with connected(answer({}, headers={"Warning": warning})) as (transport, _):
        for _ in range(3):
            await transport.request("POST", "/api/v1/pods", body=b"{}")
    assert caplog.text.count(f"POST /api/v1/pods: the server warns: {warning}") == 1


async def test_error_is_typed_when_its_explanation_is_cut() -> None:
    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=403, headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"kind":')
        assert request.transport is not None
        request.transport.close()
        return response

    async with connected(half) as (transport, _):
        with pytest.raises(Forbidden):
            await transport.request("GET", "/")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_token_stays_when_the_server_redirects(status: int) -> None:
    async with serve(answer({})) as elsewhere:
        step = answer("", status=status, headers={"Location": f"{elsewhere.server}/stolen"})
        async with connected(step, credentials=TOKEN) as (transport, _):
            with pytest.raises(ApiError) as caught:
                await transport.request("GET", "/")
            assert caught.value.status == status
            with pytest.raises(ApiError):
                async with transport.stream("/"):
                    pass
            with pytest.raises(ApiError):
                async with transport.websocket("/", protocols=["v5.channel.k8s.io"]):
                    pass
    assert elsewhere.requests == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST", "PATCH"])
async def test_one_attempt_is_made_when_the_connection_is_cut(method: str) -> None:
    async with connected(cut) as (transport, server):
        with pytest.raises(Disconnected):
            await transport.request(method, "/", body=b"{}")
    assert len(server.requests) == 1


async def test_one_attempt_is_made_when_a_kept_connection_is_cut() -> None:
    async with connected(answer({}), cut) as (transport, server):
        await transport.request("GET", "/")
        with pytest.raises(Disconnected):
            await transport.request("DELETE", "/")
    assert len(server.requests) == 2


async def test_body_is_disconnected_when_it_stops_midway() -> None:
    async with connected(cut_in_body) as (transport, _):
        with pytest.raises(Disconnected):
            await transport.request("GET", "/")


async def test_server_is_unreachable_when_nobody_listens() -> None:
    async with serve(answer({})) as server:
        config = server.config()
    async with Transport(config) as transport:
        with pytest.raises(Unreachable, match=r"cannot connect to 127\.0\.0\.1") as caught:
            await transport.request("GET", "/")
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


async def test_server_is_unreachable_when_its_name_is_unknown() -> None:
    async with Transport(ClusterConfig(server="http://nowhere.invalid")) as transport:
        with pytest.raises(Unreachable, match=r"nowhere\.invalid"):
            await transport.request("GET", "/")


async def test_deadline_passes_when_there_is_no_answer() -> None:
    async with connected(hang) as (transport, _):
        with pytest.raises(DeadlineExceeded, match=r"no answer within 0\.05 s"):
            await transport.request("GET", "/", deadline_seconds=0.05)
        with pytest.raises(DeadlineExceeded):
            async with transport.stream("/", deadline_seconds=0.05):
                pass
        with pytest.raises(DeadlineExceeded):
            async with transport.websocket("/", protocols=["a"], deadline_seconds=0.05):
                pass


async def test_deadline_covers_the_wait_when_every_slot_is_taken() -> None:
    async with serve(hang) as server, Transport(server.config(), rate_limit=RateLimit(most_in_flight=1)) as transport:
        first = asyncio.create_task(transport.request("GET", "/"))
        await server.was_asked.wait()
        with pytest.raises(DeadlineExceeded):
            await transport.request("GET", "/", deadline_seconds=0.05)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        # The slot came back: this one reaches the server.
        server.was_asked.clear()
        second = asyncio.create_task(transport.request("GET", "/"))
        async with asyncio.timeout(30):
            await server.was_asked.wait()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert len(server.requests) == 2


async def test_streams_take_no_slot_when_requests_need_them() -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x")
        return await hang(request)

    async with (
        serve(endless, endless, answer({})) as server,
        Transport(server.config(), rate_limit=RateLimit(most_in_flight=1)) as transport,
        transport.stream("/1"),
        transport.stream("/2"),
    ):
        assert await transport.request("GET", "/", deadline_seconds=30) == b"{}"


def streaming(*chunks: bytes, then: Step | None = None) -> Step:
    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        return response if then is None else await then(request)

    return respond


async def read(transport: Transport, **options: Any) -> bytes:
    async with transport.stream("/", **options) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_stream_ends_when_the_server_ends_it() -> None:
    async with connected(streaming(b"one", b"two")) as (transport, _):
        assert await read(transport) == b"onetwo"


async def test_stream_is_disconnected_when_it_is_cut() -> None:
    async with connected(streaming(b"one", then=cut)) as (transport, _):
        with pytest.raises(Disconnected, match=r"\[GET /\]"):
            await read(transport)


async def test_stream_is_stalled_when_nothing_comes() -> None:
    async with connected(streaming(b"one", then=hang)) as (transport, _):
        with pytest.raises(Stalled, match=r"no byte within 0\.05 s"):
            await read(transport, read_deadline_seconds=0.05)


async def test_stream_refuses_when_the_server_does() -> None:
    async with connected(refuse(403, "Forbidden")) as (transport, _):
        with pytest.raises(Forbidden):
            await read(transport)


async def test_stream_lets_go_when_its_reader_leaves_early() -> None:
    async with connected(streaming(b"one", then=hang), answer({})) as (transport, _):
        async with transport.stream("/") as chunks:
            assert await anext(chunks) == b"one"
        assert await transport.request("GET", "/") == b"{}"


async def test_stream_is_cancelled_when_its_reader_is() -> None:
    async with connected(streaming(b"one", then=hang), answer({})) as (transport, server):
        reader = asyncio.create_task(read(transport))
        await server.was_asked.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert await transport.request("GET", "/") == b"{}"


async def websocket_echo(request: web.BaseRequest) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",), max_msg_size=0)
    await socket.prepare(request)
    async for message in socket:
        await socket.send_bytes(message.data)
    return socket


async def test_websocket_speaks_when_the_server_upgrades() -> None:
    async with connected(websocket_echo, credentials=TOKEN) as (transport, server):
        protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"]
        params = [("command", "sh"), ("command", "a;b")]
        async with transport.websocket("/exec", params=params, protocols=protocols) as socket:
            assert socket.protocol == "v5.channel.k8s.io"
            await socket.send_bytes(b"x" * (5 << 20))
            assert len(await socket.receive_bytes()) == 5 << 20
    assert server.requests[0].target == "/exec?command=sh&command=a%3Bb"
    assert server.requests[0].headers["Authorization"] == "Bearer sesame"


async def test_status_is_told_when_an_upgrade_is_refused() -> None:
    async with connected(refuse(403, "Forbidden")) as (transport, _):
        with pytest.raises(Forbidden, match="403 Forbidden: scripted"):
            async with transport.websocket("/exec", protocols=["v5.channel.k8s.io"]):
                pass


async def test_connection_is_not_used_again_when_an_upgrade_was_refused_on_it() -> None:
    peers = []

    async def refuse_and_remember(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peers.append(request.transport.get_extra_info("peername"))
        return await refuse(500, "InternalError")(request)

    async with connected(refuse_and_remember) as (transport, _):
        for _ in range(3):
            with pytest.raises(KubeError):
                async with transport.websocket("/exec", protocols=["a"]):
                    pass
            with pytest.raises(KubeError):
                await transport.request("GET", "/")
    upgrades, requests = peers[::2], peers[1::2]
    assert len(set(upgrades)) == 3
    assert len(set(requests)) == 1


async def test_upgrade_is_refused_when_the_answer_is_no_websocket() -> None:
    bad_handshake = answer("", status=101, headers={"Upgrade": "h2c", "Connection": "Upgrade"})
    async with connected(answer({}), bad_handshake, credentials=TOKEN) as (transport, _):
        with pytest.raises(ApiError, match="200 OK"):
            async with transport.websocket("/exec", protocols=["a"]):
                pass
        with pytest.raises(Unavailable, match="not a WebSocket") as caught:
            async with transport.websocket("/exec", protocols=["a"]):
                pass
    assert "sesame" not in everything_about(caught.value)


async def test_failure_is_typed_when_a_websocket_breaks() -> None:
    async def abort(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await cut(request)
        return socket

    async def send_for_ever(transport: Transport) -> None:
        async with transport.websocket("/exec", protocols=["a"]) as socket:
            while True:
                await socket.send_bytes(b"x" * (1 << 20))

    async with connected(abort) as (transport, _):
        with pytest.raises(Disconnected):
            await send_for_ever(transport)


async def test_callers_own_error_passes_when_it_leaves_a_websocket() -> None:
    async with connected(websocket_echo) as (transport, _):
        with pytest.raises(BrokenPipeError):
            async with transport.websocket("/exec", protocols=["a"]):
                raise BrokenPipeError("the caller's own pipe")
        with pytest.raises(TimeoutError):
            async with transport.websocket("/exec", protocols=["a"]) as socket, asyncio.timeout(0.01):
                await socket.receive()


async def test_renewed_token_is_tried_once_when_the_first_is_refused() -> None:
    steps = (refuse(401, "Unauthorized"), answer({"a": 1}))
    async with connected(*steps, credentials=RenewingCredentials("old", "new")) as (transport, server):
        assert await transport.request("POST", "/", body=b"{}") == b'{"a": 1}'
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer old", "Bearer new"]
    assert [request.body for request in server.requests] == [b"{}", b"{}"]


async def test_stream_and_websocket_are_renewed_too_when_the_token_is_refused() -> None:
    refused = refuse(401, "Unauthorized")
    async with connected(refused, streaming(b"one"), credentials=RenewingCredentials("old", "new")) as (transport, _):
        assert await read(transport) == b"one"
    async with (
        connected(refused, websocket_echo, credentials=RenewingCredentials("old", "new")) as (transport, _),
        transport.websocket("/exec", protocols=["v5.channel.k8s.io"]) as socket,
    ):
        assert socket.protocol == "v5.channel.k8s.io"


@pytest.mark.parametrize(("tokens", "attempts"), [(("only",), 1), (("old", "new"), 2), (("old", "new", "newer"), 2)])
async def test_unauthorized_is_final_when_nothing_newer_helps(tokens: tuple[str, ...], attempts: int) -> None:
    async with connected(refuse(401, "Unauthorized"), credentials=RenewingCredentials(*tokens)) as (transport, server):
        with pytest.raises(Unauthorized):
            await transport.request("GET", "/")
    assert len(server.requests) == attempts


def everything_about(error: BaseException) -> str:
    """Whatever a log, a debugger or an error reporter could show of it and its causes."""
    shown = "".join(traceback.format_exception(error))
    current: BaseException | None = error
    while current is not None:
        shown += repr(current) + repr(vars(current))
        current = current.__cause__ or current.__context__
    return shown


@pytest.mark.parametrize("step", [refuse(403, "Forbidden"), refuse(503, ""), cut, cut_in_body, hang])
async def test_token_is_not_shown_when_a_request_fails(step: Step, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(step, credentials=TOKEN) as (transport, _):
        with pytest.raises(KubeError) as caught:
            await transport.request("GET", "/", deadline_seconds=0.5)
    assert "sesame" not in everything_about(caught.value)
    assert "sesame" not in caplog.text


async def test_password_of_a_proxy_is_not_shown_when_it_fails() -> None:
    async with serve(answer("no", status=407)) as proxy:
        address = proxy.server.replace("http://", "http://me:sesame@")
        config = ClusterConfig(server="https://kubernetes.invalid", proxy_url=address, credentials=TOKEN)
        async with Transport(config) as transport:
            with pytest.raises(Unreachable, match="the proxy refused: 407") as refused:
                await transport.request("GET", "/")
    async with Transport(config) as transport:
        with pytest.raises(Unreachable) as unreachable:
            await transport.request("GET", "/")
    assert "sesame" not in everything_about(refused.value)
    assert "sesame" not in everything_about(unreachable.value)


async def test_request_goes_through_the_proxy_when_there_is_one() -> None:
    async with serve(answer({"via": "proxy"})) as proxy:
        config = ClusterConfig(server="http://kubernetes.invalid", proxy_url=proxy.server)
        async with Transport(config) as transport:
            assert await transport.request("GET", "/api") == b'{"via": "proxy"}'
    assert proxy.requests[0].headers["Host"] == "kubernetes.invalid"


async def test_transport_refuses_when_it_is_not_open() -> None:
    transport = Transport(ClusterConfig(server="http://127.0.0.1:1"))
    with pytest.raises(RuntimeError, match="async with"):
        await transport.request("GET", "/")
    async with transport:
        pass
    with pytest.raises(RuntimeError, match="async with"):
        await transport.request("GET", "/")


async def test_call_ends_when_the_transport_is_closed_under_it() -> None:
    async with serve(hang) as server:
        transport = Transport(server.config())
        async with transport:
            call = asyncio.create_task(transport.request("GET", "/"))
            await server.was_asked.wait()
        with pytest.raises(Disconnected):
            await call


def tls_server(authority: Authority, *hosts: str) -> ssl.SSLContext:
    """A server that asks for a client certificate and takes none, as the apiserver does."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate_file)
    context.load_cert_chain(*authority.issue("server", common_name="server", hosts=hosts))
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def tell_client(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    names = dict(pair for part in certificate.get("subject", ()) for pair in part)
    return web.json_response(names)


async def test_server_is_trusted_when_its_authority_is_ours(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ca = authority.certificate_file.read_bytes()
    async with (
        serve(tell_client, tls=tls_server(authority, "127.0.0.1")) as server,
        Transport(server.config(ca=ca)) as transport,
    ):
        assert await transport.request("GET", "/") == b"{}"


async def test_certificate_is_shown_when_the_user_has_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("me", common_name="alice", groups=("admins",))
    pair = ClientCertificate(certificate.read_bytes(), key.read_bytes())
    credentials = StaticCredentials(Credential(certificate=pair))
    async with serve(tell_client, tls=tls_server(authority, "127.0.0.1")) as server:
        config = server.config(credentials, ca=authority.certificate_file.read_bytes())
        async with Transport(config) as transport:
            body = await transport.request("GET", "/")
    assert body == b'{"organizationName": "admins", "commonName": "alice"}'


async def test_new_certificate_is_shown_when_the_old_one_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    def issue(name: str) -> Credential:
        certificate, key = authority.issue(name, common_name=name)
        return Credential(certificate=ClientCertificate(certificate.read_bytes(), key.read_bytes()))

    old, new = issue("old"), issue("new")

    class Rotating:
        async def get(self) -> Credential:
            return old

        async def renew(self, refused: Credential) -> Credential:
            return new

        async def close(self) -> None:
            pass

    steps = (refuse(401, "Unauthorized"), tell_client)
    ca = authority.certificate_file.read_bytes()
    async with (
        serve(*steps, tls=tls_server(authority, "127.0.0.1")) as server,
        Transport(server.config(Rotating(), ca=ca)) as transport,
    ):
        assert await transport.request("GET", "/") == b'{"commonName": "new"}'


async def test_server_is_untrusted_when_its_authority_is_not_ours(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    async with serve(tell_client, tls=tls_server(theirs, "127.0.0.1")) as server:
        for ca in (ours.certificate_file.read_bytes(), None):
            async with Transport(server.config(ca=ca)) as transport:
                with pytest.raises(Untrusted, match="certificate verify failed"):
                    await transport.request("GET", "/")
        async with Transport(server.config(skip_tls_verify=True)) as transport:
            assert await transport.request("GET", "/") == b"{}"


async def test_server_name_is_what_the_config_says_when_they_differ(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ca = authority.certificate_file.read_bytes()
    async with serve(tell_client, tls=tls_server(authority, "kubernetes")) as server:
        async with Transport(server.config(ca=ca)) as transport:
            with pytest.raises(Untrusted):
                await transport.request("GET", "/")
        async with Transport(server.config(ca=ca, tls_server_name="kubernetes")) as transport:
            assert await transport.request("GET", "/") == b"{}"


async def test_server_is_unreachable_when_it_speaks_no_tls() -> None:
    async with serve(answer({})) as server:
        config = ClusterConfig(server=server.server.replace("http:", "https:"))
        async with Transport(config) as transport:
            with pytest.raises(Unreachable):
                await transport.request("GET", "/")


async def test_bundle_is_taken_when_it_has_comments_in_any_language(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ca = "# Türktrust\n".encode() + authority.certificate_file.read_bytes()
    async with (
        serve(tell_client, tls=tls_server(authority, "127.0.0.1")) as server,
        Transport(server.config(ca=ca)) as transport,
    ):
        assert await transport.request("GET", "/") == b"{}"


async def test_key_is_refused_when_it_is_encrypted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("me", common_name="me")
    locked = load_pem_private_key(key.read_bytes(), password=None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame")
    )
    with pytest.raises(ConfigError, match="client certificate and key cannot be used"):
        build_ssl_context(ca=None, certificate=ClientCertificate(certificate.read_bytes(), locked), skip_verify=False)


@pytest.mark.parametrize("ca", [b"-----BEGIN CERTIFICATE-----\n", "ä".encode(), b""])
async def test_authority_is_refused_when_it_is_no_certificate(ca: bytes) -> None:
    async with Transport(ClusterConfig(server="https://127.0.0.1:1", ca=ca)) as transport:
        with pytest.raises(ConfigError, match="certificate authority"):
            await transport.request("GET", "/")


async def test_key_is_refused_when_it_does_not_fit(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, _ = authority.issue("me", common_name="me")
    _, other_key = authority.issue("other", common_name="other")
    pair = ClientCertificate(certificate.read_bytes(), other_key.read_bytes())
    config = ClusterConfig(server="https://127.0.0.1:1", credentials=StaticCredentials(Credential(certificate=pair)))
    async with Transport(config) as transport:
        with pytest.raises(ConfigError, match="client certificate and key cannot be used"):
            await transport.request("GET", "/")


def test_no_descriptor_stays_open_when_a_key_is_loaded(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("me", common_name="me")
    pair = ClientCertificate(certificate.read_bytes(), key.read_bytes())
    gc.collect()  # what earlier tests left open is not closed between the two counts
    before = len(list(Path("/proc/self/fd").iterdir()))
    build_ssl_context(ca=None, certificate=pair, skip_verify=False)
    with pytest.raises(ConfigError):
        build_ssl_context(ca=None, certificate=ClientCertificate(pair.certificate, b""), skip_verify=False)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_nothing_of_aiohttp_leaks_when_the_answer_is_no_http() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        writer.close()

    command = {"command": "sesame"}
    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, Transport(ClusterConfig(server=f"http://{host}:{port}")) as transport:
        with pytest.raises(Unavailable, match=r"the answer is not HTTP: .*SSH-2") as caught:
            await transport.request("GET", "/exec", params=command)
    assert "sesame" not in everything_about(caught.value)
    assert "aiohttp" not in type(caught.value).__module__


async def test_connection_is_gone_when_the_server_never_ends_tls_on_its_side(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        waiting = asyncio.create_task(asyncio.to_thread(read_silently, listener, tls_server(authority, "127.0.0.1")))
        config = ClusterConfig(server=f"https://127.0.0.1:{port}", ca=authority.certificate_file.read_bytes())
        async with Transport(config) as transport, transport.stream("/logs") as chunks:
            assert await anext(aiter(chunks)) == b"one"
        assert await waiting


def read_silently(listener: socket.socket, context: ssl.SSLContext) -> bool:
    """Answer with the beginning of a body, then read without an answer; whether the client has closed its socket."""
    connection, _ = listener.accept()
    with context.wrap_socket(connection, server_side=True) as tls:
        tls.recv(1 << 16)
        tls.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        with socket.socket(fileno=os.dup(tls.fileno())) as raw:
            raw.settimeout(20)
            with suppress(ConnectionResetError):
                while raw.recv(1 << 16):
                    pass
            return True


class SlowHandshakes(socketserver.ThreadingTCPServer):
    """Answers `{}` on connections whose handshakes it begins late; counts how many wait for theirs at once."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self._context = context
        self._news = threading.Condition()
        self._waiting = self.most = 0

    def finish_request(self, request: Any, client_address: Any) -> None:
        """One connection."""
        with self._news:
            self._waiting += 1
            self.most = max(self.most, self._waiting)
            self._news.notify_all()
            self._news.wait_for(lambda: self._waiting > 8, timeout=0.5)
            self._waiting -= 1
        with self._context.wrap_socket(request, server_side=True) as tls:
            tls.recv(1 << 16)
            tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")


async def test_few_connections_are_opened_at_once_when_many_requests_need_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with SlowHandshakes(tls_server(authority, "127.0.0.1")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"https://127.0.0.1:{server.server_address[1]}"
        async with Transport(ClusterConfig(server=address, ca=authority.certificate_file.read_bytes())) as transport:
            bodies = await asyncio.gather(*(transport.request("GET", f"/{number}") for number in range(40)))
        server.shutdown()
    assert bodies == [b"{}"] * 40
    assert 1 < server.most <= 8
