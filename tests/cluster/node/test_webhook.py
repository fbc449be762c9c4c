"""The agent's webhook fills pods where there is no admission policy for it, and the provider may be this machine."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.cluster import Cluster
from testbed.errors import TestbedError
from tests.cluster.node.agent_bed import NODE, AgentBed, open_bed, wait_for
from tests.cluster.node.test_first_pod import run_in_terminal
from tests.cluster.node.test_kubelet_port import LARGE_BYTES, both_protocols, kubectl

OFFER = {
    "capacity": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "2", "pods": "4"},
    "shapes": [{"name": "small", "handler": "nvidia", "limits": {"cpu": "200m", "memory": "64Mi", "gpu": "1"}}],
}


@pytest.fixture(scope="module")
def bed(local_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentBed]:
    """No second cluster: pods are processes here."""
    folder: Path = tmp_path_factory.mktemp("local")
    with open_bed(local_cluster, local_cluster, "unused", folder, offer=OFFER, filling="webhook") as bed:
        bed.start("--provider=local", f"--data={folder / 'pods'}", "--webhook-port=0")
        bed.wait_ready()
        bed.wait_filling("small")
        yield bed


def make_pod(name: str, script: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "runtimeClassName": "small",
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script]}],
        },
    }


def test_pod_is_filled_by_the_webhook_and_runs_here_when_there_is_no_second_cluster(bed: AgentBed) -> None:
    assert f"{NODE}-filling" in bed.local.kubectl("get", "mutatingwebhookconfigurations")
    with pytest.raises(TestbedError, match="not found"):
        bed.get("mutatingadmissionpolicy", f"{NODE}-filling")
    bed.apply(make_pod("process", "echo hello; exit 3"))
    pod = bed.wait_phase("process", "Failed")
    assert pod["spec"]["schedulerName"] == NODE
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "200m",
        "memory": "64Mi",
        "nvidia.com/gpu": "1",
    }
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert bed.local.kubectl("logs", "process") == "hello\n"
    bed.local.kubectl("delete", "pod", "process")


@both_protocols
def test_kubectl_executes_commands_when_pods_are_processes_here(bed: AgentBed, protocol: dict[str, str]) -> None:
    """The apiserver speaks SPDY to nodes that do not declare anything else, whatever kubectl speaks."""
    bed.apply(make_pod("shell", "sleep 600"))
    bed.wait_phase("shell", "Running")
    failed = kubectl(bed.local, "exec", "shell", "--", "sh", "-c", "echo out; echo err >&2; exit 7", protocol=protocol)
    assert (failed.returncode, failed.stdout) == (7, b"out\n")
    assert failed.stderr.startswith(b"err\n")
    data = os.urandom(LARGE_BYTES)
    echoed = kubectl(bed.local, "exec", "-i", "shell", "--", "cat", protocol=protocol, stdin=data)
    assert (echoed.returncode, echoed.stderr) == (0, b"")
    assert hashlib.sha256(echoed.stdout).digest() == hashlib.sha256(data).digest()
    code, shown = run_in_terminal(bed, "exec", "-it", "shell", "--", "sh", "-c", "test -t 0 && echo a terminal; exit 3")
    assert (code, "a terminal" in shown) == (3, True)
    bed.local.kubectl("delete", "pod", "shell")


def test_pod_ends_within_its_grace_when_it_is_deleted(bed: AgentBed) -> None:
    bed.apply(make_pod("service", "trap 'exit 0' TERM; while true; do sleep 0.1; done"))
    bed.wait_phase("service", "Running")
    assert bed.read_allocatable()["nvidia.com/gpu"] == "1"
    bed.local.kubectl("delete", "pod", "service")
    bed.wait_gone("service")
    wait_for("its resources", lambda: bed.read_allocatable()["nvidia.com/gpu"] == "2")
