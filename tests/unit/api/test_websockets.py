"""WebSockets before their session begins, and clients that misuse them, over a real uvicorn server."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import uvicorn

from runyard.api import idle_connections, websocket_connections, websockets
from runyard.api.connection_limits import ConnectionLimits
from runyard.api.context import Limits
from runyard.api.websocket_connections import WEBSOCKET_OPTIONS, LimitedWebSocket
from runyard.app.engine import LARGEST_MESSAGE_BYTES, Engine, EngineRefusal
from tests.engines.interactive import Container, InteractiveEngine
from tests.engines.memory import MemoryEngine
from tests.http_servers import Server, password_of, serve
from tests.unit.api.engine_runs import mark_running, submit_run
from tests.unit.api.websocket_servers import (
    BINARY,
    PING,
    SECONDS,
    TEXT,
    Answer,
    Listening,
    connect,
    listen,
    make_frame,
    make_head,
)

RUN = "/api/v1/-/demo/runs/r1"
EXEC = f"{RUN}/exec?command=cat&stdin=true"
CONT = 0


@dataclass
class Demo:
    engine: InteractiveEngine
    listening: Listening
    server: Server

    @property
    def container(self) -> Container:
        return self.engine.containers[-1]

    async def ask(self, path: str = EXEC, **headers: str) -> Answer:
        """The answer to a handshake."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with connect(self.listening, path, headers=named) as (answer, _):
            return answer


@asynccontextmanager
async def run_demo(folder: Path, *, engine: Engine | None = None, **options: Any) -> AsyncIterator[Demo]:
    own = InteractiveEngine()
    async with serve(folder, engine=engine or own, **options) as server:
        if options.get("is_open") is False:
            await server.add_user("ada")
        async with server.client("ada" if options.get("is_open") is False else None) as client:
            await submit_run(client)
        mark_running(folder)
        async with listen(server) as listening:
            yield Demo(own, listening, server)
        await own.close()


@pytest.fixture
async def demo_run(tmp_path: Path) -> AsyncIterator[Demo]:
    async with run_demo(tmp_path) as demo:
        yield demo


def sign_in(user: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password_of(user)}".encode()).decode()


def carry(token: str) -> str:
    """The subprotocol that carries a token."""
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    return f"v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.{encoded}"


async def wait_until_none_is_open(listening: Listening) -> None:
    async with asyncio.timeout(SECONDS):
        while listening.count_open() or listening.web.server_state.connections:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("path", "status", "code", "message"),
    [
        ("/api/v1/-/demo/runs/r2/exec?command=x", 404, "missing", "No such EntityName: run r2"),
        ("/api/v1/-/none/runs/r1/exec?command=x", 404, "missing", "No such EntityName: run r1"),
        (f"{RUN}/exec", 400, "refused", "query.command: name the command to execute"),
        (f"{RUN}/exec?command=", 400, "refused", "query.command: name the command to execute"),
        (f"{RUN}/exec?command=%00", 400, "refused", "query.command: has a zero byte"),
        (f"{RUN}/exec?command={'x' * 16385}", 400, "refused", "query.command: is too long"),
        (f"{RUN}/exec?{'command=x&' * 257}", 400, "refused", "query.command: has 257 parts"),
        (f"{RUN}/exec?command=x&tyy=1", 400, "refused", "query.tyy: unknown parameter"),
        (f"{RUN}/attach?stdin=maybe", 400, "refused", "query.stdin: is not a boolean"),
        (f"{RUN}/portforward", 400, "refused", "query.port: name the port to connect to"),
        (f"{RUN}/portforward?port=65536", 400, "refused", "query.port: "),
        (f"{RUN}/nothing", 404, "http.404", f"no route for WEBSOCKET {RUN}/nothing"),
        (f"{RUN}/log", 405, "http.405", f"method WEBSOCKET is not allowed for {RUN}/log"),
    ],
)
async def test_handshake_is_refused_with_a_reason_when_the_request_is_wrong(
    demo_run: Demo, path: str, status: int, code: str, message: str
) -> None:
    answer = await demo_run.ask(path)
    body = json.loads(answer.body)
    assert (answer.status, body["errorCode"]) == (status, code)
    assert body["message"].startswith(message)
    assert answer.headers["x-request-id"] == body["request_id"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert demo_run.engine.calls == []
    await wait_until_none_is_open(demo_run.listening)


@pytest.mark.parametrize(
    ("row", "code", "message"),
    [
        ({"state": "PENDING"}, "run.not_running", "run r1 is PENDING; only a RUNNING run has containers"),
        ({"state": "COMPLETED"}, "run.not_running", "run r1 is COMPLETED; only a RUNNING run has containers"),
        ({"anchor": None}, "run.not_running", "run r1 is RUNNING; only a RUNNING run has containers"),
        (
            {"place": "memory/b"},
            "place.other",
            "run r1 lives in memory/b; this server's engine acts in memory/a and cannot reach it",
        ),
    ],
)
async def test_handshake_is_refused_when_the_run_does_not_run_here(
    demo_run: Demo, tmp_path: Path, row: dict[str, Any], code: str, message: str
) -> None:
    mark_running(tmp_path, **row)
    answer = await demo_run.ask()
    body = json.loads(answer.body)
    assert (answer.status, body["errorCode"], body["message"]) == (400, code, message)
    assert demo_run.engine.calls == []


async def test_handshake_is_refused_when_the_engine_refuses(demo_run: Demo) -> None:
    demo_run.engine.failures.append(EngineRefusal("run.not_running", "the pod is gone"))
    answer = await demo_run.ask()
    assert (answer.status, json.loads(answer.body)["message"]) == (400, "the pod is gone")


async def test_handshake_is_refused_when_the_engine_cannot(tmp_path: Path) -> None:
    async with run_demo(tmp_path, engine=MemoryEngine()) as demo:
        for act, query in (("exec", "command=x"), ("attach", ""), ("portforward", "port=1")):
            answer = await demo.ask(f"{RUN}/{act}?{query}")
            body = json.loads(answer.body)
            assert (answer.status, body["errorCode"]) == (501, "engine.cannot")
            assert body["message"] == f"the engine memory of this server does not support {act}"


async def test_upgrade_is_required_when_the_request_is_a_plain_one(demo_run: Demo) -> None:
    async with demo_run.server.client() as client:
        answer = await client.get(EXEC)
        assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")
        assert (await client.post(EXEC)).status_code == 405


@pytest.mark.parametrize(
    ("offered", "status", "chosen"),
    [
        ("v5.channel.k8s.io", 101, "v5.channel.k8s.io"),
        ("v4.channel.k8s.io, v5.channel.k8s.io", 101, "v5.channel.k8s.io"),
        ("v4.channel.k8s.io", 101, "v4.channel.k8s.io"),
        (None, 101, None),
        ("v4.base64.channel.k8s.io", 400, None),
    ],
)
async def test_subprotocol_is_chosen_when_the_client_offers_some(
    demo_run: Demo, offered: str | None, status: int, chosen: str | None
) -> None:
    answer = await demo_run.ask(**({} if offered is None else {"Sec_WebSocket_Protocol": offered}))
    assert (answer.status, answer.headers.get("sec-websocket-protocol")) == (status, chosen)
    assert "permessage-deflate" not in answer.headers.get("sec-websocket-extensions", "")


async def test_long_command_is_taken_when_it_is_within_its_limit(demo_run: Demo) -> None:
    answer = await demo_run.ask(f"{RUN}/exec?command={'x' * 16384}", X_Long="y" * 30_000)
    assert answer.status == 101
    assert demo_run.container.session.command == ("x" * 16384,)


@pytest.mark.parametrize("field", ["Sec_WebSocket_Key", "Sec_WebSocket_Version"])
@pytest.mark.parametrize("value", ["x", "x" * 9000])
async def test_handshake_is_refused_when_it_is_malformed(demo_run: Demo, field: str, value: str) -> None:
    answer = await demo_run.ask(**{field: value})
    assert answer.status in (400, 426)
    await wait_until_none_is_open(demo_run.listening)


@pytest.mark.parametrize("value", [b"\x7f", b"\xff", b"a\x7fb"])
@pytest.mark.parametrize("field", [b"Sec-WebSocket-Key", b"Host", b"Upgrade"])
async def test_handshake_is_answered_when_a_field_has_odd_bytes(demo_run: Demo, field: bytes, value: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", demo_run.listening.port)
    writer.write(make_head(EXEC).replace(field + b": ", field + b": " + value, 1))
    assert int((await asyncio.wait_for(reader.readline(), SECONDS)).split()[1]) in (400, 403, 426)
    writer.close()
    await wait_until_none_is_open(demo_run.listening)


async def test_refusal_is_whole_when_it_names_many_problems(demo_run: Demo) -> None:
    answer = await demo_run.ask(f"{RUN}/exec?command=x&" + "&".join(f"p{number}=1" for number in range(150)))
    body = json.loads(answer.body)
    assert (answer.status, len(body["errors"])) == (400, 101)
    await wait_until_none_is_open(demo_run.listening)


async def test_connection_is_upgraded_when_it_served_a_request_before(demo_run: Demo) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", demo_run.listening.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await asyncio.wait_for(reader.readline(), SECONDS)).startswith(b"HTTP/1.1 200")
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
    writer.write(make_head(EXEC))
    assert (await asyncio.wait_for(reader.readline(), SECONDS)).startswith(b"HTTP/1.1 101")
    assert demo_run.listening.count_open() == 1
    writer.close()
    await asyncio.wait_for(demo_run.container.is_closed.wait(), SECONDS)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://localhost:8080"}, 101),
        ({"Origin": "http://localhost:8080", "Sec_Fetch_Site": "same-origin"}, 101),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:9000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
    ],
)
@pytest.mark.parametrize("is_open", [True, False])
async def test_only_our_own_pages_open_websockets_when_a_browser_says_whose_page_it_is(
    tmp_path: Path, headers: dict[str, str], status: int, is_open: bool
) -> None:
    async with run_demo(tmp_path, is_open=is_open) as demo:
        answer = await demo.ask(Authorization=sign_in("ada"), **headers)
        assert answer.status == status
        if status == 403:
            assert json.loads(answer.body)["errorCode"] == "origin"
            assert demo.engine.calls == []


async def test_foreign_hosts_are_refused_when_there_are_no_accounts(demo_run: Demo) -> None:
    assert (await demo_run.ask(Host="evil.example", Origin="http://evil.example")).status == 403


async def test_pages_of_the_endpoint_open_websockets_when_a_proxy_rewrites_the_host(tmp_path: Path) -> None:
    async with run_demo(tmp_path, is_open=False) as demo:
        headers = {"Host": "runyard.internal", "Authorization": sign_in("ada")}
        assert (await demo.ask(Origin="http://localhost:8080", **headers)).status == 101
        assert (await demo.ask(Origin="http://evil.example", **headers)).status == 403


async def test_token_is_taken_from_the_subprotocol_when_a_browser_carries_it_there(tmp_path: Path) -> None:
    async with run_demo(tmp_path, is_open=False) as demo:
        async with demo.server.client("ada") as client:
            made = await client.post("/api/v1/tokens/personal", json={"name": "browser"})
            reading = await client.post("/api/v1/tokens/personal", json={"name": "reader", "scopes": ["read"]})
        token = made.json()["value"]
        answer = await demo.ask(Sec_WebSocket_Protocol=carry(token))
        assert (answer.status, answer.headers["sec-websocket-protocol"]) == (101, "v5.channel.k8s.io")
        # It wins over a password that the browser remembers.
        assert (await demo.ask(Sec_WebSocket_Protocol=carry("x"), Authorization=sign_in("ada"))).status == 401
        assert (await demo.ask(Sec_WebSocket_Protocol=carry("")[:-1] + ".é!")).status == 401
        assert (await demo.ask()).status == 401
        assert (await demo.ask(Sec_WebSocket_Protocol=carry(reading.json()["value"]))).status == 403


async def test_runs_own_token_opens_no_session_when_it_asks_for_one(tmp_path: Path) -> None:
    async with run_demo(tmp_path, is_open=False) as demo:
        token = await demo.server.issue_run_token("demo", "r1")
        answer = await demo.ask(Authorization=f"Bearer {token}")
        assert answer.status == 403
        assert "does not allow opening sessions" in json.loads(answer.body)["message"]
        assert demo.engine.calls == []


async def test_session_is_refused_when_the_user_has_too_many_streams(tmp_path: Path) -> None:
    async with run_demo(tmp_path, limits=Limits(streams_each=2)) as demo, AsyncExitStack() as stack:
        for _ in range(2):
            answer, _ = await stack.enter_async_context(connect(demo.listening, EXEC))
            assert answer.status == 101
        refused = await demo.ask()
        assert (refused.status, refused.headers["retry-after"]) == (429, "5")
        assert len(demo.engine.containers) == 2


async def test_handshakes_count_when_the_rate_is_limited(tmp_path: Path) -> None:
    async with run_demo(tmp_path, limits=Limits(requests_per_second=5)) as demo:
        statuses = [(await demo.ask(f"{RUN}/exec")).status for _ in range(40)]
    assert 429 in statuses


async def test_connection_is_counted_once_when_it_is_upgraded(demo_run: Demo) -> None:
    async with connect(demo_run.listening, EXEC) as (answer, _):
        assert answer.status == 101
        assert demo_run.listening.count_open() == 1
    await wait_until_none_is_open(demo_run.listening)


@pytest.mark.parametrize("is_reading", [True, False])
async def test_engines_channel_is_closed_when_the_client_disappears(
    tmp_path: Path, is_reading: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the container does not take its input: then nothing is read from the client either."""
    monkeypatch.setitem(WEBSOCKET_OPTIONS, "ws_ping_interval", 0.2)

    async def hang(container: Container) -> None:
        await asyncio.Event().wait()

    async with run_demo(tmp_path) as demo:
        if not is_reading:
            demo.engine.program = hang
        async with connect(demo.listening, EXEC) as (answer, client):
            assert answer.status == 101
            for _ in range(40):
                client.send(b"\0" + b"x" * 1000)
            await asyncio.sleep(0.2)
            client.abort()
        await asyncio.wait_for(demo.container.is_closed.wait(), SECONDS)
        await wait_until_none_is_open(demo.listening)


async def test_connection_is_closed_when_the_client_does_not_answer_pings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WEBSOCKET_OPTIONS, "ws_ping_interval", 0.1)
    monkeypatch.setitem(WEBSOCKET_OPTIONS, "ws_ping_timeout", 0.1)
    async with run_demo(tmp_path) as demo, connect(demo.listening, EXEC) as (answer, client):
        assert answer.status == 101
        assert (await client.read_close())[0] == 1011
        await asyncio.wait_for(demo.container.is_closed.wait(), SECONDS)


async def test_session_goes_on_when_pings_cannot_be_answered_because_the_container_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WEBSOCKET_OPTIONS, "ws_ping_interval", 0.1)
    monkeypatch.setitem(WEBSOCKET_OPTIONS, "ws_ping_timeout", 0.1)
    gate = asyncio.Event()

    async def read_late(container: Container) -> None:
        await gate.wait()
        await container.write(b"now")
        await asyncio.Event().wait()

    async with run_demo(tmp_path) as demo:
        demo.engine.program = read_late
        async with connect(demo.listening, EXEC) as (_, client):
            for _ in range(20):
                client.send(b"\0x")
            await asyncio.sleep(0.6)
            gate.set()
            while (frame := await client.read())[0] == PING:
                pass
            assert frame == (BINARY, b"\1now")


@pytest.mark.parametrize("opcode", [BINARY, TEXT])
async def test_session_ends_when_a_message_is_too_large(demo_run: Demo, opcode: int) -> None:
    async with connect(demo_run.listening, EXEC) as (_, client):
        client.send(b"\0" + b"x" * LARGEST_MESSAGE_BYTES, opcode=opcode)
        assert (await client.read())[1] == b"\1" + b"x" * LARGEST_MESSAGE_BYTES
        # The head alone says so; the content need not come.
        client.writer.write(make_frame(b"\0" + b"x" * (LARGEST_MESSAGE_BYTES + 1), opcode=opcode)[:14])
        assert (await client.read_close())[0] == 1009
    await asyncio.wait_for(demo_run.container.is_closed.wait(), SECONDS)


async def test_session_ends_when_the_fragments_of_a_message_are_too_large(demo_run: Demo) -> None:
    async with connect(demo_run.listening, EXEC) as (_, client):
        client.send(b"\0" + b"x" * 200_000, is_last=False)
        client.send(b"x" * 100_000, opcode=CONT)
        assert (await client.read_close())[0] == 1009


async def test_session_ends_when_a_message_has_too_many_fragments(demo_run: Demo) -> None:
    async with connect(demo_run.listening, EXEC) as (_, client):
        client.send(b"\0", is_last=False)
        for _ in range(5000):
            client.send(b"", opcode=CONT, is_last=False)
        assert await client.read_close() == (1009, "a message has more than 256 fragments")
    await asyncio.wait_for(demo_run.container.is_closed.wait(), SECONDS)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x82\x05hello", 1002),  # not masked
        (b"\xf2\x80\0\0\0\0", 1002),  # reserved bits
        (make_frame(b"\xff", opcode=TEXT), 1007),
    ],
    ids=["mask", "reserved", "UTF-8"],
)
async def test_session_ends_when_a_frame_is_malformed(demo_run: Demo, frame: bytes, code: int) -> None:
    async with connect(demo_run.listening, EXEC) as (_, client):
        client.writer.write(frame)
        assert (await client.read_close())[0] == code


async def test_connection_is_closed_when_the_client_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (websockets, websocket_connections):
        monkeypatch.setattr(module, "SEND_SECONDS", 0.3)

    async def write_on(container: Container) -> None:
        while True:
            await container.write(b"x" * LARGEST_MESSAGE_BYTES)

    async with run_demo(tmp_path) as demo:
        demo.engine.program = write_on
        async with connect(demo.listening, EXEC, receive_buffer=4096) as (answer, _):
            assert answer.status == 101
            await asyncio.wait_for(demo.container.is_closed.wait(), SECONDS)
            await wait_until_none_is_open(demo.listening)


async def test_half_open_handshakes_end_when_their_time_is_over(
    demo_run: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slowloris: a head that never ends."""
    monkeypatch.setattr(idle_connections, "HEAD_SECONDS", 0.5)
    clients = [await asyncio.open_connection("127.0.0.1", demo_run.listening.port) for _ in range(10)]
    for number, (_, writer) in enumerate(clients):
        writer.write(make_head(EXEC)[: 10 + 20 * number])
    assert await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in clients)), SECONDS) == [b""] * 10
    await wait_until_none_is_open(demo_run.listening)
    for _, writer in clients:
        writer.close()


async def test_handshake_ends_when_the_engine_does_not_answer(demo_run: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.app.sessions.container_sessions.OPEN_SECONDS", 0.2)

    async def hang(_point: str) -> None:
        await asyncio.Event().wait()

    demo_run.engine.at = hang
    answer = await demo_run.ask()
    assert (answer.status, json.loads(answer.body)["errorCode"]) == (503, "engine.timeout")


async def test_connection_is_aborted_when_an_upgrade_is_pipelined(demo_run: Demo) -> None:
    """The upgrade may not overtake the response to an earlier request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", demo_run.listening.port)
    follow = f"GET {RUN}/log?follow=true HTTP/1.1\r\nHost: localhost:8080\r\n\r\n".encode()
    writer.write(follow + make_head(EXEC))
    answer = b""
    with suppress(ConnectionResetError):
        answer = await asyncio.wait_for(reader.read(), SECONDS)
    assert b"101" not in answer.split(b"\r\n")[0]
    assert demo_run.engine.calls == []
    writer.close()
    await wait_until_none_is_open(demo_run.listening)


async def test_upgrades_of_other_methods_are_plain_requests_when_they_come(demo_run: Demo) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", demo_run.listening.port)
    writer.write(make_head(EXEC).replace(b"GET", b"POST", 1))
    assert (await asyncio.wait_for(reader.readline(), SECONDS)).startswith(b"HTTP/1.1 405")
    writer.close()


async def test_command_is_not_logged_when_a_session_is_opened(
    demo_run: Demo, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with connect(demo_run.listening, f"{RUN}/exec?command=password-1234&stdin=1") as (_, client):
            client.send(b"\0password-5678")
            await client.read()
        await demo_run.ask(f"{RUN}/exec?command=password-1234&x=1")
    written = caplog.text + "".join(capsys.readouterr())
    assert "password" not in written
    assert f"{RUN}/exec" in written


def make_protocol(key: bytes | None = None) -> tuple[LimitedWebSocket, mock.Mock]:
    """A connection after its handshake, possibly with another key, without a server."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        await asyncio.Event().wait()

    config = uvicorn.Config(app, lifespan="off", log_config=None, **WEBSOCKET_OPTIONS)
    config.load()
    state = uvicorn.server.ServerState()
    protocol = LimitedWebSocket(config, state, {}, limits=ConnectionLimits(most=10))
    transport = mock.Mock()
    transport.is_closing.return_value = False
    transport.get_extra_info.return_value = None
    fields = [line.split(b": ", 1) for line in make_head("/").split(b"\r\n")[1:] if line]
    headers = {name.lower(): value for name, value in fields}
    if key is not None:
        headers[b"sec-websocket-key"] = key
    protocol.begin(transport, url=b"/x", headers=headers.items())
    return protocol, transport


async def test_connection_is_aborted_when_the_handshake_cannot_be_parsed() -> None:
    _, transport = make_protocol(key=b"\0")
    transport.abort.assert_called_once_with()


async def test_few_messages_are_parsed_ahead_when_one_read_has_thousands() -> None:
    protocol, transport = make_protocol()
    protocol.data_received(make_frame(b"") * 40_000)
    assert protocol.queue.qsize() == 1, "only the connect: nothing is parsed before the handshake is answered"
    await asyncio.sleep(0.05)
    most = 0
    for _ in range(40_001):
        most = max(most, protocol.queue.qsize())
        await protocol.receive()
    assert most <= 8192 // 6 + 2
    assert protocol.queue.empty()
    assert transport.method_calls[-1] == mock.call.resume_reading()
    for task in protocol.tasks:
        task.cancel()


async def test_pongs_are_left_out_when_the_client_does_not_read() -> None:
    protocol, transport = make_protocol()
    await asyncio.sleep(0.05)
    protocol.pause_writing()
    transport.write.reset_mock()
    protocol.data_received(make_frame(b"ping", opcode=PING) * 10_000)
    while protocol._unparsed:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    assert transport.write.call_count == 0
    protocol.resume_writing()
    protocol.data_received(make_frame(b"ping", opcode=PING))
    transport.write.assert_called_once_with(b"\x8a\x04ping")
    for task in protocol.tasks:
        task.cancel()
