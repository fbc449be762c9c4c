"""The peak memory of the run: of its control group where it has one of its own, else of its processes."""

import os
import resource
from pathlib import Path

from .container_init import INIT_VARIABLE

LARGEST_PROC_BYTES = 1 << 20
"""Read of a file of the kernel."""


def find_peak_bytes(*, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Peak bytes of the run's cgroup (v2 or v1); else of the largest process so far; None if nothing says it."""
    for folder, name in _iter_groups(proc, groups):
        peak = _read_number(folder / name)
        if peak and _is_own_group(folder):
            return peak
    return find_process_peak_bytes(proc)


def find_process_peak_bytes(proc: Path = Path("/proc")) -> int | None:
    """The peak of this process or of the largest child that has ended, in bytes."""
    own = _read_high_water_mark(proc) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(own, children) * 1024 or None


def _iter_groups(proc: Path, groups: Path) -> list[tuple[Path, str]]:
    found = []
    for line in (_read_text(proc / "self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        inside = path.lstrip("/")
        if not controllers:
            found.append((groups / inside, "memory.peak"))
        elif "memory" in controllers.split(","):
            # Inside a container the path may be that of the host, and the group is then mounted at the top.
            found += [(groups / "memory" / inside, "memory.max_usage_in_bytes")]
            found += [(groups / "memory", "memory.max_usage_in_bytes")]
    return found


def _is_own_group(folder: Path) -> bool:
    """Whether the group holds this run only. A group with our parent in it is that of a whole session or machine.

    Unless the parent is PID 1 of the run's own container.
    """
    members = (_read_text(folder / "cgroup.procs") or "").split()
    parent = str(os.getppid())
    is_init = parent == os.environ.get(INIT_VARIABLE)
    return str(os.getpid()) in members and (is_init or parent not in members)


def _read_high_water_mark(proc: Path) -> int | None:
    """KiB of VmHWM. Unlike ru_maxrss it does not count the process that this one was forked from."""
    for line in (_read_text(proc / "self/status") or "").splitlines():
        if line.startswith("VmHWM:") and line.split()[1].isdigit():
            return int(line.split()[1])
    return None


def _read_number(path: Path) -> int | None:
    text = (_read_text(path) or "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _read_text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_PROC_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
