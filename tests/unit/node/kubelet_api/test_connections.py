"""Strangers who open many connections, or send heads that never end, are bounded; others are served."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runyard.node.kubelet_api import connections
from runyard.node.kubelet_api.connections import MOST_HEAD_BYTES, Connections
from tests.unit.node.kubelet_api.scripted_cluster import scripted_cluster
from tests.unit.node.kubelet_api.test_port import Served, serving

ADDRESSES = tuple(f"127.0.0.{number}" for number in range(2, 7))


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A port with small bounds; the token `root` may everything."""
    monkeypatch.setattr(connections, "MOST_STRANGERS", 20)
    monkeypatch.setattr(connections, "MOST_STRANGERS_OF_AN_ADDRESS", 8)
    async with scripted_cluster(tmp_path / "pki") as (cluster, client):
        cluster.tokens = {"root": {"username": "root"}}
        cluster.rights = {("root", "get", "proxy")}
        async with serving(cluster, client, tmp_path) as served:
            yield served


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    held: list[socket.socket] = []
    yield held
    for each in held:
        each.close()


def open_connections(served: Served, count: int, *, source: str) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", served.port.port), source_address=(source, 0)) for _ in range(count)]


def read_connections(served: Served) -> Connections:
    assert served.port.connections is not None
    return served.port.connections


async def wait_for(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - sockets of another side
            await asyncio.sleep(0.01)


async def test_a_known_client_is_served_when_strangers_open_many_connections(
    served: Served, sockets: list[socket.socket]
) -> None:
    counted, most = read_connections(served), 0
    for _ in range(5):
        for source in ADDRESSES:
            sockets += await asyncio.to_thread(open_connections, served, 20, source=source)
            await asyncio.sleep(0)
            most = max(most, counted.strangers, len(counted))
        status, text = await served.get_as("root", "/healthz")
        assert (status, text) == (200, "ok")
        most = max(most, counted.strangers)
    assert len(sockets) == 500
    assert 0 < most <= 20


async def test_an_address_closes_its_own_when_it_opens_too_many(served: Served, sockets: list[socket.socket]) -> None:
    counted = read_connections(served)
    sockets += await asyncio.to_thread(open_connections, served, 1, source=ADDRESSES[0])
    await wait_for(lambda: len(counted) == 1)
    others = await asyncio.to_thread(open_connections, served, 50, source=ADDRESSES[1])
    sockets += others
    assert await asyncio.to_thread(others[0].recv, 1) == b""
    await wait_for(lambda: len(counted) == 9)
    sockets[0].setblocking(False)
    with pytest.raises(BlockingIOError):
        sockets[0].recv(1)


async def test_the_oldest_is_closed_when_every_stranger_has_an_address_of_its_own(
    served: Served, sockets: list[socket.socket]
) -> None:
    counted = read_connections(served)
    for number in range(1, 21):
        sockets.extend(await asyncio.to_thread(open_connections, served, 1, source=f"127.0.1.{number}"))
        await wait_for(lambda: len(counted) == len(sockets))
    sockets.extend(await asyncio.to_thread(open_connections, served, 1, source="127.0.1.21"))
    assert await asyncio.to_thread(sockets[0].recv, 1) == b""
    sockets[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        sockets[1].recv(1)


async def test_a_handshake_and_a_head_that_never_end_are_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch, sockets: list[socket.socket]
) -> None:
    monkeypatch.setattr(connections, "STRANGER_SECONDS", 1.0)
    sockets += await asyncio.to_thread(open_connections, served, 1, source=ADDRESSES[0])
    sent = await send_head(served, b" a", pause_seconds=0.05)
    assert sent < MOST_HEAD_BYTES
    assert await asyncio.to_thread(sockets[0].recv, 1) == b""


async def test_a_client_is_cut_off_when_its_head_has_too_many_bytes(served: Served) -> None:
    sent = await send_head(served, b"a" * 8000 + b"\r\nX-Many: ", pause_seconds=0)
    assert sent < 20 * MOST_HEAD_BYTES


async def send_head(served: Served, part: bytes, *, pause_seconds: float) -> int:
    """Send a head that never ends until the connection is cut; returns how many bytes were sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port.port, ssl=served.tls())
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    sent = 0
    with suppress(ConnectionError):
        async with asyncio.timeout(60):
            while not reader.at_eof():
                writer.write(part)
                await writer.drain()
                sent += len(part)
                await asyncio.sleep(pause_seconds)
    writer.close()
    return sent


async def test_connections_are_forgotten_when_their_clients_are_done(served: Served) -> None:
    for _ in range(3):
        assert (await served.get_as("root", "/healthz"))[0] == 200
    await wait_for(lambda: len(read_connections(served)) == 0)
