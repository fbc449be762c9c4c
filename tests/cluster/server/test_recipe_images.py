"""The images of `deploy/images/launcher` and `python` as their recipes make them, in a pod of a real cluster."""

import hashlib
import json
from pathlib import Path

import pytest

from runyard.launcher.zipapps import build_zipapp
from testbed import images
from testbed.cluster import Cluster
from tests.cluster.server.cluster_core import make_project, wait_for
from tests.cluster.server.python_core import USER, make_python_task, run_python_core, submit_task
from tests.integration.engines.containers.lab import call, open_runtime
from tests.integration.engines.containers.test_image_recipes import build

IMAGE_USER = 65532
CODE = """
import hashlib, os
def main():
    with open("/runyard/launcher.pyz", "rb") as file:
        return {"user": os.getuid(), "launcher": hashlib.sha256(file.read()).hexdigest()}
"""


@pytest.fixture(scope="module")
def built(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Images that podman built, by their recipes: saved, and loaded into the node."""
    folder = tmp_path_factory.mktemp("recipes")
    names: dict[str, str] = {}
    with open_runtime(folder) as runtime:
        call(runtime, "load", "--quiet", "--input", str(images.ensure_python().archive))
        for recipe in ("launcher", "python"):
            names[recipe], _ = build(runtime, recipe)
            call(runtime, "save", "--quiet", "--output", str(folder / f"{recipe}.tar"), names[recipe])
            cluster.load_image(folder / f"{recipe}.tar")
    return names


async def test_function_runs_as_the_images_user_when_its_pod_has_the_images_of_the_recipes(
    cluster: Cluster, namespace: str, built: dict[str, str], tmp_path: Path
) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    (tmp_path / "own.yaml").write_text(json.dumps({"platform": {"python_images": {"PYTHON3_11": built["python"]}}}))
    options = ("--launcher-image", built["launcher"], "--policy", str(tmp_path / "own.yaml"))
    with run_python_core(cluster, namespace, tmp_path, *options) as core:
        async with core.client(user=USER) as client:
            await make_project(client)
            run_id = await submit_task(client, await make_python_task(client, CODE))
            run = await wait_for(client, run_id, "COMPLETED")
    launcher = hashlib.sha256(build_zipapp()).hexdigest()
    assert run["status"]["results"] == {"user": IMAGE_USER, "launcher": launcher}
