"""Deadlines, deployments and services through the API of a whole server, on real pods."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.resources import PODS
from testbed.cluster import Cluster
from tests.cluster.server.cluster_core import (
    BASE,
    SECONDS,
    get_run,
    make_project,
    make_task,
    read_whole_log,
    run_cluster_core,
    submit,
    wait_for,
    wait_for_line,
    wait_until_gone,
)

pytestmark = pytest.mark.long
LEFT = "jobs,deployments,replicasets,pods,secrets,services,configmaps,persistentvolumeclaims"
GRACE_SECONDS = 3


async def test_job_ends_in_error_with_its_log_when_it_takes_longer_than_its_timeout(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    script = "trap 'echo last words; exit 0' TERM; echo first words; while true; do sleep 0.1; done"
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            run_id = await submit(client, await make_task(client), script, timeout="20s", grace_period=10)
            await wait_for_line(client, run_id, "first words")
            status = (await wait_for(client, run_id, "ERROR"))["status"]
            assert (status["reason"], status["message"]) == ("timeout.run", "the job took longer than timeout: 20s")
            assert await read_whole_log(client, run_id) == "first words\nlast words\n"
            assert (await list_live_pods(cluster, namespace)) == []


async def test_run_ends_in_error_when_no_node_takes_it_within_its_pending_timeout(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            task = await make_task(client)
            run_id = await submit(client, task, "true", resources={"cpu": "1000"}, pending_timeout="3s")
            status = (await wait_for(client, run_id, "ERROR"))["status"]
            message = "the run waited for its resources longer than pending_timeout: 3s"
            assert (status["reason"], status["message"]) == ("timeout.pending", message)
            assert "RUNNING" not in [transition["status"] for transition in status["transitions"]]
            await wait_until_left(cluster, namespace, "jobs,pods,secrets", [])


async def test_deployment_runs_until_it_is_stopped_when_its_action_is_deploy(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            run_id = await submit(client, await make_task(client, action="deploy"), "echo up; exec sleep 600")
            run = await wait_for(client, run_id, "RUNNING")
            assert "service" not in run["status"]
            await wait_for_line(client, run_id, "up")
            assert len(await list_live_pods(cluster, namespace)) == 1
            assert cluster.kubectl("get", "services", "-n", namespace, "-o", "name") == ""
            stopped = await client.post(f"{BASE}/runs/{run_id}/stop")
            assert stopped.status_code == 200, stopped.text
            status = (await wait_for(client, run_id, "STOPPED"))["status"]
            assert status["reason"] == "user.stop"
            assert await list_live_pods(cluster, namespace) == []


async def test_service_answers_again_when_it_was_stopped_and_resumed_and_leaves_nothing_when_deleted(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    # It ignores SIGTERM, so that its grace period can be seen.
    script = "trap '' TERM; echo hello > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
    ports = {"service_ports": [{"port": 80, "target_port": 8080}]}
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            task = await make_task(client, action="serve")
            run_id = await submit(client, task, script, grace_period=GRACE_SECONDS, **ports)
            run = await wait_for(client, run_id, "RUNNING")
            assert await get_page(run) == "hello\n"

            assert (await client.post(f"{BASE}/runs/{run_id}/stop")).status_code == 200
            stopped = await wait_for(client, run_id, "STOPPED")
            assert stopped["status"]["reason"] == "user.stop"
            assert "service" not in stopped["status"]
            assert await list_live_pods(cluster, namespace) == []

            resumed = await client.post(f"{BASE}/runs/{run_id}/resume")
            assert resumed.status_code == 200, resumed.text
            assert await get_page(await wait_for(client, run_id, "RUNNING")) == "hello\n"

            assert (await client.delete(f"{BASE}/runs/{run_id}")).status_code == 200
            (ending,) = await wait_for_ending_pods(cluster, namespace)
            assert ending["metadata"]["deletionGracePeriodSeconds"] == GRACE_SECONDS
            await wait_until_gone(client, run_id)
            # The cluster collects what the anchor owned; every namespace has the certificate of its cluster.
            await wait_until_left(cluster, namespace, LEFT, ["configmap/kube-root-ca.crt"])


async def test_stable_name_leads_to_the_old_run_until_the_new_one_is_ready(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            task = await make_task(client, action="serve")

            async def serve(page: str, **spec: Any) -> str:
                script = f"echo {page} > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
                return await submit(client, task, script, service_name="api", **spec)

            old = await wait_for(client, await serve("old"), "RUNNING")
            (alias,) = old["status"]["service"]["aliases"]
            name = alias.partition(".")[0]
            address = cluster.kubectl("get", "service", name, "-n", namespace, "-o", "jsonpath={.spec.clusterIP}")
            await wait_for_page(address, "old\n")

            broken = await serve("broken", image="127.0.0.1:1/none/none:1")
            await wait_for_reason(client, broken, "image.unreachable")
            await wait_for_page(address, "old\n")

            new = await serve("new")
            await wait_for(client, new, "RUNNING")
            await wait_for_page(address, "new\n")
            assert (await get_run(client, broken))["status"]["state"] == "PENDING"


async def wait_for_page(address: str, expected: str) -> None:
    """Until the name is answered like that; a switch reaches kube-proxy a moment later."""
    async with asyncio.timeout(SECONDS), httpx2.AsyncClient(trust_env=False) as client:
        while True:
            try:
                answer = await client.get(f"http://{address}:8080/index.html")
            except httpx2.TransportError:
                answer = None
            if answer is not None and answer.text == expected:
                return
            await asyncio.sleep(0.2)


async def wait_for_reason(client: httpx2.AsyncClient, run_id: str, reason: str) -> None:
    """Until the run, which does not end, says why it waits."""
    async with asyncio.timeout(SECONDS):
        while True:
            if (await get_run(client, run_id))["status"].get("reason") == reason:
                return
            await asyncio.sleep(0.2)


async def get_page(run: dict[str, Any]) -> str:
    """What the service answers at its cluster address; waits for kube-proxy, not for the service."""
    service = run["status"]["service"]
    url = f"http://{service['clusterIP']}:{service['ports'][0]['port']}/index.html"
    async with asyncio.timeout(SECONDS), httpx2.AsyncClient(trust_env=False) as client:
        while True:
            try:
                answer = await client.get(url)
            except httpx2.TransportError:
                await asyncio.sleep(0.2)
            else:
                assert answer.status_code == 200, answer.text
                return answer.text


async def list_live_pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """The pods of the namespace that have not ended."""
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as client:
        pods = (await client.list(PODS, namespace=namespace)).items
    return [pod for pod in pods if pod["status"]["phase"] not in ("Succeeded", "Failed")]


async def wait_for_ending_pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """The pods of the namespace once one of them is being deleted."""
    async with asyncio.timeout(SECONDS):
        while True:
            pods = await list_live_pods(cluster, namespace)
            if ending := [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]:
                return ending
            await asyncio.sleep(0.1)


async def wait_until_left(cluster: Cluster, namespace: str, kinds: str, names: list[str]) -> None:
    """Until the namespace has no other objects of those kinds."""
    async with asyncio.timeout(SECONDS):
        while cluster.kubectl("get", kinds, "-n", namespace, "-o", "name").split() != names:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
