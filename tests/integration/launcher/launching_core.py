"""A server with accounts whose engine starts the real launcher, and runs of Python functions on it."""

import asyncio
import random
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.core_process import call_runyard, make_client, run_core

USER = ("ada", "the password of ada")
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LaunchingCore:
    """A server that launches runs."""

    url: str

    def client(self) -> httpx2.AsyncClient:
        """A client of its user."""
        return make_client(self.url, user=USER)


@contextmanager
def run_launching_core(folder: Path, *, python: str = sys.executable) -> Iterator[LaunchingCore]:
    """A server on a port that its runs know."""
    done = call_runyard("user", "create", USER[0], "--password-stdin", "--data", str(folder / "data"), given=USER[1])
    assert done.code == 0, done.err
    port = str(find_free_port())
    environment = {"LAUNCHING_PYTHON": python, "LAUNCHING_ENDPOINT": f"http://127.0.0.1:{port}"}
    program = (sys.executable, "-m", "tests.engines.launching")
    arguments = ("--port", port, "--auth", "accounts", "--max-requests", "100000")
    with run_core(*arguments, folder=folder, environment=environment, program=program) as core:
        yield LaunchingCore(core.url)


def find_free_port() -> int:
    """A free port of loopback below the ephemeral ones: any client could take one of those meanwhile."""
    for port in random.SystemRandom().sample(range(20_000, 30_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


async def make_project(client: httpx2.AsyncClient, name: str) -> None:
    """A project of the test's own."""
    answer = await client.post("/api/v1/projects", json={"kind": "project", "name": name})
    assert answer.status_code == 200, answer.text


async def submit(
    client: httpx2.AsyncClient, project: str, code: str, *, handler: str = "main", action: str = "job", **spec: Any
) -> str:
    """Submit a run of a new Python function; its id."""
    base = f"/api/v1/-/{project}"
    source = {"handler": handler, "code": code, **spec.pop("source", {})}
    function = {"kind": "python", "name": "f", "spec": {"python_version": "PYTHON3_11", "source": source}}
    made = await client.post(f"{base}/functions", json=function)
    assert made.status_code == 200, made.text
    reference = f"python://{project}/f:{made.json()['id']}"
    task = await client.post(f"{base}/tasks", json={"kind": f"python+{action}", "spec": {"function": reference}})
    assert task.status_code == 200, task.text
    run = {"kind": f"python+{action}:run", "spec": {"task": f"python+{action}://{project}/{task.json()['id']}", **spec}}
    submitted = await client.post(f"{base}/runs", json=run)
    assert submitted.status_code == 200, submitted.text
    return str(submitted.json()["id"])


async def wait_for(client: httpx2.AsyncClient, project: str, run_id: str, *states: str) -> dict[str, Any]:
    """The run, once it is in one of the states."""
    async with asyncio.timeout(SECONDS):
        while True:
            run: dict[str, Any] = (await client.get(f"/api/v1/-/{project}/runs/{run_id}")).json()
            if run["status"]["state"] in states:
                return run
            await asyncio.sleep(0.05)
