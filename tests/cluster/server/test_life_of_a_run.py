"""A run through the API of a whole server to a pod of a real cluster, and back."""

import json
from pathlib import Path

from testbed.cluster import Cluster
from tests.cluster.server.cluster_core import (
    BASE,
    list_jobs,
    make_project,
    make_run,
    make_task,
    read_whole_log,
    run_cluster_core,
    submit,
    wait_for,
    wait_for_line,
    wait_until_gone,
)


async def test_run_is_completed_with_its_log_when_its_pod_succeeds(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            task = await make_task(client)
            run_id = await submit(client, task, "seq 1 500; echo done")
            run = await wait_for(client, run_id, "COMPLETED")
            assert run["status"]["pods"]
            log = await read_whole_log(client, run_id)
            assert log.splitlines() == [*(str(number) for number in range(1, 501)), "done"]
            assert len(list_jobs(cluster, namespace)) == 1
            assert cluster.kubectl("get", "secrets", "-n", namespace, "-o", "name") == ""


async def test_reason_has_the_exit_code_when_its_pod_fails(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            run_id = await submit(client, await make_task(client), "echo no; exit 7")
            run = await wait_for(client, run_id, "ERROR")
            assert run["status"]["reason"] == "run.failed"
            assert "7" in run["status"]["message"]
            assert await read_whole_log(client, run_id) == "no\n"


async def test_nothing_is_left_when_a_run_is_stopped_and_deleted(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    script = "trap 'echo last words; exit 3' TERM; echo first words; while true; do sleep 0.1; done"
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            run_id = await submit(client, await make_task(client), script)
            await wait_for(client, run_id, "RUNNING")
            await wait_for_line(client, run_id, "first words")
            described = (await client.get(f"{BASE}/runs/{run_id}", params={"describe": "true"})).json()["status"]["k8s"]
            told = [(event["involvedObject"]["kind"], event["reason"]) for event in described["events"]]
            assert {("Job", "SuccessfulCreate"), ("Pod", "Scheduled"), ("Pod", "Started")} <= set(told)
            assert [one["metadata"]["name"] for one in described["pods"]]
            stopped = await client.post(f"{BASE}/runs/{run_id}/stop")
            assert stopped.status_code == 200, stopped.text
            await wait_for(client, run_id, "STOPPED")
            assert await read_whole_log(client, run_id) == "first words\nlast words\n"
            assert (await client.delete(f"{BASE}/runs/{run_id}")).status_code == 200
            await wait_until_gone(client, run_id)
            left = cluster.kubectl("get", "jobs,pods,secrets,services", "-n", namespace, "-o", "name")
            assert left == ""


async def test_what_the_cluster_fills_in_is_shown_as_its_own_when_a_run_leaves_it_blank(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    limit = {"type": "Container", "default": {"memory": "96Mi"}, "defaultRequest": {"cpu": "30m", "memory": "48Mi"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": [limit]}}
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(limits))
    volume = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "10Mi"}}
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            wanted = make_run(await make_task(client), "sleep 600", resources={"cpu": "20m"}, volumes=[volume])
            explained = await client.post(f"{BASE}/runs/explain", json=wanted)
            assert explained.status_code == 200, explained.text
            own = {row["path"]: row for row in explained.json()["provenance"] if row["set_by"] == "cluster"}
            assert own["resources.mem.limits"]["source"] == "LimitRange small"
            submitted = await client.post(f"{BASE}/runs", json=wanted)
            assert submitted.status_code == 200, submitted.text
            await wait_for(client, wanted["id"], "RUNNING")
            (pod,) = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-o", "json"))["items"]
            (claim,) = json.loads(cluster.kubectl("get", "pvc", "-n", namespace, "-o", "json"))["items"]
    resources = pod["spec"]["containers"][0]["resources"]
    assert {path: row["value"] for path, row in own.items()} == {
        "resources.mem.limits": resources["limits"]["memory"],
        "resources.mem.requests": resources["requests"]["memory"],
        "volumes.data.storage_class": claim["spec"]["storageClassName"],
    }
