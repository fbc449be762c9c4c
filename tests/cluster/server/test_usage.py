"""Usage of runs through a whole server, on a cluster with a metrics server."""

import asyncio
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from testbed.cluster import Cluster
from testbed.site import Options
from tests.cluster.server.cluster_core import BASE, PROJECT, make_project, make_task, run_cluster_core, submit, wait_for
from tests.core_process import Ended, call_runyard

MEASURE_SECONDS = 180.0
"""How long a metrics server may take to measure a new pod."""


@pytest.fixture
def metrics_cluster(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with a metrics server and storage."""
    options = Options(kubernetes=cluster.site.options.kubernetes, dns=False, metrics=True)
    own = Cluster.up(f"usage-{os.getpid()}", options, outlives_us=False)
    yield own
    own.down()


async def wait_for_usage(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    """The answer of the run, once its memory was measured."""
    async with asyncio.timeout(MEASURE_SECONDS):
        while True:
            answer = await client.get(f"{BASE}/runs/{run_id}/metrics/k8s")
            assert answer.status_code == 200, answer.text
            shown: dict[str, Any] = answer.json()
            if shown["usage"]["memory"]:
                return shown
            await asyncio.sleep(0.5)


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_usage_is_shown_and_its_peak_kept_when_the_cluster_has_a_metrics_server(
    metrics_cluster: Cluster, tmp_path: Path
) -> None:
    volume = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "10Mi"}}
    with run_cluster_core(metrics_cluster, "default", tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            task = await make_task(client)
            script = "until [ -e /tmp/end ]; do sleep 0.2; done"
            run_id = await submit(client, task, script, volumes=[volume])
            await wait_for(client, run_id, "RUNNING")
            shown = await wait_for_usage(client, run_id)
            assert shown["name"] == run_id
            assert set(shown["usage"]) == {"pods", "containers", "cpu", "memory", "disk"}
            assert (shown["usage"]["pods"], shown["usage"]["containers"]) == (1, 1)
            assert shown["usage"]["disk"] == 10 << 20
            of_project = (await client.get(f"/api/v1/projects/{PROJECT}/metrics/k8s")).json()
            assert (of_project["name"], of_project["usage"]["disk"]) == (PROJECT, 10 << 20)
            names = metrics_cluster.kubectl("get", "pods", "-n", "default", "-o", "name").split()
            await asyncio.to_thread(assert_top_shows, core.url, run_id, pod=names[0].removeprefix("pod/"))
            metrics_cluster.kubectl("exec", "-n", "default", names[0], "--", "touch", "/tmp/end")
            run = await wait_for(client, run_id, "COMPLETED")
            (end,) = run["status"]["ends"]
            assert end["peak_bytes"] > 0
            after = (await client.get(f"{BASE}/runs/{run_id}/metrics/k8s")).json()
            assert after["usage"] == {"pods": 0, "containers": 0, "cpu": 0, "memory": 0, "disk": 0}
            assert "no container of project demo runs" in (await asyncio.to_thread(call_top, core.url)).err


def call_top(url: str, *words: str) -> Ended:
    done = call_runyard("top", *words, environment={"RUNYARD_ENDPOINT": url, "RUNYARD_PROJECT": PROJECT})
    assert done.code == 0, done.err
    return done


def assert_top_shows(url: str, run_id: str, *, pod: str) -> None:
    """`runyard top` has the figures of the only container, of one run and of the project."""
    (usage,) = json.loads(call_top(url, run_id, "-o", "json").out)
    assert (usage["run"], usage["pod"]) == (run_id, pod)
    assert usage["memory_bytes"] > 0
    assert 0 <= usage["cpu_cores"] < 64
    for words in ((), (run_id,)):
        head, row = (re.split(r"\s{2,}", line) for line in call_top(url, *words).out.splitlines())
        assert head == ["RUN", "POD", "CONTAINER", "CPU", "MEMORY"]
        assert row[:3] == [run_id, pod, usage["container"]]
        assert re.fullmatch(r"\d+\.\d{3}", row[3]), row
        assert re.fullmatch(r"[\d.]+ [KM]iB|about [\d.]+ [KM]iB \(\d+ bytes\)", row[4]), row
