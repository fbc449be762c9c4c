"""Exec into a local pod, by a real WebSocket client over a real socket."""

import asyncio
import json
import os
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from runyard.node.providers.local.exec_tunnel import CHUNK_BYTES, MOST_PENDING
from runyard.node.providers.local.local_provider import LocalProvider
from runyard.node.providers.local.terminals import Terminal
from runyard.node.providers.local.websocket_frames import (
    BINARY,
    CLOSE,
    PING,
    FrameError,
    FrameParser,
    Message,
    encode_frame,
)
from runyard.node.providers.provider import ProviderRefused, Relay, Tunnel
from tests.unit.node.providers.local.test_local_provider import UID, phase, wait_pod, workload

UPGRADE = {"Upgrade": "websocket", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Protocol": "v5.channel.k8s.io"}


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[LocalProvider]:
    """With one running container, which has an environment and a mount of its own."""
    mount = {"volumeMounts": [{"name": "v", "mountPath": str(tmp_path / "mounted")}]}
    env = {"env": [{"name": "COLOUR", "value": "green"}]}
    async with LocalProvider(tmp_path / "node", removal_seconds=0) as provider:
        await provider.start(
            workload(
                "exec sleep 600",
                container={**mount, **env},
                spec={"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
                config_maps={"c": {"data": {"a": "from a map\n"}}},
            )
        )
        await wait_pod(provider, phase("Running"))
        yield provider
        await provider.stop(UID, grace_seconds=0)
        async with asyncio.timeout(20):
            async for _ in provider.changes():
                if not provider.pods:
                    break


class Result:
    def __init__(self) -> None:
        self.streams: dict[int, bytes] = {}

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.streams[3])
        return status


@asynccontextmanager
async def executing(
    provider: LocalProvider, *command: str, stdin: bool = False, tty: bool = False
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """The kubelet port's part: a server that answers 101 and passes bytes on."""
    query = [("command", word) for word in command] + [("output", "1"), ("error", "1"), ("input", str(int(stdin)))]
    query += [("tty", "1")] if tty else []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
        headers = dict(line.split(": ", 1) for line in lines if line)
        async with provider.open_tunnel("exec", UID, "c0", method="GET", query=query, headers=headers) as tunnel:
            answer = "".join(f"{name}: {value}\r\n" for name, value in tunnel.headers)
            writer.write(f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{answer}\r\n".encode())
            upwards = asyncio.create_task(_pass_on(reader, tunnel))
            while data := await tunnel.receive():
                writer.write(data)
                await writer.drain()
            upwards.cancel()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, aiohttp.ClientSession() as session:
        protocols = ("v5.channel.k8s.io", "v4.channel.k8s.io")
        async with session.ws_connect(url, protocols=protocols, max_msg_size=0) as channel:
            yield channel


async def _pass_on(reader: asyncio.StreamReader, tunnel: Tunnel) -> None:
    while data := await reader.read(65536):
        await tunnel.send(data)
    await tunnel.close_sending()


async def collect(channel: aiohttp.ClientWebSocketResponse) -> Result:
    result = Result()
    async with asyncio.timeout(60):
        async for message in channel:
            data: bytes = message.data
            result.streams[data[0]] = result.streams.get(data[0], b"") + data[1:]
    return result


async def test_command_runs_beside_the_container_when_executed(provider: LocalProvider, tmp_path: Path) -> None:
    script = f"echo $COLOUR; cat {tmp_path}/mounted/a; pwd; echo oops >&2; exit 7"
    async with executing(provider, "sh", "-c", script) as channel:
        assert channel.protocol == "v5.channel.k8s.io"
        result = await collect(channel)
    folder = tmp_path / "node/pods" / UID / "work"
    assert result.streams[1] == f"green\nfrom a map\n{folder}\n".encode()
    assert result.streams[2] == b"oops\n"
    assert result.status["reason"] == "NonZeroExitCode"
    assert result.status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


async def test_input_arrives_whole_when_stdin_is_closed(provider: LocalProvider) -> None:
    body = os.urandom(200_000)
    async with executing(provider, "cat", stdin=True) as channel:
        collecting = asyncio.create_task(collect(channel))
        for start in range(0, len(body), 30_000):
            await channel.send_bytes(b"\0" + body[start : start + 30_000])
        await channel.send_bytes(b"\xff\0")
        result = await collecting
    assert result.streams[1] == body
    assert result.status["status"] == "Success"


async def test_command_has_a_terminal_of_the_clients_size_when_one_is_asked_for(provider: LocalProvider) -> None:
    script = "read line; stty size; echo got $line; trap 'echo caught; exit 5' INT; echo oops >&2; sleep 60 & wait"
    async with executing(provider, "sh", "-c", script, stdin=True, tty=True) as channel:
        await channel.send_bytes(b"\4" + json.dumps({"Width": 123, "Height": 45}).encode())
        await channel.send_bytes(b"\4{}")
        await channel.send_bytes(b"\0hello\n")
        result = Result()
        async with asyncio.timeout(60):
            while b"oops" not in result.streams.get(1, b""):
                data = await channel.receive_bytes()
                result.streams[data[0]] = result.streams.get(data[0], b"") + data[1:]
        await channel.send_bytes(b"\0\x03")  # Ctrl-C
        rest = await collect(channel)
    assert result.streams[1].replace(b"\r\n", b"\n").startswith(b"hello\n45 123\ngot hello\noops\n")
    assert b"caught" in rest.streams[1]
    assert 2 not in rest.streams
    assert rest.status["details"]["causes"] == [{"reason": "ExitCode", "message": "5"}]


async def test_terminal_gives_what_was_printed_before_when_it_has_ended() -> None:
    terminal = await Terminal.open()
    os.write(terminal.slave, b"last words")
    terminal.close_slave()
    async with asyncio.timeout(20):
        while not (terminal.reader.exception() or terminal.reader._eof):  # type: ignore[attr-defined]  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await terminal.reader.read(100) == b"last words"
    assert await terminal.reader.read(100) == b""
    terminal.close()


async def test_all_output_arrives_when_the_client_reads_long_after_the_end(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.node.providers.local.exec_tunnel.LAST_OUTPUT_SECONDS", 0.5)
    # What is read ahead, a pipe, and less than the queue: the command ends before anybody takes a byte of it.
    size = MOST_PENDING * CHUNK_BYTES + (1 << 16)
    query = [("command", word) for word in ("head", "-c", str(size), "/dev/zero")] + [("output", "1")]
    async with provider.open_tunnel("exec", UID, "c0", method="GET", query=query, headers=UPGRADE) as tunnel:
        await asyncio.sleep(1.5)  # a slow reader
        received = b""
        while data := await tunnel.receive():
            received += data
    assert received.count(0) >= size
    assert b"Success" in received


async def test_command_is_killed_when_the_client_goes(provider: LocalProvider) -> None:
    async with executing(provider, "sh", "-c", "echo $$; exec sleep 600") as channel, asyncio.timeout(20):
        while len(said := await channel.receive_bytes()) == 1:
            pass
        await channel.close()
    async with asyncio.timeout(20):
        while os.path.exists(f"/proc/{int(said[1:])}"):  # noqa: ASYNC110, ASYNC240, PTH110 - a process
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "upgrade", [UPGRADE, {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}]
)
async def test_nothing_is_kept_when_a_client_goes_on_after_an_error(
    provider: LocalProvider, upgrade: dict[str, str]
) -> None:
    query = [("command", "sleep"), ("command", "600"), ("output", "1")]
    async with provider.open_tunnel("exec", UID, "c0", method="POST", query=query, headers=upgrade) as tunnel:
        tracemalloc.start()
        try:
            for _ in range(64):
                await tunnel.send(b"\0" * 5 + b"\xff" * (1 << 18))
            kept_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept_bytes < 4 << 20


@pytest.mark.parametrize(
    ("kind", "query", "headers", "words"),
    [
        ("exec", [("command", "x")], {"Upgrade": "h2c"}, "an upgrade to websocket or SPDY/3.1"),
        ("exec", [("command", "x")], {"Upgrade": "SPDY/3.1"}, "known is v4.channel.k8s.io"),
        ("exec", [], UPGRADE, "exec needs a command"),
        ("exec", [("command", "x")], {**UPGRADE, "Sec-WebSocket-Protocol": "v9"}, "none of the protocols"),
        ("exec", [("command", "/no/such"), ("output", "1")], UPGRADE, ""),
        ("portforward", [], UPGRADE, "not portforward"),
    ],
)
async def test_stream_is_refused_in_words_when_it_is_not_supported(
    provider: LocalProvider, kind: Any, query: Any, headers: Any, words: str
) -> None:
    assert isinstance(provider, Relay)
    if not words:  # nsenter starts, and says itself what it cannot execute
        async with provider.open_tunnel(kind, UID, "c0", method="GET", query=query, headers=headers) as tunnel:
            frames = [frame async for frame in _frames(tunnel)]
        assert b"NonZeroExitCode" in b"".join(frames)
        return
    with pytest.raises(ProviderRefused, match=words):
        async with provider.open_tunnel(kind, UID, "c0", method="GET", query=query, headers=headers):
            pass


async def _frames(tunnel: Tunnel) -> AsyncIterator[bytes]:
    while data := await tunnel.receive():
        yield data


def masked(opcode: int, payload: bytes, *, is_final: bool = True) -> bytes:
    frame = bytearray(encode_frame(opcode, payload))
    if not is_final:
        frame[0] &= 0x7F
    frame[1] |= 0x80
    head = len(frame) - len(payload)
    mask = b"\x01\x02\x03\x04"
    return bytes(frame[:head]) + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536])
def test_frame_is_read_when_it_comes_byte_by_byte_or_whole(size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    frame = masked(BINARY, payload[:size])
    assert FrameParser().feed(frame) == [Message(BINARY, payload[:size])]
    parser = FrameParser()
    pieces = [frame[:1], frame[1:7], frame[7:]]
    assert [message for piece in pieces for message in parser.feed(piece)] == [Message(BINARY, payload[:size])]


def test_fragments_are_joined_when_a_ping_comes_between() -> None:
    frames = masked(BINARY, b"a", is_final=False) + masked(PING, b"p") + masked(0, b"b") + masked(CLOSE, b"")
    assert FrameParser().feed(frames) == [Message(PING, b"p"), Message(BINARY, b"ab"), Message(CLOSE, b"")]


@pytest.mark.parametrize(
    "frame",
    [
        encode_frame(BINARY, b"unmasked"),
        masked(0, b"no beginning"),
        masked(BINARY, b"x", is_final=False) + masked(BINARY, b"y"),
        masked(PING, b"x", is_final=False),
        b"\xf2\x80",
        b"\x82\xff" + (1 << 40).to_bytes(8, "big"),
        b"".join([masked(BINARY, b"x" * 600, is_final=False), masked(0, b"x" * 600)]),
    ],
)
def test_frame_is_refused_when_it_breaks_the_protocol_or_is_too_large(frame: bytes) -> None:
    with pytest.raises(FrameError):
        FrameParser(message_bytes=1000).feed(frame)
