"""`make demo`: it does what it says, and leaves nothing behind however it ends."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PROJECT_ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "examples.demo"]
LONGEST_SECONDS = 200.0
TOOLS = ("bash", "base64", "diff")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints when nothing disturbs it."""
    folder = tmp_path_factory.mktemp("told")
    with start_demo(folder) as demo:
        printed = demo.communicate(timeout=LONGEST_SECONDS)[0]
    assert demo.returncode == 0, printed[-3000:]
    assert_nothing_is_left(folder)
    return printed


def make_environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), **more}


@contextmanager
def start_demo(folder: Path, *arguments: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A demo in a session of its own, as a terminal starts it; its output is one stream."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=PROJECT_ROOT,
        env=make_environment(folder, **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()  # it ends what it has started
            process.communicate(timeout=60)


def read_until(process: "subprocess.Popen[str]", text: str) -> str:
    """What it printed up to a line with that text."""
    assert process.stdout is not None
    read = ""
    for line in process.stdout:
        read += line
        if text in line:
            return read
    raise AssertionError(f"the demo ended before it printed {text}:\n{read[-3000:]}")


def assert_nothing_is_left(folder: Path) -> None:
    """No file of the demo, and no process that names its folder or is supervised there."""
    assert list(folder.glob("runyard-demo-*")) == []
    assert list_processes(folder) == []


def list_processes(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                content = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"{folder}/runyard-demo-".encode() in content:
                found.append(f"{entry.name} {content[:200]!r}")
    return found


def test_model_is_trained_when_the_demo_runs(told: str) -> None:
    assert "    accuracy 95.8% on 120 readings\n" in told
    assert "    COMPLETED\n" in told
    assert "    result  accuracy 0.9583\n" in told
    assert re.search(r"^    output  model store://demo/artifact/artifact/model:\w+$", told, re.MULTILINE)
    assert "    loss 0.338 0.267 0.235 0.217 0.205 0.197 0.191 0.186 0.183 0.180\n" in told


def test_profile_wins_and_typos_are_refused_when_the_demo_runs(told: str) -> None:
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert "resources.mem.requests 256Mi profile small instead of 6Gi (you)" in lines
    assert "warning: spec.resources.mem.requests: profile small sets 256Mi; 6Gi from you is ignored" in lines
    assert any(line.startswith("spec.profile: ") and line.endswith("did you mean: small") for line in lines)
    assert any(line.startswith("spec.resources.mem: ") and line.endswith("did you mean: 6Gi") for line in lines)


def test_advice_works_when_a_run_of_the_demo_ran_out_of_memory(told: str) -> None:
    (step,) = re.findall(r"== A run that needs more memory.*?(?=\n== )", told, re.DOTALL)
    assert "    ERROR  memory.exceeded\n" in step
    advice = re.search(r"its limit is about 70.4Mi; try resources.mem: (\w+)\n", step)
    assert advice is not None
    assert f'"resources": {{"mem": "{advice[1]}"}}' in step
    assert "    COMPLETED\n" in step
    assert "    result  distance 0.000379\n" in step
    assert re.search(r"the memory limit is enforced by: (cgroup v1|cgroup v2|watchdog)\n", step)


def test_run_is_stopped_with_grace_when_the_demo_runs(told: str) -> None:
    (step,) = re.findall(r"== Stop a run.*?(?=\n== )", told, re.DOTALL)
    assert re.search(r"^    stopped after \d+ guesses; the best is off by ", step, re.MULTILINE)
    assert "    STOPPED  user.stop\n" in step


def test_policy_is_rehearsed_and_the_model_served_when_the_demo_runs(told: str) -> None:
    tries = len(re.findall(r'"id": "nearest-\d"', told))
    assert tries >= 2
    assert f"    1 refused, {tries + 1} changed\n" in told
    assert '    {"state": "failing", "probability": 0.9978}\n' in told
    assert told.splitlines()[-1].endswith("Every process has ended, and no file is left.")


def test_demo_goes_on_until_it_is_ended_when_it_is_kept_on_a_machine_without_curl(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name) or name)
    with start_demo(tmp_path, "--keep", PATH=str(tools)) as demo:
        printed = demo.communicate(timeout=LONGEST_SECONDS)[0]
    assert demo.returncode == 0, printed[-3000:]
    assert "curl is not installed here" in printed
    stop = re.search(r"^  \$ make demo STOP=(\S+)$", printed, re.MULTILINE)
    url = re.search(r" URL=(http://\S+)$", printed, re.MULTILINE)
    assert stop is not None
    assert url is not None
    with urllib.request.urlopen(f"{url[1]}/-/demo/runs/predict-1", timeout=30) as response:
        assert json.load(response)["status"]["state"] == "RUNNING"
    assert len(list_processes(tmp_path)) >= 2
    ended = subprocess.run(
        ["make", "demo", "--assume-old=.venv/.ready", f"STOP={stop[1]}"],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert_nothing_is_left(tmp_path)


def test_nothing_is_left_when_the_demo_is_interrupted_by_ctrl_c(tmp_path: Path) -> None:
    with start_demo(tmp_path) as demo:
        read_until(demo, "epoch  30")
        os.killpg(demo.pid, signal.SIGINT)
        os.killpg(demo.pid, signal.SIGINT)
        demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert_nothing_is_left(tmp_path)


def test_nothing_is_left_when_the_reader_of_its_output_goes_away(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | head -12', "demo", *COMMAND],
        cwd=PROJECT_ROOT,
        env=make_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert_nothing_is_left(tmp_path)


def test_nothing_is_left_and_the_cause_is_told_when_the_server_dies(tmp_path: Path) -> None:
    with start_demo(tmp_path) as demo:
        read_until(demo, "epoch  30")
        for each in list_processes(tmp_path):
            pid = int(each.split()[0])
            if b"server" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
        printed = demo.communicate(timeout=LONGEST_SECONDS)[0]
    assert demo.returncode == 1
    assert "the demo failed: " in printed
    assert_nothing_is_left(tmp_path)


class Echo(BaseHTTPRequestHandler):
    """Answers with the credentials of the request."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers.get("Authorization", "none").encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_replacement_of_curl_signs_in_as_curl_does_when_a_netrc_file_names_the_host(tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ada password a-password-of_12\n")
    curl = [shutil.which("curl") or "", "--silent"]
    replacement = [sys.executable, "-m", "examples.demo.http_client"]
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for program in (replacement, *([curl] if curl[0] else [])):
            for host, expected in (("127.0.0.1", "Basic YWRhOmEtcGFzc3dvcmQtb2ZfMTI="), ("localhost", "none")):
                url = f"http://{host}:{server.server_port}/"
                argv = [*program, "--netrc-file", str(tmp_path / "netrc"), url]
                env = {**os.environ, "NO_PROXY": "*", "no_proxy": "*"}
                done = subprocess.run(argv, cwd=PROJECT_ROOT, env=env, capture_output=True, text=True, timeout=60)
                assert done.stdout == expected, (argv, done.stderr)
        server.shutdown()
