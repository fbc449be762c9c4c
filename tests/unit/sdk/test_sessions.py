"""Sessions of the SDK, async and sync, against the API behind uvicorn; commands are real processes."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from configparser import ConfigParser
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

import runyard as ry
from runyard.app.engine import Usage
from runyard.sdk.contexts import FILE_VARIABLE
from runyard.sdk.sessions import aio
from runyard.sdk.sessions.channels import read_status
from tests.certificates import write_certificate
from tests.core_process import make_client
from tests.engines.interactive import Container, echo
from tests.engines.process_sessions import connect, execute
from tests.small_proxy import Conduct, SmallProxy
from tests.unit.app.run_world import TurnedClock
from tests.unit.sdk.session_server import SessionServer, password_of, run_session_server

ELSEWHERE = "192.0.2.1"
"""An address that is nobody's: only the proxy of a test knows the way there."""
SECONDS = 30.0
T = TypeVar("T")


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "contexts.json"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RUNYARD_ENDPOINT", "RUNYARD_CONTEXT", "DHCORE_ENDPOINT", "DH_CONFIG", "DH_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SessionServer]:
    async with run_session_server(tmp_path, execute) as server:
        yield server


async def in_thread(url: str | None, use: Callable[[ry.Run], T]) -> T:
    """Use the run by a sync client, beside the server of this event loop; without an address, the configured one."""

    def call() -> T:
        with ry.Client(url) as client:
            return use(client.get_project("demo").get_run("r1"))

    return await asyncio.to_thread(call)


async def test_output_and_exit_code_are_those_of_the_command_when_it_is_executed(server: SessionServer) -> None:
    command = ["sh", "-c", "printf 'a\\0\\377'; printf err >&2; exit 42"]
    async with server.open_run() as run:
        assert await run.exec(command) == ry.ExecResult(42, b"a\0\xff", b"err")
    assert await in_thread(server.url, lambda run: run.exec(command)) == ry.ExecResult(42, b"a\0\xff", b"err")
    assert list(server.container.session.command) == command


async def test_both_directions_move_when_input_and_output_are_large(server: SessionServer) -> None:
    content = bytes(range(256)) * (32 << 10)  # 8 MiB, more than any buffer on the way
    async with server.open_run() as run:
        async with asyncio.timeout(SECONDS):
            assert (await run.exec(["cat"], input=content)).stdout == content
    assert (await in_thread(server.url, lambda run: run.exec(["cat"], input=content))).stdout == content


async def test_both_directions_move_when_the_server_has_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_certificate(tmp_path)
    content = bytes(range(256)) * (16 << 10)
    async with run_session_server(tmp_path, execute, certificate=tmp_path) as server:
        with pytest.raises(ry.CertificateError):
            async with server.open_run(retry_seconds=0):
                pass
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        async with server.open_run() as run, asyncio.timeout(SECONDS):
            assert (await run.exec(["cat"], input=content)).stdout == content
        assert (await in_thread(server.url, lambda run: run.exec(["cat"], input=content))).stdout == content


async def test_no_proxy_is_used_when_the_server_is_on_this_machine(
    server: SessionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with server.open_run() as run:
        assert (await run.exec(["echo", "here"])).text == "here\n"


@asynccontextmanager
async def run_behind_proxy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[SessionServer, SmallProxy]]:
    """A server with TLS and accounts, to which only the proxy knows the way; the environment names the server."""
    write_certificate(folder, host=ELSEWHERE)
    named = {"ENDPOINT": f"https://{ELSEWHERE}:8443", "USER": "ada", "PASSWORD": password_of("ada")}
    for name, value in named.items():
        monkeypatch.setenv(f"RUNYARD_{name}", value)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "cert.pem"))
    async with run_session_server(folder, execute, user="ada", certificate=folder) as server:
        yield server, SmallProxy("pass", {f"{ELSEWHERE}:8443": f"127.0.0.1:{server.listening.port}"})


async def test_both_directions_move_when_a_proxy_tunnels_to_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(256)) * (16 << 10)
    async with run_behind_proxy(tmp_path, monkeypatch) as (_, proxy):
        with proxy.serve() as address:
            monkeypatch.setenv("HTTPS_PROXY", address)
            async with ry.AsyncClient() as client, asyncio.timeout(SECONDS):
                run = await (await client.get_project("demo")).get_run("r1")
                assert (await run.exec(["cat"], input=content)).stdout == content
            done = await in_thread(None, lambda run: run.exec(["cat"], input=content))
            assert done.stdout == content
        # The sync client's session has a connection of its own.
        assert proxy.asked == [f"CONNECT {ELSEWHERE}:8443"] * 3


@pytest.mark.parametrize(("conduct", "words"), [("refuse", "403 Forbidden"), ("page", "does not speak TLS")])
async def test_proxy_is_named_when_it_does_not_tunnel_for_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conduct: Conduct, words: str
) -> None:
    async with run_behind_proxy(tmp_path, monkeypatch) as (server, proxy):

        def execute_behind(run: ry.Run) -> str:
            proxy.conduct = conduct
            with pytest.raises(ry.ServerUnreachable) as caught:
                run.exec(["true"])
            return str(caught.value)

        with proxy.serve() as address:
            monkeypatch.setenv("HTTPS_PROXY", address.replace("://", "://ada:geheim@"))
            said = await in_thread(None, execute_behind)
    assert words in said
    assert f"the proxy {address}" in said
    assert "geheim" not in said
    assert not server.engine.containers


async def test_expired_token_is_refreshed_once_when_a_sync_session_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ini, clock = tmp_path / "dhcore.ini", TurnedClock()
    monkeypatch.setenv("DH_CONFIG", str(ini))
    async with run_session_server(tmp_path, execute, user="ada", clock=clock) as server:
        given = await get_tokens(server)
        ini.write_text(
            f"[DEFAULT]\ncurrent_environment = lab\n[lab]\ndhcore_endpoint = {server.url}\n"
            f"dhcore_access_token = {given['access_token']}\ndhcore_refresh_token = {given['refresh_token']}\n"
        )

        def use(run: ry.Run) -> str:
            assert read_tokens(ini) == (given["access_token"], given["refresh_token"]), "good until now"
            clock.at += timedelta(days=1)
            text = run.exec(["echo", "here"]).text
            after = read_tokens(ini)
            assert not set(after) & {given["access_token"], given["refresh_token"]}
            with run.open_exec(["true"]) as session:
                assert list(session) == []
            assert run.refresh().state == "RUNNING"
            assert read_tokens(ini) == after, "a refresh token is accepted once: all share the new ones"
            return text

        assert await in_thread(None, use) == "here\n"


async def get_tokens(server: SessionServer) -> dict[str, str]:
    """An access token and a refresh token of ada, as DigitalHub's tools get them."""
    async with ry.AsyncClient(server.url, user="ada", password=password_of("ada")) as client:
        personal = (await client.create_token("laptop", days=30))["value"]
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": personal,
        "subject_token_type": "urn:ietf:params:oauth:token-type:pat",
        "scope": "credentials",
    }
    async with make_client(server.url) as plain:
        tokens: dict[str, str] = (await plain.post("/auth/token", data=form)).raise_for_status().json()
    return tokens


def read_tokens(ini: Path) -> tuple[str, str]:
    parser = ConfigParser(interpolation=None)
    parser.read(ini)
    return parser["lab"]["dhcore_access_token"], parser["lab"]["dhcore_refresh_token"]


async def test_command_ends_when_it_does_not_read_its_input(server: SessionServer) -> None:
    async with server.open_run() as run, asyncio.timeout(SECONDS):
        assert (await run.exec(["true"], input=b"x" * (4 << 20))).exit_code == 0


async def test_empty_arguments_and_special_characters_arrive_when_they_are_parts_of_the_command(
    server: SessionServer,
) -> None:
    words = ["", "a b", "ü&=+%", "$HOME", "-x"]
    async with server.open_run() as run:
        assert (await run.exec(["printf", "[%s]", *words])).text == "".join(f"[{word}]" for word in words)


async def test_time_is_over_when_the_command_goes_on(server: SessionServer) -> None:
    async with server.open_run() as run:
        with pytest.raises(ry.WaitTimeout, match=r"has not ended after 0\.2 seconds"):
            await run.exec(["sleep", "600"], timeout=0.2)
    async with asyncio.timeout(SECONDS):
        await server.container.is_closed.wait()


async def test_output_is_refused_when_it_is_larger_than_what_is_kept(
    server: SessionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "MOST_OUTPUT_BYTES", 1000)
    async with server.open_run() as run:
        with pytest.raises(ry.SessionFailed, match="more than 1000 bytes; use open_exec"):
            await run.exec(["cat", "/dev/zero"])


async def test_terminal_has_the_size_that_was_told_when_a_session_is_opened(server: SessionServer) -> None:
    async with server.open_run() as run, asyncio.timeout(SECONDS):
        async with run.open_exec(["sh", "-c", "read go; stty size"], stdin=True, tty=True) as session:
            await session.resize(132, 43)
            while not server.container.sizes:  # noqa: ASYNC110 - the size is on its way
                await asyncio.sleep(0.01)
            await session.send(b"go\n")
            shown = b"".join([output.content async for output in session])
        assert session.exit_code == 0
    assert b"43 132" in shown


async def test_session_ends_when_the_block_does(server: SessionServer) -> None:
    def start(run: ry.Run) -> bytes:
        with run.open_exec(["sh", "-c", "echo begun; exec sleep 600"]) as session:
            return next(iter(session)).content

    assert await in_thread(server.url, start) == b"begun\n"
    async with asyncio.timeout(SECONDS):
        await server.container.is_closed.wait()


async def test_input_and_output_interleave_when_a_sync_session_is_used(server: SessionServer) -> None:
    def talk(run: ry.Run) -> list[bytes]:
        with run.open_exec(["cat"], stdin=True) as session:
            outputs = iter(session)
            said = []
            for word in (b"one", b"two"):
                session.send(word)
                said.append(next(outputs).content)
            session.close_input()
            assert list(outputs) == []
            assert session.exit_code == 0
            return said

    assert await in_thread(server.url, talk) == [b"one", b"two"]


async def test_session_fails_with_the_reason_when_the_container_cannot_execute(tmp_path: Path) -> None:
    async def refuse(container: Container) -> None:
        await container.fail_with_status("exec: no such file or directory")

    async with run_session_server(tmp_path, refuse) as server, server.open_run() as run:
        with pytest.raises(ry.SessionFailed, match="exec: no such file or directory"):
            await run.exec(["nothing"])


async def test_session_fails_when_the_server_ends_it_without_a_status(tmp_path: Path) -> None:
    async def leave(container: Container) -> None:
        await container.leave()

    async with run_session_server(tmp_path, leave) as server, server.open_run() as run:
        with pytest.raises(ry.SessionFailed, match="ended without a status"):
            await run.exec(["true"])


async def test_session_is_cut_when_the_server_shuts_down(server: SessionServer) -> None:
    async with server.open_run() as run, run.open_exec(["sh", "-c", "echo a; exec sleep 600"]) as session:
        outputs = aiter(session)
        assert (await anext(outputs)).content == b"a\n"
        server.listening.drain()
        with pytest.raises(ry.SessionFailed, match="ended early: the server shuts down"):
            await anext(outputs)


async def test_attached_output_comes_when_a_session_is_attached(tmp_path: Path) -> None:
    async def say(container: Container) -> None:
        await container.write(b"line\n")
        await container.exit()

    async with run_session_server(tmp_path, say) as server, server.open_run() as run, run.open_attach() as session:
        assert [output.content async for output in session] == [b"line\n"]


async def test_refusals_are_errors_of_the_sdk_when_a_session_cannot_be_opened(tmp_path: Path) -> None:
    signed_in = {"user": "ada", "password": password_of("ada")}
    async with run_session_server(tmp_path, echo, user="ada") as server, server.open_run(**signed_in) as run:
        server.engine.is_running = False
        with pytest.raises(ry.ApiError, match="no container of run r1 runs") as refused:
            await run.exec(["true"])
        assert refused.value.code == "run.not_running"
        server.engine.is_running = True
        assert (await run.exec(["cat"], input="signed in")).text == "signed in"
        run._transport.credentials = run._transport.credentials.__class__(endpoint=server.url, source="test")
        with pytest.raises(ry.NotSignedIn, match="sign in with `runyard login`"):
            await run.exec(["true"])


async def test_server_is_unreachable_when_it_is_gone(tmp_path: Path) -> None:
    async with run_session_server(tmp_path, echo) as server, server.open_run() as run:
        pass
    async with ry.AsyncClient(server.url) as client:
        gone = ry.AsyncRun(run.to_dict(), client._transport)
        with pytest.raises(ry.ServerUnreachable, match="connection refused; is the server running"):
            await gone.exec(["true"])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "did not open a WebSocket"),
        (b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\n\r\n", "did not open a WebSocket"),
        (b'HTTP/1.1 426 Upgrade Required\r\nContent-Length: 15\r\n\r\n{"message":"x"}', "does not pass WebSockets on"),
    ],
)
async def test_answer_is_unexpected_when_something_else_than_a_websocket_answers(answer: bytes, words: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        async with ry.AsyncClient(f"http://127.0.0.1:{port}") as client:
            run = ry.AsyncRun({"id": "r1", "project": "demo"}, client._transport)
            with pytest.raises(ry.UnexpectedResponse, match=words):
                await run.exec(["true"])


@pytest.mark.parametrize("command", ["ls -l", [], [1]])
async def test_command_is_refused_when_it_is_not_a_list_of_texts(server: SessionServer, command: object) -> None:
    async with server.open_run() as run:
        with pytest.raises(ry.ArgumentError, match="command is a list"):
            await run.exec(command)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (b'{"status": "Success"}', 0),
        (b'{"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}}', 7),
    ],
)
def test_exit_code_is_read_when_the_status_has_one(status: bytes, code: int) -> None:
    assert read_status(status) == code


@pytest.mark.parametrize(
    "status",
    [b"", b"[]", b"[" * 100_000, b'{"status": "Failure"}', b'{"details": {"causes": [{"reason": "ExitCode"}]}}'],
)
def test_session_has_failed_when_the_status_has_no_exit_code(status: bytes) -> None:
    with pytest.raises(ry.SessionFailed):
        read_status(status)


# --- ports


async def serve_lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A service that answers each line in capitals, until the other side has ended."""
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()


def ask(port: int, *lines: str) -> list[str]:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        stream = connection.makefile("rw")
        answers = []
        for line in lines:
            stream.write(f"{line}\n")
            stream.flush()
            answers.append(stream.readline().strip())
        return answers


@pytest.fixture
async def ports(tmp_path: Path) -> AsyncIterator[SessionServer]:
    async with run_session_server(tmp_path, connect) as server:
        yield server


async def test_connections_are_forwarded_when_several_are_open(ports: SessionServer) -> None:
    async with await asyncio.start_server(serve_lines, "127.0.0.1", 0) as service:
        port = service.sockets[0].getsockname()[1]
        async with ports.open_run() as run, run.port_forward(port) as forward:
            assert forward.host == "127.0.0.1"
            calls = [asyncio.to_thread(ask, forward.port, f"a{number}", "b") for number in range(8)]
            assert await asyncio.gather(*calls) == [[f"A{number}", "B"] for number in range(8)]

        def use(run: ry.Run) -> list[str]:
            with run.port_forward(port) as forward:
                return ask(forward.port, "x")

        assert await in_thread(ports.url, use) == ["X"]


async def test_later_connections_work_when_one_was_refused(ports: SessionServer) -> None:
    problems: list[str] = []
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]

        def note(error: ry.RunyardError) -> None:
            problems.append(str(error))

        async with ports.open_run() as run, run.port_forward(port, on_problem=note) as forward:
            assert await asyncio.to_thread(ask, forward.port, "a") == [""]
            assert problems == [f"dial tcp4 127.0.0.1:{port}: connection refused"]
            reserved.listen()

            def say_here() -> None:
                with reserved.accept()[0] as connection:
                    connection.sendall(b"here\n")

            answer, _ = await asyncio.gather(asyncio.to_thread(ask, forward.port, "a"), asyncio.to_thread(say_here))
            assert answer == ["here"]
            assert len(problems) == 1


async def test_connection_ends_when_the_local_side_has_gone_and_the_port_is_silent(
    ports: SessionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "HALF_CLOSED_SECONDS", 0.1)

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    service = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    port = service.sockets[0].getsockname()[1]
    async with service, ports.open_run() as run, run.port_forward(port) as forward:
        await asyncio.to_thread(lambda: socket.create_connection(("127.0.0.1", forward.port)).close())
        async with asyncio.timeout(SECONDS):
            while not ports.engine.containers:  # noqa: ASYNC110 - it is being opened
                await asyncio.sleep(0.01)
            await ports.container.is_closed.wait()


async def test_local_port_is_refused_when_it_is_taken(ports: SessionServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with ports.open_run() as run:
            with pytest.raises(ry.ArgumentError, match=f"cannot listen on port {port} of 127.0.0.1: .*in use"):
                async with run.port_forward(80, local_port=port):
                    pass
            with pytest.raises(ry.ArgumentError, match="port 70000 is not a TCP port; allowed: 1 to 65535"):
                run.port_forward(70000)


async def test_usage_is_listed_when_the_engine_measures(server: SessionServer) -> None:
    server.engine.usage = [
        Usage(at=datetime(2026, 11, 15, tzinfo=UTC), pod="p", container="main", cpu_cores=0.5, memory_bytes=1 << 20)
    ]
    async with server.open_run() as run:
        (usage,) = await run.usage()
    assert (usage.pod, usage.container, usage.cpu_cores, usage.memory_bytes) == ("p", "main", 0.5, 1 << 20)
