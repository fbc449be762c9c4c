"""A cluster goes without a trace, whatever became of it, and says what died."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from testbed.cluster import Cluster, remove_remains
from testbed.errors import TestbedError
from testbed.pytest_plugin import require_machine
from testbed.site import Options, cluster_directory, find_site, state_folder
from testbed.supervision import PROJECT_ROOT, SupervisorHandle
from tests.cluster.testbed.manifests import create, pod, wait
from tests.cluster.testbed.traces import assert_gone, count_traces, namespaces_of, processes_naming

SMALL = Options(dns=False, storage=False)
PLANE = Options(node=False)


@pytest.fixture
def name() -> Iterator[str]:
    """A cluster's name that nothing is left under before and after."""
    require_machine(node=True)
    chosen = f"life-{os.getpid()}"
    remove_remains(chosen)
    yield chosen
    remove_remains(chosen)


def start_with_a_pod(name: str) -> Cluster:
    """A cluster with a running container: shims, mounts, veths and cgroups all exist."""
    cluster = Cluster.up(name, SMALL)
    create(cluster, "default", pod("busy", "sleep 3600"))
    wait(cluster, "default", "pod/busy", until="condition=Ready")
    return cluster


def test_nothing_is_left_when_a_cluster_with_containers_goes_down(name: str) -> None:
    before = count_traces(name)
    cluster = start_with_a_pod(name)
    pid = cluster.supervisor_pid
    assert pid
    namespaces = namespaces_of(pid)
    during = count_traces(name)
    assert (len(during.links), len(during.folders)) == (len(before.links) + 1, len(before.folders) + 1)
    assert len(during.cgroups) > len(before.cgroups)
    cluster.down()
    assert_gone(cluster, namespaces)
    assert count_traces(name) == before


def test_machine_sees_no_mount_rule_or_file_when_a_cluster_runs(name: str) -> None:
    before = count_traces(name)
    cluster = start_with_a_pod(name)
    during = count_traces(name)
    assert (during.mounts, during.iptables, during.files) == (before.mounts, before.iptables, before.files)
    cluster.down()


def test_down_leaves_nothing_when_the_cluster_had_crashed(name: str) -> None:
    before = count_traces(name)
    cluster = start_with_a_pod(name)
    pid = cluster.supervisor_pid
    assert pid
    namespaces = namespaces_of(pid)
    os.kill(pid, signal.SIGKILL)
    remove_remains(name)
    assert_gone(cluster, namespaces)
    assert count_traces(name) == before


def test_up_works_when_an_earlier_cluster_of_the_name_had_crashed(name: str) -> None:
    crashed = start_with_a_pod(name)
    pid = crashed.supervisor_pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    _wait_until(lambda: crashed.supervisor_pid is None)
    again = Cluster.up(name, SMALL)
    assert "busy" not in again.kubectl("get", "pods", "-A")
    assert again.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}") == again.node_name


def test_up_works_when_the_record_of_a_crashed_cluster_cannot_be_read(name: str) -> None:
    crashed = Cluster.up(name, PLANE)
    (crashed.directory / "cluster.json").write_text("{")
    remove_remains(name)
    assert not crashed.directory.exists()
    assert processes_naming(crashed.directory) == []
    assert Cluster.up(name, PLANE).api.is_ready()


def test_nothing_is_left_running_when_up_itself_is_killed(name: str) -> None:
    argv = [sys.executable, "-m", "testbed", "up", "--name", name, "--no-node"]
    directory = cluster_directory(name)
    with subprocess.Popen(argv, cwd=PROJECT_ROOT, stdout=subprocess.DEVNULL) as up:
        _wait_until((directory / "logs/kube-apiserver.log").exists)
        pid = SupervisorHandle(directory).pid
        assert pid
        namespaces = namespaces_of(pid)
        up.kill()
    _wait_until(lambda: SupervisorHandle(directory).pid is None)
    site = find_site(name)
    assert site
    assert_gone(Cluster(site), namespaces)


def test_up_says_why_and_leaves_nothing_when_a_component_dies(name: str) -> None:
    before = count_traces(name)
    options = Options(node=False, flags=(("kube-scheduler", "--no-such-flag"),))
    with pytest.raises(TestbedError, match=r"(?s)kube-scheduler died with exit code 1.*unknown flag: --no-such-flag"):
        Cluster.up(name, options)
    assert count_traces(name) == before
    assert "unknown flag" in (state_folder() / f"{name}.failed-logs/kube-scheduler.log").read_text()


def test_status_says_so_when_a_component_died(name: str) -> None:
    cluster = Cluster.up(name, PLANE)
    pid = cluster.components()["kube-scheduler"].pid
    cluster.run_inside(["kill", "-KILL", str(pid)])
    _wait_until(lambda: cluster.components()["kube-scheduler"].has_died)
    status = _testbed("status", "--name", name)
    assert status.returncode == 1
    assert "kube-scheduler died with exit code -9; the last lines of its log:" in status.stdout
    with pytest.raises(TestbedError, match="kube-scheduler died"):
        cluster.check_alive()
    cluster.start("kube-scheduler")
    assert _testbed("status", "--name", name).returncode == 0


def test_second_up_is_refused_when_the_name_or_the_addresses_are_taken(name: str) -> None:
    cluster = Cluster.up(name, PLANE)
    slot = cluster.site.addresses.slot
    with pytest.raises(TestbedError, match=f"a cluster '{name}' runs already"):
        Cluster.up(name, PLANE)
    with pytest.raises(TestbedError, match=f"--slot {slot}: its addresses are taken \\(cluster '{name}'\\)"):
        Cluster.up(f"{name}-b", PLANE, slot=slot)
    assert not cluster_directory(f"{name}-b").exists()
    other_options = _testbed("up", "--name", name)
    assert other_options.returncode == 1
    assert "runs already, with other options (node False, not True)" in other_options.stderr
    assert _testbed("up", "--name", name, "--no-node").stdout == f"cluster {name} runs already\n"


def test_two_clusters_do_not_see_each_other_when_both_run(cluster: Cluster, namespace: str, name: str) -> None:
    other = Cluster.up(name, SMALL)
    for one in (cluster, other):
        if one is other:
            one.kubectl("create", "namespace", namespace)
        create(one, namespace, pod("same", f"echo I am in {one.name}; sleep 3600"))
    for one in (cluster, other):
        wait(one, namespace, "pod/same", until="condition=Ready")
        assert one.kubectl("logs", "-n", namespace, "same") == f"I am in {one.name}\n"
        nodes = one.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")
        assert nodes == one.node_name
    addresses = [
        one.kubectl("get", "pod", "-n", namespace, "same", "-o", "jsonpath={.status.podIP}") for one in (cluster, other)
    ]
    assert len(set(addresses)) == 2
    probe = ["exec", "-n", namespace, "same", "--", "ping", "-c", "1", "-W", "1"]
    assert "1 packets received" in cluster.kubectl(*probe, addresses[0])
    with pytest.raises(TestbedError, match="exit code 1"):
        cluster.kubectl(*probe, addresses[1])
    # Neither disturbs the other's end: the first still works when the second is gone.
    other.down()
    assert cluster.kubectl("exec", "-n", namespace, "same", "--", "echo", "alive") == "alive\n"


def _testbed(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "testbed", *arguments]
    return subprocess.run(argv, cwd=PROJECT_ROOT, capture_output=True, text=True)


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited 30 s in vain"
        time.sleep(0.05)
