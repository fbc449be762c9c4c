"""The installed command at a pseudo-terminal, which must be afterwards as it was before."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.core_process import COMMAND, make_environment
from tests.e2e.terminals import Terminal, open_terminal

CTRL_C = "\x03"
_MODES = re.compile(r"\x1b\[\?(1049|25)([hl])")


@contextmanager
def start(*arguments: str, folder: Path, **environment: str) -> Iterator[Terminal]:
    """Start `runyard`; fails if its end leaves the terminal in another state."""
    kept = {name: os.environ[name] for name in ("RUNYARD_ENDPOINT", "RUNYARD_PROJECT")}
    variables = {**make_environment(), **kept, "TERM": "xterm", "HOME": str(folder), "NO_COLOR": "1", **environment}
    with open_terminal([*COMMAND, *arguments], folder=folder, environment=variables) as terminal:
        before = terminal.read_settings()
        yield terminal
        assert terminal.read_settings() == before


def assert_screen_is_given_back(shown: str) -> None:
    """The alternate screen is left as often as it was entered, and the cursor is back."""
    modes = [(number, state) for number, state in _MODES.findall(shown)]
    assert modes.count(("1049", "h")) == modes.count(("1049", "l")) > 0
    assert [state for number, state in modes if number == "25"][-1] == "h"
