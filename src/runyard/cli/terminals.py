"""The user's terminal: raw mode, the whole screen, its size, and the way back to how it was on every path.

Everything is written and read by descriptor: signal handlers may not enter Python's buffers.
"""

import os
import select
import signal
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

ENTER_SCREEN = b"\x1b[?1049h\x1b[?25l"
"""The alternate screen, without a cursor."""
LEAVE_SCREEN = b"\x1b[?25h\x1b[?1049l"
_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def raw_mode(terminal: int) -> Iterator[None]:
    """Pass every key on, Ctrl-C as well, until the block ends."""
    before = termios.tcgetattr(terminal)
    with _exit_on_signals():
        try:
            tty.setraw(terminal, termios.TCSADRAIN)  # what was typed already is kept
            yield
        finally:
            with suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def watch_size() -> Iterator[int]:
    """Yield a descriptor that can be read whenever the size of the terminal has changed."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        with _handle(signal.SIGWINCH, lambda _number, _frame: _wake(writing)):
            yield reading
    finally:
        os.close(reading)
        os.close(writing)


class Screen:
    """The whole terminal, for a picture that is drawn again and again. A context manager."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    @contextmanager
    def open(self) -> Iterator["Screen"]:
        """Take the screen; what was there before is back at the end, also after Ctrl-Z, SIGTERM and SIGHUP."""
        wake, suspend = (lambda _number, _frame: _wake(self._writing)), self._suspend
        with _exit_on_signals(), _handle(signal.SIGWINCH, wake), _handle(signal.SIGTSTP, suspend):
            try:
                os.write(self._terminal, ENTER_SCREEN)
                yield self
            finally:
                with suppress(OSError):  # the terminal is gone
                    os.write(self._terminal, LEAVE_SCREEN)
                os.close(self._reading)
                os.close(self._writing)

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines, now."""
        return os.get_terminal_size(self._terminal)

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the picture; lines that do not fit are left out."""
        shown = lines[: self.size.lines]
        text = "\n".join(f"{line}\x1b[K" for line in shown)
        os.write(self._terminal, f"\x1b[H{text}\x1b[J".encode(errors="replace"))

    def wait(self, seconds: float) -> None:
        """Wait, or until the picture must be drawn anew."""
        if select.select([self._reading], [], [], seconds)[0]:
            drain(self._reading)

    def _suspend(self, number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: give the screen back while the shell has it."""
        os.write(self._terminal, LEAVE_SCREEN)
        with _handle(signal.SIGTSTP, signal.SIG_DFL):
            os.kill(os.getpid(), number)
        os.write(self._terminal, ENTER_SCREEN)
        _wake(self._writing)


def drain(descriptor: int) -> None:
    """Read what woke us."""
    with suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass


def _wake(descriptor: int) -> None:
    with suppress(BlockingIOError):  # full: it wakes anyway
        os.write(descriptor, b"\0")


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Turn the signals that end a program into an exception, so that it cleans up."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with _handle(_ENDING[0], leave), _handle(_ENDING[1], leave):
        yield


@contextmanager
def _handle(number: signal.Signals, handler: Any) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
