"""Logs through a whole server on a real cluster: live, whole after stops and kills, or a gap that says why."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import aiohttp
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
)
from tests.core_process import CoreProcess

Pods = list[dict[str, Any]]
QUIET_RUNS = 10
QUIET_LINES = 10
COUNT = "i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo $i; {between}; done"
LAST_WORDS = "trap 'for i in 1 2 3; do echo last $i; sleep 0.1; done; exit 0' TERM; "


def count_lines(lines: int, *, between: str = "true") -> str:
    """A script that writes the numbers from 1."""
    return COUNT.format(lines=lines, between=between)


def expect_lines(lines: int) -> str:
    return "".join(f"{number}\n" for number in range(1, lines + 1))


@asynccontextmanager
async def use_server(
    cluster: Cluster, namespace: str, folder: Path
) -> AsyncIterator[tuple[CoreProcess, httpx2.AsyncClient, str]]:
    """A server with a project and a task for jobs."""
    with run_cluster_core(cluster, namespace, folder) as core:
        async with core.client() as client:
            await make_project(client)
            yield core, client, await make_task(client)


async def follow(client: httpx2.AsyncClient, run_id: str, *, offset: int = 0) -> AsyncIterator[bytes]:
    """The chunks of a followed log."""
    parameters = {"follow": "true", **({"offset": str(offset)} if offset else {})}
    async with client.stream("GET", f"{BASE}/runs/{run_id}/log", params=parameters, timeout=SECONDS) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for chunk in answer.aiter_bytes():
            yield chunk


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_lines_of_all_runs_are_seen_before_the_end_of_the_flood_when_another_run_floods_its_log(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """How late each line is, `python -m bench cluster --only follow` measures."""
    async with use_server(cluster, namespace, tmp_path) as (_, client, task):
        flood = await submit(client, task, "exec yes flood-flood-flood-flood", resources={"cpu": "500m"})
        before = await wait_for_size(client, flood, at_least=1_000_000)
        script = count_lines(QUIET_LINES, between="sleep 0.2")
        quiet = [await submit(client, task, script) for _ in range(QUIET_RUNS)]

        async def read(run_id: str) -> bytes:
            await wait_for(client, run_id, "RUNNING", "COMPLETED")
            return b"".join([chunk async for chunk in follow(client, run_id)])

        texts = await asyncio.gather(*(read(run_id) for run_id in quiet))
        assert [text.decode() for text in texts] == [expect_lines(QUIET_LINES)] * QUIET_RUNS
        assert (await get_run(client, flood))["status"]["state"] == "RUNNING"
        await wait_for_size(client, flood, at_least=before + 1)
        assert (await client.post(f"{BASE}/runs/{flood}/stop")).status_code == 200


async def wait_for_size(client: httpx2.AsyncClient, run_id: str, *, at_least: int) -> int:
    """How much of a log is stored, once it is so much."""
    async with asyncio.timeout(SECONDS):
        while True:
            answer = await client.get(f"{BASE}/runs/{run_id}/log", params={"tail": "0"})
            size = int(answer.headers.get("X-Log-Offset", 0))
            if size >= at_least:
                return size
            await asyncio.sleep(0.2)


@pytest.mark.timeout(180)
async def test_followed_log_is_resumed_by_offset_when_the_server_is_killed(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    lines = 120
    content = b""
    async with use_server(cluster, namespace, tmp_path) as (core, client, task):
        run_id = await submit(client, task, count_lines(lines, between="echo same; sleep 0.1"))
        await wait_for(client, run_id, "RUNNING")
        try:
            async for chunk in follow(client, run_id):
                content += chunk
                if len(content) > 150:
                    core.kill()
        except httpx2.TransportError:
            pass
    assert content
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            async for chunk in follow(client, run_id, offset=len(content)):
                content += chunk
            await wait_for(client, run_id, "COMPLETED")
    assert content.decode() == "".join(f"{number}\nsame\n" for number in range(1, lines + 1))


async def test_no_line_is_lost_when_a_job_is_stopped(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async with use_server(cluster, namespace, tmp_path) as (_, client, task):
        script = LAST_WORDS + count_lines(100_000, between="sleep 0.05 & wait $!")
        run_id = await submit(client, task, script, grace_period=10)
        await wait_for(client, run_id, "RUNNING")
        await wait_for_line(client, run_id, "20")
        assert (await client.post(f"{BASE}/runs/{run_id}/stop")).status_code == 200
        await wait_for(client, run_id, "STOPPED")
        log = await read_whole_log(client, run_id)
    *numbers, first, second, third = log.splitlines()
    assert (first, second, third) == ("last 1", "last 2", "last 3")
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]


async def test_no_line_is_lost_when_a_service_is_stopped(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async with use_server(cluster, namespace, tmp_path) as (_, client, _task):
        task = await make_task(client, action="serve")
        script = LAST_WORDS + "httpd -p 8080 -h /tmp; " + count_lines(100_000, between="sleep 0.05 & wait $!")
        ports = {"service_ports": [{"port": 8080, "target_port": 8080}]}
        run_id = await submit(client, task, script, grace_period=10, **ports)
        await wait_for(client, run_id, "RUNNING")
        await wait_for_line(client, run_id, "20")
        assert (await client.post(f"{BASE}/runs/{run_id}/stop")).status_code == 200
        await wait_for(client, run_id, "STOPPED")
        log = await read_whole_log(client, run_id)
    *numbers, first, second, third = log.splitlines()
    assert (first, second, third) == ("last 1", "last 2", "last 3")
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]


async def test_no_line_is_lost_when_objects_are_to_be_deleted_a_second_after_the_end(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    async with use_server(cluster, namespace, tmp_path) as (_, client, task):
        run_id = await submit(client, task, "seq 1 50000; sleep 1; printf end", ttl="1s")
        await wait_for(client, run_id, "COMPLETED")
        log = await read_whole_log(client, run_id)
        await wait_for_pods(cluster, namespace, lambda pods: not pods)
    assert log == expect_lines(50_000) + "end"


async def wait_for_pods(cluster: Cluster, namespace: str, is_right: Callable[[Pods], bool]) -> Pods:
    """The pods of the namespace, once they are as they should be."""
    async with asyncio.timeout(SECONDS), Client.connect(load_kubeconfig(cluster.kubeconfig)) as client:
        while True:
            pods = (await client.list(PODS, namespace=namespace)).items
            if is_right(pods):
                return pods
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("was_seen", [True, False])
@pytest.mark.timeout(240)
async def test_gap_has_span_and_cause_when_a_pod_was_deleted_while_no_server_lived(
    cluster: Cluster, namespace: str, tmp_path: Path, *, was_seen: bool
) -> None:
    script = "echo begin; until [ -e /tmp/end ]; do sleep 0.1; done; echo end; sleep 1"
    async with use_server(cluster, namespace, tmp_path) as (core, client, task):
        run_id = await submit(client, task, script, backoff_limit=3)
        if was_seen:
            await wait_for(client, run_id, "RUNNING")
            async for chunk in follow(client, run_id):
                if b"begin" in chunk:
                    break
        else:
            await wait_for_pods(cluster, namespace, lambda pods: len(pods) == 1)
        core.kill()
    # The first pod may have been seen; the second one is not, unless it is the last.
    for _ in range(1 if was_seen else 2):
        await delete_running_pod(cluster, namespace)
    (last,) = await wait_for_pods(cluster, namespace, lambda pods: list_phases(pods) == ["Running"])
    cluster.kubectl("exec", "--namespace", namespace, last["metadata"]["name"], "--", "touch", "/tmp/end")
    await wait_for_pods(cluster, namespace, lambda pods: list_phases(pods) == ["Succeeded"])
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await wait_for(client, run_id, "COMPLETED")
            log = await read_whole_log(client, run_id)
    gaps = [mark for mark in find_marks(log) if "gap" in mark]
    assert "begin\nend\n" in log
    causes = {str(mark["gap"]).partition(":")[0] for mark in gaps}
    assert causes == {"pod deleted"}, log
    assert all(mark["since"] < mark["until"] for mark in gaps)


@pytest.mark.long
@pytest.mark.parametrize("evicts", ["node", "API"])
@pytest.mark.timeout(420)
async def test_gap_has_span_and_cause_when_a_pod_was_evicted_while_no_server_lived(
    cluster: Cluster, namespace: str, tmp_path: Path, evicts: Literal["node", "API"]
) -> None:
    """A node that evicts a pod leaves it there, as failed. The API's eviction deletes it, and no object says why."""
    script = "echo begin; until [ -e /tmp/end ]; do sleep 0.1; done; echo end; sleep 1"
    scratch = {"name": "data", "volume_type": "empty_dir", "mount_path": "/data", "spec": {"size_limit": "1Mi"}}
    async with use_server(cluster, namespace, tmp_path) as (core, client, task):
        run_id = await submit(client, task, script, volumes=[scratch], backoff_limit=1)
        await wait_for_line(client, run_id, "begin")
        core.kill()
    (first,) = await wait_for_pods(cluster, namespace, lambda pods: list_phases(pods) == ["Running"])
    name, uid = first["metadata"]["name"], first["metadata"]["uid"]
    if evicts == "node":
        fill = ("dd", "if=/dev/zero", "of=/data/big", "bs=1M", "count=20")
        cluster.kubectl("exec", "--namespace", namespace, name, "--", *fill)
    else:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        cluster.kubectl("create", "--raw", path, "--filename", "-", stdin=json.dumps(body))
    async with asyncio.timeout(300):  # a node measures volumes once a minute
        while list((cluster.directory / "pod-logs").glob(f"*_{uid}")):  # noqa: ASYNC110 - the node does it
            await asyncio.sleep(0.5)

    def find_next(pods: Pods) -> Pods:
        """The first pod may still be listed as running when its log is gone."""
        return [pod for pod in pods if pod["metadata"]["uid"] != uid and pod["status"]["phase"] == "Running"]

    (last,) = find_next(await wait_for_pods(cluster, namespace, lambda pods: bool(find_next(pods))))
    cluster.kubectl("exec", "--namespace", namespace, last["metadata"]["name"], "--", "touch", "/tmp/end")
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await wait_for(client, run_id, "COMPLETED")
            log = await read_whole_log(client, run_id)
    gaps = [mark for mark in find_marks(log) if "gap" in mark]
    causes = [mark["gap"].partition(":")[0] for mark in gaps]
    assert causes == ["pod evicted" if evicts == "node" else "pod deleted"], log
    assert gaps[0]["since"] < gaps[0]["until"]
    assert "begin\nend\n" in log


@pytest.mark.timeout(240)
async def test_replica_that_no_server_saw_is_a_gap_when_it_was_replaced(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    script = "echo begin; httpd -f -p 8080 -h /tmp"
    async with use_server(cluster, namespace, tmp_path) as (core, client, _task):
        task = await make_task(client, action="serve")
        run_id = await submit(client, task, script, service_ports=[{"port": 8080, "target_port": 8080}])
        await wait_for(client, run_id, "RUNNING")
        core.kill()
    await delete_running_pod(cluster, namespace)
    unseen = await delete_running_pod(cluster, namespace)
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client, asyncio.timeout(SECONDS):
            while True:
                log = await client.get(f"{BASE}/runs/{run_id}/log", params={"pod": unseen})
                gaps = [mark for mark in find_marks(log.text) if "gap" in mark]
                if gaps:
                    break
                await asyncio.sleep(0.2)
    (gap,) = gaps
    assert gap["gap"].startswith("pod deleted")
    assert gap["since"] < gap["until"]


def find_marks(log: str) -> list[dict[str, Any]]:
    """The JSON in the marked lines of a log."""
    return [json.loads(match[1]) for match in re.finditer(r"^#runyard-\w+ (\{.*\})$", log, flags=re.MULTILINE)]


def list_phases(pods: Pods) -> list[str]:
    return [pod["status"]["phase"] for pod in pods]


async def delete_running_pod(cluster: Cluster, namespace: str) -> str:
    """Delete the only pod of a run once it runs, as somebody else would; returns its name once there is a next one."""
    (pod,) = await wait_for_pods(cluster, namespace, lambda pods: list_phases(pods) == ["Running"])
    name = pod["metadata"]["name"]
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as client:
        await client.delete(PODS, name, namespace=namespace, grace_period_seconds=0)
    await wait_for_pods(cluster, namespace, lambda pods: any(one["metadata"]["name"] != name for one in pods))
    return str(name)


async def test_command_answers_through_the_api_when_its_run_is_on_a_cluster(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    async with use_server(cluster, namespace, tmp_path) as (core, client, task):
        run_id = await submit(client, task, "sleep 600")
        await wait_for(client, run_id, "RUNNING")
        url = f"{core.url}{BASE}/runs/{run_id}/exec"
        parameters = [("command", "cat"), ("stdin", "true")]
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(url, params=parameters, protocols=["v5.channel.k8s.io"]) as socket,
        ):
            await socket.send_bytes(b"\0hello")
            await socket.send_bytes(b"\xff\0")
            messages = [message.data async for message in socket]
        assert b"".join(data[1:] for data in messages if data[0] == 1) == b"hello"
        assert json.loads(messages[-1][1:])["status"] == "Success"
        assert (await get_run(client, run_id))["status"]["state"] == "RUNNING"
        usage = await client.get(f"{BASE}/runs/{run_id}/usage")
        assert usage.status_code == 200, usage.text
        assert [one["container"] for one in usage.json()["containers"]] == ["main"]


async def test_output_and_port_are_reached_through_the_api_when_a_run_is_on_a_cluster(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    script = "echo hello > /tmp/index.html; httpd -p 8080 -h /tmp; while true; do echo tick; sleep 0.2; done"
    async with use_server(cluster, namespace, tmp_path) as (core, client, task):
        run_id = await submit(client, task, script)
        await wait_for(client, run_id, "RUNNING")
        url = f"{core.url}{BASE}/runs/{run_id}"
        async with aiohttp.ClientSession() as http, asyncio.timeout(SECONDS):
            async with http.ws_connect(f"{url}/attach", protocols=["v5.channel.k8s.io"]) as socket:
                assert (await socket.receive_bytes()).startswith(b"\1tick")
            answer = b""
            while b"hello" not in answer:  # until httpd listens
                answer = await get_through_port(http, f"{url}/portforward?port=8080")
        assert answer.startswith(b"HTTP/1.")


async def get_through_port(http: aiohttp.ClientSession, url: str) -> bytes:
    """The answer of the server in the pod to one request."""
    async with http.ws_connect(url, protocols=["v5.channel.k8s.io"]) as socket:
        await socket.send_bytes(b"\0GET /index.html HTTP/1.0\r\n\r\n")
        return b"".join([message.data[1:] async for message in socket if message.data[:1] == b"\0"])
