"""The examples that the README points at do what it says."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from testbed.cluster import Cluster
from testbed.supervision import PROJECT_ROOT
from tests.cluster.testbed.manifests import create, pod


@pytest.fixture
def lines(cluster: Cluster, namespace: str) -> Iterator[Iterator[list[str]]]:
    """What the example prints about the test's namespace, as it comes; the example is ended in any case."""
    argv = [sys.executable, "examples/kubernetes/watch_pods.py", namespace]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    with subprocess.Popen(argv, cwd=PROJECT_ROOT, env=environment, stdout=subprocess.PIPE, text=True) as example:
        assert example.stdout
        try:
            yield (line.split() for line in example.stdout)
        finally:
            example.kill()


def test_watch_pods_prints_every_phase_when_a_pod_lives_and_dies(
    cluster: Cluster, namespace: str, lines: Iterator[list[str]]
) -> None:
    # Its line says that the example watches: whatever happens from now on is seen as it happens.
    create(cluster, namespace, pod("herald", "sleep 3600"))
    herald = next(lines)
    assert herald[0] == f"{namespace}/herald"

    create(cluster, namespace, pod("short", "sleep 2"))
    phases = list(_phases_of(f"{namespace}/short", lines, until="Succeeded"))
    assert phases[-2:] == ["Running", "Succeeded"]
    cluster.kubectl("delete", "pod", "-n", namespace, "short")
    assert list(_phases_of(f"{namespace}/short", lines, until="gone")) == ["gone"]


def _phases_of(key: str, lines: Iterator[list[str]], *, until: str) -> Iterator[str]:
    for name, phase in lines:
        if name == key:
            yield phase
            if phase == until:
                return
