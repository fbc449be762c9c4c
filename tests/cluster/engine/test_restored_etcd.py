"""A cluster whose etcd is restored from a backup: its versions go back, and what came after the backup never was."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from testbed.cluster import Cluster
from tests.cluster.server.cluster_core import (
    BASE,
    get_run,
    list_jobs,
    make_project,
    make_task,
    run_cluster_core,
    submit,
    wait_for,
)

pytestmark = [pytest.mark.kubernetes, pytest.mark.long]

FORGOTTEN = 500
"""How many changes a restore undoes: many more than the cluster makes by itself before the server looks again."""
WAIT_FOR_WORD = "until [ -e /tmp/end ]; do sleep 0.1; done"


@dataclass(slots=True)
class Past:
    """Runs of before a restore."""

    task: str
    running: str
    stopped: str
    late: str = ""


def make_namespace(cluster: Cluster, name: str) -> str:
    cluster.kubectl("create", "namespace", name)
    return name


def change_often(cluster: Cluster, times: int) -> None:
    """Let the versions of all objects grow."""
    path = "/api/v1/namespaces/default/configmaps/changed"
    cluster.api.apply(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "changed"}})
    for number in range(times):
        cluster.api.merge(path, {"data": {"number": str(number)}})


def say_end(cluster: Cluster, namespace: str, run_id: str) -> None:
    """Let the container of a run end."""
    (name,) = [job["metadata"]["name"] for job in list_jobs(cluster, namespace) if run_id in str(job["metadata"])]
    cluster.kubectl("exec", "-n", namespace, f"job/{name}", "--", "touch", "/tmp/end")


async def make_past(client: httpx2.AsyncClient, cluster: Cluster, backup: Path) -> Past:
    """Back up a cluster with two runs; then one of them is stopped, and one is submitted that the backup lacks."""
    await make_project(client)
    task = await make_task(client)
    past = Past(task, *[await submit(client, task, WAIT_FOR_WORD) for _ in range(2)])
    for run_id in (past.running, past.stopped):
        await wait_for(client, run_id, "RUNNING")
    await asyncio.to_thread(cluster.back_up_etcd, backup)
    await asyncio.to_thread(change_often, cluster, FORGOTTEN)
    past.late = await submit(client, task, WAIT_FOR_WORD)
    await wait_for(client, past.late, "RUNNING")
    answer = await client.post(f"{BASE}/runs/{past.stopped}/stop")
    assert answer.status_code == 200, answer.text
    await wait_for(client, past.stopped, "STOPPED")
    return past


async def check_present(client: httpx2.AsyncClient, cluster: Cluster, namespace: str, past: Past) -> None:
    """Every run is what its pod is, old and new ones."""
    lost = await wait_for(client, past.late, "ERROR")
    assert lost["status"]["reason"] == "run.lost"
    assert (await get_run(client, past.running))["status"]["state"] == "RUNNING"
    assert (await get_run(client, past.stopped))["status"]["state"] == "STOPPED"
    new = await submit(client, past.task, "exit 3")
    failed = await wait_for(client, new, "ERROR")
    assert failed["status"]["reason"] == "run.failed"
    await asyncio.to_thread(say_end, cluster, namespace, past.running)
    await wait_for(client, past.running, "COMPLETED")


@pytest.mark.timeout(480)
async def test_runs_come_to_the_truth_again_when_etcd_was_restored(own_cluster: Cluster, tmp_path: Path) -> None:
    namespace = make_namespace(own_cluster, "living")
    with run_cluster_core(own_cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            past = await make_past(client, own_cluster, tmp_path / "etcd")
            await asyncio.to_thread(own_cluster.restore_etcd, tmp_path / "etcd")
            await check_present(client, own_cluster, namespace, past)


@pytest.mark.timeout(480)
async def test_runs_come_to_the_truth_again_when_etcd_was_restored_while_no_server_lived(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    namespace = make_namespace(own_cluster, "restarted")
    with run_cluster_core(own_cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            past = await make_past(client, own_cluster, tmp_path / "etcd")
    await asyncio.to_thread(own_cluster.restore_etcd, tmp_path / "etcd")
    with run_cluster_core(own_cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await check_present(client, own_cluster, namespace, past)
