"""Legal runs that are drawn at random, through the API: each pod is as the effective spec of its run says.

`RUNYARD_PROOF_SEED` draws others, `RUNYARD_PROOF_RUNS` more.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.cluster import Cluster
from testbed.pytest_plugin import kubernetes_version
from tests.cluster.contract.run_generator import POLICY, SECRETS, LegalRun, RunGenerator
from tests.cluster.proof.effective_pods import find_differences
from tests.cluster.proof.proof_core import DEFAULT_USER, Json, ProofProject, open_project, run_proof_core
from tests.core_process import CoreProcess

pytestmark = pytest.mark.timeout(300)

SEED = int(os.environ.get("RUNYARD_PROOF_SEED", "14"))
RUNS = int(os.environ.get("RUNYARD_PROOF_RUNS", "12"))
MOST_REPLICAS = 2
RULES: Json = {**POLICY, "run_as_user": {"default": DEFAULT_USER}}


@pytest.fixture(scope="module")
def core(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreProcess]:
    folder: Path = tmp_path_factory.mktemp("core")
    with run_proof_core(cluster, folder, policy=json.dumps(RULES)) as core:
        yield core


def draw_runs(classes: str) -> list[tuple[str, dict[str, Any]]]:
    """Actions and specs: runs of containers without a profile, whose classes the cluster has."""
    generator = RunGenerator(SEED, has_image_volumes=kubernetes_version() != "1.34")
    drawn: list[tuple[str, dict[str, Any]]] = []
    while len(drawn) < RUNS:
        run = generator.draw("anywhere")
        if is_plain(run):
            drawn.append((run.request.action, adapt(run.raw["run"], classes)))
    return drawn


def is_plain(run: LegalRun) -> bool:
    volumes = run.request.run.volumes or ()
    has_foreign_claim = any(volume.type == "persistent_volume_claim" and volume.claim_name for volume in volumes)
    return run.request.kind == "container" and not run.raw["file"] and not has_foreign_claim


def adapt(run: dict[str, Any], classes: str) -> dict[str, Any]:
    """The run with classes that there are, a few replicas at most, and time enough for the test to look at it."""
    named: Json = {name: classes for name in ("runtime_class", "priority_class") if name in run}
    replicas = {"replicas": min(int(run["replicas"]), MOST_REPLICAS)} if "replicas" in run else {}
    times: Json = {name: "1h" for name in ("timeout", "pending_timeout") if name in run}
    return {**run, **named, **replicas, **times}


async def prepare(project: ProofProject) -> None:
    """What the drawn runs name."""
    await project.set_secrets(SECRETS)
    await project.create("volumes", {"name": "models", "spec": {"size": "16Mi"}})
    await project.create(
        "configmaps", {"kind": "configmap", "name": "settings", "spec": {"data": {"a.toml": "x = 1\n"}}}
    )


async def test_pods_are_as_the_effective_specs_say_when_runs_are_drawn_at_random(
    cluster: Cluster, core: CoreProcess, classes: str
) -> None:
    drawn = draw_runs(classes)
    async with open_project(cluster, core) as project:
        await prepare(project)
        effective = {}
        for number, (action, spec) in enumerate(drawn):
            run_id = f"drawn-{number}"
            await project.submit(project.make_run(run_id, action=action, **spec))
            effective[run_id] = await project.get_effective(run_id)
        started = [run_id for run_id, found in effective.items() if found.get("replicas") != 0]
        pods = await project.wait_for_pods(started)
    differences = {run_id: find_differences(effective[run_id], pods[run_id]) for run_id in started}
    wrong = [f"{run_id}: {found}" for run_id, found in differences.items() if found]
    assert not wrong, f"{len(wrong)} of {len(started)} pods differ\n" + "\n".join(wrong)
