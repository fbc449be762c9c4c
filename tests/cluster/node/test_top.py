"""`kubectl top` through a real metrics-server, which reads the kubelet port of the virtual node as any kubelet's.

The provider is another namespace of the same cluster: its own figures come from the same metrics-server.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from runyard.spec.kubernetes.quantity import Quantity
from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.pytest_plugin import kubernetes_version, require_machine
from testbed.site import Options
from tests.cluster.node.agent_bed import NODE, POLICY_FLAGS, AgentBed, open_bed, wait_for

MEASURE_SECONDS = 240.0
"""metrics-server needs two readings of the provider's node, and then two of the virtual one."""
SHAPE = "measured"
LIMITS = {"cpu": "100m", "memory": "64Mi", "gpu": "0"}
OFFER = {
    "capacity": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "0", "pods": "8"},
    "shapes": [{"name": SHAPE, "handler": "runc", "limits": LIMITS}],
}
METRICS = "/apis/metrics.k8s.io/v1beta1"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentBed]:
    require_machine(node=True)
    # As its own manifest has it: the port of a node is where the node says.
    flags = (("metrics-server", "--kubelet-use-node-status-port"), *POLICY_FLAGS)
    options = Options(kubernetes=kubernetes_version(), dns=False, storage=False, metrics=True, flags=flags)
    cluster = Cluster.up(f"top-{os.getpid()}", options, outlives_us=False)
    try:
        with open_bed(cluster, cluster, "provider", tmp_path_factory.mktemp("top"), offer=OFFER) as bed:
            bed.start()
            bed.wait_ready()
            bed.wait_filling(SHAPE)
            yield bed
    finally:
        cluster.down()


def find_metrics(cluster: Cluster, path: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(cluster.kubectl("get", "--raw", f"{METRICS}/{path}"))
    except TestbedError as error:
        if "NotFound" in str(error) or "ServiceUnavailable" in str(error) or "not yet available" in str(error):
            return None
        raise
    return found


@pytest.mark.long
@pytest.mark.timeout(600)
def test_figures_of_the_provider_are_shown_when_kubectl_top_asks_for_node_and_pod(bed: AgentBed) -> None:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", "while true; do :; done"]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "burner", "namespace": "default"},
        "spec": {"runtimeClassName": SHAPE, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    bed.apply(pod)
    uid = bed.wait_phase("burner", "Running")["metadata"]["uid"]
    measured = wait_for(
        "figures of the pod",
        lambda: find_metrics(bed.local, "namespaces/default/pods/burner"),
        seconds=MEASURE_SECONDS,
    )
    remote = wait_for("figures there", lambda: find_metrics(bed.provider, f"namespaces/provider/pods/pod-{uid}"))
    (ours,), (theirs,) = measured["containers"], remote["containers"]
    assert ours["name"] == theirs["name"] == "main"
    cpu, memory = (Quantity.parse(ours["usage"][name]).exact for name in ("cpu", "memory"))
    assert 0 < cpu <= 2 * Quantity.parse("100m").exact
    assert 0 < memory <= Quantity.parse("64Mi").exact
    assert memory / Quantity.parse(theirs["usage"]["memory"]).exact < 4

    head, row = (line.split() for line in bed.local.kubectl("top", "pod", "burner").splitlines())
    assert head == ["NAME", "CPU(cores)", "MEMORY(bytes)"]
    assert row[0] == "burner"
    assert row[1].endswith("m")
    wait_for("figures of the node", lambda: find_metrics(bed.local, f"nodes/{NODE}"), seconds=MEASURE_SECONDS)
    shown = bed.local.kubectl("top", "node", NODE, "--no-headers").split()
    assert shown[0] == NODE
    assert shown[1].endswith("m")
    assert shown[3].endswith("Mi")
