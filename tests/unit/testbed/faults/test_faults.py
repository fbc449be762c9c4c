import asyncio
import json
import threading

import pytest

from testbed.faults import (
    Answer,
    Cut,
    Delay,
    Expire,
    FaultPlan,
    FaultProxy,
    LoseAnswer,
    Refuse,
    Repeat,
    Request,
    Reset,
    Rule,
    Stall,
)
from testbed.faults.http1 import parse_request
from tests.unit.testbed.faults.scripted import (
    CHUNKED,
    DEADLINE_SECONDS,
    GET,
    OK,
    POST,
    WATCH,
    Connection,
    chunk,
    connection_to,
    proxied,
    upstream_of,
    wait_until_open,
)


async def test_cut_ends_the_answer_when_its_bytes_are_through() -> None:
    async with proxied(Rule(Cut(after_bytes=4))) as (proxy, upstream, client):
        await client.send(GET)
        assert await client.take_rest() == OK[:-6]
        assert proxy.counts == {"cut": 1}
        assert upstream.received == [GET]


async def test_cut_counts_payload_when_the_body_is_chunked() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(CHUNKED + chunk(b"one line\n") + chunk(b"and another\n"))

    async with proxied(Rule(Cut(after_bytes=12), watch=True), handler=play) as (proxy, _, client):
        await client.send(WATCH)
        assert await client.take_rest() == CHUNKED + chunk(b"one line\n") + b"c\r\nand"
        [entry] = proxy.journal
        assert (entry.kind, entry.fault, entry.request) == ("cut", Cut(12), parse_request(WATCH))


async def test_cut_strikes_at_once_when_a_watch_is_silent() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(CHUNKED)

    async with proxied(Rule(Cut()), handler=play) as (_, upstream, client):
        await client.send(WATCH)
        assert await client.take_rest() == CHUNKED
        await asyncio.wait_for(upstream.left.wait(), DEADLINE_SECONDS)


async def test_cut_is_not_committed_when_the_answer_is_shorter() -> None:
    async with proxied(Rule(Cut(after_bytes=10))) as (proxy, _, client):
        await client.send(GET + GET)
        assert await client.take(2 * len(OK)) == 2 * OK
        assert not proxy.counts


@pytest.mark.parametrize("fault", [Cut(after_bytes=None), Reset(after_bytes=None), Refuse(seconds=0)])
async def test_nothing_is_forwarded_when_the_fault_comes_first(fault: Cut | Reset | Refuse) -> None:
    async with proxied(Rule(fault)) as (proxy, upstream, client):
        await client.send(POST)
        try:
            assert await client.take_rest() == b""
        except ConnectionResetError:
            assert not isinstance(fault, Cut)
        assert proxy.counts == {fault.kind: 1}
        assert upstream.received == []


async def test_reset_is_seen_as_such_when_the_answer_is_on_its_way() -> None:
    async with proxied(Rule(Reset(after_bytes=4))) as (proxy, upstream, client):
        await client.send(GET)
        with pytest.raises(ConnectionResetError):
            await client.take_rest()
        assert proxy.counts == {"reset": 1}
        assert upstream.received == [GET]


async def test_stall_goes_on_when_its_time_is_over() -> None:
    async with proxied(Rule(Stall(after_bytes=4, seconds=3.0))) as (proxy, _, client):
        await client.send(GET)
        assert await client.take(len(OK) - 6) == OK[:-6]
        assert await client.is_silent()
        assert await client.take(6) == OK[-6:]
        assert proxy.counts == {"stall": 1}
        await client.send(GET)
        assert await client.take(len(OK)) == OK


async def test_stall_lasts_when_it_has_no_end() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(CHUNKED + chunk(b"never seen"))

    async with proxied(Rule(Stall()), handler=play) as (_, upstream, client):
        await client.send(WATCH)
        assert await client.take(len(CHUNKED)) == CHUNKED
        assert await client.is_silent(0.5)
        client.writer.close()
        await asyncio.wait_for(upstream.left.wait(), DEADLINE_SECONDS)


async def test_delay_holds_the_request_back_when_it_is_not_over() -> None:
    async with proxied(Rule(Delay(3.0))) as (proxy, upstream, client):
        await client.send(POST)
        assert await client.is_silent()
        assert upstream.received == []
        assert await client.take(len(OK)) == OK
        assert upstream.received == [POST]
        assert proxy.counts == {"delay": 1}


async def test_delayed_request_is_dropped_when_the_client_leaves() -> None:
    async with proxied(Rule(Delay(1.0))) as (_, upstream, client):
        await client.send(POST)
        client.writer.close()
        await asyncio.sleep(1.5)
        assert upstream.received == []


@pytest.mark.parametrize("by_command", [True, False])
async def test_connections_are_refused_when_the_listener_is_closed(by_command: bool) -> None:
    rules = [] if by_command else [Rule(Refuse(3.0))]
    async with proxied(*rules) as (proxy, _, client):
        url = proxy.url
        if by_command:
            proxy.refuse(3.0)
        else:
            await client.send(GET)
            with pytest.raises(ConnectionResetError):
                await client.take_rest()
        with pytest.raises(ConnectionRefusedError):
            async with connection_to(url):
                pass
        await wait_until_open(url)
        async with connection_to(url) as later:
            await later.send(GET)
            assert await later.take(len(OK)) == OK
        assert proxy.counts == {"refuse": 1}


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_error_is_answered_without_forwarding_when_asked_for(status: int) -> None:
    async with proxied(Rule(Answer(status, retry_after_seconds=3))) as (proxy, upstream, client):
        await client.send(POST)
        answered, headers, body = await client.take_answer()
        told = json.loads(body)
        assert (answered, told["code"], told["kind"], told["status"]) == (status, status, "Status", "Failure")
        assert told["details"]["retryAfterSeconds"] == int(headers["retry-after"]) == 3
        assert upstream.received == []
        assert proxy.counts == {f"answer-{status}": 1}
        await client.send(GET)  # its body was taken off the connection, which goes on
        assert await client.take(len(OK)) == OK


async def test_page_is_answered_when_the_error_is_a_gateway_s() -> None:
    async with proxied(Rule(Answer(403, is_page=True))) as (_, upstream, client):
        await client.send(POST)
        status, headers, body = await client.take_answer()
        assert (status, headers["content-type"]) == (403, "text/html")
        assert body.startswith(b"<html>")
        assert upstream.received == []


async def test_connection_ends_with_the_error_when_the_client_waits_to_send_its_body() -> None:
    async with proxied(Rule(Answer(503))) as (_, upstream, client):
        await client.send(b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        status, headers, _ = await client.take_answer()
        assert (status, headers["connection"]) == (503, "close")
        assert await client.take_rest() == b""
        assert upstream.received == []


async def test_write_happens_when_its_answer_is_lost() -> None:
    async with proxied(Rule(LoseAnswer(), method="POST")) as (proxy, upstream, client):
        await client.send(POST)
        assert await client.take_rest() == b""
        assert upstream.received == [POST]
        assert proxy.counts == {"lose-answer": 1}


async def test_error_is_told_when_it_stands_for_a_lost_answer() -> None:
    async with proxied(Rule(LoseAnswer(instead=Answer(504)))) as (_, upstream, client):
        await client.send(POST)
        status, headers, body = await client.take_answer()
        assert (status, headers["connection"], json.loads(body)["reason"]) == (504, "close", "Timeout")
        assert await client.take_rest() == b""
        assert upstream.received == [POST]


async def test_watch_expires_between_two_lines_when_they_come_in_parts() -> None:
    event = b'{"type":"ADDED","object":{}}\n'

    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(CHUNKED + chunk(event[:9]))
        await asyncio.sleep(0.05)
        await peer.send(b"%x\r\n%b" % (len(event) - 9, event[9:]))
        await asyncio.sleep(0.05)
        await peer.send(b"\r\n" + chunk(event))

    async with proxied(Rule(Expire(after_bytes=3)), handler=play) as (proxy, _, client):
        await client.send(WATCH)
        seen = await client.take_rest()
    through = CHUNKED + chunk(event[:9]) + chunk(event[9:])
    size, line, *end = seen.removeprefix(through).split(b"\r\n")
    assert seen.startswith(through)
    assert (int(size, 16), end) == (len(line), [b"0", b"", b""])
    told = json.loads(line)
    assert (told["type"], told["object"]["code"], told["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert proxy.counts == {"expire": 1}


async def test_expiry_is_not_committed_when_the_request_is_no_watch() -> None:
    async with proxied(Rule(Expire())) as (proxy, _, client):
        await client.send(GET)
        assert await client.take(len(OK)) == OK
        assert not proxy.counts


async def test_events_come_twice_when_a_watch_is_repeated() -> None:
    first, second = b'{"type":"ADDED","object":{}}\n', b'{"type":"DELETED","object":{}}\n'

    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(CHUNKED + chunk(first) + chunk(second[:9]))
        await asyncio.sleep(0.05)
        await peer.send(chunk(second[9:]))

    async with proxied(Rule(Repeat()), handler=play) as (proxy, _, client):
        await client.send(WATCH)
        expected = CHUNKED + chunk(first) * 2 + chunk(second[:9]) + chunk(second[9:]) + chunk(second)
        assert await client.take(len(expected)) == expected
    assert proxy.counts == {"repeat": 2}


async def test_answer_passes_once_when_a_request_that_is_no_watch_is_to_be_repeated() -> None:
    async with proxied(Rule(Repeat())) as (proxy, _, client):
        await client.send(GET)
        assert await client.take(len(OK)) == OK
        assert not proxy.counts


async def test_status_has_the_reason_of_the_answer_when_it_names_one() -> None:
    async with proxied(Rule(Answer(409, reason="AlreadyExists"))) as (_, _, client):
        await client.send(POST)
        status, _, body = await client.take_answer()
        assert (status, json.loads(body)["reason"]) == (409, "AlreadyExists")


async def test_tunnel_is_cut_when_its_bytes_are_through() -> None:
    switching = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"

    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(switching + b"0123456789")

    async with proxied(Rule(Cut(after_bytes=4)), handler=play) as (_, _, client):
        await client.send(GET)
        assert await client.take_rest() == switching + b"0123"


async def test_every_connection_is_reset_when_severed() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(CHUNKED)

    async with proxied(handler=play) as (proxy, upstream, client), connection_to(proxy.url) as idle:
        await client.send(WATCH)
        await client.take(len(CHUNKED))
        proxy.sever()
        for connection in (client, idle):
            with pytest.raises(ConnectionResetError):
                await connection.take_rest()
        await asyncio.wait_for(upstream.left.wait(), DEADLINE_SECONDS)
        assert proxy.counts == {"sever": 2}


async def test_connection_is_reset_when_there_are_too_many() -> None:
    async with proxied(connection_limit=1) as (proxy, _, client):
        await client.send(GET)
        await client.take(len(OK))
        with pytest.raises(ConnectionResetError):  # as early as in connect
            async with connection_to(proxy.url) as second:
                await second.take_rest()
        assert proxy.counts == {"overflow": 1}


async def test_client_is_reset_when_the_upstream_is_down() -> None:
    async with upstream_of() as upstream:
        pass
    async with FaultProxy(upstream.url) as proxy, connection_to(proxy.url) as client:
        await client.send(GET)
        with pytest.raises(ConnectionResetError):
            await client.take_rest()
        assert proxy.counts == {"unreachable": 1}


async def test_client_is_reset_when_the_upstream_dies_in_an_answer() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(OK[:-6])
        peer.writer.close()

    async with proxied(handler=play) as (proxy, _, client):
        await client.send(GET)
        with pytest.raises(ConnectionResetError):
            await client.take_rest()
        assert not proxy.counts


async def test_faults_strike_only_when_they_are_switched_on() -> None:
    go_on = asyncio.Event()

    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(CHUNKED + chunk(b"12"))
        await go_on.wait()
        await peer.send(chunk(b"34") + b"0\r\n\r\n")

    async with proxied(Rule(Cut(after_bytes=3), times=None), handler=play) as (proxy, _, client):
        await client.send(GET)
        await client.take(len(CHUNKED) + 7)
        proxy.enabled = False  # also for the fault that waits for the third byte
        go_on.set()
        assert await client.take(12) == chunk(b"34") + b"0\r\n\r\n"
        assert not proxy.counts
        proxy.enabled = True
        await client.send(GET)
        assert await client.take_rest() == CHUNKED + chunk(b"12") + b"2\r\n3"
        assert proxy.counts == {"cut": 1}


async def test_nothing_is_left_when_it_stops_in_the_middle_of_everything() -> None:
    async def play(request: Request, body: bytes, peer: Connection) -> None:
        await peer.send(CHUNKED + chunk(b"12"))

    rules = [Rule(Stall(), times=1), Rule(Delay(60), method="POST")]
    async with upstream_of(play) as upstream:
        proxy = FaultProxy(upstream.url, plan=FaultPlan(rules=rules))
        async with (
            proxy,
            connection_to(proxy.url) as stalled,
            connection_to(proxy.url) as watching,
            connection_to(proxy.url) as delayed,
        ):
            await stalled.send(WATCH)
            await stalled.take(len(CHUNKED))
            await watching.send(WATCH)
            await watching.take(len(CHUNKED) + 7)
            await delayed.send(POST)
            await asyncio.sleep(0.1)
        assert not [thread for thread in threading.enumerate() if thread.name == "fault-proxy"]
        with pytest.raises(ConnectionRefusedError):
            async with connection_to(proxy.url):
                pass


def test_upstream_is_refused_when_it_is_not_an_address() -> None:
    for upstream in ("127.0.0.1:6443", "ftp://127.0.0.1", "https://host/path"):
        with pytest.raises(ValueError, match="an upstream is"):
            FaultProxy(upstream)
