import asyncio
import json
import urllib.request

import pytest

from testbed.faults import (
    FaultProxy,
    Request,
)
from tests.unit.testbed.faults.scripted import (
    CHUNKED,
    DEADLINE_SECONDS,
    GET,
    OK,
    POST,
    WATCH,
    Connection,
    connection_to,
    proxied,
    upstream_of,
)


async def test_bytes_pass_unchanged_when_heads_and_chunks_are_odd() -> None:
    odd_request = (
        b"POST /x%2Fy?a=1&a=2 HTTP/1.1\r\nhOsT: elsewhere\r\nAuthorization: Bearer  s3cret \r\n"
        b"X-Twice: 1\r\nX-Twice: 2\r\nContent-Length: 5\r\n\r\n\x00\xff\r\n!"
    )
    odd_answer = (
        b"HTTP/1.1 299 Oddly Fine\r\nTRANSFER-encoding: Chunked\r\nTrailer: X-End\r\n\r\n"
        b'0003;name="v"\r\nabc\r\n2\r\n\r\n\r\n0\r\nX-End: yes\r\n\r\n'
    )

    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(odd_answer)

    async with proxied(handler=play) as (proxy, upstream, client):
        await client.send(odd_request)
        assert await client.take(len(odd_answer)) == odd_answer
        assert upstream.received == [odd_request]
        assert not proxy.counts


async def test_connection_is_kept_when_several_requests_follow() -> None:
    async with proxied() as (_, upstream, client):
        for raw in (GET, POST, GET):
            await client.send(raw)
            assert await client.take(len(OK)) == OK
        assert upstream.received == [GET, POST, GET]
        assert len(upstream.peers) == 1


async def test_requests_are_served_in_order_when_they_come_ahead() -> None:
    async with proxied() as (_, upstream, client):
        await client.send(GET + POST + GET)
        assert await client.take(3 * len(OK)) == 3 * OK
        assert upstream.received == [GET, POST, GET]


async def test_chunked_request_passes_when_it_comes_in_parts() -> None:
    taken = bytearray()

    async def play(request: Request, body: bytes, peer: Connection) -> None:
        taken.extend(await peer.take(len(parts[0]) + len(parts[1])))
        await peer.send(OK)

    parts = (b"4\r\nwi", b"ki\r\n0\r\n\r\n")
    async with proxied(handler=play) as (_, _, client):
        await client.send(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + parts[0])
        await asyncio.sleep(0.05)
        await client.send(parts[1])
        assert await client.take(len(OK)) == OK
        assert bytes(taken) == b"".join(parts)


async def test_event_arrives_when_the_next_is_not_yet_sent() -> None:
    go_on = asyncio.Event()

    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(CHUNKED + b"8\r\nha")  # not even a whole chunk
        await go_on.wait()
        await peer.send(b"lf\r\n\r\n\r\n")

    async with proxied(handler=play) as (_, _, client):
        await client.send(WATCH)
        assert await client.take(len(CHUNKED) + 5) == CHUNKED + b"8\r\nha"
        go_on.set()
        assert await client.take(8) == b"lf\r\n\r\n\r\n"


async def test_upstream_is_released_when_the_client_leaves_its_watch() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(CHUNKED)

    async with proxied(handler=play) as (_, upstream, client):
        await client.send(WATCH)
        await client.take(len(CHUNKED))
        client.writer.close()
        assert await asyncio.wait_for(upstream.left.wait(), DEADLINE_SECONDS)


async def test_client_sees_the_end_when_the_upstream_closes_an_idle_connection() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(OK)
        peer.writer.close()

    async with proxied(handler=play) as (_, _, client):
        await client.send(GET)
        assert await client.take_rest() == OK


async def test_body_without_length_ends_when_the_upstream_closes() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        peer.writer.close()

    async with proxied(handler=play) as (_, _, client):
        await client.send(GET)
        assert await client.take_rest() == b"HTTP/1.1 200 OK\r\n\r\nall of it"


async def test_head_request_has_no_body_when_a_length_is_given() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")

    async with proxied(handler=play) as (_, upstream, client):
        for _ in range(2):
            await client.send(b"HEAD / HTTP/1.1\r\n\r\n")
            await client.take(len(OK) - 10)
        assert len(upstream.received) == 2


async def test_interim_answer_passes_when_the_client_expects_it() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await peer.take(7) == b"2\r\nhi\r\n"
        await peer.send(OK)

    async with proxied(handler=play) as (_, _, client):
        await client.send(b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert await client.take(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"2\r\nhi\r\n0\r\n\r\n")
        assert await client.take(len(OK)) == OK


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1"])
async def test_tunnel_carries_bytes_both_ways_when_upgraded(protocol: str) -> None:
    switching = f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: {protocol}\r\n\r\n".encode()

    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(switching + b"early")
        assert await peer.take_rest() == b"\x80\x03up, and the client ends its half"
        await peer.send(b"\x00\xffdown")
        peer.writer.close()

    async with proxied(handler=play) as (_, _, client):
        await client.send(f"GET /exec HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n".encode())
        assert await client.take(len(switching) + 5) == switching + b"early"
        await client.send(b"\x80\x03up, and the client ends its half")
        client.writer.write_eof()
        assert await client.take_rest() == b"\x00\xffdown"


async def test_large_bodies_pass_when_both_sides_are_slow() -> None:
    block = bytes(range(256)) * 4096 * 8  # 8 MiB, more than any buffer between

    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await asyncio.sleep(0.2)
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async with proxied(handler=play) as (_, _, client):
        await client.send(b"PUT / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(block) + block)
        await asyncio.sleep(0.2)
        assert (await client.take_answer())[2] == block


async def test_answer_passes_when_it_comes_before_the_request_is_read() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(play, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with FaultProxy(f"http://127.0.0.1:{port}") as proxy, connection_to(proxy.url) as client:
            await client.send(b"PUT / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + bytes(1000))
            status, _, body = await client.take_answer()
            assert (status, body) == (413, b"no")


async def test_request_is_refused_when_it_is_not_http() -> None:
    async with proxied() as (_, upstream, client):
        await client.send(b"gibberish\r\n\r\n")
        status, headers, body = await client.take_answer()
        assert (status, headers["connection"]) == (400, "close")
        assert "gibberish" in json.loads(body)["message"]
        assert upstream.received == []


def test_blocking_client_is_served_when_no_loop_runs() -> None:
    async def fetch() -> bytes:
        async with upstream_of() as upstream:
            with FaultProxy(upstream.url) as proxy:
                return await asyncio.to_thread(lambda: urllib.request.urlopen(proxy.url).read())

    assert asyncio.run(fetch()) == b"0123456789"
