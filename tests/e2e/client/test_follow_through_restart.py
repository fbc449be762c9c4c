"""A server that is killed and started again meanwhile: no line of a log is lost or doubled, a watched table goes on."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import runyard as ry
from examples.demo.stage import end_runs
from tests.core_process import COMMAND, make_environment, run_core
from tests.e2e.client.client_terminal import CTRL_C, assert_screen_is_given_back, start
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


@pytest.fixture
def options(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Those of a server that is always at the same port, which the environment names."""
    port = str(find_free_port())
    monkeypatch.setenv("RUNYARD_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("RUNYARD_PROJECT", "demo")
    return "--port", port


def add_run(run_id: str) -> None:
    """A run that no engine executes."""
    with ry.Client() as client:
        function = client.get_or_create_project("demo").new_function("box", kind="container", image="busybox:1.36")
        body = {"kind": "container+job", "spec": {"function": f"container://demo/box:{function.id}"}}
        task = client.request("POST", "/api/v1/-/demo/tasks", body=body)["id"]
        spec = {"task": f"container+job://demo/{task}", "local_execution": True}
        client.request("POST", "/api/v1/-/demo/runs", body={"id": run_id, "kind": "container+job:run", "spec": spec})


def test_table_stays_and_goes_on_when_the_server_is_killed_while_runs_are_watched(
    folder: Path, options: tuple[str, ...]
) -> None:
    with run_core(*options, folder=folder / "core") as core:
        add_run("r1")
        with start("ps", "-w", folder=folder) as terminal:
            shown = terminal.read_until(r"project demo, (?s:.*)\br1\b")
            core.kill()
            shown += terminal.read_until(r"the server is away(?s:.*)\x1b\[J")
            picture = shown.rpartition("\x1b[H")[2]
            assert picture.startswith("the server is away, trying again: ")
            assert re.search(r"\br1\b", picture), "the table stays"
            with run_core(*options, folder=folder / "core"):
                add_run("r2")
                shown += terminal.read_until(r"project demo, (?s:.*)\br2\b(?s:.*)\x1b\[J")
                assert re.search(r"\br1\b", shown.rpartition("\x1b[H")[2])
                terminal.type(CTRL_C)
                shown += terminal.read_to_end()
                assert terminal.wait() == 130
    assert_screen_is_given_back(shown)
    assert "Traceback" not in shown


def test_one_note_is_printed_when_the_server_is_killed_while_runs_are_watched_in_a_pipe(
    folder: Path, options: tuple[str, ...]
) -> None:
    named = {name: os.environ[name] for name in ("RUNYARD_ENDPOINT", "RUNYARD_PROJECT", "HOME")}
    with run_core(*options, folder=folder / "core") as core:
        add_run("r1")
        process = subprocess.Popen(
            [*COMMAND, "ps", "-w"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=make_environment(named)
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline().startswith(b"RUN ")
            assert process.stdout.readline().startswith(b"r1 ")
            core.kill()
            note = process.stderr.readline()
            assert note.startswith(f"note: the server is away ({core.url}: ".encode())
            with run_core(*options, folder=folder / "core"):
                add_run("r2")
                assert process.stdout.readline().startswith(b"r2 "), "r1 has not changed"
                process.send_signal(signal.SIGINT)
                out, errors = process.communicate(timeout=SECONDS)
            assert (process.returncode, out, errors) == (130, b"", b"")
        finally:
            process.kill()
            process.wait()
