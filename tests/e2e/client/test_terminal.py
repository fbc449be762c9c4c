"""Commands at a pseudo-terminal: questions, live tables, Ctrl-C at each moment. The terminal is the same afterwards."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import runyard as ry
from tests.core_process import COMMAND, make_environment
from tests.e2e.client.client_terminal import CTRL_C, assert_screen_is_given_back, start
from tests.e2e.client.conftest import PROGRAM, SECONDS
from tests.e2e.terminals import Terminal, open_terminal

SLEEP = "source: {source: program.py, handler: sleep}\n"
QUESTION = r"Start it\? \[Y/n\]: "


@pytest.fixture
def folder(server: str, tmp_path: Path) -> Path:
    """With a run file; the server is in the environment."""
    (tmp_path / "sleep.yaml").write_text(SLEEP)
    return tmp_path


@pytest.fixture
def sleeping(folder: Path) -> Iterator[ry.Run]:
    """A run that goes on until the test ends."""
    (folder / "program.py").write_text(PROGRAM)
    project = ry.get_or_create_project("demo")
    run = project.new_function("sleep", code_src="program.py", handler="sleep").run().wait(until="running")
    yield run
    run.stop().wait()


def test_run_goes_on_when_ctrl_c_ends_the_following(folder: Path) -> None:
    with start("run", "-f", "sleep.yaml", folder=folder) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("\r")
        shown = terminal.read_until("sleeping\r\n")
        run = shown.partition("note: run ")[2].partition(" of project demo")[0]
        terminal.type(CTRL_C)
        shown = terminal.read_to_end()
        assert terminal.wait() == 130
    assert f"run {run} goes on; stop it with `runyard stop {run}`" in shown
    assert "Traceback" not in shown
    found = ry.get_run(run, project="demo")
    assert found.state == "RUNNING"
    with start("logs", "-f", run, folder=folder) as terminal:
        terminal.read_until("sleeping\r\n")
        terminal.type(CTRL_C)
        assert f"run {run} goes on" in terminal.read_to_end()
        assert terminal.wait() == 130
    with start("stop", run, folder=folder) as terminal:
        terminal.read_until(rf"Stop {run}\? \[Y/n\]: ")
        terminal.type("y\r")
        assert f"{run}: STOPPED" in terminal.read_to_end()
        assert terminal.wait() == 0
    assert found.refresh().state == "STOPPED"


def test_nothing_is_submitted_when_the_answer_is_no(folder: Path) -> None:
    before = [run.id for run in ry.get_or_create_project("demo").list_runs()]
    with start("run", "-f", "sleep.yaml", folder=folder) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("n\r")
        assert "Traceback" not in terminal.read_to_end()
        assert terminal.wait() == 130
    assert [run.id for run in ry.get_project("demo").list_runs()] == before


@pytest.mark.parametrize(
    ("words", "question"),
    [(("run", "-f", "sleep.yaml"), QUESTION), (("stop", "RUN"), "Stop"), (("rm", "RUN"), "Delete")],
)
def test_nothing_happens_when_ctrl_c_is_pressed_at_a_question(
    folder: Path, sleeping: ry.Run, words: tuple[str, ...], question: str
) -> None:
    before = [run.id for run in ry.get_project("demo").list_runs()]
    with start(*(word.replace("RUN", sleeping.id) for word in words), folder=folder) as terminal:
        terminal.read_until(question)
        terminal.type(CTRL_C)
        assert "Traceback" not in terminal.read_to_end()
        assert terminal.wait() == 130
    assert [run.id for run in ry.get_project("demo").list_runs()] == before
    assert sleeping.refresh().state == "RUNNING"


@pytest.mark.parametrize("answer", ["n\r", "\r", CTRL_C])
def test_policy_stays_when_the_answer_is_no(folder: Path, answer: str) -> None:
    (folder / "tighter.yaml").write_text("resources.mem: {default: 64Mi, max: 128Mi}\n")
    before = ry.get_client().get_policy()
    with start("policy", "apply", "tighter.yaml", folder=folder) as terminal:
        assert "resources.mem.max" in terminal.read_until(r"Apply it\? \[y/N\]: ")
        terminal.type(answer)
        terminal.read_to_end()
        assert terminal.wait() == 130
    assert ry.get_client().get_policy() == before


def test_run_is_known_to_be_uncertain_when_ctrl_c_comes_while_submitting(folder: Path) -> None:
    words = ("run", "-f", "sleep.yaml", "--yes")
    with (
        hold_submits(os.environ["RUNYARD_ENDPOINT"]) as (address, has_submitted),
        start(*words, folder=folder, RUNYARD_ENDPOINT=address) as terminal,
    ):
        assert has_submitted.wait(SECONDS)
        terminal.type(CTRL_C)
        shown = terminal.read_to_end()
        assert terminal.wait() == 130
    assert "note: interrupted; the run may have been submitted: `runyard describe sleep-" in shown
    assert "Traceback" not in shown


@contextmanager
def hold_submits(endpoint: str) -> Iterator[tuple[str, threading.Event]]:
    """A proxy that keeps the answer to a submit for itself; its address, and an event for the submit."""
    host, port = endpoint.removeprefix("http://").split(":")
    has_submitted, is_over = threading.Event(), threading.Event()
    threads = []

    def relay(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(port))) as upstream:
            client.settimeout(0.05)
            upstream.settimeout(0.05)
            while not is_over.is_set():
                for source, target in ((client, upstream), (upstream, client)):
                    try:
                        data = source.recv(1 << 16)
                    except TimeoutError:
                        continue
                    if not data:
                        return
                    if b"POST /api/v1/-/demo/runs HTTP" in data or b"POST /api/v1/-/demo/runs?" in data:
                        has_submitted.set()
                    if source is client or not has_submitted.is_set():
                        target.sendall(data)

    def accept(listener: socket.socket) -> None:
        while not is_over.is_set():
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            threads.append(threading.Thread(target=relay, args=(client,)))
            threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        accepting = threading.Thread(target=accept, args=(listener,))
        accepting.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", has_submitted
        finally:
            is_over.set()
            accepting.join()
            for thread in threads:
                thread.join()


def test_run_goes_on_when_ctrl_c_ends_the_waiting(folder: Path, sleeping: ry.Run) -> None:
    with start("wait", sleeping.id, folder=folder) as terminal:
        terminal.read_until(f"note: run {sleeping.id}: RUNNING")
        terminal.type(CTRL_C)
        shown = terminal.read_to_end()
        assert terminal.wait() == 130
    assert f"run {sleeping.id} goes on; stop it with `runyard stop {sleeping.id}`" in shown
    assert sleeping.refresh().state == "RUNNING"


def test_table_is_redrawn_in_place_and_fits_when_runs_are_watched(folder: Path, sleeping: ry.Run) -> None:
    project = ry.get_project("demo")
    with start("ps", "-w", folder=folder) as terminal:
        shown = terminal.read_until(rf"{sleeping.id[:8]}.*RUNNING")
        terminal.resize(60, 8)
        shown += read_picture_that_fits(terminal, columns=60, lines=8)
        for number in range(8):
            add_run(sleeping, f"w{number}")
        terminal.read_until(r"… \d+ more lines")
        for number in range(8):
            project.get_run(f"w{number}").delete()
        terminal.type(CTRL_C)
        after = terminal.read_to_end()
        assert terminal.wait() == 130
    assert_screen_is_given_back(shown + after)
    assert "Traceback" not in after
    # The last picture stays.
    assert after.rpartition("\x1b[?1049l")[2].startswith("project demo, ")
    assert sleeping.refresh().state == "RUNNING"


def read_picture_that_fits(terminal: Terminal, *, columns: int, lines: int) -> str:
    """Everything until a picture that has no more lines than the window, none wider than it."""
    shown = ""
    for _ in range(5):  # one may have been drawn before the window changed
        shown += terminal.read_until(r"\x1b\[H(?s:.*)\x1b\[J")
        picture = shown.rpartition("\x1b[H")[2].partition("\x1b[J")[0].replace("\x1b[K", "").split("\r\n")
        if len(picture) <= lines and all(len(line) <= columns for line in picture):
            return shown
    raise AssertionError(shown)


def add_run(like: ry.Run, run_id: str) -> None:
    """A run that no engine executes."""
    body = {"id": run_id, "kind": like.kind, "spec": {"task": like.spec.task, "local_execution": True}}
    ry.get_client().request("POST", "/api/v1/-/demo/runs", body=body)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_screen_is_given_back_when_a_signal_ends_the_watching(folder: Path, sleeping: ry.Run, number: int) -> None:
    with start("ps", "-w", folder=folder) as terminal:
        shown = terminal.read_until(sleeping.id[:8])
        terminal.send_signal(number)
        shown += terminal.read_to_end()
        assert terminal.wait() == 128 + number
    assert_screen_is_given_back(shown)


def test_shell_has_the_screen_when_the_watching_is_suspended(folder: Path, sleeping: ry.Run) -> None:
    words = ["bash", "--norc", "-i"]
    environment = {**make_environment(), "TERM": "xterm", "HOME": str(folder), "PS1": "prompt$ "}
    environment |= {name: os.environ[name] for name in ("RUNYARD_ENDPOINT", "RUNYARD_PROJECT")}
    with open_terminal(words, folder=folder, environment=environment) as terminal:
        terminal.read_until(r"prompt\$ ")
        terminal.type(f"{COMMAND[0]} ps -w\r")
        shown = terminal.read_until(sleeping.id[:8])
        terminal.type("\x1a")
        suspended = terminal.read_until(r"Stopped(?s:.*)prompt\$ ")
        assert_screen_is_given_back(shown + suspended)
        terminal.type("fg\r")
        resumed = terminal.read_until(rf"\x1b\[\?1049h(?s:.*){sleeping.id[:8]}")
        terminal.type(CTRL_C)
        resumed += terminal.read_until(r"\x1b\[\?1049l(?s:.*)prompt\$ ")
        assert_screen_is_given_back(resumed)
        terminal.type("exit\r")
        terminal.read_to_end()
