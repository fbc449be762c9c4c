"""The examples that the README points at do what it says."""

import os
import subprocess
import sys

from testbed.cluster import Cluster
from testbed.supervision import PROJECT_ROOT
from tests.cluster.testbed.manifests import create, pod


def test_watch_pods_prints_every_phase_when_a_pod_lives_and_dies(cluster: Cluster, namespace: str) -> None:
    argv = [sys.executable, "examples/watch_pods.py", namespace]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    with subprocess.Popen(argv, cwd=PROJECT_ROOT, env=environment, stdout=subprocess.PIPE, text=True) as example:
        assert example.stdout
        create(cluster, namespace, pod("short", "sleep 1"))
        lines = [example.stdout.readline().split() for _ in range(3)]
        cluster.kubectl("delete", "pod", "-n", namespace, "short")
        lines.append(example.stdout.readline().split())
        example.terminate()
    key = f"{namespace}/short"
    assert lines == [[key, "Pending"], [key, "Running"], [key, "Succeeded"], [key, "gone"]]
