"""What the launcher tells: the termination log, peak memory, one-line messages, and its patience with the server."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.launcher import metric_log, run_api
from runyard.launcher.failures import NotReported, describe_error
from runyard.launcher.launch_settings import read_settings
from runyard.launcher.memory_peak import find_peak_bytes
from runyard.launcher.metric_log import MetricLog
from runyard.launcher.run_api import RunApi
from runyard.launcher.termination_log import LARGEST_TERMINATION_BYTES, render_termination, write_termination
from tests.unit.launcher.lab import FakeServer


@given(message=st.text(max_size=6000), peak=st.none() | st.integers(0, 1 << 60))
def test_termination_line_fits_and_keeps_the_beginning_when_messages_are_long(message: str, peak: int | None) -> None:
    line = render_termination(message=message, peak_bytes=peak)
    record = json.loads(line)
    assert len(line) <= LARGEST_TERMINATION_BYTES
    assert line.count(b"\n") == 1
    assert record["message"] == message or message.startswith(record["message"][:-1])
    assert record.get("peak_bytes") == peak


def test_termination_log_is_replaced_in_place_when_it_has_content(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 10_000)
    before = path.stat().st_ino
    write_termination(path, message="short", peak_bytes=1)
    assert json.loads(path.read_text()) == {"runyard": 1, "message": "short", "peak_bytes": 1}
    assert path.stat().st_ino == before


def test_run_goes_on_when_the_termination_log_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_termination(tmp_path, message="m", peak_bytes=None)
    assert capsys.readouterr().err == "runyard: the termination log cannot be written: Is a directory\n"


def make_kernel(folder: Path, *, cgroup: str, files: dict[str, str]) -> dict[str, Path]:
    for name, content in {"proc/self/cgroup": cgroup, "proc/self/status": "VmHWM:\t    2048 kB\n", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return {"proc": folder / "proc", "groups": folder / "cgroup"}


@pytest.mark.parametrize(
    ("cgroup", "files", "peak"),
    [
        ("0::/run\n", {"cgroup/run/memory.peak": "5000\n", "cgroup/run/cgroup.procs": f"{os.getpid()}\n"}, 5000),
        ("0::/\n", {"cgroup/memory.peak": "5000\n", "cgroup/cgroup.procs": f"{os.getpid()}\n0\n"}, 5000),
        (
            "4:memory:/run\n1:name=systemd:/x\n",
            {
                "cgroup/memory/run/memory.max_usage_in_bytes": "7\n",
                "cgroup/memory/run/cgroup.procs": f"{os.getpid()}\n",
            },
            7,
        ),
        (
            "4:cpu,memory:/docker/abc\n",
            {"cgroup/memory/memory.max_usage_in_bytes": "8\n", "cgroup/memory/cgroup.procs": f"{os.getpid()}\n"},
            8,
        ),
    ],
    ids=["v2", "v2 in a container", "v1", "v1 in a container"],
)
def test_peak_is_that_of_the_cgroup_when_it_is_the_runs_own(
    tmp_path: Path, cgroup: str, files: dict[str, str], peak: int
) -> None:
    assert find_peak_bytes(**make_kernel(tmp_path, cgroup=cgroup, files=files)) == peak


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        ("0::/", {"cgroup/memory.peak": "5", "cgroup/cgroup.procs": f"{os.getpid()}\n{os.getppid()}\n"}),
        ("0::/run", {"cgroup/run/memory.peak": "max", "cgroup/run/cgroup.procs": f"{os.getpid()}\n"}),
        ("0::/gone", {}),
        ("nonsense", {}),
    ],
    ids=["shared with the parent", "not a number", "gone", "nonsense"],
)
def test_peak_is_that_of_the_process_when_the_cgroup_says_nothing(
    tmp_path: Path, cgroup: str, files: dict[str, str]
) -> None:
    peak = find_peak_bytes(**make_kernel(tmp_path, cgroup=cgroup, files=files))
    assert peak is not None
    assert peak >= 2048 * 1024


def test_peak_counts_what_was_used_when_a_process_measures_itself() -> None:
    code = (
        "x = bytearray(200 << 20); del x\n"
        "from runyard.launcher.memory_peak import find_process_peak_bytes\n"
        "print(find_process_peak_bytes())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 200 << 20 < int(done.stdout) < 400 << 20


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("a\n  b"), "ValueError: a b"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 5000), f"ValueError: {'x' * 1987}…"),
        (Unprintable(), "Unprintable: its text cannot be read (RuntimeError)"),
        (SystemExit("wrong\nfile"), "wrong file"),
    ],
)
def test_message_is_one_short_line_when_an_exception_is_described(error: BaseException, text: str) -> None:
    assert describe_error(error) == text


def make_api(server: FakeServer, pauses: list[float] | None = None) -> RunApi:
    pause = (lambda _: None) if pauses is None else pauses.append
    return RunApi(server.endpoint, "wrong token", project="vision", run_id="r1", pause=pause)


def test_run_ends_when_its_token_is_refused_for_long(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_api, "UNAUTHORIZED_SECONDS", 0.2)
    with pytest.raises(NotReported, match="the run was deleted, or its token expired"):
        make_api(server).get_run()
    assert len(server.requests) > 2


def test_pauses_grow_to_their_bound_when_the_server_stays_away(server: FakeServer) -> None:
    class Enough(Exception):
        pass

    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 12:
            raise Enough

    server.answer = lambda request: 503
    api = RunApi(server.endpoint, None, project="p", run_id="r", pause=pause)
    with pytest.raises(Enough):
        api.get_run()
    assert all(low / 2 <= pause <= low for pause, low in zip(pauses, [0.5, 1, 2, 4, 8, 16, *[30] * 6], strict=True))


def test_pause_is_the_servers_when_it_names_one(server: FakeServer) -> None:
    answers: list[Any] = [(429, {"Retry-After": "7"}, {}), (503, {"Retry-After": "99999"}, {})]
    pauses: list[float] = []
    server.answer = lambda request: answers.pop() if answers else (200, {}, {"id": "r1"})
    make_api(server, pauses).get_run()
    assert pauses == [30, 7]


def test_every_second_point_goes_when_a_metric_is_full(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_log, "MOST_POINTS", 10)
    server.answer = lambda request: (200, {}, {})
    metrics = MetricLog(make_api(server))
    for value in range(12):
        metrics.add("m", value)
    metrics.close()
    assert server.requests[-1].body == [1, 3, 5, 7, 9, 10, 11]


def test_metric_is_refused_when_a_run_has_too_many(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_log, "MOST_METRICS", 2)
    server.answer = lambda request: (200, {}, {})
    metrics = MetricLog(make_api(server))
    metrics.add("a", 1)
    metrics.add("b", 1)
    with pytest.raises(ValueError, match="a run has at most 2 metrics"):
        metrics.add("c", 1)
    metrics.close()


def test_settings_say_what_is_missing_when_they_are_read() -> None:
    with pytest.raises(Exception, match="the environment lacks RUNYARD_PROJECT, RUNYARD_RUN_ID; the engine sets them"):
        read_settings({"RUNYARD_ENDPOINT": "http://x"})
    base = {"RUNYARD_ENDPOINT": "http://x/", "RUNYARD_PROJECT": "p", "RUNYARD_RUN_ID": "r"}
    assert read_settings(base).endpoint == "http://x"
    for name, value, message in (
        ("RUNYARD_PORT", "70000", "RUNYARD_PORT must be a number from 1 to 65535"),
        ("RUNYARD_CONCURRENCY", "many", "RUNYARD_CONCURRENCY must be a number from 1 to 10000"),
        ("RUNYARD_ENDPOINT", "ftp://x", "RUNYARD_ENDPOINT must be an http:// or https:// address"),
    ):
        with pytest.raises(Exception, match=message):
            read_settings({**base, name: value})


@pytest.mark.parametrize("received", [0, 1, 20], ids=["nothing", "one byte", "a part"])
def test_request_is_repeated_when_the_server_is_killed_before_it_has_sent_the_whole_answer(received: int) -> None:
    body = json.dumps({"run": "r1", "effective": {"kind": "python"}}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n".encode()
    with serve_bytes([head + body[:received], head + body]) as port:
        api = RunApi(f"http://127.0.0.1:{port}", "t", project="vision", run_id="r1", pause=lambda _seconds: None)
        assert api.get_effective() == {"run": "r1", "effective": {"kind": "python"}}


@contextmanager
def serve_bytes(answers: list[bytes]) -> Iterator[int]:
    """A server that answers each connection by these bytes, and closes it; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for content in answers:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(content)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)
