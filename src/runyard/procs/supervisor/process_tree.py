"""Finds the descendants of a process in /proc, signals them safely, and sums up their memory."""

from __future__ import annotations

import os

from runyard.procs.supervisor.light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_PROCESSES = 100_000
"""How many processes are looked at in one walk."""
MARK_NAME = "RUNYARD_SUPERVISION"
"""The variable that marks every process of a supervision."""
LARGEST_ENVIRONMENT_BYTES = 4096
"""How much of a process's environment is searched for the mark, which is its first variable."""
_LIMIT_LEVELS = (1 << 62, 1 << 61, 1 << 60, 1 << 59)
"""A hard limit can only be lowered: a supervision inside a command of another takes the next level."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def find_start_time(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None if it is gone."""
    fields = _read_stat(pid)
    return int(fields[19]) if len(fields) > 19 else None


def list_descendants(pid: int) -> dict[int, int]:
    """Return the start times of all processes below this one, by pid; zombies are left out."""
    found: dict[int, int] = {}
    children = _list_children if os.path.exists(f"/proc/{pid}/task/{pid}/children") else _make_scan()
    waiting = children(pid)
    while waiting and len(found) < MOST_PROCESSES:
        each = waiting.pop()
        fields = _read_stat(each)
        if len(fields) > 19 and each not in found:
            if fields[0] not in (b"Z", b"X"):
                found[each] = int(fields[19])
            waiting.extend(children(each))
    return found


def list_limit_marks(mark: str) -> list[int]:
    """Return the resource limits that mark a process as one of a supervision, the first of them that can be set.

    In microseconds of real-time processor time: so high that it limits nothing. Unlike the environment, a process keeps
    it when it executes another program with other variables.
    """
    number = int(mark[:14], 16)
    return [level | number for level in _LIMIT_LEVELS]


def list_marked(mark: str) -> dict[int, int]:
    """Return the start times of the processes of this machine that carry the mark of a supervision, by pid.

    The mark is a variable and a resource limit: one of them is enough. Zombies are left out.
    """
    variable = f"{MARK_NAME}={mark}\0".encode()
    limits = {str(value).encode() for value in list_limit_marks(mark)}
    found: dict[int, int] = {}
    for pid in list_pids():
        fields = _read_stat(pid)
        if len(fields) <= 19 or fields[0] in (b"Z", b"X"):
            continue
        is_marked = variable in b"\0" + read_kernel_file(f"/proc/{pid}/environ", LARGEST_ENVIRONMENT_BYTES)
        if is_marked or not limits.isdisjoint(read_kernel_file(f"/proc/{pid}/limits").split()):
            found[pid] = int(fields[19])
    return found


def send_signals(processes: dict[int, int], number: int) -> int:
    """Signal processes that were listed, by pid and start time; return how many were there. Safe against pid reuse."""
    return sum(send_signal(pid, number, start_time=start_time) for pid, start_time in processes.items())


def send_signal(pid: int, number: int, *, start_time: int | None) -> bool:
    """Signal the process that has this pid and start time; False if it is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Compared after the pidfd is held: it stands for one process, whatever becomes of the pid.
        if start_time is None or find_start_time(pid) != start_time:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def sum_resident_bytes(processes: dict[int, int]) -> int:
    """Return the resident memory of processes; pages that several of them share count several times."""
    total = 0
    for pid in processes:
        fields = read_kernel_file(f"/proc/{pid}/statm").split()
        total += int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else 0
    return total


def sum_proportional_bytes(processes: dict[int, int]) -> int:
    """Return the memory of processes with shared pages counted once (PSS); resident memory where it is not readable."""
    total = 0
    for pid in processes:
        lines = read_kernel_file(f"/proc/{pid}/smaps_rollup").splitlines()
        sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:")]
        total += sizes[0] if sizes else sum_resident_bytes({pid: 0})
    return total


def read_kernel_file(path: str, most: int = 1 << 16) -> bytes:
    """Return the beginning of a file of /proc or /sys; empty if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        chunks = []
        while most > 0 and (chunk := os.read(descriptor, most)):
            chunks.append(chunk)
            most -= len(chunk)
        return b"".join(chunks)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def read_boot_id() -> str:
    """Return the id of this start of the machine."""
    return read_kernel_file("/proc/sys/kernel/random/boot_id").decode().strip()


def _read_stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/<pid>/stat from the third on; the second may hold spaces and parentheses."""
    content = read_kernel_file(f"/proc/{pid}/stat")
    return content[content.rfind(b")") + 2 :].split()


def _list_children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    content = b" ".join(read_kernel_file(f"/proc/{pid}/task/{thread}/children", 1 << 20) for thread in threads)
    return [int(each) for each in content.split()]


def _make_scan() -> Callable[[int], list[int]]:
    """Return the same as `_list_children` for a kernel without CONFIG_PROC_CHILDREN: one look at all processes."""
    children: dict[int, list[int]] = {}
    for pid in list_pids():
        fields = _read_stat(pid)
        if len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(pid)
    return lambda pid: children.get(pid, [])


def list_pids() -> list[int]:
    """Return the processes of this machine, at most `MOST_PROCESSES`."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()][:MOST_PROCESSES]
