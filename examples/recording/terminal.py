"""Commands at a pseudo-terminal, recorded with their times as asciinema does (version 2 of its format)."""

import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 96, 30
COMMAND_SECONDS = 120.0
KEY_SECONDS = 0.05
"""Between two letters that the script types."""
IDLE_SECONDS = 1.5
"""A player waits no longer than this when nothing happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command, the exit code that it must have, and what is typed when it asks."""

    command: str
    code: int = 0
    question: str | None = None
    """A regular expression; when it is shown, Return is pressed."""


@dataclass(slots=True)
class Recording:
    """What a terminal showed, and when."""

    events: list[tuple[float, str]] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def add(self, text: str) -> None:
        """Shown now."""
        self.events.append((round(time.monotonic() - self._began, 3), text))

    def to_cast(self, *, title: str) -> str:
        """As asciinema stores it."""
        head: dict[str, Any] = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": title}
        head |= {"idle_time_limit": IDLE_SECONDS, "env": {"TERM": "xterm-256color", "SHELL": "/bin/bash"}}
        lines = [head, *([at, "o", text] for at, text in self.events)]
        return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def read_cast(cast: str) -> str:
    """All that a recording shows, without its times."""
    events = [json.loads(line) for line in cast.splitlines()[1:]]
    return "".join(text for _, kind, text in events if kind == "o")


def record(steps: Sequence[Step], *, folder: Path, environment: Mapping[str, str]) -> Recording:
    """Type each command at a prompt and execute it. Raises `RuntimeError` if one ends with another code."""
    recording = Recording()
    for step in steps:
        recording.add("\x1b[32m$\x1b[0m ")
        for letter in step.command:
            time.sleep(KEY_SECONDS)
            recording.add(letter)
        recording.add("\r\n")
        code = _execute(step, recording, folder=folder, environment=environment)
        if code != step.code:
            shown = "".join(text for _, text in recording.events[-20:])
            raise RuntimeError(f"{step.command} exited with {code}, not {step.code}:\n{shown}")
        time.sleep(IDLE_SECONDS)
    recording.add("\x1b[32m$\x1b[0m ")
    return recording


def _execute(step: Step, recording: Recording, *, folder: Path, environment: Mapping[str, str]) -> int:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    with subprocess.Popen(
        ["setsid", "--ctty", "bash", "-c", step.command],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=folder,
        env={**environment, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": str(HEIGHT)},
    ) as process:
        os.close(follower)
        try:
            _follow(leader, step, recording)
            return process.wait(COMMAND_SECONDS)
        except BaseException:
            process.send_signal(signal.SIGKILL)
            raise
        finally:
            os.close(leader)


def _follow(leader: int, step: Step, recording: Recording) -> None:
    """Record what is shown until the command has closed its terminal; answer its question."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    deadline, shown, is_answered = time.monotonic() + COMMAND_SECONDS, "", step.question is None
    while True:
        if not select.select([leader], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise RuntimeError(f"{step.command} shows nothing new: {shown[-500:]}")
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # the other side is closed
            return
        if not chunk:
            return
        text = decoder.decode(chunk)
        shown += text
        recording.add(text)
        if not is_answered and step.question is not None and re.search(step.question, shown):
            time.sleep(IDLE_SECONDS)
            os.write(leader, b"\r")
            is_answered = True
