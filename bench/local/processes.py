"""CPU time and memory of other processes, from /proc."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds of a process: its own with all threads, and of the descendants that it has waited for."""

    own: float
    children: float

    def __sub__(self, other: "Cpu") -> "Cpu":
        return Cpu(self.own - other.own, self.children - other.children)


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes; PSS counts a page that n processes share as 1/n."""

    rss: float
    pss: float | None
    """None if only root may read it: a supervisor's memory is closed to others."""


def read_cpu(pid: int) -> Cpu:
    """What a process has used so far, to a hundredth of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, children_user, children_system = (int(field) * TICK_SECONDS for field in fields[11:15])
    return Cpu(user + system, children_user + children_system)


def read_memory(pid: int) -> Memory:
    """What a process has now."""
    fields = _read_fields(Path(f"/proc/{pid}/status"))
    try:
        pss = _read_fields(Path(f"/proc/{pid}/smaps_rollup")).get("Pss")
    except PermissionError:
        pss = None
    return Memory(fields["VmRSS"], pss)


def _read_fields(path: Path) -> dict[str, float]:
    lines = [line.split() for line in path.read_text().splitlines()]
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[-1:] == ["kB"]}


def iter_supervisors(place: Path) -> Iterator[int]:
    """The pids of the supervisors at a place."""
    needle = os.fsencode(place) + b"/"
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if any(b"procs/supervisor" in word for word in words) and any(word.startswith(needle) for word in words):
                yield int(path.name)
