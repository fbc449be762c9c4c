"""Port-forward: a byte stream, its ends, and ports of this machine that lead to it."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from runyard.kube.errors import Disconnected, KubeError, NotFound
from runyard.kube.streams import (
    NotRunning,
    PortForwardFailed,
    PortRefused,
    forward_port,
    listen_and_forward,
)
from tests.unit.kube.scripted_apiserver import Step, answer, refuse
from tests.unit.kube.streams.scripted_socket import Side, connected, talk

V4 = "v4.channel.k8s.io"
DATA, COMPLAINT = 0, 1
PORT = (8080).to_bytes(2, "little")
REFUSED = (
    b"error forwarding port 8080 to pod 80a0, uid : failed to execute portforward in network namespace: failed to "
    b"connect to localhost:8080 inside namespace, IPv4: dial tcp4 127.0.0.1:8080: connect: connection refused"
)


def forward(script: Callable[[Side], Awaitable[None]], **options: int) -> Step:
    """A node that has announced the port on both channels."""

    async def announced(side: Side) -> None:
        await side.send(DATA, PORT)
        await side.send(COMPLAINT, PORT)
        await script(side)

    return talk(announced, V4, **options)


async def echo_upper(side: Side) -> None:
    while (message := await side.socket.receive()).type.name == "BINARY":
        await side.send(DATA, message.data[1:].upper())


async def complain(side: Side) -> None:
    await side.send(COMPLAINT, REFUSED)


async def break_off(side: Side) -> None:
    await side.receive()
    side.cut()


@asynccontextmanager
async def forwarding(step: Step, *ports: int, errors: list[KubeError] | None = None) -> AsyncIterator[dict[int, int]]:
    """Free local ports that lead to a scripted node."""
    remote = dict.fromkeys(ports or (8080,), 0)
    on_error = None if errors is None else errors.append
    async with (
        connected(step) as (client, _),
        listen_and_forward(client, "pod", remote, namespace="ns", on_error=on_error) as local,
    ):
        yield local


@asynccontextmanager
async def dial(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_bytes_go_both_ways_when_a_port_is_forwarded() -> None:
    async def script(side: Side) -> None:
        assert await side.receive() == b"\0ping"
        await side.send(DATA, b"po")
        await side.send(DATA, b"ng")

    async with (
        connected(forward(script)) as (client, server),
        forward_port(client, "pod", 8080, namespace="ns") as connection,
    ):
        await connection.write(b"ping")
        assert [await connection.read() for _ in range(4)] == [b"po", b"ng", b"", b""]
    assert server.requests[0].target == "/api/v1/namespaces/ns/pods/pod/portforward?ports=8080"
    assert server.requests[0].headers["Sec-WebSocket-Protocol"] == V4


async def test_the_port_s_number_is_no_data_when_it_comes_in_pieces_or_with_data() -> None:
    async def script(side: Side) -> None:
        await side.send(DATA, PORT[:1])
        await side.send(COMPLAINT, PORT[:1])
        await side.send(COMPLAINT, PORT[1:])
        await side.send(DATA, PORT[1:] + b"data")

    async with (
        connected(talk(script, V4)) as (client, _),
        forward_port(client, "pod", 8080, namespace="ns") as connection,
    ):
        assert [await connection.read() for _ in range(2)] == [b"data", b""]


@pytest.mark.parametrize(
    ("sentence", "error"), [(REFUSED, PortRefused), (b"error forwarding port: no namespace", PortForwardFailed)]
)
async def test_the_reason_is_typed_when_the_node_complains(sentence: bytes, error: type[KubeError]) -> None:
    async def script(side: Side) -> None:
        await side.send(COMPLAINT, sentence)

    async with connected(forward(script)) as (client, _):
        with pytest.raises(error, match="forward") as caught:
            async with forward_port(client, "pod", 8080, namespace="ns") as connection:
                await connection.read()
    assert type(caught.value) is error
    assert caught.value.request == "GET /api/v1/namespaces/ns/pods/pod/portforward"


@pytest.mark.parametrize("ending", ["cut", "reset", "error code"])
async def test_a_cut_is_no_end_when_the_connection_breaks(ending: str) -> None:
    async def script(side: Side) -> None:
        await side.send(DATA, b"so far")
        if ending == "cut":
            side.cut()
        elif ending == "reset":
            side.reset()

    step = forward(script, close=1011 if ending == "error code" else 1000)
    async with connected(step) as (client, _), forward_port(client, "pod", 1, namespace="ns") as connection:
        assert await connection.read() == b"so far"
        with pytest.raises(Disconnected):
            await connection.read()


async def test_the_reason_is_typed_when_the_pod_cannot_be_forwarded_to() -> None:
    async with connected(answer('pod not found ("pod_ns")', status=500), refuse(404, "NotFound")) as (client, _):
        for error in (NotRunning, NotFound):
            with pytest.raises(error):
                async with forward_port(client, "pod", 8080, namespace="ns"):
                    pass
        for port in (0, -1, 65536):
            with pytest.raises(ValueError, match="between 1 and 65535"):
                async with forward_port(client, "pod", port, namespace="ns"):
                    pass


async def test_a_closed_connection_reads_as_ended_when_we_closed_it() -> None:
    async with (
        connected(forward(echo_upper)) as (client, _),
        forward_port(client, "pod", 8080, namespace="ns") as connection,
    ):
        await connection.close()
        await connection.close()
        assert await connection.read() == b""
        with pytest.raises(Disconnected):
            await connection.write(b"x")


async def test_each_connection_has_its_own_stream_when_many_clients_connect() -> None:
    async def talk_to(port: int, number: int) -> bytes:
        async with dial(port) as (reader, writer):
            writer.write(b"client %d\n" % number)
            return await reader.readline()

    async with forwarding(forward(echo_upper), 8080, 9090) as ports:
        assert ports[8080] != ports[9090]
        lines = await asyncio.gather(*(talk_to(ports[8080], number) for number in range(20)))
        assert lines == [b"CLIENT %d\n" % number for number in range(20)]
        assert await talk_to(ports[9090], 0) == b"CLIENT 0\n"
    with pytest.raises(ConnectionRefusedError):
        await talk_to(ports[8080], 0)


async def test_clients_see_the_end_when_the_pod_closes() -> None:
    async def script(side: Side) -> None:
        await side.send(DATA, b"bye")

    async with forwarding(forward(script)) as ports, dial(ports[8080]) as (reader, _):
        assert await reader.read() == b"bye"


@pytest.mark.parametrize(
    ("step", "error"),
    [(forward(complain), PortRefused), (forward(break_off), Disconnected), (refuse(404, "NotFound"), NotFound)],
)
async def test_clients_are_reset_and_the_reason_told_when_forwarding_fails(step: Step, error: type[KubeError]) -> None:
    errors: list[KubeError] = []
    async with forwarding(step, errors=errors) as ports, dial(ports[8080]) as (reader, writer):
        writer.write(b"hello")
        with pytest.raises(ConnectionResetError):
            await reader.read()
    assert [type(each) for each in errors] == [error]


async def test_the_reason_is_logged_when_nobody_asked_for_it(caplog: pytest.LogCaptureFixture) -> None:
    async with forwarding(forward(complain)) as ports, dial(ports[8080]) as (reader, _):
        with pytest.raises(ConnectionResetError):
            await reader.read()
    assert "connection refused" in caplog.text


async def test_a_late_answer_arrives_when_the_client_has_ended_its_direction() -> None:
    async def script(side: Side) -> None:
        assert await side.receive() == b"\0question"
        await asyncio.sleep(0.2)
        await side.send(DATA, b"answer")

    async with forwarding(forward(script)) as ports, dial(ports[8080]) as (reader, writer):
        writer.write(b"question")
        writer.write_eof()
        assert await reader.read() == b"answer"


async def test_the_stream_is_given_up_when_a_client_that_has_ended_gets_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runyard.kube.streams.listener._LINGER_SECONDS", 0.1)
    ended = asyncio.Event()

    async def script(side: Side) -> None:
        await side.send(DATA, b"x")
        assert (await side.socket.receive()).type.name == "CLOSE"
        ended.set()

    async with forwarding(forward(script)) as ports, dial(ports[8080]) as (reader, writer):
        assert await reader.read(1) == b"x"
        writer.write_eof()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await ended.wait()


async def test_the_stream_ends_when_the_client_resets() -> None:
    greeted, ended = asyncio.Event(), asyncio.Event()

    async def script(side: Side) -> None:
        assert await side.receive() == b"\0hello"
        greeted.set()
        assert (await side.socket.receive()).type.name == "CLOSE"
        ended.set()

    async with forwarding(forward(script)) as ports, dial(ports[8080]) as (_, writer):
        writer.write(b"hello")
        await greeted.wait()
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        await ended.wait()


async def test_open_connections_end_when_the_block_does() -> None:
    async with AsyncExitStack() as stack:
        async with forwarding(forward(echo_upper)) as ports:
            reader, writer = await stack.enter_async_context(dial(ports[8080]))
            writer.write(b"a")
            assert await reader.read(1) == b"A"
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_nothing_listens_when_one_of_the_ports_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        async with connected(forward(echo_upper)) as (client, _):
            with pytest.raises(OSError, match="in use"):
                async with listen_and_forward(client, "pod", {1: 0, 2: number}, namespace="ns"):
                    pass
