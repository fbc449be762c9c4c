"""The seeds' amounts as they are written, on fake nodes: what no machine of two cores can run, a cluster can place."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from runyard.cli.main import root
from testbed.cluster import Cluster
from testbed.pytest_plugin import kubernetes_version, require_machine
from testbed.site import Options
from tests.cluster.testbed.manifests import wait

SEEDS = Path(__file__).parents[2] / "data" / "seeds"
PLACEMENT = """
node_selector: {type: kwok}
tolerations: [{key: kwok.x-k8s.io/node, operator: Exists}]
"""


@pytest.fixture(scope="module")
def fakes() -> Iterator[Cluster]:
    """A cluster of fake nodes that are large."""
    require_machine(node=True)
    options = Options(kubernetes=kubernetes_version(), dns=False, storage=False, fake_nodes=3)
    cluster = Cluster.up(f"fakes-{os.getpid()}", options, outlives_us=False)
    yield cluster
    cluster.down()


@pytest.mark.parametrize("seed", ["000-cpu", "000-mem", "000-gpu", "000-resources", "002-cpu", "002-mem", "002-gpu"])
def test_pod_is_placed_when_it_asks_for_what_the_seed_says(fakes: Cluster, seed: str) -> None:
    run_id = f"as-written-{seed}"
    words = ["render", "-f", "-", "--image", "busybox:1.36", "--action", "job", "--id", run_id, "-o", "json"]
    rendered = CliRunner().invoke(root, words, input=(SEEDS / f"{seed}.yaml").read_text() + PLACEMENT)
    assert rendered.exit_code == 0, rendered.output
    fakes.kubectl("apply", "-f", "-", stdin=rendered.stdout)
    name = json.loads(rendered.stdout)["items"][-1]["metadata"]["name"]
    wait(fakes, "default", f"job/{name}", until="condition=complete")
    selector = f"runyard.io/run={run_id}"
    (pod,) = json.loads(fakes.kubectl("get", "pods", "-l", selector, "-o", "json"))["items"]
    assert pod["spec"]["nodeName"].startswith("fake-")
