"""`runyard run` and `logs -f` in a pseudo-terminal: questions, and Ctrl-C while following."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import runyard as ry
from tests.core_process import COMMAND, make_environment
from tests.e2e.client.conftest import SECONDS

SLEEP = "source: {source: program.py, handler: sleep}\n"


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.shown = ""
        self._master = master

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read until the pattern is shown."""
        deadline = time.monotonic() + SECONDS
        while (found := re.search(pattern, self.shown)) is None:
            assert time.monotonic() < deadline, self.shown
            self._read()
        return found

    def wait(self) -> int:
        """How it ended; everything that it showed has been read."""
        deadline = time.monotonic() + SECONDS
        while self._read():
            assert time.monotonic() < deadline, self.shown
        return self.process.wait(SECONDS)

    def type(self, text: str) -> None:
        """Type it, Ctrl-C as the character that it is."""
        os.write(self._master, text.encode())

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 0.1)
        if not ready:
            return self.process.poll() is None
        try:
            content = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += content.decode(errors="replace").replace("\r\n", "\n")
        return bool(content)


@contextmanager
def start(*arguments: str, folder: Path) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    environment = {**make_environment(), **{name: os.environ[name] for name in ("RUNYARD_ENDPOINT", "RUNYARD_PROJECT")}}
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={**environment, "TERM": "xterm", "HOME": str(folder)},
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509 - no other thread is there
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _take_terminal() -> None:
    import fcntl  # noqa: PLC0415 - after the fork
    import termios  # noqa: PLC0415

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_run_goes_on_when_ctrl_c_ends_the_following(server: str, tmp_path: Path) -> None:
    (tmp_path / "sleep.yaml").write_text(SLEEP)
    with start("run", "-f", "sleep.yaml", folder=tmp_path) as terminal:
        terminal.wait_for(r"Start it\? \[Y/n\]: ")
        terminal.type("\n")
        run = terminal.wait_for(r"run (sleep-\w+) of project demo")[1]
        terminal.wait_for("sleeping\n")
        terminal.type("\x03")
        assert terminal.wait() == 130
    assert f"run {run} goes on; stop it with `runyard stop {run}`" in terminal.shown
    assert "Traceback" not in terminal.shown
    found = ry.get_run(run, project="demo")
    assert found.state == "RUNNING"
    with start("logs", "-f", run, folder=tmp_path) as terminal:
        terminal.wait_for("sleeping\n")
        terminal.type("\x03")
        assert terminal.wait() == 130
    assert f"run {run} goes on" in terminal.shown
    with start("stop", run, folder=tmp_path) as terminal:
        terminal.wait_for(rf"Stop {run}\? \[Y/n\]: ")
        terminal.type("y\n")
        assert terminal.wait() == 0
    assert found.refresh().state == "STOPPED"


@pytest.mark.parametrize("answer", ["n\n", "\x03"])
def test_nothing_is_submitted_when_the_answer_is_no(server: str, tmp_path: Path, answer: str) -> None:
    (tmp_path / "sleep.yaml").write_text(SLEEP)
    before = [run.id for run in ry.get_or_create_project("demo").list_runs()]
    with start("run", "-f", "sleep.yaml", folder=tmp_path) as terminal:
        terminal.wait_for(r"Start it\? \[Y/n\]: ")
        terminal.type(answer)
        assert terminal.wait() == 130
    assert "Traceback" not in terminal.shown
    assert [run.id for run in ry.get_project("demo").list_runs()] == before


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x03"])
def test_policy_stays_when_the_answer_is_no(server: str, tmp_path: Path, answer: str) -> None:
    (tmp_path / "tighter.yaml").write_text("resources.mem: {default: 64Mi, max: 128Mi}\n")
    before = ry.get_client().get_policy()
    with start("policy", "apply", "tighter.yaml", folder=tmp_path) as terminal:
        terminal.wait_for(r"Apply it\? \[y/N\]: ")
        assert "resources.mem.max" in terminal.shown
        terminal.type(answer)
        assert terminal.wait() == 130
    assert ry.get_client().get_policy() == before
