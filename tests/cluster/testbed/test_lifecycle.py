"""A cluster goes without a trace, whatever became of it, and says what died."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.addresses import SLOTS, Addresses
from testbed.cluster import Cluster, remove_remains
from testbed.errors import TestbedError
from testbed.pytest_plugin import kubernetes_version, require_machine
from testbed.site import Options, cluster_directory, find_site, state_folder
from testbed.supervision import PROJECT_ROOT, SupervisorHandle
from tests.cluster.testbed.manifests import create, pod, wait
from tests.cluster.testbed.traces import assert_gone, count_traces, namespaces_of, processes_naming

SMALL = Options(kubernetes=kubernetes_version(), dns=False, storage=False)
PLANE = Options(kubernetes=kubernetes_version(), node=False)
# Whose traces are counted. Clusters that start meanwhile take the lowest slots, another checkout's tests another one.
SLOT = 41 + os.getpid() % 9


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
    cluster = Cluster.up(name, SMALL, slot=SLOT, outlives_us=False)
    create(cluster, "default", pod("busy", "sleep 3600"))
    wait(cluster, "default", "pod/busy", until="condition=Ready")
    return cluster


def test_machine_sees_a_link_only_and_nothing_is_left_when_a_cluster_with_containers_runs_and_goes(name: str) -> None:
    before = count_traces(name, slot=SLOT)
    cluster = start_with_a_pod(name)
    pid = cluster.supervisor_pid
    assert pid
    namespaces = namespaces_of(pid)
    during = count_traces(name, slot=SLOT)
    assert (len(during.links), len(during.state)) == (len(before.links) + 1, len(before.state) + 1)
    assert len(during.cgroups) > len(before.cgroups)
    assert (during.mounts, during.iptables, during.files) == (before.mounts, before.iptables, before.files)
    cluster.down()
    assert_gone(cluster, namespaces)
    assert count_traces(name, slot=SLOT) == before


def test_down_leaves_nothing_when_the_cluster_had_crashed(name: str) -> None:
    before = count_traces(name, slot=SLOT)
    cluster = start_with_a_pod(name)
    pid = cluster.supervisor_pid
    assert pid
    namespaces = namespaces_of(pid)
    os.kill(pid, signal.SIGKILL)
    remove_remains(name)
    assert_gone(cluster, namespaces)
    assert count_traces(name, slot=SLOT) == before


def test_up_works_when_an_earlier_cluster_of_the_name_had_crashed(name: str) -> None:
    crashed = start_with_a_pod(name)
    pid = crashed.supervisor_pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    _wait_until(lambda: crashed.supervisor_pid is None)
    again = Cluster.up(name, SMALL, outlives_us=False)
    assert "busy" not in again.kubectl("get", "pods", "-A")
    assert again.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}") == again.node_name


def test_up_works_when_the_record_of_a_crashed_cluster_cannot_be_read(name: str) -> None:
    crashed = Cluster.up(name, PLANE, outlives_us=False)
    (crashed.directory / "cluster.json").write_text("{")
    remove_remains(name)
    assert not crashed.directory.exists()
    assert processes_naming(crashed.directory) == []
    assert Cluster.up(name, PLANE, outlives_us=False).api.is_ready()


def test_nothing_is_left_running_when_up_itself_is_killed(name: str) -> None:
    argv = [sys.executable, "-m", "testbed", "up", "--name", name, "--no-node", "--kubernetes", kubernetes_version()]
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
    before = count_traces(name, slot=SLOT)
    options = dataclasses.replace(PLANE, flags=(("kube-scheduler", "--no-such-flag"),))
    said = r"(?s)kube-scheduler died with exit code 1.*unknown flag: --no-such-flag.*\nall its logs: .*\.failed-logs"
    with pytest.raises(TestbedError, match=said):
        Cluster.up(name, options, slot=SLOT)
    kept = state_folder() / f"{name}.failed-logs"
    assert "unknown flag" in (kept / "kube-scheduler.log").read_text()
    assert remove_remains(name) is False
    assert count_traces(name, slot=SLOT) == before


def test_nothing_is_left_when_the_disk_fills_during_a_start(name: str) -> None:
    disk = Path(tempfile.mkdtemp(prefix="ry"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    before = count_traces(name, slot=SLOT)
    # As on a disk that had room enough when the start began.
    code = "import sys; from testbed import cli, doctor; doctor.FREE_BYTES = 0; sys.exit(cli.main(sys.argv[1:]))"
    argv = [sys.executable, "-c", code, "up", "--name", name, "--no-node", "--kubernetes", kubernetes_version()]
    argv += ["--slot", str(SLOT)]
    try:
        done = subprocess.run(
            argv,
            cwd=PROJECT_ROOT,
            capture_output=True,
            text=True,
            env={**os.environ, "RUNYARD_TESTBED_STATE": str(disk / "state")},
        )
        left = [path.name for path in (disk / "state").iterdir() if not path.name.endswith(".failed-logs")]
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        disk.rmdir()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search("^testbed: .*(No space left on device|died with exit code)", done.stderr)
    assert left == []
    assert processes_naming(disk) == []
    assert count_traces(name, slot=SLOT) == before


def test_link_of_a_slot_is_gone_when_a_slot_that_begins_alike_is_in_use(name: str) -> None:
    # From above: other clusters that start meanwhile take the lowest.
    wanted, deadline = None, time.monotonic() + 240
    while wanted is None:
        assert time.monotonic() < deadline, "other clusters have all slots"
        wanted = next((slot for slot in range(6, 0, -1) if not {f"rytb{slot}", f"rytb{slot}0"} & _devices()), None)
        time.sleep(0.5)
    first = Cluster.up(name, PLANE, slot=wanted, outlives_us=False)
    second = Cluster.up(f"{name}-b", PLANE, slot=wanted * 10, outlives_us=False)
    try:
        first.down()
        assert f"rytb{wanted}" not in _devices()
        assert second.api.is_ready()
    finally:
        second.down()


def test_addresses_of_this_machine_are_respected_when_a_slot_is_chosen(name: str) -> None:
    addresses = Addresses(SLOTS - 1)
    add = ["ip", "link", "add", "rytbtest", "type", "bridge"]
    subprocess.run(add, check=True)
    try:
        subprocess.run(["ip", "address", "add", f"{addresses.host_ip}/16", "dev", "rytbtest"], check=True)
        subprocess.run(["ip", "link", "set", "rytbtest", "up"], check=True)
        with pytest.raises(
            TestbedError, match=r"--slot 63: its addresses are in use \(10\.217\.63\.0/24 overlaps with"
        ):
            Cluster.up(name, PLANE, slot=SLOTS - 1)
    finally:
        subprocess.run(["ip", "link", "delete", "rytbtest"], check=True)
    assert not cluster_directory(name).exists()


def test_status_says_so_when_a_component_died(name: str) -> None:
    cluster = Cluster.up(name, PLANE, outlives_us=False)
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
    cluster = Cluster.up(name, PLANE, outlives_us=False)
    slot = cluster.site.addresses.slot
    with pytest.raises(TestbedError, match=f"cluster {name} is already running"):
        Cluster.up(name, PLANE, outlives_us=False)
    with pytest.raises(TestbedError, match=f"--slot {slot}: its addresses are in use \\(cluster {name}\\)"):
        Cluster.up(f"{name}-b", PLANE, slot=slot)
    assert not cluster_directory(f"{name}-b").exists()
    other_options = _testbed("up", "--name", name, "--kubernetes", kubernetes_version())
    assert other_options.returncode == 1
    told = f"is already running with other options: node; run `python -m testbed down --name {name}`"
    assert told in other_options.stderr
    again = _testbed("up", "--name", name, "--no-node", "--kubernetes", kubernetes_version())
    assert again.stdout == f"cluster {name} is already running\nKUBECONFIG={cluster.kubeconfig}\n"


def test_two_clusters_do_not_see_each_other_when_both_run(cluster: Cluster, namespace: str, name: str) -> None:
    other = Cluster.up(name, SMALL, outlives_us=False)
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


def _devices() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def _testbed(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "testbed", *arguments]
    return subprocess.run(argv, cwd=PROJECT_ROOT, capture_output=True, text=True)


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "waited 120 s in vain"
        time.sleep(0.05)
