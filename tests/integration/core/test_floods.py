"""Floods and slow clients: whoever behaves is still answered."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from tests.core_process import CoreProcess, call_runyard, make_client, run_core
from tests.integration.core.conftest import fill

IDLE = 300
SLOW = 100
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    """A server with two accounts and narrow limits."""
    folder = tmp_path_factory.mktemp("flood")
    environment = {"RUNYARD_DATABASE": f"sqlite:///{folder}/runyard.db"}
    for name in ("ada", "bob"):
        made = call_runyard(
            *("user", "create", name, "--admin", "--password-stdin"),
            environment=environment,
            given=f"{name}'s password\n",
        )
        assert made.code == 0, made.err
    limits = ("--max-requests", "5", "--max-body-bytes", "64Ki", "--max-streams", "3", "--drain", "1s")
    program = (sys.executable, "-m", "tests.integration.core.impatient")
    with run_core("--auth", "accounts", *limits, folder=folder, environment=environment, program=program) as core:
        yield core


@pytest.fixture
async def bob(guarded: CoreProcess) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that behaves."""
    async with make_client(guarded.url, user=("bob", "bob's password"), timeout=120.0) as client:
        yield client


async def test_others_are_answered_when_hundreds_of_connections_are_idle(
    guarded: CoreProcess, bob: httpx2.AsyncClient
) -> None:
    connections = await open_many(guarded, IDLE)
    assert (await bob.get("/api/v1/projects")).status_code == 200
    await close_all(connections)


async def test_others_are_answered_when_headers_and_bodies_come_slowly(
    guarded: CoreProcess, bob: httpx2.AsyncClient
) -> None:
    connections = await open_many(guarded, SLOW)
    beginnings = (
        b"GET /api/v1/projects HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\ngrant",
        b"POST /api/v1/projects HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    )
    for number, (_, writer) in enumerate(connections):
        writer.write(beginnings[number % len(beginnings)])
    for _ in range(3):
        for _, writer in connections:
            writer.write(b"a")
        assert (await bob.get("/api/v1/projects")).status_code == 200
        assert (await bob.get("/readyz")).status_code == 200
    await close_all(connections)


async def test_connections_are_ended_when_they_never_bring_a_request(guarded: CoreProcess) -> None:
    connections = await open_many(guarded, 3)
    heads = (b"", b"GET /healthz HTTP/1.1\r\nX-Slow: ", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTT")
    for (_, writer), head in zip(connections, heads, strict=True):
        writer.write(head)
    ended = [await reader.read() for reader, _ in connections]
    assert [text[:12] for text in ended] == [b"", b"", b"HTTP/1.1 200"]
    await close_all(connections)


async def test_one_who_floods_is_told_when_to_come_again_and_others_are_answered(
    guarded: CoreProcess, bob: httpx2.AsyncClient
) -> None:
    async with make_client(guarded.url, user=("ada", "ada's password"), timeout=120.0) as ada:
        answers = await asyncio.gather(*(ada.get("/api/v1/projects") for _ in range(150)), bob.get("/api/v1/projects"))
    *flood, answered = answers
    assert answered.status_code == 200
    refused = [answer for answer in flood if answer.status_code == 429]
    assert {answer.status_code for answer in flood} == {200, 429}
    assert len(refused) > 50
    for answer in refused:
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.json()["errorCode"] == "too_many"


async def test_guesses_are_limited_and_others_are_answered_when_passwords_are_tried(
    guarded: CoreProcess, bob: httpx2.AsyncClient
) -> None:
    async with make_client(guarded.url, timeout=120.0) as stranger:
        guesses = [stranger.get("/api/auth", auth=("ada", f"guess {number}")) for number in range(60)]
        *guessed, answered = await asyncio.gather(*guesses, bob.get("/api/auth"))
    assert answered.status_code == 200
    assert {answer.status_code for answer in guessed} == {401, 429}
    assert all("Retry-After" in answer.headers for answer in guessed if answer.status_code == 429)


async def test_body_is_refused_when_it_is_larger_than_allowed_whatever_its_header_says(
    guarded: CoreProcess, bob: httpx2.AsyncClient
) -> None:
    async def make_body() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield b'"' + b"x" * 1022 + b'"'

    headers = {"Content-Type": "application/json"}
    chunked = await bob.post("/api/v1/projects", content=make_body(), headers=headers)
    assert chunked.status_code == 413
    reader, writer = (await open_many(guarded, 1))[0]
    # A size that nobody would read is refused before it comes.
    writer.write(b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 70000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    await close_all([(reader, writer)])
    assert (await bob.get("/readyz")).status_code == 200


async def test_streams_are_limited_and_others_are_answered_when_many_are_opened(
    guarded: CoreProcess, bob: httpx2.AsyncClient
) -> None:
    await fill(bob)
    run = {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://demo/t-demo"}}
    assert (await bob.post("/api/v1/-/demo/runs", json=run)).status_code == 200
    path, headers = "/api/v1/-/demo/runs/r1/events", {"Accept": "text/event-stream"}
    async with make_client(guarded.url, user=("ada", "ada's password"), timeout=120.0) as ada:
        streams = [await ada.send(ada.build_request("GET", path, headers=headers), stream=True) for _ in range(5)]
        statuses = [stream.status_code for stream in streams]
        assert (await bob.get("/api/v1/-/demo/runs/r1")).status_code == 200
        for stream in streams:
            await stream.aclose()
    assert (statuses.count(200), statuses.count(429)) == (3, 2)


async def open_many(core: CoreProcess, number: int) -> list[Connection]:
    """Bare connections."""
    address = httpx2.URL(core.url)
    return [await asyncio.open_connection(address.host, address.port) for _ in range(number)]


async def close_all(connections: list[Connection]) -> None:
    """End them, whatever the server thinks of it."""
    for _, writer in connections:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for _, writer in connections), return_exceptions=True)
