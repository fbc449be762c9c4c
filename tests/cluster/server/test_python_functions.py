"""Python functions through the API of a whole server to pods of a real cluster, and back."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import httpx2
import pytest

from testbed.cluster import Cluster
from tests.cluster.engine.python_images import load_python
from tests.cluster.engine.test_launcher_pods import answer_index
from tests.cluster.server.cluster_core import BASE, PROJECT, make_project, read_whole_log, wait_for
from tests.cluster.server.python_core import USER, make_python_task, run_python_core, submit_task
from tests.core_process import CoreProcess
from tests.unit.launcher.lab import FakeServer, serve
from tests.unit.launcher.test_requirements import make_wheel

MIB = 1 << 20
ENDS = ("COMPLETED", "ERROR", "STOPPED")


@pytest.fixture(scope="module")
def index(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A package index inside the testbed, as an operator offers it."""
    wheels = tmp_path_factory.mktemp("wheels")
    make_wheel(wheels, "greeting", requires="politeness")
    make_wheel(wheels, "politeness", version="2.0")
    server = FakeServer(effective={}, host=cluster.site.addresses.host_ip)
    server.answer = lambda request: answer_index(wheels, request.path)
    with serve(server):
        yield f"{server.endpoint}/simple"


@pytest.fixture(scope="module")
def core(cluster: Cluster, index: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    """One server for all tests of this file: each has runs of its own."""
    namespace = f"python-functions-{uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", namespace)
    try:
        cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
        folder = tmp_path_factory.mktemp("core")
        with run_python_core(cluster, namespace, folder, "--package-index", index) as running:
            yield running
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
async def client(core: CoreProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with core.client(user=USER) as client:
        found = await client.get(f"/api/v1/projects/{PROJECT}")
        if found.status_code == 404:
            await make_project(client)
        yield client


async def read_main_log(client: httpx2.AsyncClient, run_id: str) -> str:
    """The output of the function, without that of the init container."""
    await read_whole_log(client, run_id)
    return (await client.get(f"{BASE}/runs/{run_id}/log", params={"container": "main"})).text


REPORTING = """
from pathlib import Path
def main(context, x: int, readings: Path):
    for step in range(3):
        context.log_metric("loss", 1 / (step + 1))
    Path("report.txt").write_text("all is well")
    context.log_artifact("report", "report.txt")
    print("read", readings.read_text())
    return {"next": x + 1}
"""


async def test_results_metrics_and_files_are_stored_when_a_function_reports_from_its_pod(
    client: httpx2.AsyncClient,
) -> None:
    item = {"kind": "dataitem", "name": "readings", "id": "readings"}
    assert (await client.post(f"{BASE}/dataitems", json=item)).status_code == 200
    stored = await client.put(f"{BASE}/dataitems/readings/files/content/readings.csv", content=b"1,2,3")
    assert stored.status_code < 300, stored.text
    task = await make_python_task(client, REPORTING)
    inputs = {"readings": "store://demo/dataitem/dataitem/readings:readings"}
    run_id = await submit_task(client, task, parameters={"x": "41"}, inputs=inputs)
    run = await wait_for(client, run_id, *ENDS)
    assert run["status"]["state"] == "COMPLETED", run["status"]
    assert run["status"]["results"] == {"next": 42}
    assert await read_main_log(client, run_id) == "read 1,2,3\n"
    assert (await client.get(f"{BASE}/runs/{run_id}/metrics")).json() == {"loss": [1.0, 0.5, 1 / 3]}
    artifact = run["status"]["outputs"]["report"].rpartition(":")[2]
    content = await client.get(f"{BASE}/artifacts/{artifact}/files/content/report.txt")
    assert content.text == "all is well"
    assert run["status"]["ends"][0]["peak_bytes"] > MIB


async def test_message_is_the_exception_and_the_log_its_traceback_when_a_function_raises(
    client: httpx2.AsyncClient,
) -> None:
    task = await make_python_task(client, "def main():\n    return {}['missing']\n")
    run_id = await submit_task(client, task)
    run = await wait_for(client, run_id, "ERROR")
    assert (run["status"]["reason"], run["status"]["message"]) == ("run.failed", "KeyError: 'missing' (main.py:2)")
    assert 'File "' in await read_main_log(client, run_id)


async def test_next_request_is_proposed_when_a_function_runs_out_of_memory(client: httpx2.AsyncClient) -> None:
    code = f"def main(count: int):\n    return len([b'x' * {MIB} for _ in range(count)])\n"
    task = await make_python_task(client, code)
    run_id = await submit_task(client, task, parameters={"count": 1000}, resources={"mem": "64Mi"})
    run = await wait_for(client, run_id, "ERROR")
    assert run["status"]["reason"] == "memory.exceeded"
    assert "its limit is about 70.4Mi; try resources.mem: " in run["status"]["message"]
    assert 60 * MIB < run["status"]["ends"][-1]["peak_bytes"] <= 71 * MIB


async def test_service_answers_at_its_address_when_a_function_is_served(
    client: httpx2.AsyncClient, cluster: Cluster
) -> None:
    task = await make_python_task(client, "def main(x: int):\n    return {'twice': 2 * x}\n", action="serve")
    run_id = await submit_task(client, task)
    run = await wait_for(client, run_id, "RUNNING")
    url = run["status"]["service"]["url"]
    code = (
        "import json, time, urllib.request\ndef main(url):\n"
        "    request = urllib.request.Request(url, b'{\"x\": 21}', {'Content-Type': 'application/json'})\n"
        "    for _ in range(60):\n"
        "        try:\n"
        "            return json.load(urllib.request.urlopen(request, timeout=30))\n"
        "        except OSError:\n"
        "            time.sleep(0.5)  # kube-proxy learns of the service a moment later\n"
    )
    asking = await submit_task(client, await make_python_task(client, code), parameters={"url": f"http://{url}"})
    asked = await wait_for(client, asking, *ENDS)
    assert asked["status"]["state"] == "COMPLETED", asked["status"]
    assert asked["status"]["results"] == {"twice": 42}
    assert (await client.post(f"{BASE}/runs/{run_id}/stop")).status_code == 200
    await wait_for(client, run_id, "STOPPED")


async def test_requirements_come_from_the_operators_index_when_a_function_has_some(
    client: httpx2.AsyncClient, cluster: Cluster
) -> None:
    image = await asyncio.to_thread(load_python, cluster)
    code = "import politeness\ndef main():\n    return politeness.VERSION\n"
    task = await make_python_task(client, code, image=image, requirements=["greeting"])
    run = await wait_for(client, await submit_task(client, task), *ENDS)
    assert run["status"]["results"] == {"output_0": "2.0"}, run["status"]
    wrong = await make_python_task(client, code, image=image, requirements=["unheard-of"])
    failed = await wait_for(client, await submit_task(client, wrong), "ERROR")
    assert failed["status"]["reason"] == "environment.failed"
    assert "No matching distribution found for unheard-of" in failed["status"]["message"]


async def test_function_ends_with_grace_when_it_is_stopped(client: httpx2.AsyncClient) -> None:
    code = (
        "import time\ndef main():\n    try:\n        print('begun')\n        time.sleep(600)\n"
        "    finally:\n        print('cleaned up')\n"
    )
    run_id = await submit_task(client, await make_python_task(client, code))
    await wait_for(client, run_id, "RUNNING")
    async with asyncio.timeout(60):
        while "begun" not in (await client.get(f"{BASE}/runs/{run_id}/log")).text:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    assert (await client.post(f"{BASE}/runs/{run_id}/stop")).status_code == 200
    await wait_for(client, run_id, "STOPPED")
    assert (await read_main_log(client, run_id)).splitlines()[:2] == ["begun", "cleaned up"]
