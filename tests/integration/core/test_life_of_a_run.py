"""A run through an engine by HTTP: from the submit to its end, its log, what is settled, and nothing left."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from tests.core_process import CoreProcess, run_core
from tests.integration.core.conftest import Place, fill, make_run

PROGRAM = (sys.executable, "-m", "tests.engines.serve")
SECONDS = 60.0


@pytest.fixture
def core(place: Place) -> Iterator[CoreProcess]:
    """A server with the in-memory engine, on either database."""
    with run_core(
        "--max-requests", "100000", folder=place.folder, environment=place.environment, program=PROGRAM
    ) as running:
        yield running


@pytest.fixture
async def client(core: CoreProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with core.client() as client:
        await fill(client)
        yield client


async def submit(client: httpx2.AsyncClient, run_id: str, *args: str) -> None:
    document = make_run("demo", run_id)
    document["spec"]["args"] = list(args)
    answer = await client.post("/api/v1/-/demo/runs", json=document)
    assert answer.status_code == 200, answer.text


async def wait_for(client: httpx2.AsyncClient, run_id: str, *states: str) -> dict[str, Any]:
    """The run, once it is in one of the states."""
    async with asyncio.timeout(SECONDS):
        while True:
            run: dict[str, Any] = (await client.get(f"/api/v1/-/demo/runs/{run_id}")).json()
            if run["status"]["state"] in states:
                return run
            await asyncio.sleep(0.02)


async def test_run_completes_with_its_log_and_is_removed_when_it_is_submitted(client: httpx2.AsyncClient) -> None:
    await submit(client, "r1", "hello", "world")
    # Follows from before its start to its very end.
    followed = await client.get("/api/v1/-/demo/runs/r1/log", params={"follow": "true"}, timeout=SECONDS)
    assert followed.text == "hello\nworld\n"
    run = await wait_for(client, "r1", "COMPLETED")
    assert [step["status"] for step in run["status"]["transitions"]] == [
        "COMPLETED",
        "RUNNING",
        "PENDING",
        "READY",
        "CREATED",
    ]
    assert run["status"]["ends"] == [
        {"pod": "r1-0", "container": "main", "instance": 0, "exit_code": 0, "is_out_of_memory": False}
    ]
    assert run["status"]["logs"] == {"state": "complete"}
    assert (await client.get("/api/v1/-/demo/runs/r1/log")).text == "hello\nworld\n"
    assert (await client.delete("/api/v1/-/demo/runs/r1")).status_code == 200
    async with asyncio.timeout(SECONDS):
        while True:
            if (await client.get("/api/v1/-/demo/runs/r1")).status_code == 404:
                break
            await asyncio.sleep(0.02)


async def test_run_is_an_error_and_says_why_when_its_work_fails(client: httpx2.AsyncClient) -> None:
    await submit(client, "r1", "oh", "exit 3")
    run = await wait_for(client, "r1", "ERROR")
    assert (run["status"]["reason"], run["status"]["message"]) == (
        "run.failed",
        "container main ended with exit code 3",
    )


async def test_run_is_stopped_when_it_is_asked_to(client: httpx2.AsyncClient) -> None:
    await submit(client, "r1", "begun", "wait")
    await wait_for(client, "r1", "RUNNING")
    assert (await client.post("/api/v1/-/demo/runs/r1/stop")).status_code == 200
    run = await wait_for(client, "r1", "STOPPED")
    assert run["status"]["reason"] == "user.stop"
    followed = await client.get("/api/v1/-/demo/runs/r1/log", params={"follow": "true"}, timeout=SECONDS)
    assert followed.text == "begun\n"


async def test_all_complete_with_their_own_logs_when_there_are_many(client: httpx2.AsyncClient) -> None:
    names = [f"r{number}" for number in range(60)]
    await asyncio.gather(*(submit(client, name, f"I am {name}") for name in names))
    for name in names:
        await wait_for(client, name, "COMPLETED")
        followed = await client.get(f"/api/v1/-/demo/runs/{name}/log", params={"follow": "true"}, timeout=SECONDS)
        assert followed.text == f"I am {name}\n"
