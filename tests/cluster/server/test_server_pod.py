"""The server as a pod: `deploy/kubernetes/server.yaml`, installed by the commands of the operator's page."""

import asyncio
import base64
import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx2
import pytest

from runyard.launcher.zipapps import build_zipapp
from runyard.store.schema import list_known_revisions
from testbed import images
from testbed.cluster import Cluster
from testbed.dump import write_dump
from testbed.supervision import PROJECT_ROOT
from tests.cluster.server.cluster_core import SECONDS
from tests.cluster.server.server_image import EXTRAS, USER, ensure_server_image
from tests.core_process import make_client, make_environment
from tests.e2e.guides import define_kubectl, follow, list_commands, read_part

PAGE = PROJECT_ROOT / "docs" / "operators" / "kubernetes.md"
RECIPE = PROJECT_ROOT / "deploy" / "images" / "server" / "Containerfile"
MANIFEST = PROJECT_ROOT / "deploy" / "kubernetes" / "server.yaml"
PROJECT = "from-a-pod"
BASE = f"/api/v1/-/{PROJECT}"
ACCOUNT_OBJECTS = ("clusterrolebindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings")
ENDS = ("COMPLETED", "ERROR", "STOPPED")
FORWARDING = re.compile(rb"127\.0\.0\.1:(\d+) -> 8080")
CODE = """
def main(name: str):
    print("greeting", name)
    return {"greeting": f"hello {name}"}
"""

TO_OLDER_RELEASE = """
import sqlite3
database = sqlite3.connect("/data/runyard.db", timeout=30)
database.execute("DROP TABLE uploads")
database.execute("UPDATE alembic_version SET version_num = '0004'")
database.commit()
"""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def installed(
    cluster: Cluster, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The cluster, with a server in it; the images have the names that the manifest has."""
    manifest = MANIFEST.read_text()
    (server_tag,) = set(re.findall(r"image: (\S+)", manifest))
    (launcher_tag,) = re.findall(r"--launcher-image=(\S+)", manifest)
    folder = tmp_path_factory.mktemp("image")
    (folder / "launcher.pyz").write_bytes(build_zipapp())
    cluster.load_image(images.ensure_launcher(folder / "launcher.pyz", tag=launcher_tag).archive)
    cluster.load_image(ensure_server_image(folder / "site-packages", tag=server_tag).archive)
    definitions = define_kubectl(cluster.directory / "bin", cluster.kubeconfig)
    failed_before = request.session.testsfailed
    try:
        commands = list_commands(read_part(PAGE, "in the cluster"))
        assert len(commands) == 4
        follow(commands, definitions=definitions, folder=PROJECT_ROOT, seconds=300)
        yield cluster
    finally:
        if request.session.testsfailed > failed_before:
            write_dump(cluster, "runyard", into=PROJECT_ROOT / ".artifacts" / "failed-tests" / "server-pod")
        cluster.kubectl("delete", "namespace", "runyard", "--timeout=120s")
        for kind in ACCOUNT_OBJECTS:
            named = cluster.kubectl("get", kind, "--output=name").split()
            own = [name for name in named if name.endswith(".runyard.runyard")]
            cluster.kubectl("delete", *own)


@contextmanager
def forward(cluster: Cluster) -> Iterator[str]:
    """The address of the Service on this machine, by `kubectl port-forward`."""
    kubectl = [str(cluster.directory / "bin/kubectl"), f"--kubeconfig={cluster.kubeconfig}", "--namespace=runyard"]
    argv = [*kubectl, "port-forward", "service/runyard", ":8080"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=make_environment()) as forwarding:
        try:
            assert forwarding.stdout is not None
            found = FORWARDING.search(forwarding.stdout.readline())
            assert found is not None
            yield f"http://127.0.0.1:{found[1].decode()}"
        finally:
            forwarding.kill()


@asynccontextmanager
async def connect(cluster: Cluster) -> AsyncIterator[httpx2.AsyncClient]:
    """The admin, through the Service."""
    encoded = cluster.kubectl("get", "secret", "runyard-admin", "-n", "runyard", "-o", "jsonpath={.data.password}")
    user = ("admin", base64.b64decode(encoded).decode())
    with forward(cluster) as url:
        async with make_client(url, user=user) as client:
            yield client


async def post(client: httpx2.AsyncClient, path: str, **body: object) -> str:
    """Create something; returns its id."""
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


async def wait_for_end(client: httpx2.AsyncClient, run: str) -> dict[str, object]:
    """The status of a run that has ended, and whose log is stored."""
    async with asyncio.timeout(SECONDS):
        while True:
            answer = await client.get(f"{BASE}/runs/{run}")
            assert answer.status_code == 200, answer.text
            status: dict[str, object] = answer.json()["status"]
            if status["state"] in ENDS and status.get("logs") == {"state": "complete"}:
                return status
            await asyncio.sleep(0.2)


def test_image_of_the_tests_is_like_that_of_the_recipe_when_both_are_read() -> None:
    recipe = RECIPE.read_text()
    assert f"'/build[{','.join(EXTRAS)}]'" in recipe
    assert f"\nUSER {USER}:{USER}\n" in recipe
    assert "\nENV PATH=/opt/runyard/bin:$PATH" in recipe, "the manifest calls `runyard` by its name"


async def test_run_completes_with_its_log_when_the_server_is_a_pod_of_the_cluster(installed: Cluster) -> None:
    async with connect(installed) as client:
        await post(client, "/api/v1/projects", kind="project", name=PROJECT)
        source = {"handler": "main", "code": CODE}
        function = {"python_version": "PYTHON3_11", "source": source}
        await post(client, f"{BASE}/functions", kind="python", name="greet", id="greet", spec=function)
        reference = {"function": f"python://{PROJECT}/greet:greet"}
        await post(client, f"{BASE}/tasks", kind="python+job", id="greet", spec=reference)
        spec = {"task": f"python+job://{PROJECT}/greet", "parameters": {"name": "Ada"}, "run_as_user": 1000}
        run = await post(client, f"{BASE}/runs", kind="python+job:run", spec=spec)
        status = await wait_for_end(client, run)
        assert (status["state"], status["results"]) == ("COMPLETED", {"greeting": "hello Ada"}), status
        log = await client.get(f"{BASE}/runs/{run}/log", params={"container": "main"})
        assert log.text == "greeting Ada\n"
    in_cluster = installed.kubectl("get", "jobs", f"--namespace=runyard-{PROJECT}", "--output=name").split()
    assert len(in_cluster) == 1
    policy = installed.kubectl("get", "networkpolicies", f"--namespace=runyard-{PROJECT}", "--output=json")
    ((_, server),) = [rule["from"] for each in json.loads(policy)["items"] for rule in each["spec"]["ingress"]]
    assert server["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "runyard"}}


async def test_data_and_account_stay_when_a_pod_of_a_newer_release_replaces_that_of_the_server(
    installed: Cluster,
) -> None:
    before = installed.kubectl("get", "pods", "--namespace=runyard", "--output=name").split()
    # What the last migration made is taken away: so the database is of an older release.
    assert list_known_revisions()[-2:] == ["0004", "0005"], "TO_OLDER_RELEASE must undo the last migration"
    installed.kubectl("exec", "deployment/runyard", "--namespace=runyard", "--", "python3", "-c", TO_OLDER_RELEASE)
    installed.kubectl("delete", *before, "--namespace=runyard")
    installed.kubectl("rollout", "status", "deployment/runyard", "--namespace=runyard", "--timeout=300s")
    # The Deployment may not know yet that its pod was deleted.
    installed.kubectl("wait", "pods", "--all", "--for=condition=Ready", "--namespace=runyard", "--timeout=300s")
    after = installed.kubectl("get", "pods", "--namespace=runyard", "--output=name").split()
    assert len(after) == 1
    assert after != before
    upgraded = installed.kubectl("logs", *after, "--namespace=runyard", "--container=upgrade")
    assert "/data/runyard.db backed up to /data/before-upgrade-from-0004.db\n" in upgraded
    assert "/data/runyard.db upgraded from revision 0004 to 0005\n" in upgraded
    async with connect(installed) as client:
        found = await client.get(f"{BASE}/runs")
        assert [run["status"]["state"] for run in found.json()["content"]] == ["COMPLETED"], found.text
        # Its namespace, too: by the rights that the page grants.
        assert (await client.delete(f"/api/v1/projects/{PROJECT}", params={"cascade": "true"})).status_code == 200
        async with asyncio.timeout(SECONDS):
            while (await client.get(f"/api/v1/projects/{PROJECT}")).status_code != 404:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.2)
    assert f"namespace/runyard-{PROJECT}" not in installed.kubectl("get", "namespaces", "--output=name").split()
