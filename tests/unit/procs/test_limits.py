"""Limits of memory, processors and processes; what enforces them is in the state."""

import os
import signal
import sys
from pathlib import Path

import pytest

from runyard.procs import Command, Limits, Plan, State
from runyard.procs.supervisor.cgroups import make_cgroup
from tests.unit.procs.lab import Lab, read_log, shell, wait_for

ASK_FOR_300_MIB = "x = bytearray(300 << 20); print('got it', flush=True)"
NO_LIMITS = {"memory_bytes": None, "cpu_millis": None, "processes": None}


def find_controllers() -> dict[str, str]:
    cgroup = make_cgroup(
        f"runyard-test-{os.getpid()}", {**NO_LIMITS, "memory_bytes": 1 << 30, "processes": 1000, "cpu_millis": 1000}
    )
    cgroup.remove()
    return cgroup.limited


CONTROLLERS = find_controllers()


def run_python(lab: Lab, script: str, limits: Limits) -> State:
    main = Command(name="main", argv=(sys.executable, "-S", "-c", script))
    return lab.run(Plan(main=main, limits=limits))[1]


def test_command_ends_out_of_memory_with_its_peak_when_it_exceeds_the_limit(lab: Lab) -> None:
    state = run_python(lab, ASK_FOR_300_MIB, Limits(memory_bytes=64 << 20))
    instance = state.instances[0]
    assert instance.is_out_of_memory
    assert instance.signal == 9
    assert instance.peak_bytes is not None
    assert 40 << 20 < instance.peak_bytes < 400 << 20
    assert state.enforced["memory"] == CONTROLLERS.get("memory", "watchdog")


def test_child_counts_when_the_tree_exceeds_the_limit(lab: Lab) -> None:
    script = """
import os, sys, time
children = [os.posix_spawn(sys.executable, [sys.executable, "-S", "-c", "x = bytearray(60 << 20); import time;"
            "time.sleep(20)"], {}) for _ in range(4)]
time.sleep(20)
"""
    state = run_python(lab, script, Limits(memory_bytes=128 << 20))
    assert state.instances[0].is_out_of_memory


def test_command_is_not_out_of_memory_when_it_stays_below_the_limit(lab: Lab) -> None:
    state = run_python(lab, "x = bytearray(30 << 20); raise SystemExit(1)", Limits(memory_bytes=256 << 20))
    instance = state.instances[0]
    assert (instance.exit_code, instance.is_out_of_memory) == (1, False)
    assert instance.peak_bytes is not None
    assert 30 << 20 < instance.peak_bytes < 100 << 20


def test_peak_is_known_when_there_is_no_limit(lab: Lab) -> None:
    state = run_python(lab, "x = bytearray(50 << 20)", Limits())
    assert state.instances[0].peak_bytes is not None
    assert 50 << 20 < state.instances[0].peak_bytes < 200 << 20
    assert state.enforced == {}


def test_fork_fails_when_the_limit_of_processes_is_reached(lab: Lab) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 60 & done; echo all"
    folder, state = lab.run(Plan(main=shell(script), limits=Limits(processes=8)))
    if "pids" not in CONTROLLERS:
        assert state.enforced["processes"] == "no"
        return
    assert state.enforced["processes"] == CONTROLLERS["pids"]
    assert "all" not in read_log(folder)
    assert "fork" in read_log(folder)


@pytest.mark.skipif("pids" not in CONTROLLERS, reason="no cgroup limits processes here")
def test_fork_bomb_is_ended_when_it_reaches_the_limit(lab: Lab) -> None:
    script = "trap '' TERM; bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 0.5; exit 3"
    _, state = lab.run(Plan(main=shell(script), limits=Limits(processes=100)), seconds=60)
    assert state.is_ended
    assert state.instances[0].exit_code in (2, 3, 254)


def test_processor_time_is_limited_when_a_cgroup_can(lab: Lab) -> None:
    script = "import time; end = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    main = Command(name="main", argv=(sys.executable, "-S", "-c", script))
    folder, state = lab.run(Plan(main=main, limits=Limits(cpu_millis=200)))
    assert state.enforced["cpu"] == CONTROLLERS.get("cpu", "no")
    if "cpu" in CONTROLLERS:
        assert float(read_log(folder)) < 0.5


@pytest.mark.skipif("memory" not in CONTROLLERS, reason="no cgroup can be made here")
def test_orphaned_cgroup_is_removed_when_it_is_old_and_empty(lab: Lab) -> None:
    names = [f"runyard-{digit * 32}-main.0" for digit in ("0", "1", "2")]
    cgroups = [make_cgroup(name, NO_LIMITS) for name in names]
    old, young, used = (Path(cgroup.memory_path or "") for cgroup in cgroups)
    process = os.posix_spawn("/bin/sleep", ["sleep", "61"], {})
    try:
        (used / "cgroup.procs").write_text(str(process))
        for path in (old, used):
            os.utime(path, (0, 0))
        lab.run(Plan(main=shell("true")))
        assert [path.exists() for path in (old, young, used)] == [False, True, True]
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        for cgroup in cgroups:
            wait_for(cgroup.remove)


def test_no_cgroup_is_left_when_a_supervision_has_ended(lab: Lab) -> None:
    folder = lab.start(Plan(main=shell("sleep 0.3")))
    path = lab.wait(folder, lambda state: state.phase == "running").cgroup
    assert (path is None) == ("memory" not in CONTROLLERS)
    assert lab.wait(folder).cgroup is None
    assert path is None or not os.path.exists(path)  # noqa: PTH110 - a string
