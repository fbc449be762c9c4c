"""How the end of a process tree looks from inside: who gets SIGTERM first, and who is killed with whom."""

import os
from pathlib import Path

import pytest

from runyard.procs import Limits, Plan, log_path, request_stop
from runyard.procs.supervisor.cgroups import make_cgroup
from tests.unit.procs.lab import Lab, shell

WAITING = "trap 'exit 143' TERM; echo ready; while true; do sleep 0.1; done"


def has_memory_cgroups() -> bool:
    """Whether the machine gives this process cgroups with a memory limit."""
    # Every process of the tests asks, at the same time: each needs a name of its own.
    name = f"runyard-test-of-tree-ends-{os.getpid()}"
    cgroup = make_cgroup(name, {"memory_bytes": 1 << 30, "cpu_millis": None, "processes": None})
    cgroup.remove()
    return "memory" in cgroup.limited


def read_log(folder: Path) -> bytes:
    path = log_path(folder, "main", 0)
    return path.read_bytes() if path.exists() else b""


def test_first_process_alone_is_told_when_a_stop_is_requested(lab: Lab) -> None:
    """As in a container: a shell that ends by itself says nothing of a child that was killed."""
    folder = lab.start(Plan(main=shell(WAITING), grace_seconds=10))
    lab.wait(folder, lambda _: read_log(folder) == b"ready\n")
    assert request_stop(folder)
    state = lab.wait(folder)
    assert state.instances[-1].exit_code == 143
    assert read_log(folder) == b"ready\n"


def test_others_are_told_with_grace_when_the_first_process_has_ended(lab: Lab) -> None:
    other = "trap 'echo bye; exit 0' TERM; echo ready; while true; do sleep 0.1; done"
    folder = lab.start(Plan(main=shell(f'sh -c "{other}" & sleep 1000'), grace_seconds=10))
    lab.wait(folder, lambda _: read_log(folder) == b"ready\n")
    assert request_stop(folder)
    lab.wait(folder)
    assert read_log(folder).endswith(b"bye\n")


@pytest.mark.skipif(not has_memory_cgroups(), reason="the machine gives no cgroup with a memory limit")
def test_whole_instance_ends_out_of_memory_when_the_kernel_killed_one_of_its_processes(lab: Lab) -> None:
    limits = Limits(memory_bytes=32 << 20)
    _, state = lab.run(Plan(main=shell("tail /dev/zero; echo survived; sleep 20; exit 0"), limits=limits))
    assert state.instances[-1].is_out_of_memory
    assert state.instances[-1].exit_code != 0
