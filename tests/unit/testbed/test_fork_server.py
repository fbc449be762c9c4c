import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fork_server import ForkedProcess, ForkServer
from tests.unit.testbed import forked_programs

PROGRAMS = forked_programs.__name__


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    server = ForkServer(warm_up=f"{PROGRAMS}:warm_up")
    yield server
    server.close()


def start(forks: ForkServer, program: str, folder: Path, *, given: bytes = b"") -> ForkedProcess:
    (folder / "stdin").write_bytes(given)
    with (
        (folder / "stdin").open("rb") as stdin,
        (folder / "stdout").open("wb") as stdout,
        (folder / "stderr").open("wb") as stderr,
    ):
        return forks.start(
            f"{PROGRAMS}:{program}",
            ["program", "word"],
            environment={"NAME": "value"},
            folder=folder,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )


def test_program_has_what_it_was_given_and_nothing_else_when_it_is_forked(forks: ForkServer, tmp_path: Path) -> None:
    process = start(forks, "tell", tmp_path, given=b"words")
    assert process.wait(60) == 7
    assert process.poll() == process.returncode == 7
    told = (tmp_path / "stdout").read_text()
    assert told == f"['program', 'word'] {tmp_path} {{'NAME': 'value'}} words True\n"
    assert (tmp_path / "stderr").read_text() == "[0, 1, 2] 4\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_exit_code_is_the_signal_when_a_signal_ends_it(forks: ForkServer, tmp_path: Path, number: int) -> None:
    process = start(forks, "wait", tmp_path)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(number)
    assert process.wait(60) == -number
    process.kill()  # it has ended: nobody is hit


def test_program_ends_when_the_fork_server_is_closed(tmp_path: Path) -> None:
    forks = ForkServer(warm_up=f"{PROGRAMS}:warm_up")
    process = start(forks, "wait", tmp_path)
    forks.close()
    with pytest.raises(RuntimeError, match="the fork server died"):
        process.wait(60)
    ended = subprocess.run(["tail", f"--pid={process.pid}", "-f", "/dev/null"], timeout=60, check=True)
    assert ended.returncode == 0


def test_error_is_told_on_standard_error_when_a_program_fails(forks: ForkServer, tmp_path: Path) -> None:
    process = start(forks, "absent", tmp_path)
    assert process.wait(60) == 1
    assert "AttributeError" in (tmp_path / "stderr").read_text()
