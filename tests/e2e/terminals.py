"""A program at a pseudo-terminal, which is its controlling one: keys go in, what is shown comes out."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 60.0


class Terminal:
    """The keyboard and the screen."""

    def __init__(self, leader: int, process: subprocess.Popen[bytes]) -> None:
        self._leader, self._process = leader, process

    def type(self, text: str) -> None:
        """Press keys; `\\x03` is Ctrl-C."""
        os.write(self._leader, text.encode())

    def read_until(self, pattern: str) -> str:
        """Everything that is shown from now on, until the pattern is."""
        shown, deadline = "", time.monotonic() + SECONDS
        while not re.search(pattern, shown):
            ready, _, _ = select.select([self._leader], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"nothing like {pattern} was shown: {shown!r}"
            shown += os.read(self._leader, 65536).decode(errors="replace")
        return shown

    def press_until(self, keys: str, pattern: str) -> str:
        """Press keys, every second again, until the pattern is shown; returns everything that was.

        For a program that shows nothing when it is ready for them.
        """
        shown, deadline = "", time.monotonic() + SECONDS
        while not re.search(pattern, shown):
            assert time.monotonic() < deadline, f"nothing like {pattern} was shown: {shown!r}"
            self.type(keys)
            while not re.search(pattern, shown) and select.select([self._leader], [], [], 1.0)[0]:
                shown += os.read(self._leader, 65536).decode(errors="replace")
        return shown

    def read_to_end(self) -> str:
        """Everything that is shown until the program has ended."""
        shown, deadline = "", time.monotonic() + SECONDS
        while True:
            has_ended = self._process.poll() is not None
            ready, _, _ = select.select([self._leader], [], [], 0.1)
            try:
                content = os.read(self._leader, 65536) if ready else b""
            except OSError:  # Linux says so when the last program has closed it
                return shown
            if has_ended and not content:
                return shown
            shown += content.decode(errors="replace")
            assert time.monotonic() < deadline, f"the program did not end: {shown!r}"

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size, which the program is told by a signal."""
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_settings(self) -> list[Any]:
        """What `stty -a` shows."""
        return termios.tcgetattr(self._leader)

    def send_signal(self, number: int) -> None:
        """Send a signal to the program."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """How the program ended."""
        return self._process.wait(SECONDS)


@contextmanager
def open_terminal(words: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Start a program at a terminal of 80 columns; it is gone afterwards."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        ["setsid", "--ctty", *words], stdin=follower, stdout=follower, stderr=follower, cwd=folder, env=environment
    )
    os.close(follower)
    try:
        yield Terminal(leader, process)
    finally:
        process.kill()
        process.wait()
        os.close(leader)
