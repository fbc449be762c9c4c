"""Exec: what is sent, what is taken for an exit code, and what never is."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from runyard.kube.client import Client
from runyard.kube.errors import DeadlineExceeded, Disconnected, KubeError, NotFound, ServerError, Unavailable
from runyard.kube.streams import (
    CommandNotFound,
    CommandNotStarted,
    ContainerUnspecified,
    ExecResult,
    ExecSession,
    HalfCloseUnsupported,
    NotRunning,
    Output,
    OutputTooLarge,
    UnknownContainer,
    attach_to_pod,
    exec_in_pod,
    run_command,
)
from tests.unit.kube.scripted_apiserver import answer
from tests.unit.kube.streams.scripted_socket import (
    RESIZE,
    STATUS,
    STDERR,
    STDIN,
    STDOUT,
    SUCCESS,
    Side,
    connected,
    failure,
    pause,
    talk,
)

V4 = "v4.channel.k8s.io"
V5 = "v5.channel.k8s.io"


async def run(client: Client, *command: str, stdin: bytes | AsyncIterator[bytes] | None = None) -> ExecResult:
    return await run_command(client, "pod", command or ("true",), namespace="ns", stdin=stdin, deadline_seconds=60)


async def test_outputs_and_exit_code_are_told_apart_when_a_command_ends() -> None:
    async def script(side: Side) -> None:
        await side.send(STDOUT, b"")
        await side.send(STDOUT, b"out 1\n")
        await side.send(STDERR, b"err\n")
        await side.send(STDOUT, b"out 2\n")
        await side.send(STATUS, failure("3"))

    async with connected(talk(script)) as (client, server):
        assert await run(client, "sh", "-c", "a;b&c d") == ExecResult(3, b"out 1\nout 2\n", b"err\n")
    assert server.requests[0].target == (
        "/api/v1/namespaces/ns/pods/pod/exec?command=sh&command=-c&command=a%3Bb%26c%20d&stdout=true&stderr=true"
    )


async def test_output_comes_in_its_order_when_a_session_is_iterated() -> None:
    async def script(side: Side) -> None:
        for channel, data in ((STDERR, b"1"), (STDOUT, b"2"), (STDERR, b"3")):
            await side.send(channel, data)
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script)) as (client, _):
        async with exec_in_pod(client, "pod", ["x"], namespace="ns") as session:
            with pytest.raises(RuntimeError, match="read to its end"):
                _ = session.exit_code
            outputs = [output async for output in session]
            assert [output async for output in session] == []
        assert outputs == [Output("stderr", b"1"), Output("stdout", b"2"), Output("stderr", b"3")]
        assert session.exit_code == 0


async def test_stdin_comes_in_small_messages_and_ends_when_it_is_large() -> None:
    received: list[bytes] = []

    async def script(side: Side) -> None:
        while not received or received[-1] != bytes([255, STDIN]):
            received.append(await side.receive())
        await side.send(STATUS, SUCCESS)

    data = bytes(range(256)) * 1000
    async with connected(talk(script)) as (client, _):
        assert (await run(client, "cat", stdin=data)).exit_code == 0
    assert {message[0] for message in received[:-1]} == {STDIN}
    assert max(len(message) for message in received) <= (1 << 16) + 1
    assert b"".join(message[1:] for message in received[:-1]) == data


async def test_stdin_is_read_piece_by_piece_when_it_is_an_iterator() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    async def script(side: Side) -> None:
        assert await side.receive() == b"\0a"
        assert await side.receive() == b"\0b"
        assert await side.receive() == b"\xff\0"
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script)) as (client, _):
        assert (await run(client, "cat", stdin=pieces())).exit_code == 0


async def test_the_iterator_s_own_failure_comes_out_when_stdin_breaks() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        raise LookupError("mine") from ValueError("its cause")

    async def script(side: Side) -> None:
        await side.socket.receive()
        await side.socket.receive()

    async with connected(talk(script)) as (client, _):
        with pytest.raises(LookupError, match="mine") as caught:
            await run(client, "cat", stdin=pieces())
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_cut_of_the_iterator_s_own_source_comes_out_when_stdin_comes_from_another_stream() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        raise Disconnected("the other stream")

    async def script(side: Side) -> None:
        while (await side.socket.receive()).type.name == "BINARY":
            pass

    async with connected(talk(script)) as (client, _):
        with pytest.raises(Disconnected, match="the other stream"):
            await run(client, "cat", stdin=pieces())


@pytest.mark.parametrize("is_reset", [False, True])
async def test_the_exit_code_is_known_when_a_command_ends_without_reading_its_stdin(is_reset: bool) -> None:
    async def script(side: Side) -> None:
        await side.receive()
        await side.send(STATUS, failure("141"))
        if is_reset:
            await asyncio.sleep(0.05)
            side.reset()

    async with connected(talk(script)) as (client, _):
        assert (await run(client, "true", stdin=b"x" * 50_000_000)).exit_code == 141


@pytest.mark.parametrize(
    ("stdin", "tty", "offered"),
    [(False, False, V4), (False, True, V4), (True, True, V4), (True, False, f"{V5},{V4}")],
)
async def test_the_protocol_that_takes_a_cut_for_success_is_only_spoken_when_stdin_must_be_ended(
    stdin: bool, tty: bool, offered: str
) -> None:
    async def script(side: Side) -> None:
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script)) as (client, server):
        async with exec_in_pod(client, "pod", ["x"], namespace="ns", stdin=stdin, tty=tty) as session:
            assert await session.wait() == 0
        async with attach_to_pod(client, "pod", namespace="ns", stdin=stdin, tty=tty):
            pass
    assert [each.headers["Sec-WebSocket-Protocol"] for each in server.requests] == [offered, offered]
    assert session.can_close_stdin == (stdin and not tty)


async def test_stdin_is_refused_before_a_byte_of_it_when_the_server_cannot_end_it() -> None:
    received: list[object] = []

    async def script(side: Side) -> None:
        received.append((await side.socket.receive()).data)

    async with connected(talk(script, V4)) as (client, _):
        with pytest.raises(HalfCloseUnsupported):
            await run(client, "cat", stdin=b"hello")
        async with exec_in_pod(client, "pod", ["cat"], namespace="ns", stdin=True) as session:
            assert not session.can_close_stdin
            with pytest.raises(HalfCloseUnsupported):
                await session.close_stdin()
    assert received == [1000, 1000]


async def test_a_status_counts_when_it_comes_in_pieces_after_an_announcement() -> None:
    async def script(side: Side) -> None:
        status = json.dumps(failure("4")).encode()
        for piece in (b"", status[:20], status[20:]):
            await side.send(STATUS, piece)

    async with connected(talk(script)) as (client, _):
        assert (await run(client)).exit_code == 4


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ({"status": "Failure", "reason": "NonZeroExitCode"}, ServerError),
        (failure("0"), ServerError),
        (failure("many"), ServerError),
        ({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [3]}}, ServerError),
        ({}, ServerError),
        ({"status": "Failure", "reason": "NotFound", "code": 404, "message": "gone"}, NotFound),
        (["Success"], Disconnected),
        (b"Success", Disconnected),
        (b"", Disconnected),
    ],
)
async def test_a_status_is_never_an_exit_code_when_it_is_odd(status: object, error: type[KubeError]) -> None:
    async def script(side: Side) -> None:
        await side.send(STATUS, status)

    async with connected(talk(script)) as (client, _):
        with pytest.raises(error):
            await run(client)


@pytest.mark.parametrize("ending", ["close", "error code", "cut", "reset", "text"])
async def test_there_is_no_exit_code_when_the_stream_ends_before_a_status(ending: str) -> None:
    async def script(side: Side) -> None:
        await side.send(STDOUT, b"so far")
        match ending:
            case "cut":
                side.cut()
            case "reset":
                side.reset()
            case "text":
                await side.socket.send_str("hello")

    async with (
        connected(talk(script, close=1011 if ending == "error code" else 1000)) as (client, _),
        exec_in_pod(client, "pod", ["x"], namespace="ns") as session,
    ):
        assert await anext(session) == Output("stdout", b"so far")
        with pytest.raises(Disconnected):
            await session.wait()
        with pytest.raises(RuntimeError):
            _ = session.exit_code


async def test_the_stream_is_refused_when_the_server_speaks_no_protocol_of_ours() -> None:
    async def script(side: Side) -> None:
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script, "channel.k8s.io")) as (client, _):
        with pytest.raises(Disconnected, match="speaks none of"):
            await run(client)


async def test_a_ping_is_answered_when_the_server_sends_one() -> None:
    async def script(side: Side) -> None:
        await side.socket.ping(b"there?")
        assert (await side.receive()) == b"\0x"
        await side.send(STATUS, SUCCESS)

    async with (
        connected(talk(script)) as (client, _),
        exec_in_pod(client, "pod", ["x"], namespace="ns", stdin=True) as session,
    ):
        await session.write(b"x")
        assert await session.wait() == 0


async def test_a_ping_is_sent_when_the_stream_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.kube.streams.channels._PING_SECONDS", 0.01)
    pings: list[object] = []

    async def script(side: Side) -> None:
        side.socket._autoping = False
        pings.extend([(await side.socket.receive()).type.name for _ in range(3)])
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script)) as (client, _):
        assert (await run(client)).exit_code == 0
    assert pings == ["PING"] * 3


async def test_a_message_arrives_whole_when_it_is_huge() -> None:
    data = bytes(1 << 24)

    async def script(side: Side) -> None:
        await side.send(STDOUT, data)
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script)) as (client, _):
        result = await run_command(client, "pod", ["x"], namespace="ns", max_output_bytes=1 << 24)
    assert result == ExecResult(0, data, b"")


async def test_output_is_refused_when_it_is_more_than_the_caller_holds() -> None:
    async def script(side: Side) -> None:
        await side.send(STDOUT, bytes(60))
        await side.send(STDERR, bytes(60))
        await side.socket.receive()

    async with connected(talk(script)) as (client, _):
        with pytest.raises(OutputTooLarge, match="more than 100 bytes"):
            await run_command(client, "pod", ["x"], namespace="ns", max_output_bytes=100)


async def test_the_deadline_is_the_whole_command_s_when_it_does_not_end() -> None:
    async def script(side: Side) -> None:
        await side.socket.receive()

    async with connected(talk(script)) as (client, _):
        with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s"):
            await run_command(client, "pod", ["x"], namespace="ns", deadline_seconds=0.2)


async def test_the_sender_waits_when_output_is_not_taken() -> None:
    message = bytes(1 << 15)
    total = 3000
    sent = 0

    async def script(side: Side) -> None:
        nonlocal sent
        for _ in range(total):
            await side.send(STDOUT, message)
            sent += 1
        await side.send(STATUS, SUCCESS)

    in_flight: list[int] = []
    async with connected(talk(script)) as (client, _):
        async with exec_in_pod(client, "pod", ["x"], namespace="ns") as session:
            taken = 0
            async for output in session:
                taken += len(output.data)
                if taken % (len(message) * 500) == 0:
                    await pause()
                    in_flight.append(sent * len(message) - taken)
        assert taken == total * len(message)
    # The kernel's two buffers, and ours: what a hundred megabytes must never become.
    assert max(in_flight[:-1]) < 16 << 20


async def test_the_writer_waits_when_the_command_does_not_read() -> None:
    go_on = asyncio.Event()
    received = 0

    async def script(side: Side) -> None:
        nonlocal received
        await go_on.wait()
        while (data := await side.receive()) != b"\xff\0":
            received += len(data) - 1
        await side.send(STATUS, SUCCESS)

    written = 0

    async def write(session: ExecSession) -> None:
        nonlocal written
        for _ in range(1 << 10):
            await session.write(bytes(1 << 16))
            written += 1 << 16
        await session.close_stdin()

    async with (
        connected(talk(script)) as (client, _),
        exec_in_pod(client, "pod", ["x"], namespace="ns", stdin=True) as session,
    ):
        writing = asyncio.create_task(write(session))
        await pause()
        assert written < 16 << 20
        go_on.set()
        assert await session.wait() == 0
        await writing
    assert received == 64 << 20


async def test_leaving_is_quick_when_the_server_goes_on_talking() -> None:
    async def script(side: Side) -> None:
        side.socket._autoclose = False
        while not side.socket.closed:
            await side.send(STDOUT, bytes(1 << 15))

    async with connected(talk(script)) as (client, _):
        async with asyncio.timeout(5):
            async with exec_in_pod(client, "pod", ["yes"], namespace="ns") as session:
                assert (await anext(session)).stream == "stdout"


async def test_what_the_block_raises_stays_what_it_is_when_it_is_the_caller_s() -> None:
    async def script(side: Side) -> None:
        await side.socket.receive()

    async with connected(talk(script)) as (client, _):
        for error in (TimeoutError("mine"), FileNotFoundError("mine"), ConnectionResetError("mine")):
            with pytest.raises(type(error), match="mine"):
                async with exec_in_pod(client, "pod", ["x"], namespace="ns"):
                    raise error


async def test_the_terminal_s_size_is_sent_when_it_changes() -> None:
    received: list[bytes] = []

    async def script(side: Side) -> None:
        received.append(await side.receive())
        await side.send(STATUS, SUCCESS)

    async with (
        connected(talk(script)) as (client, server),
        exec_in_pod(client, "pod", ["sh"], namespace="ns", stdin=True, tty=True) as session,
    ):
        await session.resize(width=120, height=40)
        assert await session.wait() == 0
    assert received[0][0] == RESIZE
    assert json.loads(received[0][1:]) == {"Width": 120, "Height": 40}
    assert server.requests[0].target.endswith("?command=sh&stdout=true&stdin=true&tty=true")


async def test_what_the_server_would_drop_is_an_error_when_it_was_not_asked_for() -> None:
    async def script(side: Side) -> None:
        await side.socket.receive()

    async with connected(talk(script)) as (client, _):
        async with exec_in_pod(client, "pod", ["x"], namespace="ns") as session:
            with pytest.raises(ValueError, match="without stdin"):
                await session.write(b"x")
            with pytest.raises(ValueError, match="without stdin"):
                await session.close_stdin()
            with pytest.raises(ValueError, match="without a terminal"):
                await session.resize(width=1, height=1)
        with pytest.raises(ValueError, match="at least one argument"):
            await run_command(client, "pod", [], namespace="ns")
        with pytest.raises(ValueError, match="at least one argument"):
            await run_command(client, "pod", "ls", namespace="ns")


async def test_attach_ends_without_an_exit_code_when_the_container_does() -> None:
    async def script(side: Side) -> None:
        await side.send(STDOUT, b"hello")
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script)) as (client, server):
        async with attach_to_pod(client, "pod", namespace="ns", container="main") as session:
            assert [output async for output in session] == [Output("stdout", b"hello")]
        assert not hasattr(session, "exit_code")
    assert server.requests[0].target == ("/api/v1/namespaces/ns/pods/pod/attach?stdout=true&stderr=true&container=main")


START = 'error executing command in container: failed to exec in container: failed to start exec "' + 64 * "0"
SENTENCES = [
    ('unable to upgrade connection: container not found ("main")', NotRunning),
    ("failed to exec in container: container is in CONTAINER_EXITED state", NotRunning),
    (START + ": OCI runtime exec failed: exec failed: cannot exec in a stopped container: unknown", NotRunning),
    (
        START + ': OCI runtime exec failed: exec failed: unable to start container process: exec: "nope": '
        "executable file not found in $PATH: unknown",
        CommandNotFound,
    ),
    (
        START + ': OCI runtime exec failed: exec failed: unable to start container process: exec: "/nope/x": '
        "stat /nope/x: no such file or directory: unknown",
        CommandNotFound,
    ),
    ("OCI runtime exec failed: crun: executable file `nope` not found in $PATH: No such file", CommandNotFound),
    (
        START + ': OCI runtime exec failed: exec failed: unable to start container process: exec: "/etc/passwd": '
        "permission denied: unknown",
        CommandNotStarted,
    ),
]


@pytest.mark.parametrize(("sentence", "error"), SENTENCES)
async def test_the_reason_is_typed_when_a_status_says_it(sentence: str, error: type[KubeError]) -> None:
    async def script(side: Side) -> None:
        message = f"Internal error occurred: Internal error occurred: {sentence}"
        await side.send(STATUS, {"status": "Failure", "message": message, "reason": "InternalError", "code": 500})

    async with connected(talk(script)) as (client, _):
        with pytest.raises(error) as caught:
            await run(client)
    assert type(caught.value) is error
    assert len(caught.value.message) <= 256
    assert caught.value.message.endswith(sentence[-40:])
    assert caught.value.request == "GET /api/v1/namespaces/ns/pods/pod/exec"


@pytest.mark.parametrize(
    ("code", "sentence", "error"),
    [
        (500, 'container not found ("main")', NotRunning),
        (500, 'pod not found ("pod_ns")', NotRunning),
        (500, "container main not found in pod pod_ns", NotRunning),
        (404, "pod does not exist", Unavailable),
        (400, "pod pod does not have a host assigned", NotRunning),
        (400, "container zz is not valid for pod pod", UnknownContainer),
        (400, "a container name must be specified for pod pod, choose one of: [a b]", ContainerUnspecified),
        (500, "error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused", ServerError),
    ],
)
async def test_the_reason_is_typed_when_the_upgrade_is_refused(
    code: int, sentence: str, error: type[KubeError]
) -> None:
    async with connected(answer(sentence, status=code)) as (client, _):
        with pytest.raises(error, match=r"pod|main|backend") as caught:
            await run(client)
    assert type(caught.value) is error
    assert caught.value.request == "GET /api/v1/namespaces/ns/pods/pod/exec"
