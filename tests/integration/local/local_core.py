"""`runyard server --engine local` as a process of its own, and runs of python functions on it."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from tests.contract.engine.local_lab import iter_supervisors
from tests.core_process import CoreProcess, run_core

PROJECT = "demo"
BASE = f"/api/v1/-/{PROJECT}"
PYTHON = f"PYTHON3_{sys.version_info.minor}"
"""The version of the tests' own interpreter, which every machine that runs them has."""
SECONDS = 60.0


@contextmanager
def run_local_core(folder: Path, *arguments: str) -> Iterator[CoreProcess]:
    """A server with SQLite and the local engine. Runs survive it: `end_runs` ends them."""
    with run_core("--engine", "local", "--max-requests", "100000", *arguments, folder=folder) as core:
        yield core


def end_runs(folder: Path) -> None:
    """End everything that runs at the place of a server, and wait for it."""
    pids = list(iter_supervisors(folder / "data" / "local"))
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def get_place(folder: Path) -> Path:
    """The place of a server's engine."""
    return folder / "data" / "local"


async def make_project(client: httpx2.AsyncClient) -> None:
    """The project of the tests."""
    answer = await client.post("/api/v1/projects", json={"kind": "project", "name": PROJECT})
    assert answer.status_code == 200, answer.text


async def submit(
    client: httpx2.AsyncClient, code: str, *, action: str = "job", function: dict[str, Any] | None = None, **spec: Any
) -> str:
    """Submit a run of a new function whose handler is `main`; returns its id."""
    source = {"handler": "main", "code": code}
    made = await client.post(
        f"{BASE}/functions",
        json={"kind": "python", "name": "f", "spec": {"python_version": PYTHON, "source": source, **(function or {})}},
    )
    assert made.status_code == 200, made.text
    reference = f"python://{PROJECT}/f:{made.json()['id']}"
    task = await client.post(f"{BASE}/tasks", json={"kind": f"python+{action}", "spec": {"function": reference}})
    assert task.status_code == 200, task.text
    run = {"kind": f"python+{action}:run", "spec": {"task": f"python+{action}://{PROJECT}/{task.json()['id']}", **spec}}
    submitted = await client.post(f"{BASE}/runs", json=run)
    assert submitted.status_code == 200, submitted.text
    return str(submitted.json()["id"])


async def submit_command(client: httpx2.AsyncClient, script: str, **spec: Any) -> str:
    """Submit a run whose command is a shell script: no launcher, but the same environment."""
    return await submit(client, "def main(): pass", command="sh", args=["-c", script], **spec)


async def get_run(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    """The run as it is now."""
    answer = await client.get(f"{BASE}/runs/{run_id}")
    assert answer.status_code == 200, answer.text
    run: dict[str, Any] = answer.json()
    return run


async def wait_for(client: httpx2.AsyncClient, run_id: str, *states: str) -> dict[str, Any]:
    """The run, once it is in one of the states; fails at once if it has ended in another."""
    async with asyncio.timeout(SECONDS):
        while True:
            run = await get_run(client, run_id)
            state = run["status"]["state"]
            if state in states:
                return run
            assert state not in ("COMPLETED", "ERROR", "STOPPED"), (state, run["status"])
            await asyncio.sleep(0.05)


async def read_log(client: httpx2.AsyncClient, run_id: str) -> str:
    """The stored log."""
    answer = await client.get(f"{BASE}/runs/{run_id}/log")
    assert answer.status_code == 200, answer.text
    return answer.text


async def read_whole_log(client: httpx2.AsyncClient, run_id: str) -> str:
    """The log of a run that has ended, once it is stored to its end."""
    async with asyncio.timeout(SECONDS):
        while True:
            if (await get_run(client, run_id))["status"].get("logs") == {"state": "complete"}:
                return await read_log(client, run_id)
            await asyncio.sleep(0.05)


async def wait_until_gone(client: httpx2.AsyncClient, run_id: str) -> None:
    """Until a run that was deleted is gone."""
    async with asyncio.timeout(SECONDS):
        while True:
            if (await client.get(f"{BASE}/runs/{run_id}")).status_code == 404:
                return
            await asyncio.sleep(0.05)
