"""Exec, attach and port-forward over a real uvicorn server, with a real WebSocket client and an engine in memory."""

import asyncio
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop

from runyard.api import streams, websockets
from runyard.app.audit import list_audit
from runyard.app.engine import LARGEST_MESSAGE_BYTES, Anchor, ChannelId, EngineUnavailable, Session
from tests.certificates import write_certificate
from tests.engines.interactive import SUCCESS, Container, InteractiveEngine
from tests.http_servers import Server, password_of, serve
from tests.unit.api.engine_runs import ANCHOR, mark_running, submit_run
from tests.unit.api.websocket_servers import SECONDS, Listening, listen

RUN = "/api/v1/-/demo/runs/r1"
V5 = "v5.channel.k8s.io"
END_OF_INPUT = b"\xff\0"
MIB = 1 << 20


@dataclass
class Demo:
    engine: InteractiveEngine
    listening: Listening
    http: aiohttp.ClientSession

    @asynccontextmanager
    async def open(self, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        options = {"protocols": [V5], "headers": {"Host": "localhost"}, "max_msg_size": 0, **options}
        scheme = "https" if options.get("ssl") else "http"
        url = f"{scheme}://127.0.0.1:{self.listening.port}{RUN}/{path}"
        async with asyncio.timeout(SECONDS), self.http.ws_connect(url, **options) as socket:
            yield socket

    @property
    def container(self) -> Container:
        return self.engine.containers[-1]

    @property
    def server(self) -> Server:
        return self.listening.server


@asynccontextmanager
async def run_demo(folder: Path, *, certificate: Path | None = None, **options: Any) -> AsyncIterator[Demo]:
    """A server with a run that runs."""
    engine = InteractiveEngine()
    async with serve(folder, engine=engine, **options) as server:
        user = None
        if options.get("is_open") is False:
            await server.add_user("ada")
            user = "ada"
        async with server.client(user) as client:
            await submit_run(client)
        mark_running(folder)
        async with listen(server, certificate=certificate) as listening, aiohttp.ClientSession() as http:
            yield Demo(engine, listening, http)
        await engine.close()


@pytest.fixture
async def demo_run(tmp_path: Path) -> AsyncIterator[Demo]:
    async with run_demo(tmp_path) as demo:
        yield demo


def sign_in(user: str) -> dict[str, str]:
    """The headers of a user."""
    return {"Host": "localhost", "Authorization": aiohttp.encode_basic_auth(user, password_of(user))}


async def read_all(socket: aiohttp.ClientWebSocketResponse) -> list[tuple[int, bytes]]:
    """Every message until the close."""
    messages = []
    async for message in socket:
        assert message.type is aiohttp.WSMsgType.BINARY, message
        messages.append((message.data[0], message.data[1:]))
    return messages


async def list_entries(server: Server) -> list[tuple[str, str, dict[str, Any]]]:
    """The audit of sessions, oldest first."""
    page = await list_audit(server.core, most_bytes=1 << 20)
    entries = [entry for _, entry in page.entries if entry.type == "run"]
    return [
        (entry.action, entry.result, dict(entry.details)) for entry in reversed(entries) if "session" in entry.details
    ]


async def wait_for_entries(server: Server, count: int) -> list[tuple[str, str, dict[str, Any]]]:
    async with asyncio.timeout(SECONDS):
        while len(entries := await list_entries(server)) < count:  # noqa: ASYNC110 - the audit wakes nobody
            await asyncio.sleep(0.02)
    return entries


async def test_input_comes_back_when_the_command_echoes(demo_run: Demo) -> None:
    path = "exec?command=cat&command=&command=a%20b&container=main&pod=r1-0&stdin=true"
    async with demo_run.open(path) as socket:
        assert socket.protocol == V5
        await socket.send_bytes(b"\0hello\n")
        assert await socket.receive_bytes() == b"\1hello\n"
        await socket.send_bytes(b"")
        await socket.send_str("\0as text é")
        assert await socket.receive_bytes() == b"\1as text " + "é".encode()
        await socket.send_bytes(END_OF_INPUT)
        assert await read_all(socket) == [(3, json.dumps(SUCCESS).encode())]
        assert socket.close_code == 1000
    run = await demo_run.server.find_run("demo", "r1")
    assert demo_run.container.anchor == Anchor(run_uid=run.uid, run_id="r1", project="demo", action="job", uid=ANCHOR)
    assert demo_run.container.session == Session(
        pod="r1-0", container="main", command=("cat", "", "a b"), has_stdin=True
    )
    assert demo_run.container.is_closed.is_set()


async def test_exit_code_is_in_the_status_when_the_command_fails(demo_run: Demo) -> None:
    async def fail(container: Container) -> None:
        await container.write(b"oops\n", channel=ChannelId.STDERR)
        await container.exit(3)

    demo_run.engine.program = fail
    async with demo_run.open("exec?command=false") as socket:
        (stderr, status) = await read_all(socket)
        assert socket.close_code == 1000
    assert stderr == (2, b"oops\n")
    assert status[0] == 3
    assert json.loads(status[1])["details"] == {"causes": [{"reason": "ExitCode", "message": "3"}]}


async def test_terminal_is_resized_when_the_client_says_so(demo_run: Demo) -> None:
    async with demo_run.open("exec?command=sh&stdin=true&tty=1") as socket:
        await socket.send_bytes(b'\4{"Width": 80, "Height": 24, "more": 1}')
        await socket.send_bytes(b"\0x")
        assert await socket.receive_bytes() == b"\1x"
        assert demo_run.container.sizes == [{"Width": 80, "Height": 24}]
        assert demo_run.container.session.is_tty


@pytest.mark.parametrize(
    ("path", "message", "code", "reason"),
    [
        (
            "exec?command=sh&tty=1",
            b"\4{}",
            1007,
            'the size of a terminal is {"Width": 1 to 65535, "Height": 1 to 65535}',
        ),
        ("exec?command=sh&tty=1", b'\4{"Width": true, "Height": 1}', 1007, "the size of a terminal is"),
        ("exec?command=sh&tty=1", b"\4" + b"[" * 1024, 1007, "the size of a terminal is"),
        (
            "exec?command=sh",
            b'\4{"Width": 1, "Height": 1}',
            1003,
            "channel 4 takes no input in this session; allowed: 255",
        ),
        ("exec?command=sh", b"\0x", 1003, "channel 0 takes no input in this session; allowed: 255"),
        ("exec?command=sh", END_OF_INPUT, 1003, "only channel 0 can be closed, if the session has it"),
        ("exec?command=sh&stdin=1", b"\xff\1", 1003, "only channel 0 can be closed, if the session has it"),
        ("exec?command=sh&stdin=1", b"\1x", 1003, "channel 1 takes no input in this session; allowed: 0, 255"),
        ("portforward?port=80", b"\4{}", 1003, "channel 4 takes no input in this session; allowed: 0, 255"),
    ],
)
async def test_session_ends_with_a_reason_when_a_message_is_not_allowed(
    demo_run: Demo, path: str, message: bytes, code: int, reason: str
) -> None:
    async with demo_run.open(path) as socket:
        await socket.send_bytes(message)
        closed = await socket.receive()
        assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, code)
        assert closed.extra is not None
        assert closed.extra.startswith(reason)
    assert demo_run.container.is_closed.is_set()


async def test_process_is_attached_to_when_asked(demo_run: Demo) -> None:
    async with demo_run.open("attach?stdin=true&container=main") as socket:
        await socket.send_bytes(b"\0hi")
        assert await socket.receive_bytes() == b"\1hi"
    assert demo_run.engine.calls == ["open_attach"]
    assert demo_run.container.session == Session(container="main", has_stdin=True)


async def test_port_is_connected_when_asked(demo_run: Demo) -> None:
    async def answer(container: Container) -> None:
        request = await container.read()
        await container.write(b"answer to " + (request or b""), channel=ChannelId.STDIN)
        await container.leave()

    demo_run.engine.program = answer
    async with demo_run.open("portforward?port=8080&pod=r1-1") as socket:
        await socket.send_bytes(b"\0GET /")
        assert await read_all(socket) == [(0, b"answer to GET /")]
        assert socket.close_code == 1000
    assert (demo_run.container.port, demo_run.container.session.pod) == (8080, "r1-1")


async def test_messages_keep_their_order_when_there_are_a_thousand_small_ones(demo_run: Demo) -> None:
    async with demo_run.open("exec?command=cat&stdin=true") as socket:

        async def send() -> None:
            for number in range(1000):
                await socket.send_bytes(b"\0%d" % number)
            await socket.send_bytes(END_OF_INPUT)

        sending = asyncio.ensure_future(send())
        messages = await read_all(socket)
        await sending
    assert messages[:-1] == [(1, b"%d" % number) for number in range(1000)]


def on_both_loops(scenario: Callable[[Path], Awaitable[None]]) -> Any:
    """A test on asyncio's event loop, and on the one that the server uses."""

    def run(make_loop: Any, tmp_path: Path) -> None:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(scenario(tmp_path))  # type: ignore[arg-type] # a coroutine

    loops = [asyncio.new_event_loop, uvloop.new_event_loop]
    return pytest.mark.parametrize("make_loop", loops, ids=["asyncio", "uvloop"])(run)


async def _send_much(folder: Path) -> None:
    content = bytes(range(256)) * (LARGEST_MESSAGE_BYTES // 256)
    count = 32 * MIB // LARGEST_MESSAGE_BYTES

    async def write_much(container: Container) -> None:
        for _ in range(count):
            await container.write(content)
        await container.exit()

    async with run_demo(folder) as demo:
        demo.engine.program = write_much
        async with demo.open("exec?command=cat") as socket:
            first = await socket.receive_bytes()
            await asyncio.sleep(1)
            # Back-pressure: what is on the way lies in the buffers of both sockets and in a few messages.
            assert demo.container.written < 16 * MIB
            digest, size = hashlib.sha256(first[1:]), len(first) - 1
            async for message in socket:
                if message.data[0] == 1:
                    digest.update(message.data[1:])
                    size += len(message.data) - 1
            assert size == 32 * MIB
            assert digest.digest() == hashlib.sha256(content * count).digest()
            assert socket.close_code == 1000


test_output_waits_for_its_reader_when_the_client_is_slow = on_both_loops(_send_much)


async def _receive_much(folder: Path) -> None:
    content = bytes(range(256)) * (LARGEST_MESSAGE_BYTES // 256)
    count, gate, sent = 32 * MIB // LARGEST_MESSAGE_BYTES, asyncio.Event(), 0

    async def read_late(container: Container) -> None:
        await gate.wait()
        digest = hashlib.sha256()
        while (part := await container.read()) is not None:
            digest.update(part)
        await container.write(digest.digest())
        await container.exit()

    async with run_demo(folder) as demo:
        demo.engine.program = read_late
        async with demo.open("exec?command=sha256sum&stdin=1") as socket:

            async def send() -> None:
                nonlocal sent
                for _ in range(count):
                    await socket.send_bytes(b"\0" + content)
                    sent += len(content)
                await socket.send_bytes(END_OF_INPUT)

            sending = asyncio.ensure_future(send())
            await asyncio.sleep(1)
            assert sent < 16 * MIB
            gate.set()
            assert await socket.receive_bytes() == b"\1" + hashlib.sha256(content * count).digest()
            await sending
            await read_all(socket)
            assert socket.close_code == 1000


test_input_waits_for_its_reader_when_the_container_is_slow = on_both_loops(_receive_much)


async def _echo_over_tls(folder: Path) -> None:
    write_certificate(folder)
    trusted = ssl.create_default_context(cafile=folder / "cert.pem")
    async with run_demo(folder, certificate=folder) as demo:
        async with demo.open("exec?command=cat&stdin=true", ssl=trusted) as socket:
            for number in range(16):
                await socket.send_bytes(b"\0" + bytes([number]) * LARGEST_MESSAGE_BYTES)
                assert await socket.receive_bytes() == b"\1" + bytes([number]) * LARGEST_MESSAGE_BYTES
            demo.listening.drain()
            closed = await socket.receive()
            assert closed.data == 1012
        await asyncio.wait_for(demo.container.is_closed.wait(), SECONDS)
        assert demo.listening.count_open() == 0


test_session_is_held_when_the_server_speaks_tls = on_both_loops(_echo_over_tls)


async def test_content_is_whole_when_much_goes_in_both_directions(demo_run: Demo) -> None:
    parts = [bytes([number]) * (LARGEST_MESSAGE_BYTES - number) for number in range(32)]
    async with demo_run.open("exec?command=cat&stdin=true") as socket:

        async def send() -> None:
            for part in parts:
                await socket.send_bytes(b"\0" + part)
            await socket.send_bytes(END_OF_INPUT)

        sending = asyncio.ensure_future(send())
        messages = await read_all(socket)
        await sending
    assert b"".join(content for channel, content in messages if channel == 1) == b"".join(parts)


async def test_output_is_split_when_the_engine_sends_more_than_a_message(demo_run: Demo) -> None:
    async def write_large(container: Container) -> None:
        await container.write(b"x" * (LARGEST_MESSAGE_BYTES + 1))
        await container.exit()

    demo_run.engine.program = write_large
    async with demo_run.open("exec?command=cat") as socket:
        messages = await read_all(socket)
    assert [len(content) for channel, content in messages if channel == 1] == [LARGEST_MESSAGE_BYTES, 1]


async def test_session_ends_when_nothing_moves_for_long(demo_run: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websockets, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(websockets, "WATCH_SECONDS", 0.05)
    async with demo_run.open("exec?command=cat&stdin=1") as socket:
        closed = await socket.receive()
        assert (closed.data, closed.extra) == (1008, "the session was idle for 0.2 s")
    await asyncio.wait_for(demo_run.container.is_closed.wait(), SECONDS)


async def test_session_ends_with_a_status_when_the_engine_fails(demo_run: Demo) -> None:
    async def fail(container: Container) -> None:
        await container.write(b"before")
        await container.fail(EngineUnavailable("engine.failed", "the node is gone"))

    demo_run.engine.program = fail
    async with demo_run.open("exec?command=cat") as socket:
        before, status = await read_all(socket)
        assert socket.close_code == 1011
    assert before == (1, b"before")
    assert json.loads(status[1])["message"] == "the node is gone"
    (_, end) = await wait_for_entries(demo_run.server, 2)
    assert end[2]["why"] == "the node is gone"


async def test_session_fails_without_details_when_the_engine_raises_something_unexpected(demo_run: Demo) -> None:
    async def fail(container: Container) -> None:
        await container.fail(RuntimeError("password=1234"))

    demo_run.engine.program = fail
    async with demo_run.open("exec?command=cat") as socket:
        ((_, status),) = await read_all(socket)
        assert socket.close_code == 1011
    assert json.loads(status)["message"] == "the call failed: RuntimeError"


async def test_session_fails_when_the_engine_ends_it_without_a_status(demo_run: Demo) -> None:
    async def leave(container: Container) -> None:
        await container.leave()

    demo_run.engine.program = leave
    async with demo_run.open("attach") as socket:
        ((channel, status),) = await read_all(socket)
        assert socket.close_code == 1011
    assert (channel, json.loads(status)["status"]) == (3, "Failure")


async def test_session_is_closed_with_a_code_when_the_server_drains(demo_run: Demo) -> None:
    async with demo_run.open("exec?command=cat&stdin=1") as socket:
        await socket.send_bytes(b"\0x")
        await socket.receive_bytes()
        demo_run.listening.drain()
        closed = await socket.receive()
        assert (closed.type, closed.data, closed.extra) == (
            aiohttp.WSMsgType.CLOSE,
            1012,
            "the server shuts down",
        )
    await asyncio.wait_for(demo_run.container.is_closed.wait(), SECONDS)
    (_, end) = await wait_for_entries(demo_run.server, 2)
    assert end[2]["why"] == "the server shuts down"


async def test_session_ends_when_access_is_lost_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(websockets, "WATCH_SECONDS", 0.05)
    async with run_demo(tmp_path, is_open=False) as demo:
        await demo.server.add_user("bob")
        async with demo.server.client("ada") as client:
            shared = await client.post("/api/v1/projects/demo/share", params={"user": "bob", "role": "editor"})
            assert shared.is_success
            headers = sign_in("bob")
            async with demo.open("exec?command=cat&stdin=1", headers=headers) as socket:
                await socket.send_bytes(b"\0x")
                assert await socket.receive_bytes() == b"\1x"
                # A viewer may read on, but not this.
                viewer = await client.post("/api/v1/projects/demo/share", params={"user": "bob", "role": "viewer"})
                assert viewer.is_success
                closed = await socket.receive()
                assert (closed.data, closed.extra) == (1008, "your access to this session has ended")
        await asyncio.wait_for(demo.container.is_closed.wait(), SECONDS)


async def test_begin_and_end_are_audited_when_a_session_was_held(tmp_path: Path) -> None:
    async with run_demo(tmp_path, is_open=False) as demo:
        headers = sign_in("ada")
        path = "exec?command=sh&command=-c&command=" + "x" * 2000 + "&command=y&container=main&stdin=1&tty=1"
        async with demo.open(path, headers=headers) as socket:
            await socket.send_bytes(b"\0confidential")
            await socket.receive_bytes()
            (begin,) = await list_entries(demo.server)
        begin, end = await wait_for_entries(demo.server, 2)
        assert begin[:2] == ("run.exec", "begun")
        session = begin[2].pop("session")
        assert begin[2] == {
            "container": "main",
            "command": ["sh", "-c", "x" * 1020 + "…"],
            "stdin": True,
            "tty": True,
        }
        assert end[:2] == ("run.exec", "ended")
        assert end[2].pop("session") == session
        assert end[2].pop("seconds") > 0
        assert end[2] == {"why": "the client ended the session", "received_bytes": 12, "sent_bytes": 12}
        page = await list_audit(demo.server.core, most_bytes=1 << 20)
        (_, entry), *_ = page.entries
        assert (entry.actor, entry.project, entry.id, entry.address) == ("ada", "demo", "r1", "127.0.0.1")
        assert "confidential" not in str(page)


async def test_end_is_audited_when_the_engine_does_not_open_the_session(demo_run: Demo) -> None:
    demo_run.engine.failures.append(EngineUnavailable("engine.timeout", "no answer"))
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with demo_run.open("portforward?port=80"):
            pass
    assert refused.value.status == 503
    begin, end = await wait_for_entries(demo_run.server, 2)
    assert begin[:2] == ("run.portforward", "begun")
    assert begin[2]["port"] == 80
    assert (end[0], end[1], end[2]["why"]) == ("run.portforward", "failed", "not opened: no answer")
