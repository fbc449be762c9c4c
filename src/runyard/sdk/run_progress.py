"""Shows how a run goes while somebody waits for it: lines on standard error, or a live view in a notebook.

IPython is no dependency. It is used if it is there: if this is code of a notebook, it is loaded.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

from runyard.sdk.documents import RunView
from runyard.sdk.html_tables import render_text

MOST_LINES = 100
"""Lines of the log that the live view has: the last ones."""
MOST_LINE = 500
"""Characters of a line."""
_BOX = "max-height:24em;overflow:auto;display:flex;flex-direction:column-reverse"
"""A box that is scrolled to its end."""
_TERMINAL = "TerminalInteractiveShell"
Display = Callable[..., Any]


class RunProgress(Protocol):
    """What is told of a run while somebody waits."""

    lines: int
    """How many lines of the log it wants."""

    def show(self, run: RunView, log: Sequence[str]) -> None:
        """Show the run as it is now."""


class PrintedProgress:
    """Changes of state, one line each."""

    lines = 0

    def __init__(self) -> None:
        self._shown = ""

    def show(self, run: RunView, log: Sequence[str]) -> None:  # noqa: ARG002 - a terminal shows the log otherwise
        """Print the state, if it has changed."""
        if run.describe() != self._shown:
            self._shown = run.describe()
            sys.stderr.write(f"{run.id}: {self._shown}\n")


class NotebookProgress:
    """A view of the run with the end of its log, which is replaced as the run goes on."""

    lines = MOST_LINES

    def __init__(self, display: Display) -> None:
        self._display = display
        self._handle: Any = None
        self._shown = ""

    def show(self, run: RunView, log: Sequence[str]) -> None:
        """Replace the view, if it has changed."""
        view = LiveRun(run, log)
        if view.html == self._shown:
            return
        self._shown = view.html
        if self._handle is None:
            self._handle = self._display(view, display_id=True)
        else:
            self._handle.update(view)


class LiveRun:
    """A run and the end of its log at one moment."""

    def __init__(self, run: RunView, log: Sequence[str]) -> None:
        self.html = render_run(run, log)
        self._text = repr(run)

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self.html


def render_run(run: RunView, log: Sequence[str]) -> str:
    """The table of a run, and the end of its log below."""
    lines = "\n".join(render_text(line, most=MOST_LINE) for line in log[-MOST_LINES:])
    return f'{run._repr_html_()}<div style="{_BOX}"><pre>{lines}</pre></div>'


def open_progress() -> RunProgress:
    """The live view in a notebook, otherwise lines."""
    display = find_display()
    return PrintedProgress() if display is None else NotebookProgress(display)


def find_display() -> Display | None:
    """IPython's `display` in a cell of a notebook; None anywhere else, also in IPython at a terminal."""
    loaded = sys.modules.get("IPython")
    get_shell = getattr(loaded, "get_ipython", None)
    shell = None if get_shell is None else get_shell()
    if shell is None or any(kind.__name__ == _TERMINAL for kind in type(shell).__mro__):
        return None
    display: Display = import_module("IPython.display").display
    return display
