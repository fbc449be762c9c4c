"""Finds the descendants of a process in /proc: their start times, memory and environment."""

from __future__ import annotations

import os

MOST_PROCESSES = 100_000
"""How many processes are looked at in one walk; the kernel's own limit is higher on few machines only."""


def find_start_time(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None if it is gone."""
    fields = _read_stat(pid)
    return int(fields[19]) if len(fields) > 19 else None


def _read_stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/<pid>/stat from the third on; the second may hold spaces and parentheses."""
    content = read_file(f"/proc/{pid}/stat")
    return content[content.rfind(b")") + 2 :].split()


def read_file(path: str, most: int = 1 << 16) -> bytes:
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
