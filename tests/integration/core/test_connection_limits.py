"""What strangers send before anybody knows who they are: large heads and forms, slow bodies, many connections.

Each case goes over raw sockets to a server process, with the figures of the attacks that once worked.
"""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from runyard.api.http_connections import MOST_HEAD_BYTES
from runyard.api.routes.discovery import MOST_FORM_BYTES
from tests.core_process import COMMAND, CoreProcess, run_core

DESCRIPTORS = 256
STALLED = 300
BODY_SECONDS = 2
LONGEST = 25.0
"""Less than the server gives idle connections: an answer after those are gone comes too late."""
STALLS = (
    b"",
    b"GET /healthz HTTP/1.1\r\nX-Slow: ",
    b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\ng",
    b"POST /api/v1/projects HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n",
)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    """A server that gives bodies two seconds, and has few file descriptors."""
    limited = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}", *COMMAND)
    flags = ("--max-body-time", f"{BODY_SECONDS}s", "--max-requests", "100000")
    with run_core(*flags, folder=tmp_path_factory.mktemp("door"), program=limited) as running:
        yield running


def connect(core: CoreProcess) -> socket.socket:
    address = httpx2.URL(core.url)
    assert address.port is not None
    return socket.create_connection((address.host, address.port), timeout=LONGEST)


def send_and_read(core: CoreProcess, *parts: bytes) -> bytes:
    """Everything that the server answers until it closes the connection; what it does not take is left out."""
    with connect(core) as connection:
        with suppress(ConnectionError):
            for part in parts:
                connection.sendall(part)
        answer = bytearray()
        with suppress(ConnectionError):
            while part := connection.recv(1 << 16):
                answer += part
    return bytes(answer)


def read_peak_kib(core: CoreProcess) -> int:
    """The most memory that the process ever used."""
    lines = Path(f"/proc/{core.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def count_descriptors(core: CoreProcess) -> int:
    """How many the process has open."""
    return len(list(Path(f"/proc/{core.process.pid}/fd").iterdir()))


async def wait_for_health(core: CoreProcess) -> float:
    """Seconds until the server answered."""
    begun = time.monotonic()
    async with core.client(timeout=LONGEST) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.post("/auth/token", data={"grant_type": "refresh_token"})).status_code == 400
    return time.monotonic() - begun


def test_head_is_refused_when_a_header_has_two_megabytes(core: CoreProcess) -> None:
    answer = send_and_read(
        core, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: ", b"a" * 2_000_000, b"\r\n\r\n"
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert b"connection: close" in head
    assert json.loads(body)["message"] == "the request head has more than 64 KiB"


@pytest.mark.parametrize("place", ["url", "fields", "chunk extension", "trailer", "after a request"])
def test_connection_is_ended_when_what_is_no_body_is_too_large(core: CoreProcess, place: str) -> None:
    large, many = b"a" * MOST_HEAD_BYTES, b"".join(b"X-%d: y\r\n" % number for number in range(10_000))
    chunked = b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent = {
        "url": b"GET /" + large + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "fields": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n",
        "chunk extension": chunked + b"1;x=" + large + b"\r\na\r\n0\r\n\r\n",
        "trailer": chunked + b"1\r\na\r\n0\r\nX-Large: " + large,
        "after a request": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nX: " + large,
    }
    begun = time.monotonic()
    answer = send_and_read(core, sent[place])
    assert time.monotonic() - begun < LONGEST
    if place in ("url", "fields"):
        assert answer.startswith(b"HTTP/1.1 431 ")
    else:
        assert b"HTTP/1.1 200" not in answer.removeprefix(b"HTTP/1.1 200 OK")


def test_head_is_taken_when_it_is_just_small_enough(core: CoreProcess) -> None:
    rest = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: "
    answer = send_and_read(core, rest + b"a" * (MOST_HEAD_BYTES - len(rest) - 4) + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")


async def test_server_answers_and_does_not_grow_when_eight_clients_send_heads_of_thirty_megabytes(
    core: CoreProcess,
) -> None:
    before = read_peak_kib(core)
    part = b"a" * 1_000_000
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: "
    attacks = [asyncio.to_thread(send_and_read, core, head, *[part] * 30) for _ in range(8)]
    answers = await asyncio.gather(*attacks, wait_for_health(core))
    assert read_peak_kib(core) - before < 20_000
    refused = [answer for answer in answers if isinstance(answer, bytes)]
    assert len(refused) == 8
    assert all(answer[:12] in (b"HTTP/1.1 431", b"") for answer in refused)


def test_connection_is_ended_when_very_many_requests_are_sent_ahead(core: CoreProcess) -> None:
    slow = b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\na"
    answer = send_and_read(core, slow + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
    assert answer.count(b"HTTP/1.1 200 OK") < 100


def test_token_form_is_refused_when_it_is_large_or_has_very_many_fields(core: CoreProcess) -> None:
    head = b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    large = b"grant_type=" + b"a" * MOST_FORM_BYTES
    answer = send_and_read(core, head % len(large) + large)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"the body has more than 64 KiB" in answer
    many = b"&".join(b"a%d=b" % number for number in range(51))
    assert b"body.form" in send_and_read(core, head % len(many) + many)


def test_body_is_given_up_when_it_never_stalls_and_never_ends(core: CoreProcess) -> None:
    begun = time.monotonic()
    with connect(core) as connection:
        connection.sendall(b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        connection.settimeout(0.2)
        answer = b""
        while not answer and time.monotonic() - begun < LONGEST:
            connection.sendall(b"a")
            with suppress(TimeoutError):
                answer = connection.recv(1 << 16)
        connection.settimeout(LONGEST)
        # Head and body may come apart. A byte sent after the end resets the connection.
        with suppress(ConnectionError):
            while part := connection.recv(1 << 16):
                answer += part
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert f"the body is not complete after {BODY_SECONDS} seconds".encode() in answer
    assert b"connection: close" in answer.lower()
    assert BODY_SECONDS <= time.monotonic() - begun < LONGEST


@pytest.mark.parametrize("stall", STALLS, ids=["silent", "head", "public body", "body"])
async def test_others_are_answered_when_stalled_connections_outnumber_the_file_descriptors(
    core: CoreProcess, stall: bytes
) -> None:
    with ExitStack() as stack:
        for _ in range(STALLED):
            connection = stack.enter_context(connect(core))
            with suppress(ConnectionError):
                connection.sendall(stall)
        assert await wait_for_health(core) < LONGEST
        assert count_descriptors(core) < DESCRIPTORS - 10
    assert await wait_for_health(core) < LONGEST
    assert "connections.full" in core.read_errors()
    assert "Traceback" not in core.read_errors()
    assert "Too many open files" not in core.read_errors()


async def test_others_are_answered_when_strangers_read_no_response(core: CoreProcess) -> None:
    with ExitStack() as stack:
        for _ in range(STALLED):
            connection = stack.enter_context(connect(core))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with suppress(ConnectionError):
                connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
        assert await wait_for_health(core) < LONGEST
