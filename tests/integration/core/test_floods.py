"""Floods and slow clients: whoever behaves is answered meanwhile, not afterwards.

No time is promised. So each test looks, when `bob` has his answer, whether the others still wait for theirs.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.api.idle_connections import HEAD_SECONDS
from tests.core_process import COMMAND, CoreProcess, call_runyard, make_client, run_core
from tests.integration.core.conftest import fill

IDLE = 300
SLOW = 100
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    """A server with two accounts and narrow limits."""
    with run_guarded(tmp_path_factory.mktemp("flood")) as core:
        yield core


@contextmanager
def run_guarded(folder: Path, *, program: tuple[str, ...] = COMMAND) -> Iterator[CoreProcess]:
    environment = {"RUNYARD_DATABASE": f"sqlite:///{folder}/runyard.db"}
    for name in ("ada", "bob"):
        made = call_runyard(
            *("user", "create", name, "--admin", "--password-stdin"),
            environment=environment,
            given=f"{name}'s password\n",
        )
        assert made.code == 0, made.err
    limits = ("--max-requests", "5", "--max-body-bytes", "64Ki", "--max-streams", "3", "--drain", "1s")
    with run_core("--auth", "accounts", *limits, folder=folder, environment=environment, program=program) as core:
        yield core


@pytest.fixture
async def bob(guarded: CoreProcess) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that behaves. His password was verified, so that his requests need not wait for any hashing."""
    # Less than the server gives those who never bring a request: an answer after they are gone comes too late.
    async with make_client(guarded.url, user=("bob", "bob's password"), timeout=HEAD_SECONDS - 5) as client:
        assert (await client.get("/api/auth")).status_code == 200
        yield client


async def test_others_are_answered_when_hundreds_of_connections_are_idle(
    guarded: CoreProcess, bob: httpx2.AsyncClient
) -> None:
    connections = await open_many(guarded, IDLE)
    assert (await bob.get("/api/v1/projects")).status_code == 200
    assert count_open(connections) == IDLE
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
    assert count_open(connections) == SLOW
    await close_all(connections)


async def test_connections_are_ended_when_they_never_bring_a_request(tmp_path: Path) -> None:
    program = (sys.executable, "-m", "tests.integration.core.impatient")
    with run_core(folder=tmp_path, program=program) as impatient:
        await check_connections_are_ended(impatient)


async def check_connections_are_ended(core: CoreProcess) -> None:
    connections = await open_many(core, 3)
    heads = (
        b"",
        b"GET /healthz HTTP/1.1\r\nX-Slow: ",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTT",
    )
    for (_, writer), head in zip(connections, heads, strict=True):
        writer.write(head)
    ended = [await reader.read() for reader, _ in connections]
    assert [text[:12] for text in ended] == [b"", b"", b"HTTP/1.1 200"]
    await close_all(connections)


async def test_one_who_floods_is_told_when_to_come_again_and_others_are_answered(
    guarded: CoreProcess, bob: httpx2.AsyncClient
) -> None:
    async with make_client(guarded.url, user=("ada", "ada's password")) as ada:
        flood = await answer_meanwhile(bob, [ada.get("/api/v1/projects") for _ in range(150)])
    refused = [answer for answer in flood if answer.status_code == 429]
    assert {answer.status_code for answer in flood} == {200, 429}
    assert len(refused) > 50
    for answer in refused:
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.json()["errorCode"] == "too_many"


async def test_guesses_are_limited_and_others_are_answered_when_passwords_are_tried(
    guarded: CoreProcess, bob: httpx2.AsyncClient
) -> None:
    async with make_client(guarded.url) as stranger:
        guesses = [stranger.get("/api/auth", auth=("ada", f"guess {number}")) for number in range(60)]
        guessed = await answer_meanwhile(bob, guesses)
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
    async with make_client(guarded.url, user=("ada", "ada's password")) as ada:
        streams = [await ada.send(ada.build_request("GET", path, headers=headers), stream=True) for _ in range(5)]
        statuses = [stream.status_code for stream in streams]
        assert (await bob.get("/api/v1/-/demo/runs/r1")).status_code == 200
        for stream in streams:
            await stream.aclose()
    assert (statuses.count(200), statuses.count(429)) == (3, 2)


async def answer_meanwhile(
    bob: httpx2.AsyncClient, attack: list[Coroutine[Any, Any, httpx2.Response]]
) -> list[httpx2.Response]:
    """The answers to an attack; `bob` has his before it is over."""
    under_way = [asyncio.create_task(request) for request in attack]
    await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    assert (await bob.get("/api/v1/projects")).status_code == 200
    assert not all(task.done() for task in under_way), "bob had to wait until the attack was over"
    return await asyncio.gather(*under_way)


def count_open(connections: list[Connection]) -> int:
    """How many the server has neither answered nor ended."""
    return sum(not reader.at_eof() for reader, _ in connections)


async def open_many(core: CoreProcess, number: int) -> list[Connection]:
    """Bare connections."""
    address = httpx2.URL(core.url)
    return [await asyncio.open_connection(address.host, address.port) for _ in range(number)]


async def close_all(connections: list[Connection]) -> None:
    """End them, whatever the server thinks of it."""
    for _, writer in connections:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for _, writer in connections), return_exceptions=True)
