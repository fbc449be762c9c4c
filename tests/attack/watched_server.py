"""`runyard` that measures how long its event loop is held: `python -m tests.attack.watched_server server …`.

A timer ticks every millisecond. Between two ticks the loop did other work, or another thread held the interpreter
lock (GIL). The processor time of the process between two ticks is how long that took, without the time in which a
loaded machine ran something else. The longest is kept in a file that `LoopWatch` reads.
"""

import asyncio
import mmap
import os
import struct
import sys
import time
from pathlib import Path

import uvloop

from runyard.cli.main import main

VARIABLE = "ATTACK_WATCH_FILE"
"""Names the file; not one of `RUNYARD_*`, which are settings."""
TICK_SECONDS = 0.001
_LAYOUT = struct.Struct("=QQdd")
"""The number of the measurement that is asked for, that which is answered, the longest hold and the longest gap."""
SIZE = _LAYOUT.size


class LoopWatch:
    """Reads the longest hold of the event loop of another process, from the file that both have mapped."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(bytes(SIZE))
        self._file = file.open("r+b")
        self._memory = mmap.mmap(self._file.fileno(), SIZE)
        self._number = 0

    def start(self) -> None:
        """Begin a measurement; returns when the server has seen it."""
        self._number += 1
        self._memory[:8] = struct.pack("=Q", self._number)
        deadline = time.monotonic() + 60.0
        while _LAYOUT.unpack(self._memory)[1] != self._number:
            if time.monotonic() > deadline:
                raise AssertionError("the event loop of the server has not run for a minute")
            time.sleep(0.001)

    def read(self) -> tuple[float, float]:
        """Seconds of processor time of the longest hold, and seconds of the longest gap, since `start`."""
        _, _, held, gap = _LAYOUT.unpack(self._memory)
        return held, gap

    def close(self) -> None:
        """Close the file."""
        self._memory.close()
        self._file.close()


class _Ticker:
    """Ticks on a loop and keeps the longest hold."""

    def __init__(self, loop: asyncio.AbstractEventLoop, memory: mmap.mmap) -> None:
        self._loop = loop
        self._memory = memory
        self._number = 0
        self._held = self._gap = 0.0
        self._used, self._at = time.process_time(), time.monotonic()

    def tick(self) -> None:
        """Measure since the last tick."""
        used, at = time.process_time(), time.monotonic()
        asked, _, _, _ = _LAYOUT.unpack(self._memory)
        if asked != self._number:
            self._number, self._held, self._gap = asked, 0.0, 0.0
        else:
            self._held = max(self._held, used - self._used)
            self._gap = max(self._gap, at - self._at)
        self._memory[8:] = struct.pack("=Qdd", self._number, self._held, self._gap)
        self._used, self._at = used, at
        self._loop.call_later(TICK_SECONDS, self.tick)


def watch_loops(file: Path) -> None:
    """Let every event loop that the server makes tick into that file."""
    make = uvloop.new_event_loop
    with file.open("r+b") as opened:
        memory = mmap.mmap(opened.fileno(), SIZE)

    def make_watched() -> uvloop.Loop:
        loop = make()
        loop.call_soon(_Ticker(loop, memory).tick)
        return loop

    uvloop.new_event_loop = make_watched


if __name__ == "__main__":
    watch_loops(Path(os.environ[VARIABLE]))
    sys.exit(main())
