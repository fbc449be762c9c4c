"""Shows how far an upload or download is, if it takes more than a second: a line that changes, or lines in a pipe."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from runyard.cli.output import clean, print_note
from runyard.sdk.transfer_progress import OnProgress, TransferProgress

FIRST_SECONDS = 1.0
TERMINAL_SECONDS = 0.2
PIPE_SECONDS = 10.0
_ERASE = "\r\x1b[K"
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@contextmanager
def show_transfer() -> Iterator[OnProgress]:
    """What is told how far a transfer is; the line is erased at the end."""
    line = TransferLine()
    try:
        yield line.show
    finally:
        line.erase()


class TransferLine:
    """The line on standard error."""

    def __init__(self, *, read_clock: Callable[[], float] = time.monotonic) -> None:
        self._read_clock = read_clock
        self._begun = read_clock()
        self._due = self._begun + FIRST_SECONDS
        self._is_shown = False
        self._problem: str | None = None

    def show(self, progress: TransferProgress) -> None:
        """Show it, if it is time."""
        if progress.problem is not None and self._problem is None:
            self.erase()
            print_note(f"the transfer pauses ({progress.problem}); trying again")
        self._problem = progress.problem
        now = self._read_clock()
        if now < self._due:
            return
        text = describe_transfer(progress, seconds=now - self._begun)
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns
            click.echo(f"{_ERASE}{text[: width - 1]}", err=True, nl=False)
            self._is_shown, self._due = True, now + TERMINAL_SECONDS
        else:
            click.echo(text, err=True)
            self._due = now + PIPE_SECONDS

    def erase(self) -> None:
        """Leave an empty line."""
        if self._is_shown:
            click.echo(_ERASE, err=True, nl=False)
            self._is_shown = False


def describe_transfer(progress: TransferProgress, *, seconds: float) -> str:
    """`uploading net.bin: 1.2 GiB of 4.0 GiB, 30 %, 85.0 MiB/s, 33 s left`."""
    done, total = progress.done_bytes, progress.total_bytes
    share = 100 * done // total if total else 100
    text = f"{progress.phase} {clean(progress.path)}: {_format(done)} of {_format(total)}, {share} %"
    if progress.phase == "checking" or not done or seconds <= 0:
        return text
    left = round((total - done) * seconds / done)
    minutes = f"{left // 60} min " if left >= 60 else ""
    return f"{text}, {_format(done / seconds)}/s, {minutes}{left % 60} s left"


def _format(size: float) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size:.0f} B"
