import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.engines.local.process_usage import MOST_SAMPLES, SCAN_SECONDS, UsageMeter
from runyard.procs import State

MIB = 1 << 20
BURN = "import time\nheld = bytearray(64 << 20)\nprint('ready', flush=True)\nwhile True: pass"
PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])"


@pytest.fixture
def supervisor() -> Iterator[subprocess.Popen[str]]:
    """A process that stands for a supervisor, with a child that holds 64 MiB and uses one core."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(child), 9)
    process.wait(10)
    process.stdout.close()


def state_of(pid: int, *, cgroup: Path | None = None, mark: str = "m") -> State:
    start_time = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return State(
        version=1,
        phase="running",
        mark=mark,
        cgroup=None if cgroup is None else str(cgroup),
        supervisor_pid=pid,
        supervisor_start_time=start_time,
    )


def test_cores_and_memory_are_those_of_the_tree_when_it_is_measured_twice(supervisor: subprocess.Popen[str]) -> None:
    now = [0.0]
    meter = UsageMeter(clock=lambda: now[0])
    state = state_of(supervisor.pid)
    first = meter.measure(state)
    assert first is not None
    assert first.cpu_cores is None
    assert first.memory_bytes is not None
    assert 64 * MIB < first.memory_bytes < 200 * MIB
    began = time.monotonic()
    while time.monotonic() - began < 0.5:
        time.sleep(0.05)
    now[0] = max(SCAN_SECONDS, time.monotonic() - began)
    second = meter.measure(state)
    assert second is not None
    assert second.cpu_cores is not None
    assert 0.02 < second.cpu_cores < 1.5
    assert meter.measure(state) == second


def test_nothing_is_known_when_the_pid_belongs_to_another_process(supervisor: subprocess.Popen[str]) -> None:
    state = state_of(supervisor.pid)
    other = State(version=1, phase="running", mark="m", supervisor_pid=supervisor.pid, supervisor_start_time=1)
    meter = UsageMeter()
    assert meter.measure(other) is None
    assert meter.measure(State(version=1, phase="starting", mark="m")) is None
    assert meter.measure(state) is not None


@pytest.mark.parametrize(
    ("current", "inactive"), [("memory.current", "inactive_file"), ("memory.usage_in_bytes", "total_inactive_file")]
)
def test_memory_is_the_working_set_when_the_run_has_a_cgroup(
    supervisor: subprocess.Popen[str], tmp_path: Path, current: str, inactive: str
) -> None:
    (tmp_path / current).write_text("1000000\n")
    (tmp_path / "memory.stat").write_text(f"anon 5\n{inactive} 400000\nactive_file 1\n")
    usage = UsageMeter().measure(state_of(supervisor.pid, cgroup=tmp_path))
    assert usage is not None
    assert usage.memory_bytes == 600000


def test_memory_is_that_of_the_tree_when_the_cgroup_is_gone(supervisor: subprocess.Popen[str], tmp_path: Path) -> None:
    usage = UsageMeter().measure(state_of(supervisor.pid, cgroup=tmp_path / "gone"))
    assert usage is not None
    assert usage.memory_bytes is not None
    assert usage.memory_bytes > 64 * MIB


def test_samples_are_bounded_when_many_supervisions_are_measured(supervisor: subprocess.Popen[str]) -> None:
    meter = UsageMeter()
    for number in range(MOST_SAMPLES + 5):
        assert meter.measure(state_of(supervisor.pid, mark=str(number))) is not None
    assert len(meter._samples) == MOST_SAMPLES


def test_processes_are_read_when_a_program_has_brackets_and_spaces_in_its_name(tmp_path: Path) -> None:
    for pid, name, parent in ((7, "sup", 1), (8, ") 1 (x", 7), (9, "gone", 8)):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", str(parent), *["0"] * 9, "10", "5", "2", "1", *["0"] * 4, "99", "0", "3", "0"]
        content = f"{pid} ({name}) {' '.join(fields)}" if name != "gone" else ""
        (tmp_path / str(pid) / "stat").write_text(content)
    state = State(version=1, phase="running", mark="m", supervisor_pid=7, supervisor_start_time=99)
    usage = UsageMeter(proc=tmp_path).measure(state)
    assert usage is not None
    assert usage.memory_bytes == 3 * os.sysconf("SC_PAGE_SIZE")
