"""Supervisors whose folder somebody deleted: nobody can observe or stop their runs anymore, so they are ended."""

import os
from collections.abc import Iterator
from pathlib import Path

from runyard.procs.supervision import PROGRAM
from runyard.procs.supervisor.process_tree import find_start_time, read_file

MOST_PROCESSES = 100_000
"""How many processes of the machine are looked at."""
LARGEST_COMMAND_BYTES = 16 << 10
"""How much of a command line is read."""


def iter_orphans(runs: Path) -> Iterator[tuple[int, int]]:
    """Pid and start time of each supervisor of this place without a folder. Blocks: call it in a thread."""
    below = os.fsencode(runs) + b"/"
    program = os.fsencode(PROGRAM)
    for name in [name for name in os.listdir("/proc") if name.isdecimal()][:MOST_PROCESSES]:
        words = read_file(f"/proc/{name}/cmdline", LARGEST_COMMAND_BYTES).split(b"\0")
        if program not in words:
            continue
        folder = next((word for word in words if word.startswith(below)), None)
        start_time = find_start_time(int(name))
        if folder is not None and start_time is not None and not os.path.lexists(folder):
            yield int(name), start_time
