"""`exec`, `attach`, `port-forward`, `top` and `ps -w`, as users start them.

The containers are processes of this machine, so that terminals, pipes and ports are real; the same commands on a real
cluster are in `tests/cluster/server/test_live_commands.py`.
"""

import asyncio
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

import runyard as ry
from runyard.app.engine import Usage
from tests.core_process import COMMAND, Ended, call_runyard, make_environment
from tests.e2e.client.client_terminal import CTRL_C, start
from tests.e2e.client.conftest import PROGRAM, SECONDS, set_environment
from tests.engines.interactive import Container
from tests.engines.process_sessions import connect, execute
from tests.unit.cli.conftest import Call
from tests.unit.sdk.session_server import SessionServer, run_session_server


@contextmanager
def run_in_thread(folder: Path) -> Iterator[SessionServer]:
    """A server with an event loop of its own."""
    ready, is_over = threading.Event(), threading.Event()
    found: list[SessionServer] = []

    async def serve() -> None:
        async with run_session_server(folder, execute) as server:
            found.append(server)
            ready.set()
            await asyncio.to_thread(is_over.wait)

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()

    folder.mkdir()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(SECONDS)
        assert found, "the server did not start"
        yield found[0]
    finally:
        is_over.set()
        thread.join()


@pytest.fixture
def containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionServer]:
    """A server whose run `r1` executes commands as processes; the environment names it."""
    set_environment(monkeypatch, tmp_path)
    with run_in_thread(tmp_path / "server") as server:
        monkeypatch.setenv("RUNYARD_ENDPOINT", server.url)
        monkeypatch.setenv("RUNYARD_PROJECT", "demo")
        yield server


def pipe(*words: str, folder: Path, given: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    """The installed command between pipes."""
    return subprocess.run([*COMMAND, *words], input=given, capture_output=True, env=make_variables(folder, **more))


def call_client(*words: str) -> Ended:
    """A command in a process of its own: the server of these tests logs to the streams of this one."""
    return call_runyard(
        *words, environment={name: os.environ[name] for name in ("RUNYARD_ENDPOINT", "RUNYARD_PROJECT")}
    )


def make_variables(folder: Path, **more: str) -> dict[str, str]:
    named = {name: os.environ[name] for name in ("RUNYARD_ENDPOINT", "RUNYARD_PROJECT")}
    return {**make_environment(), **named, "HOME": str(folder), **more}


def test_bytes_and_exit_code_are_those_of_the_command_when_it_is_piped(
    containers: SessionServer, tmp_path: Path
) -> None:
    content = bytes(range(256)) * (4 << 10)
    done = pipe("exec", "-i", "r1", "--", "sh", "-c", "cat; echo end >&2; exit 42", folder=tmp_path, given=content)
    assert (done.returncode, done.stdout, done.stderr) == (42, content, b"end\n")
    (tmp_path / "file").write_bytes(content)
    with (tmp_path / "file").open("rb") as file:
        words = [*COMMAND, "exec", "-i", "r1", "cat"]
        read = subprocess.run(words, stdin=file, capture_output=True, env=make_variables(tmp_path))
    assert (read.returncode, read.stdout) == (0, content)


def test_input_is_left_alone_when_it_is_not_asked_for(containers: SessionServer, tmp_path: Path) -> None:
    words = " ".join([*COMMAND, "exec", "r1", "--", "echo", "hello"])
    done = subprocess.run(
        ["sh", "-c", f"{words}; cat"], input=b"kept", capture_output=True, env=make_variables(tmp_path)
    )
    assert done.stdout == b"hello\nkept"


def test_command_is_over_when_nobody_reads_its_output(containers: SessionServer, tmp_path: Path) -> None:
    words = " ".join([*COMMAND, "exec", "r1", "--", "yes"])
    script = f"{{ {words}; echo $? >&2; }} | head -1"
    done = subprocess.run(["sh", "-c", script], capture_output=True, env=make_variables(tmp_path), timeout=SECONDS)
    assert (done.stdout, done.stderr) == (b"y\n", b"141\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("exec", "-it", "r1", "--", "sh"), 2, "-t needs a terminal on standard input"),
        (("exec", "r1", "ls", "-l"), 2, "no such option: -l; options of the command stand after --"),
        (("exec", "r1"), 2, "missing argument"),
        (("exec", "r7", "--", "true"), 1, "project demo has no run r7"),
        (("exec", "r1", "--", "/nothing"), 1, "error: /nothing: No such file or directory"),
        (("port-forward", "r1", "0"), 2, "has no port of the run; allowed: 1 to 65535"),
        (("port-forward", "r1", "a:b"), 2, "allowed: REMOTE, LOCAL:REMOTE or :REMOTE"),
        (("port-forward", "r1", ":80", "--address", "192.0.2.1"), 1, "cannot listen on port 0 of 192.0.2.1"),
        (("ps", "-w", "-o", "json"), 2, "-w shows a table, which -o json is not; allowed: table, wide"),
    ],
)
def test_command_is_refused_in_one_line_when_it_cannot_be_done(
    containers: SessionServer, words: tuple[str, ...], code: int, message: str
) -> None:
    done = call_client(*words)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert "internal error" not in done.err


def test_command_has_the_terminal_when_it_is_executed_at_one(containers: SessionServer, tmp_path: Path) -> None:
    with start("exec", "-it", "r1", "--", "sh", folder=tmp_path) as terminal:
        terminal.read_until(r"[#$] ")
        terminal.type("PS1=ready.; stty size; tty\r")
        terminal.read_until(r"24 80\r\n/dev/pts/\d+")
        assert terminal.read_settings()[3] & 2 == 0, "ICANON is off: keys go to the container one by one"
        terminal.resize(101, 43)
        terminal.press_until("stty size\r", "43 101\r\n")
        # Ctrl-C belongs to the command in the container, and so does Ctrl-D.
        terminal.type("sh -c 'echo begun; exec sleep 600'\r")
        terminal.read_until("\nbegun\r\n")
        terminal.type(CTRL_C)
        terminal.read_until(r"ready\.")
        terminal.type("(exit 7)\r")
        terminal.type("\x04")
        terminal.read_to_end()
        assert terminal.wait() == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_terminal_is_as_before_when_a_signal_ends_the_session(
    containers: SessionServer, tmp_path: Path, number: int
) -> None:
    with start("exec", "-it", "r1", "--", "sh", "-c", "echo begun; exec sleep 600", folder=tmp_path) as terminal:
        terminal.read_until("begun")
        terminal.send_signal(number)
        assert "Traceback" not in terminal.read_to_end()
        assert terminal.wait() == 128 + number


def test_terminal_is_as_before_when_the_session_is_cut(containers: SessionServer, tmp_path: Path) -> None:
    with start("exec", "-it", "r1", "--", "sh", "-c", "echo begun; exec sleep 600", folder=tmp_path) as terminal:
        terminal.read_until("begun")
        containers.listening.drain()
        shown = terminal.read_to_end()
        assert terminal.wait() == 1
    assert "error: the session ended early: the server shuts down" in shown


@pytest.mark.parametrize("flags", [(), ("-i",), ("-t",)])
def test_command_is_left_when_ctrl_c_is_pressed_without_its_terminal(
    containers: SessionServer, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    with start("exec", *flags, "r1", "--", "sh", "-c", "echo begun; exec sleep 600", folder=tmp_path) as terminal:
        terminal.read_until("begun")
        terminal.type(CTRL_C)
        shown = terminal.read_to_end()
        assert terminal.wait() == 130
    assert "note: the command was left; it may go on in the container" in shown
    assert "Traceback" not in shown


def test_run_goes_on_when_ctrl_c_ends_the_attachment(containers: SessionServer, tmp_path: Path) -> None:
    async def say(container: Container) -> None:
        await container.write(b"line\n")
        await asyncio.sleep(600)

    containers.engine.program = say
    with start("attach", "r1", folder=tmp_path) as terminal:
        terminal.read_until("line")
        terminal.type(CTRL_C)
        assert "run r1 goes on; stop it with `runyard stop r1`" in terminal.read_to_end()
        assert terminal.wait() == 130


def serve_names(listener: socket.socket) -> Callable[[], None]:
    """A service that says its name to everybody who connects, until its listener is closed."""

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"service\n")

    thread = threading.Thread(target=accept)
    thread.start()
    return thread.join


def ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        return connection.makefile("rb").read()


def test_ports_are_forwarded_until_ctrl_c_when_connections_are_refused_in_between(
    containers: SessionServer, tmp_path: Path
) -> None:
    containers.engine.program = connect
    with socket.socket() as first, socket.create_server(("127.0.0.1", 0)) as second:
        first.bind(("127.0.0.1", 0))
        ports = [first.getsockname()[1], second.getsockname()[1]]
        join = serve_names(second)
        with start("port-forward", "r1", f":{ports[0]}", f":{ports[1]}", folder=tmp_path) as terminal:
            shown = terminal.read_until("Ctrl-C ends it")
            local = [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+) -> port \d+ of run r1", shown)]
            assert len(local) == 2
            assert ask(local[0]) == b""
            refused = f"port {ports[0]}: a connection failed: dial tcp4 127.0.0.1:{ports[0]}: connection refused"
            terminal.read_until(re.escape(refused))
            assert [ask(local[1]) for _ in range(3)] == [b"service\n"] * 3
            terminal.type(CTRL_C)
            assert "Traceback" not in terminal.read_to_end()
            assert terminal.wait() == 130
        second.shutdown(socket.SHUT_RDWR)
        join()


def test_usage_is_a_table_or_data_when_the_engine_measures(containers: SessionServer) -> None:
    at = datetime(2026, 11, 18, tzinfo=UTC)
    containers.engine.usage = [
        Usage(at=at, pod="r1-x", container="main", cpu_cores=0.25, memory_bytes=256 << 20),
        Usage(at=at, pod="r1-y", container="main"),
    ]
    done = call_client("top")
    assert done.code == 0
    assert [re.split(r"\s{2,}", line) for line in done.out.splitlines()] == [
        ["RUN", "POD", "CONTAINER", "CPU", "MEMORY"],
        ["r1", "r1-x", "main", "0.250", "256 MiB"],
        ["r1", "r1-y", "main", "not measured", "not measured"],
    ]
    assert '"memory_bytes": 268435456' in call_client("top", "r1", "-o", "json").out
    containers.engine.usage = []
    assert "no container of project demo runs" in call_client("top").err


def test_changed_rows_are_printed_when_runs_are_watched_in_a_pipe(server: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    project = ry.get_or_create_project("demo")
    run = project.new_function("sleep", code_src="program.py", handler="sleep").run().wait(until="running")
    process = subprocess.Popen(
        [*COMMAND, "ps", "-w"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=make_variables(tmp_path)
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().split()[:4] == [b"RUN", b"FUNCTION", b"ACTION", b"STATE"]
        assert process.stdout.readline().split()[:4] == [run.id.encode(), b"sleep", b"job", b"RUNNING"]
        run.stop().wait()
        rows = [process.stdout.readline().split()]
        while b"STOPPED" not in rows[-1]:
            rows.append(process.stdout.readline().split())
        assert {row[0] for row in rows} == {run.id.encode()}
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=SECONDS)
        assert (process.returncode, out, errors) == (130, b"", b"")
    finally:
        process.kill()
        process.wait()


def test_engine_is_named_when_it_cannot_do_what_is_asked(server: str, tmp_path: Path, call: Call) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    project = ry.get_or_create_project("demo")
    run = project.new_function("sleep", code_src="program.py", handler="sleep").run().wait(until="running")
    engine = ry.get_client().request("GET", "/api/v1/engine")
    try:
        for words, what in (
            (("exec", run.id, "--", "true"), "exec"),
            (("attach", run.id), "attach"),
            (("port-forward", run.id, ":80"), "portforward"),
            (("top", run.id), "usage"),
        ):
            if what in engine["capabilities"]:
                continue
            done = call(*words)
            assert (done.code, done.out) == (1, "")
            assert re.match(r"error: the engine local of this server (does not support|cannot) ", done.err), done.err
            assert done.err.count("\n") == 1
        assert "exec" not in engine["capabilities"]
    finally:
        run.stop().wait()


def test_nothing_is_forwarded_when_the_run_does_not_run(server: str, tmp_path: Path, call: Call) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    run = ry.get_or_create_project("demo").new_function("hello", code_src="program.py", handler="hello").run()
    run.wait(timeout=SECONDS)
    done = call("port-forward", run.id, ":80")
    assert (done.code, done.err) == (1, f"error: run {run.id} is COMPLETED; only a RUNNING run has ports\n")
