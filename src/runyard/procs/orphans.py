"""Supervisors whose folder somebody deleted: nobody can observe or stop what they supervise anymore."""

import os
from collections.abc import Iterator
from pathlib import Path

from runyard.procs.supervision import PROGRAM
from runyard.procs.supervisor.process_tree import find_start_time, list_pids, read_kernel_file

LARGEST_COMMAND_BYTES = 16 << 10
"""How much of a command line is read."""


def iter_orphans(folder: Path) -> Iterator[tuple[int, int]]:
    """Pid and start time of each supervisor of a folder that was below this one. Blocks: call it in a thread."""
    below = os.fsencode(folder) + b"/"
    program = os.fsencode(PROGRAM)
    for pid in list_pids():
        words = read_kernel_file(f"/proc/{pid}/cmdline", LARGEST_COMMAND_BYTES).split(b"\0")
        if program not in words:
            continue
        supervised = next((word for word in words if word.startswith(below)), None)
        start_time = find_start_time(pid)
        if supervised is not None and start_time is not None and not os.path.lexists(supervised):
            yield pid, start_time
