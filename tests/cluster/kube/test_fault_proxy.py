"""The fault proxy in front of a real apiserver and real clients: what passes, and what breaks on purpose."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cluster import Cluster
from testbed.faults import Answer, Cut, FaultProxy, Rule

MEBIBYTE = 1 << 20


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    certificate = cluster.certificate("fault-proxy", hosts=["127.0.0.1"])
    with FaultProxy(cluster.server, certificate=certificate, upstream_ca=cluster.ca_file) as proxy:
        yield proxy


@pytest.fixture
def kubectl(cluster: Cluster, proxy: FaultProxy, namespace: str, tmp_path: Path) -> list[str]:
    """kubectl as admin, through the proxy."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig.read_text().replace(cluster.server, proxy.url))
    return [str(cluster.directory / "bin/kubectl"), f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]


@pytest.fixture
def pod(kubectl: list[str]) -> str:
    run = ["run", "shell", "--image=busybox:1.36", "--image-pull-policy=Never", "--", "sleep", "600"]
    subprocess.run([*kubectl, *run], check=True, capture_output=True)
    subprocess.run(
        [*kubectl, "wait", "--for=condition=Ready", "pod/shell", "--timeout=60s"], check=True, capture_output=True
    )
    return "shell"


def test_exec_passes_both_ways_when_kubectl_tunnels_through_it(kubectl: list[str], pod: str) -> None:
    sent = bytes(range(256)) * (MEBIBYTE // 256)
    done = subprocess.run(
        [*kubectl, "exec", "-i", pod, "--", "sh", "-c", "cat; exit 7"], input=sent, capture_output=True, timeout=60
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout == sent


def test_exec_breaks_when_its_tunnel_is_cut(kubectl: list[str], pod: str, proxy: FaultProxy) -> None:
    proxy.plan.add(Rule(Cut(after_bytes=MEBIBYTE), path="*/exec"))
    done = subprocess.run(
        [*kubectl, "exec", pod, "--", "head", "-c", str(16 * MEBIBYTE), "/dev/zero"], capture_output=True, timeout=60
    )
    assert done.returncode != 0
    assert 0 < len(done.stdout) < 2 * MEBIBYTE
    assert proxy.counts["cut"] == 1


def test_watch_shows_changes_when_kubectl_watches_through_it(kubectl: list[str], proxy: FaultProxy) -> None:
    watch = [*kubectl, "get", "configmaps", "--watch", "--output=name"]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "configmap/kube-root-ca.crt\n"
            subprocess.run([*kubectl, "create", "configmap", "new"], check=True, capture_output=True)
            assert process.stdout.readline() == "configmap/new\n"
        finally:
            process.kill()
    assert not proxy.counts


def test_kubectl_tells_the_status_when_the_proxy_answers(kubectl: list[str], proxy: FaultProxy) -> None:
    proxy.plan.add(Rule(Answer(503), method="POST", times=None))
    done = subprocess.run([*kubectl, "create", "configmap", "new"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "told by the fault proxy" in done.stderr
