"""The server is killed at instants between any two of its calls, and started again: one Job, right state, whole log."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from testbed.cluster import Cluster
from tests.api_gate import ApiGate
from tests.cluster.server.cluster_core import (
    BASE,
    get_run,
    list_jobs,
    make_project,
    make_run,
    make_task,
    read_whole_log,
    run_cluster_core,
    wait_for,
)
from tests.core_process import run_core

SCRIPT = "for number in $(seq 1 20); do echo $number; sleep 0.1; done; exit {code}"
EXPECTED = "".join(f"{number}\n" for number in range(1, 21))
RUNS = 4


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_each_run_has_one_job_and_its_whole_log_when_the_server_is_killed_again_and_again(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    codes = {f"run-{number}": number % 2 for number in range(RUNS)}
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            task = await make_task(client)
            for run_id, code in codes.items():
                run = make_run(task, SCRIPT.format(code=code), run_id=run_id, backoff_limit=0)
                assert (await client.post(f"{BASE}/runs", json=run)).status_code == 200
        await asyncio.sleep(0.05)
        core.kill()
    for seconds in (0.3, 1.0, 1.6):
        with run_cluster_core(cluster, namespace, tmp_path) as core:
            await asyncio.sleep(seconds)
            core.kill()
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            for run_id, code in codes.items():
                await wait_for(client, run_id, "ERROR" if code else "COMPLETED")
                assert await read_whole_log(client, run_id) == EXPECTED, run_id
    labels = [job["metadata"]["labels"]["runyard.io/run"] for job in list_jobs(cluster, namespace)]
    assert sorted(labels) == sorted(codes)
    pods = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-o", "json"))["items"]
    assert len(pods) == RUNS


async def test_runs_stay_as_they_are_when_the_apiserver_cannot_be_reached_for_a_while(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    gate = ApiGate(cluster.server)
    await gate.open()
    kubeconfig = gate.write_kubeconfig(cluster, tmp_path / "kubeconfig")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(gate.close)
        # On a thread: the gate is this event loop's, and the server comes through it while it starts.
        starting = run_cluster_core(cluster, namespace, tmp_path, kubeconfig=kubeconfig)
        core = await asyncio.to_thread(stack.enter_context, starting)
        client = await stack.enter_async_context(core.client())
        await make_project(client)
        run = make_run(await make_task(client), "sleep 6; echo done", run_id="waits")
        assert (await client.post(f"{BASE}/runs", json=run)).status_code == 200
        await wait_for(client, "waits", "RUNNING")
        await gate.close()
        for _ in range(10):
            assert (await get_run(client, "waits"))["status"]["state"] == "RUNNING"
            await asyncio.sleep(0.2)
        await gate.open()
        await wait_for(client, "waits", "COMPLETED")
        assert await read_whole_log(client, "waits") == "done\n"


def test_start_fails_with_the_address_when_the_cluster_cannot_be_reached(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    flags = ("--engine", "kubernetes", "--kubeconfig", str(kubeconfig))
    with (
        pytest.raises(AssertionError, match=r"cannot use the cluster https://127\.0\.0\.1:9"),
        run_core(*flags, folder=tmp_path),
    ):
        pass
