"""Upgraded connections: raw bytes both ways, as fast as the slower side, and nothing left behind."""

import asyncio
import hashlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from multidict import CIMultiDict

from runyard.kube import tunnel as tunnel_module
from runyard.kube.config import ClusterConfig
from runyard.kube.credentials import Credential, StaticCredentials, bearer
from runyard.kube.errors import DeadlineExceeded, Disconnected, Forbidden, Unreachable
from runyard.kube.transport import Transport
from runyard.kube.tunnel import BULK_BYTES, READ_AHEAD_BYTES, RawConnection, pick_upgrade_headers

SPDY = {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
REFUSED = b'{"kind":"Status","status":"Failure","message":"no","reason":"Forbidden","code":403}'
MEGABYTE = b"x" * 1_000_000

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawServer:
    """What a raw server was sent before its peer took over."""

    config: ClusterConfig
    heads: list[str] = field(default_factory=list)


@asynccontextmanager
async def serve_raw(*peers: Peer, credentials: StaticCredentials | None = None) -> AsyncIterator[RawServer]:
    """Read the head of each request, then let the next of `peers` have the connection."""
    script = RawServer(ClusterConfig(server=""))
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        script.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        try:
            await peers[min(len(script.heads), len(peers)) - 1](reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    script.config = ClusterConfig(
        server=f"http://{host}:{port}", credentials=credentials or StaticCredentials(bearer("ours"))
    )
    try:
        yield script
    finally:
        server.close()
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


@asynccontextmanager
async def tunnel_to(*peers: Peer) -> AsyncIterator[RawConnection]:
    async with (
        serve_raw(*peers) as server,
        Transport(server.config) as transport,
        transport.tunnel("POST", "/exec", headers=SPDY) as tunnel,
    ):
        yield tunnel


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(SWITCHED)
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(REFUSED) + REFUSED)


async def refuse_unknown(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")


async def receive_exactly(connection: RawConnection, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes and (data := await connection.receive()):
        received += data
    return received


def low_water_mark(connection: RawConnection) -> int:
    """Of how many bytes the kernel tells asyncio."""
    connected = connection._transport.get_extra_info("socket")
    return int(connected.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))


async def receive_until_gathered(connection: RawConnection) -> int:
    """Receive until bytes are gathered; how many were received."""
    received = 0
    while low_water_mark(connection) == 1:
        received += len(await connection.receive())
    return received


def answer_with(answer: bytes) -> Peer:
    async def answer_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        while await reader.read(1 << 16):
            writer.write(answer)
            await writer.drain()

    return answer_each


@pytest.fixture
def endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause is long enough: what is gathered is not received before enough of it, or the end, has come."""
    monkeypatch.setattr("runyard.kube.tunnel._BULK_PAUSE_SECONDS", 3600.0)


async def send_until_refused(connection: RawConnection) -> None:
    for _ in range(100):
        await connection.send(MEGABYTE)


async def test_bytes_go_both_ways_and_the_answers_headers_are_given_when_upgraded() -> None:
    async with (
        serve_raw(echo) as server,
        Transport(server.config) as transport,
        transport.tunnel("POST", "/exec", params={"command": "a b"}, headers=SPDY) as tunnel,
    ):
        await tunnel.send(b"\x00\xffping")
        assert await receive_exactly(tunnel, 6) == b"\x00\xffping"
        assert tunnel.headers == [("Upgrade", "SPDY/3.1")]
        await tunnel.close_sending()
        assert await tunnel.receive() == b""
    head = server.heads[0]
    assert head.startswith("POST /exec?command=a%20b HTTP/1.1\r\n")
    assert "Upgrade: SPDY/3.1\r\n" in head
    assert "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n" in head


async def test_only_our_own_credentials_are_sent_when_the_client_has_some() -> None:
    headers = SPDY | {
        "Authorization": "Bearer theirs",
        "Impersonate-User": "root",
        "Cookie": "theirs",
        "Sec-WebSocket-Protocol": "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.dGhlaXJz",
    }
    async with (
        serve_raw(echo) as server,
        Transport(server.config) as transport,
        transport.tunnel("GET", "/exec", headers=headers),
    ):
        pass
    head = server.heads[0]
    assert "Authorization: Bearer ours\r\n" in head
    assert "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n" in head
    assert "theirs" not in head
    assert "dGhlaXJz" not in head
    assert "Impersonate" not in head


async def test_bytes_right_behind_the_answer_are_not_lost_when_they_come_with_it() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + b"early")

    async with tunnel_to(greet) as tunnel:
        assert await receive_exactly(tunnel, 6) == b"early"


async def test_typed_error_when_the_upgrade_is_refused() -> None:
    async with serve_raw(refuse) as server, Transport(server.config) as transport:
        with pytest.raises(Forbidden, match="403 Forbidden: no"):
            async with transport.tunnel("POST", "/exec", headers=SPDY):
                pass


async def test_renewed_credentials_are_tried_when_the_first_are_unknown() -> None:
    class Renewing(StaticCredentials):
        async def renew(self, refused: Credential) -> Credential:
            return bearer("newer")

    credentials = Renewing(bearer("older"))
    async with (
        serve_raw(refuse_unknown, echo, credentials=credentials) as server,
        Transport(server.config) as transport,
        transport.tunnel("POST", "/exec", headers=SPDY) as tunnel,
    ):
        await tunnel.send(b"x")
        assert await tunnel.receive() == b"x"
    assert ["Bearer older" in server.heads[0], "Bearer newer" in server.heads[1]] == [True, True]


async def test_sender_waits_when_the_peer_does_not_read() -> None:
    go_on = asyncio.Event()
    digest = hashlib.sha256()

    async def read_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        await go_on.wait()
        while data := await reader.read(1 << 16):
            digest.update(data)
        writer.write(digest.hexdigest().encode())

    sent = 0
    async with tunnel_to(read_late) as tunnel:

        async def send_all() -> None:
            nonlocal sent
            for _ in range(50):
                await tunnel.send(MEGABYTE)
                sent += 1
            await tunnel.close_sending()

        sending = asyncio.create_task(send_all())
        done, _ = await asyncio.wait([sending], timeout=0.3)
        assert not done
        assert sent < 20
        go_on.set()
        await sending
        answer = await receive_exactly(tunnel, 64)
    assert answer.decode() == hashlib.sha256(MEGABYTE * 50).hexdigest()


async def test_little_is_read_ahead_when_nobody_receives() -> None:
    written = 0

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(SWITCHED)
        for _number in range(50):
            writer.write(MEGABYTE)
            await writer.drain()
            written += len(MEGABYTE)

    async with tunnel_to(pour) as tunnel:
        previous = -1
        while previous != written:
            previous = written
            await asyncio.sleep(0.2)
        assert written < 20_000_000
        assert len(await tunnel.receive()) <= 2 * READ_AHEAD_BYTES
        total = len(MEGABYTE) * 50
        rest = 0
        while data := await tunnel.receive():
            rest += len(data)
    assert 0 < total - rest <= 2 * READ_AHEAD_BYTES


async def test_pieces_are_gathered_and_the_last_ones_are_not_kept_back_when_they_come_without_a_pause() -> None:
    piece, pieces = b"0123456789" * 10, 20_000
    is_received = asyncio.Event()

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        for _number in range(pieces):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)  # the receiver could take every piece by itself
        await is_received.wait()  # nothing more comes, and the connection stays open

    async with tunnel_to(pour) as tunnel:
        sizes: list[int] = []
        while sum(sizes) < len(piece) * pieces:
            sizes.append(len(await tunnel.receive()))
        is_received.set()
    assert sum(sizes) == len(piece) * pieces
    assert len(sizes) < pieces / 10


@pytest.mark.usefixtures("endless_wait")
@pytest.mark.parametrize(("answer_bytes", "rounds"), [(64, 2 * BULK_BYTES // 64), (BULK_BYTES - 1, 20)])
async def test_nothing_is_gathered_when_short_answers_follow_requests(answer_bytes: int, rounds: int) -> None:
    async with tunnel_to(answer_with(b"x" * answer_bytes)) as tunnel:
        for _ in range(rounds):
            await tunnel.send(b"request")
            received = 0
            while received < answer_bytes:
                received += len(await tunnel.receive())
                assert low_water_mark(tunnel) == 1


@pytest.mark.usefixtures("endless_wait")
async def test_the_tail_and_the_end_are_received_when_the_peer_ends_while_bytes_are_gathered() -> None:
    is_gathering = asyncio.Event()

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + MEGABYTE)
        await is_gathering.wait()
        writer.write(b"tail")

    async with tunnel_to(pour) as tunnel, asyncio.timeout(30):
        received = await receive_until_gathered(tunnel)
        assert low_water_mark(tunnel) == BULK_BYTES
        is_gathering.set()
        rest = b""
        while data := await tunnel.receive():
            rest += data
    assert received + len(rest) == len(MEGABYTE) + len(b"tail")
    assert rest.endswith(b"tail")


@pytest.mark.usefixtures("endless_wait")
async def test_closing_does_not_wait_when_bytes_are_gathered() -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + b"x" * 2 * BULK_BYTES)
        await reader.read()

    async with asyncio.timeout(30), tunnel_to(pour) as tunnel:
        await receive_until_gathered(tunnel)
        await tunnel.close(patience_seconds=3600)
        assert tunnel.is_lost


@pytest.mark.usefixtures("endless_wait")
async def test_gathering_ends_when_requests_and_answers_follow_a_bulk() -> None:
    async def pour_and_echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + b"x" * BULK_BYTES * 2)
        while data := await reader.read(1 << 16):
            writer.write(data)

    async with tunnel_to(pour_and_echo) as tunnel, asyncio.timeout(30):
        received = await receive_until_gathered(tunnel)
        await tunnel.send(b"request")
        assert low_water_mark(tunnel) == 1
        await receive_exactly(tunnel, 2 * BULK_BYTES + len(b"request") - received)
        for _ in range(100):
            await tunnel.send(b"request")
            assert await receive_exactly(tunnel, len(b"request")) == b"request"
            assert low_water_mark(tunnel) == 1


@pytest.mark.usefixtures("endless_wait")
@pytest.mark.parametrize(("long_bytes", "mark"), [(1 << 22, 1), (BULK_BYTES, BULK_BYTES)])
async def test_more_bytes_are_needed_again_when_an_answer_was_hardly_long_enough(
    monkeypatch: pytest.MonkeyPatch, long_bytes: int, mark: int
) -> None:
    monkeypatch.setattr("runyard.kube.tunnel._LONG_ANSWER_BYTES", long_bytes)
    answer_bytes = BULK_BYTES * 5 // 4
    async with tunnel_to(answer_with(b"x" * answer_bytes)) as tunnel, asyncio.timeout(30):
        await tunnel.send(b"request")
        received = await receive_until_gathered(tunnel)
        await tunnel.send(b"request")
        while received < 2 * answer_bytes and low_water_mark(tunnel) == 1:
            received += len(await tunnel.receive())
        assert low_water_mark(tunnel) == mark


async def test_bytes_are_received_when_the_process_was_held_up_while_gathering_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raise_mark = tunnel_module._BulkReads._wake_at

    def hold_up(bulk: tunnel_module._BulkReads, size_bytes: int) -> None:
        raise_mark(bulk, size_bytes)
        time.sleep(0.01)

    monkeypatch.setattr(tunnel_module._BulkReads, "_wake_at", hold_up)

    async def pour_and_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + b"x" * 2 * BULK_BYTES)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.write(b"tail")
        await reader.read()

    async with tunnel_to(pour_and_end) as tunnel, asyncio.timeout(30):
        assert (await receive_exactly(tunnel, 2 * BULK_BYTES + len(b"tail"))).endswith(b"tail")


async def test_gathering_ends_when_few_bytes_waited() -> None:
    is_idle = asyncio.Event()

    async def pour_and_trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + MEGABYTE)
        await is_idle.wait()
        writer.write(b"few")
        await reader.read()

    async with tunnel_to(pour_and_trickle) as tunnel:
        await receive_exactly(tunnel, len(MEGABYTE))
        await asyncio.sleep(0.05)
        is_idle.set()
        assert await tunnel.receive() == b"few"
        assert low_water_mark(tunnel) == 1


async def test_disconnected_when_the_peer_resets() -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        await writer.drain()
        writer.transport.abort()

    async with tunnel_to(reset) as tunnel:
        # An abort of asyncio is an orderly end where nothing was left unread.
        assert await tunnel.receive() == b""
        with pytest.raises(Disconnected):
            await send_until_refused(tunnel)


async def test_all_bytes_are_received_when_others_are_sent_to_a_peer_that_has_closed() -> None:
    closed = asyncio.Event()

    async def say_and_close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + MEGABYTE)
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with tunnel_to(say_and_close) as tunnel:
        await closed.wait()
        sending = asyncio.create_task(send_until_refused(tunnel))
        # Without a receiver nothing may be sent: the peer would reset the connection.
        assert await asyncio.wait([sending], timeout=0.2) == (set(), {sending})
        received = await receive_exactly(tunnel, len(MEGABYTE))
        assert (len(received), await tunnel.receive()) == (len(MEGABYTE), b"")
        with pytest.raises(Disconnected):
            await sending


async def test_send_does_not_wait_for_ever_when_nobody_receives_from_a_peer_that_has_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runyard.kube.tunnel.STALLED_SECONDS", 0.1)

    async def say_and_close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + MEGABYTE)
        writer.close()

    async with tunnel_to(say_and_close) as tunnel:
        # As when whoever would receive waits for an echo of what it was given, which is on its way by this send.
        async with asyncio.timeout(10):
            with pytest.raises(Disconnected):
                await send_until_refused(tunnel)


async def test_connection_is_closed_when_the_block_is_cancelled() -> None:
    ended = asyncio.Event()

    async def wait_for_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        await reader.read()
        ended.set()

    async with serve_raw(wait_for_the_end) as server, Transport(server.config) as transport:
        is_open = asyncio.Event()

        async def hold() -> None:
            async with transport.tunnel("POST", "/exec", headers=SPDY) as tunnel:
                is_open.set()
                await tunnel.receive()

        holding = asyncio.create_task(hold())
        await is_open.wait()
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
        async with asyncio.timeout(5):
            await ended.wait()


async def test_receiver_ends_when_the_transport_is_closed() -> None:
    async with serve_raw(echo) as server:
        transport = Transport(server.config)
        async with transport, transport.tunnel("POST", "/exec", headers=SPDY) as tunnel:
            receiving = asyncio.create_task(tunnel.receive())
            await asyncio.sleep(0)
            async with asyncio.timeout(5):
                await transport.close()
                assert await receiving == b""


async def test_deadline_is_kept_when_the_server_does_not_answer() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serve_raw(silent) as server, Transport(server.config) as transport:
        with pytest.raises(DeadlineExceeded):
            async with transport.tunnel("POST", "/exec", headers=SPDY, deadline_seconds=0.1):
                pass


async def test_unreachable_when_nothing_listens() -> None:
    async with serve_raw(echo) as server:
        config = server.config
    async with Transport(config) as transport:
        with pytest.raises(Unreachable):
            async with transport.tunnel("POST", "/exec", headers=SPDY):
                pass


def test_repeated_headers_are_joined_when_picked() -> None:
    headers = CIMultiDict([("x-stream-protocol-version", "v5"), ("X-Stream-Protocol-Version", "v4"), ("Host", "h")])
    assert [(name.lower(), value) for name, value in pick_upgrade_headers(headers)] == [
        ("x-stream-protocol-version", "v5, v4")
    ]
