"""`runyard server --engine kubernetes` as a process of its own, and runs of container functions on it."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2

from testbed.cluster import Cluster
from tests.core_process import CoreProcess, run_core

PROJECT = "demo"
BASE = f"/api/v1/-/{PROJECT}"
SECONDS = 90.0
"""How long a test waits for one thing."""
ENDED = ("COMPLETED", "ERROR", "STOPPED")


@contextmanager
def run_cluster_core(
    cluster: Cluster, namespace: str, folder: Path, *arguments: str, kubeconfig: Path | None = None
) -> Iterator[CoreProcess]:
    """A server with SQLite, whose runs are in one namespace. They survive it, and go with the namespace."""
    where = str(kubeconfig or cluster.kubeconfig)
    engine = ("--engine", "kubernetes", "--kubeconfig", where, "--namespace", namespace)
    with run_core(*engine, "--max-requests", "100000", *arguments, folder=folder) as core:
        yield core


async def make_project(client: httpx2.AsyncClient) -> None:
    """The project of the tests."""
    answer = await client.post("/api/v1/projects", json={"kind": "project", "name": PROJECT})
    assert answer.status_code == 200, answer.text


async def make_task(client: httpx2.AsyncClient, *, action: str = "job") -> str:
    """A container function of busybox, and its task; returns the reference of the task."""
    function = {"kind": "container", "name": "f", "spec": {"image": "busybox:1.36"}}
    made = await client.post(f"{BASE}/functions", json=function)
    assert made.status_code == 200, made.text
    reference = f"container://{PROJECT}/f:{made.json()['id']}"
    task = await client.post(f"{BASE}/tasks", json={"kind": f"container+{action}", "spec": {"function": reference}})
    assert task.status_code == 200, task.text
    return f"container+{action}://{PROJECT}/{task.json()['id']}"


def make_run(task: str, script: str, *, run_id: str | None = None, **spec: Any) -> dict[str, Any]:
    """A run whose command is a shell script, as it is submitted."""
    kind = task.partition("://")[0]
    wanted = {"command": "sh", "args": ["-c", script], "run_as_user": 1000, "grace_period": 1, **spec}
    return {"id": run_id or uuid4().hex, "kind": f"{kind}:run", "spec": {"task": task, **wanted}}


async def submit(client: httpx2.AsyncClient, task: str, script: str, **spec: Any) -> str:
    """Submit a run; returns its id."""
    answer = await client.post(f"{BASE}/runs", json=make_run(task, script, **spec))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


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
            assert state not in ENDED, (state, run["status"])
            await asyncio.sleep(0.1)


async def wait_until(
    client: httpx2.AsyncClient, run_id: str, condition: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The run, once the condition holds."""
    async with asyncio.timeout(SECONDS):
        while True:
            run = await get_run(client, run_id)
            if condition(run):
                return run
            await asyncio.sleep(0.1)


async def read_whole_log(client: httpx2.AsyncClient, run_id: str) -> str:
    """The log of a run that has ended, once it is stored to its end."""
    async with asyncio.timeout(SECONDS):
        while True:
            if (await get_run(client, run_id))["status"].get("logs") == {"state": "complete"}:
                answer = await client.get(f"{BASE}/runs/{run_id}/log")
                assert answer.status_code == 200, answer.text
                return answer.text
            await asyncio.sleep(0.1)


async def wait_for_line(client: httpx2.AsyncClient, run_id: str, line: str) -> None:
    """Until the log has that line."""
    async with asyncio.timeout(SECONDS):
        while True:
            answer = await client.get(f"{BASE}/runs/{run_id}/log")
            if answer.status_code == 200 and line in answer.text.splitlines():
                return
            await asyncio.sleep(0.1)


async def wait_until_gone(client: httpx2.AsyncClient, run_id: str) -> None:
    """Until a run that was deleted is gone."""
    async with asyncio.timeout(SECONDS):
        while True:
            if (await client.get(f"{BASE}/runs/{run_id}")).status_code == 404:
                return
            await asyncio.sleep(0.1)


def list_jobs(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """The Jobs of a namespace, from the apiserver."""
    items: list[dict[str, Any]] = json.loads(cluster.kubectl("get", "jobs", "-n", namespace, "-o", "json"))["items"]
    return items
