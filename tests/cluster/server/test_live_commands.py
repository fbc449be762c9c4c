"""`runyard exec`, `attach`, `port-forward` and `top`, as users start them, against a run on a cluster."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import pytest

import runyard as ry
from testbed.cluster import Cluster
from tests.cluster.server.cluster_core import PROJECT, SECONDS, run_cluster_core
from tests.core_process import COMMAND, CoreProcess, make_environment
from tests.e2e.terminals import open_terminal

GUIDE = Path(__file__).parents[3] / "docs" / "users" / "sdk.md"
BLOCK = re.compile(r"```py\n(.*?)```", re.DOTALL)
SERVICE = """
mkdir /tmp/www && echo served > /tmp/www/index.html && httpd -p 8080 -h /tmp/www || exit 1
while :; do echo tick; sleep 1; done
"""


@pytest.fixture
def core(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[CoreProcess]:
    with run_cluster_core(cluster, namespace, tmp_path / "core") as core:
        yield core


@pytest.fixture
def run(core: CoreProcess) -> Iterator[ry.Run]:
    """A run with a web server at port 8080."""
    with ry.Client(core.url) as client:
        project = client.get_or_create_project(PROJECT)
        function = project.new_function("f", kind="container", image="busybox:1.36")
        run = function.run(command="sh", args=["-c", SERVICE], run_as_user=1000, grace_period=1)
        yield run.wait(until="running", timeout=SECONDS)


@pytest.fixture
def environment(core: CoreProcess, tmp_path: Path) -> Mapping[str, str]:
    """That of a user of the server."""
    named = {"RUNYARD_ENDPOINT": core.url, "RUNYARD_PROJECT": PROJECT, "HOME": str(tmp_path), "NO_COLOR": "1"}
    return make_environment({**named, "TERM": "xterm"})


def call(*words: str, environment: Mapping[str, str], given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *words], input=given, capture_output=True, env=environment, timeout=SECONDS)


def test_commands_are_executed_when_a_run_runs_on_a_cluster(run: ry.Run, environment: Mapping[str, str]) -> None:
    content = bytes(range(256)) * (1 << 10)
    words = ("exec", "-i", run.id, "--", "sh", "-c", "cat; echo end >&2; exit 42")
    done = call(*words, environment=environment, given=content)
    assert (done.returncode, done.stdout, done.stderr) == (42, content, b"end\n")
    assert run.exec(["id", "-u"]) == ry.ExecResult(0, b"1000\n", b"")
    refused = call("exec", "--container", "sidecar", run.id, "--", "true", environment=environment)
    assert refused.returncode == 1
    assert re.fullmatch(r"error: container sidecar of run \S+ does not run; running: \S+\n", refused.stderr.decode())
    missing = call("exec", run.id, "--", "/nothing", environment=environment)
    assert missing.returncode != 0
    assert b"/nothing" in missing.stderr


def test_command_has_the_terminal_when_it_is_executed_on_a_cluster(
    run: ry.Run, environment: Mapping[str, str], tmp_path: Path
) -> None:
    words = [*COMMAND, "exec", "-it", run.id, "--", "sh"]
    with open_terminal(words, folder=tmp_path, environment=environment) as terminal:
        before = terminal.read_settings()
        terminal.press_until("\r", r"[#$] ")
        terminal.press_until("stty size\r", "24 80\r\n")
        terminal.resize(101, 43)
        terminal.press_until("stty size\r", "43 101\r\n")
        terminal.type("sh -c 'echo begun; exec sleep 600'\r")
        terminal.read_until("\nbegun\r\n")
        terminal.type("\x03")
        terminal.read_until(r"[#$] ")
        terminal.type("exit 7\r")
        terminal.read_to_end()
        assert terminal.wait() == 7
        assert terminal.read_settings() == before


def test_output_comes_and_the_run_goes_on_when_its_container_is_attached(
    run: ry.Run, environment: Mapping[str, str], tmp_path: Path
) -> None:
    with open_terminal([*COMMAND, "attach", run.id], folder=tmp_path, environment=environment) as terminal:
        terminal.read_until("tick\r\ntick\r\n")
        terminal.type("\x03")
        assert f"run {run.id} goes on" in terminal.read_to_end()
        assert terminal.wait() == 130
    assert run.refresh().state == "RUNNING"


def test_requests_reach_the_run_when_its_port_is_forwarded(
    run: ry.Run, environment: Mapping[str, str], tmp_path: Path
) -> None:
    words = [*COMMAND, "port-forward", run.id, ":8080", ":8081"]
    with open_terminal(words, folder=tmp_path, environment=environment) as terminal:
        shown = terminal.read_until("Ctrl-C ends it")
        served, refused = re.findall(r"127\.0\.0\.1:(\d+) -> port \d+ of run", shown)
        for _ in range(3):
            assert httpx2.get(f"http://127.0.0.1:{served}/", trust_env=False, timeout=SECONDS).text == "served\n"
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"http://127.0.0.1:{refused}/", trust_env=False, timeout=SECONDS)
        terminal.read_until(r"port 8081: a connection failed: .*")
        assert httpx2.get(f"http://127.0.0.1:{served}/", trust_env=False, timeout=SECONDS).text == "served\n"
        run.stop().wait(until="end", timeout=SECONDS)
        assert f"error: run {run.id} has ended: STOPPED" in terminal.read_to_end()
        assert terminal.wait() == 1


def test_lines_of_the_guide_work_when_they_are_pasted(
    run: ry.Run, environment: Mapping[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = GUIDE.read_text()
    exec(compile(BLOCK.findall(page)[0], str(GUIDE), "exec"), {"run": run})
    shown = capsys.readouterr().out
    assert "MemTotal" in shown
    assert shown.endswith("3\nb'served\\n'\n")
    lines = re.findall(r"^\$ runyard ((?:exec|attach|port-forward|top)\b.*)$", page, re.MULTILINE)
    assert len(lines) == 5
    for line in lines:
        words = [*COMMAND, *line.replace("RUN", run.id).split()]
        with open_terminal(words, folder=tmp_path, environment=environment) as terminal:
            terminal.read_until(r"MemTotal|[#$] |tick|Ctrl-C ends it|MEMORY")
            if not line.startswith("top"):  # ends by itself
                terminal.type("exit\r" if "-it" in line else "\x03")
            terminal.read_to_end()
            assert terminal.wait() in (0, 130), line


def test_containers_are_listed_without_figures_when_the_cluster_measures_nothing(
    run: ry.Run, environment: Mapping[str, str]
) -> None:
    done = call("top", environment=environment)
    assert done.returncode == 0, done.stderr
    head, row = done.stdout.decode().splitlines()
    assert head.split() == ["RUN", "POD", "CONTAINER", "CPU", "MEMORY"]
    assert row.startswith(run.id)
    assert row.count("not measured") == 2
