"""Private images: pulled with the credentials of the project, and the registry's words where they are wrong."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from testbed import images
from testbed.cluster import Cluster
from tests.cluster.private_registry import PrivateRegistry, render_docker_config, serve_registry
from tests.cluster.server.cluster_core import (
    BASE,
    PROJECT,
    SECONDS,
    get_run,
    make_project,
    read_whole_log,
    run_cluster_core,
    wait_for,
)
from tests.cluster.server.python_core import submit_task

SECRET = "DOCKER_AUTH_CONFIG"


@pytest.fixture
def registry(cluster: Cluster) -> Iterator[PrivateRegistry]:
    registry = PrivateRegistry(user="ada", password="hunter2")
    with serve_registry(registry, address=cluster.site.addresses.host_ip):
        cluster.allow_plain_registry(registry.host)
        yield registry


def make_own_image(folder: Path) -> images.Image:
    """An image that no other pod uses: the kubelet remembers that it was pulled with credentials, by its content."""
    content = folder / "content"
    content.write_text(uuid4().hex)
    return images.ensure_launcher(content, tag="localhost/private:1")


async def make_image_task(client: httpx2.AsyncClient, image: str) -> str:
    """A container function of an image, and its task; returns the reference of the task."""
    made = await client.post(f"{BASE}/functions", json={"kind": "container", "name": "f", "spec": {"image": image}})
    assert made.status_code == 200, made.text
    reference = f"container://{PROJECT}/f:{made.json()['id']}"
    task = await client.post(f"{BASE}/tasks", json={"kind": "container+job", "spec": {"function": reference}})
    assert task.status_code == 200, task.text
    return f"container+job://{PROJECT}/{task.json()['id']}"


async def put_credentials(client: httpx2.AsyncClient, text: str) -> httpx2.Response:
    return await client.put(f"{BASE}/secrets/data", json={SECRET: text})


async def wait_until_image_is_refused(client: httpx2.AsyncClient, run_id: str) -> str:
    """What the run says of its image; the run is stopped then, because the kubelet would try again and again."""
    async with asyncio.timeout(SECONDS):
        while True:
            status = (await get_run(client, run_id))["status"]
            if status.get("reason") == "image.refused":
                break
            assert status.get("reason") != "image.unreachable", status
            await asyncio.sleep(0.2)
    assert (await client.post(f"{BASE}/runs/{run_id}/stop")).status_code == 200
    await wait_for(client, run_id, "STOPPED")
    return str(status["message"])


async def wait_until_secrets(cluster: Cluster, namespace: str, is_right: Callable[[str], bool]) -> None:
    """Until the namespace has such registry credentials, all in one text."""
    template = "go-template={{range .items}}{{range .data}}{{. | base64decode}}{{end}}{{end}}"
    async with asyncio.timeout(SECONDS):
        while not is_right(cluster.kubectl("get", "secrets", "-n", namespace, "-o", template)):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def test_private_image_runs_when_the_project_knows_the_password(
    cluster: Cluster, namespace: str, registry: PrivateRegistry, tmp_path: Path
) -> None:
    image = registry.add("team/tool", "1.0", make_own_image(tmp_path))
    spec = {"command": "cp", "args": ["/launcher.pyz", "/dev/null"], "run_as_user": 1000}
    with run_cluster_core(cluster, namespace, tmp_path) as core:
        async with core.client() as client:
            await make_project(client)
            task = await make_image_task(client, image)
            message = await wait_until_image_is_refused(client, await submit_task(client, task, **spec))
            assert image in message
            assert "401 Unauthorized" in message
            assert registry.pulls == 0

            made = await client.post(f"{BASE}/secrets", json={"kind": "secret", "name": SECRET})
            assert made.status_code == 200, made.text
            refused = await put_credentials(client, "hunter2")
            assert refused.status_code == 400
            assert "hunter2" not in refused.text
            assert (await put_credentials(client, render_docker_config(registry, password="wrong"))).status_code == 200
            message = await wait_until_image_is_refused(client, await submit_task(client, task, **spec))
            assert "401 Unauthorized" in message

            assert (await put_credentials(client, render_docker_config(registry))).status_code == 200
            run = await wait_for(client, await submit_task(client, task, **spec), "COMPLETED")
            assert run["status"]["state"] == "COMPLETED"
            assert registry.pulls > 0
            await read_whole_log(client, run["id"])  # the run is settled: its own Secret is gone
            secrets = cluster.kubectl("get", "secrets", "-n", namespace, "-o", "jsonpath={.items[*].type}")
            assert secrets == "kubernetes.io/dockerconfigjson"

            # What changes is changed in the cluster too, without another run; so is what is deleted.
            (found,) = (await client.get(f"{BASE}/secrets")).json()["content"]
            assert (await put_credentials(client, render_docker_config(registry, password="next"))).status_code == 200
            await wait_until_secrets(cluster, namespace, lambda logins: "next" in logins)
            assert (await client.delete(f"{BASE}/secrets/{found['id']}")).status_code == 200
            await wait_until_secrets(cluster, namespace, lambda logins: not logins)
