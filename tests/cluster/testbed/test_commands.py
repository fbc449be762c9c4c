"""The commands of `python -m testbed` on a cluster that runs."""

import os
import subprocess
import sys

from testbed.cluster import Cluster
from testbed.supervision import PROJECT_ROOT


def run(*arguments: str) -> str:
    argv = [sys.executable, "-m", "testbed", *arguments]
    # No proxy of the machine's may come between.
    environment = {**os.environ, "HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(argv, cwd=PROJECT_ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_status_lists_every_component_when_all_run(cluster: Cluster) -> None:
    lines = run("status", "--name", cluster.name).splitlines()
    assert lines[0] == f"{cluster.name}: Kubernetes {cluster.site.options.kubernetes}, {cluster.server}, ready"
    running = {line.split()[0] for line in lines[1:] if "running" in line}
    assert {"etcd", "kube-apiserver", "kubelet", "kube-proxy", "containerd", "coredns"} <= running


def test_kubectl_takes_its_own_flags_when_they_come_first(cluster: Cluster) -> None:
    printed = run("kubectl", "--name", cluster.name, "-n", "kube-system", "get", "service", "kube-dns", "-o", "name")
    assert printed == "service/kube-dns\n"


def test_kubeconfig_is_printed_as_path_or_as_a_line_for_the_shell(cluster: Cluster) -> None:
    assert run("kubeconfig", "--name", cluster.name) == f"{cluster.kubeconfig}\n"
    assert run("kubeconfig", "--export", "--name", cluster.name) == f"export KUBECONFIG={cluster.kubeconfig}\n"


def test_logs_are_cut_to_the_lines_that_were_asked_for(cluster: Cluster) -> None:
    whole = (cluster.site.logs / "kubelet.log").read_text().splitlines()
    for count in (0, 1, 30):
        printed = run("logs", "kubelet", "--name", cluster.name, "--tail", str(count)).splitlines()
        assert len(printed) == min(count, len(whole))
