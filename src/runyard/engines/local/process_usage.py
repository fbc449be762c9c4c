"""What the processes of a supervision use now: cores and memory.

Every process of a run descends from its supervisor, which is a subreaper. Memory is the working set of the run's cgroup
(without the page cache that the kernel can drop, as kubelet counts it), or else the sum of resident sets, in which
shared pages count for each process.
"""

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runyard.procs import MOST_PROCESSES, State, read_kernel_file

MOST_SAMPLES = 1000
"""How many supervisions' last samples are remembered, to tell the cores used since then."""
SCAN_SECONDS = 1.0
"""How old a list of the machine's processes may be."""
LARGEST_STAT_BYTES = 16 << 10
"""How much of one file of /proc or of a cgroup is read."""

_INACTIVE = {"memory.current": "inactive_file", "memory.usage_in_bytes": "total_inactive_file"}
"""The file with a cgroup's memory (v2, v1), and the name of its droppable page cache in `memory.stat`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    """What a supervision uses; None: not known."""

    cpu_cores: float | None
    """Since the measurement before; None at the first one."""
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    start_time: int
    own_ticks: int
    reaped_ticks: int
    """Of children that have ended."""
    resident_bytes: int


class UsageMeter:
    """Measures supervisions. Thread-safe; blocks for a look at every process of the machine."""

    def __init__(self, *, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._clock = clock
        self._lock = threading.Lock()
        self._processes: dict[int, _Process] = {}
        self._children: dict[int, list[int]] = {}
        self._scanned_at = float("-inf")
        self._samples: OrderedDict[str, tuple[float, int, float | None]] = OrderedDict()

    def measure(self, state: State) -> ProcessUsage | None:
        """What the processes below the supervisor use; None if it does not live."""
        with self._lock:
            self._scan_if_old()
            supervisor = self._processes.get(state.supervisor_pid or 0)
            if supervisor is None or supervisor.start_time != state.supervisor_start_time:
                return None
            tree = list(self._iter_tree(state.supervisor_pid or 0))
            ticks = supervisor.reaped_ticks + sum(process.own_ticks + process.reaped_ticks for process in tree)
            memory = None if state.cgroup is None else _read_working_set(Path(state.cgroup))
            return ProcessUsage(
                cpu_cores=self._compare(state.mark, ticks),
                memory_bytes=sum(process.resident_bytes for process in tree) if memory is None else memory,
            )

    def _compare(self, mark: str, ticks: int) -> float | None:
        """Cores used since the last sample of that supervision, which this one replaces."""
        sample = self._samples.pop(mark, None)
        cores = None
        if sample is not None:
            elapsed = self._scanned_at - sample[0]
            # The same scan gives the same answer; a process that was lost between two looks would give a negative one.
            cores = max(0.0, (ticks - sample[1]) / os.sysconf("SC_CLK_TCK") / elapsed) if elapsed > 0 else sample[2]
        self._samples[mark] = (self._scanned_at, ticks, cores)
        if len(self._samples) > MOST_SAMPLES:
            self._samples.popitem(last=False)
        return cores

    def _scan_if_old(self) -> None:
        now = self._clock()
        if now - self._scanned_at < SCAN_SECONDS:
            return
        self._processes = dict(_iter_processes(self._proc))
        self._children = {}
        for pid, process in self._processes.items():
            self._children.setdefault(process.parent, []).append(pid)
        self._scanned_at = now

    def _iter_tree(self, root: int) -> Iterator[_Process]:
        """The processes below one; each is looked at once, as pids may be reused while /proc is read."""
        seen, waiting = {root}, [root]
        while waiting:
            for pid in self._children.get(waiting.pop(), ()):
                if pid not in seen:
                    seen.add(pid)
                    waiting.append(pid)
                    yield self._processes[pid]


def _iter_processes(proc: Path) -> Iterator[tuple[int, _Process]]:
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    with os.scandir(proc) as entries:
        for count, entry in enumerate(entry for entry in entries if entry.name.isdecimal()):
            if count >= MOST_PROCESSES:
                return
            # The name of a program is in brackets, and may have brackets and spaces: fields follow the last one.
            fields = _read(proc / entry.name / "stat").rpartition(")")[2].split()
            if len(fields) < 22:
                continue  # it has ended meanwhile
            yield (
                int(entry.name),
                _Process(
                    parent=int(fields[1]),
                    start_time=int(fields[19]),
                    own_ticks=int(fields[11]) + int(fields[12]),
                    reaped_ticks=int(fields[13]) + int(fields[14]),
                    resident_bytes=int(fields[21]) * page_bytes,
                ),
            )


def _read_working_set(cgroup: Path) -> int | None:
    for name, inactive in _INACTIVE.items():
        used = _read(cgroup / name).strip()
        if used.isdecimal():
            found = re.search(rf"^{inactive} ([0-9]+)$", _read(cgroup / "memory.stat"), re.MULTILINE)
            return max(0, int(used) - (int(found[1]) if found else 0))
    return None


def _read(path: Path) -> str:
    return read_kernel_file(str(path), LARGEST_STAT_BYTES).decode(errors="replace")
