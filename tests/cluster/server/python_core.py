"""A server whose runs are pods that report to it: with accounts, on the cluster's side of this machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from testbed.cluster import Cluster
from tests.cluster.engine.python_images import load_launcher
from tests.cluster.server.cluster_core import BASE, PROJECT, run_cluster_core
from tests.core_process import CoreProcess, call_runyard

USER = ("ada", "the password of ada")
POLICY = {"run_as_user": {"default": 1000}}
"""The testbed's Python image has no user of its own."""


@contextmanager
def run_python_core(cluster: Cluster, namespace: str, folder: Path, *arguments: str) -> Iterator[CoreProcess]:
    """A server that pods reach; the launcher image is loaded."""
    folder.mkdir(parents=True, exist_ok=True)
    load_launcher(cluster, folder)
    done = call_runyard("user", "create", USER[0], "--password-stdin", "--data", str(folder / "data"), given=USER[1])
    assert done.code == 0, done.err
    (folder / "policy.yaml").write_text(json.dumps(POLICY))
    # The link between this machine and the cluster takes the place of a proxy that ends TLS.
    network = ("--host", cluster.site.addresses.host_ip, "--behind-proxy", "--policy", str(folder / "policy.yaml"))
    with run_cluster_core(cluster, namespace, folder, *network, *arguments) as core:
        yield core


async def make_python_task(
    client: httpx2.AsyncClient, code: str, *, action: str = "job", handler: str = "main", **spec: Any
) -> str:
    """A python function with its task; returns the reference of the task."""
    source = {"handler": handler, "code": code, **spec.pop("source", {})}
    function = {"kind": "python", "name": "f", "spec": {"python_version": "PYTHON3_11", "source": source, **spec}}
    made = await client.post(f"{BASE}/functions", json=function)
    assert made.status_code == 200, made.text
    reference = f"python://{PROJECT}/f:{made.json()['id']}"
    task = await client.post(f"{BASE}/tasks", json={"kind": f"python+{action}", "spec": {"function": reference}})
    assert task.status_code == 200, task.text
    return f"python+{action}://{PROJECT}/{task.json()['id']}"


async def submit_task(client: httpx2.AsyncClient, task: str, **spec: Any) -> str:
    """Submit a run of a task; returns its id."""
    kind = f"{task.partition('://')[0]}:run"
    answer = await client.post(f"{BASE}/runs", json={"kind": kind, "spec": {"task": task, **spec}})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])
