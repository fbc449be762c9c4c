"""An operator's quota and defaults of projects, from the command line of the server to pods that wait for room."""

from pathlib import Path
from typing import Any

import pytest

from testbed.cluster import Cluster
from tests.cluster.proof.proof_core import open_project, run_proof_core

pytestmark = pytest.mark.long
SETTINGS = (
    *("--project-quota", "requests.cpu=200m,requests.memory=1Gi"),
    *("--project-default-requests", "memory=32Mi"),
    *("--project-default-limits", "memory=64Mi"),
)


def make_program(script: str) -> dict[str, Any]:
    return {"command": "sh", "args": ["-c", script], "resources": {"cpu": {"requests": "150m"}}, "grace_period": 1}


async def test_run_waits_with_the_figures_until_another_of_its_project_makes_room(
    cluster: Cluster, tmp_path: Path
) -> None:
    with run_proof_core(cluster, tmp_path, *SETTINGS) as core:
        async with open_project(cluster, core) as project:
            await project.submit(project.make_run("first", **make_program("exec sleep 600")))
            await project.wait_for("first", "RUNNING")
            await project.submit(project.make_run("second", **make_program("echo there is room")))
            waiting = await project.wait_until("second", lambda status: status.get("reason") == "quota.exceeded")
            assert waiting["status"]["state"] == "PENDING"
            assert "requests.cpu: 150m requested, 150m of 200m used" in waiting["status"]["message"]
            (pod,) = await project.list_pods("first")
            (container,) = pod["spec"]["containers"]
            assert container["resources"]["requests"] == {"cpu": "150m", "memory": "32Mi"}
            assert container["resources"]["limits"] == {"memory": "64Mi"}
            effective = await project.call("GET", f"/api/v1/-/{project.name}/runs/first/effective")
            owners = {each["path"]: each["set_by"] for each in effective["provenance"]}
            assert owners["resources.mem.requests"] == "cluster"
            await project.stop("first")
            await project.finish(["second"])
            assert await project.read_log("second") == "there is room\n"
