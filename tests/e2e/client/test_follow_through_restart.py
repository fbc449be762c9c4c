"""A log that is followed while its server is killed and started again: no line is lost or doubled."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import runyard as ry
from examples.demo.stage import end_runs
from tests.core_process import run_core
from tests.e2e.client.conftest import PROGRAM, SECONDS, set_environment

LINES = 300


def find_free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def go_on() -> Iterator[Path]:
    """A file for which the run waits, where the user of the run can see it."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "go-on"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    set_environment(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    yield tmp_path
    end_runs(tmp_path / "core" / "data")


def test_every_line_is_there_once_when_the_server_is_killed_in_the_middle(folder: Path, go_on: Path) -> None:
    port = find_free_port()
    options = ("--engine", "local", "--port", str(port))
    lines: dict[str, list[str]] = {"sync": [], "async": []}
    with run_core(*options, folder=folder / "core") as core:
        with ry.Client(core.url) as client:
            func = client.get_or_create_project("demo").new_function("count", code_src="program.py", handler="count")
            run = func.run(parameters={"until": LINES, "path": str(go_on)})
        threads = [
            threading.Thread(target=follow, args=(core.url, run.id, lines["sync"])),
            threading.Thread(target=asyncio.run, args=(follow_async(core.url, run.id, lines["async"]),)),
        ]
        for thread in threads:
            thread.start()
        wait_for_lines(lines, f"line {LINES - 1}")
        core.kill()
    go_on.touch()  # the run goes on while no server is there
    with run_core(*options, folder=folder / "core"):
        for thread in threads:
            thread.join(SECONDS)
            assert not thread.is_alive(), {name: found[-3:] for name, found in lines.items()}
    expected = [f"line {number}" for number in range(2 * LINES)]
    for found in lines.values():
        assert [line for line in found if line.startswith("line ")] == expected


def follow(url: str, run_id: str, lines: list[str]) -> None:
    with ry.Client(url) as client:
        for line in client.get_project("demo").get_run(run_id).logs(follow=True):
            lines.append(line)  # noqa: PERF402 - one by one: the other thread looks at them


async def follow_async(url: str, run_id: str, lines: list[str]) -> None:
    async with ry.AsyncClient(url) as client:
        run = await (await client.get_project("demo")).get_run(run_id)
        async for line in run.logs(follow=True):
            lines.append(line)  # noqa: PERF401


def wait_for_lines(lines: dict[str, list[str]], wanted: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not all(wanted in found for found in lines.values()):
        assert time.monotonic() < deadline, {name: found[-3:] for name, found in lines.items()}
        time.sleep(0.02)
