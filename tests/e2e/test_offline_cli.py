"""The command as a user has it: a process between a terminal or pipes, without a server and without a cluster."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import BUILT_IN_NOTE, forget_servers

RUNYARD = Path(sys.executable).parent / "runyard"
HEAVY = ("pydantic", "yaml")
RUN = "profile: 1xa100\nresources: {mem: 6Gi}\nimage: busybox:1.36\n"
PROFILE = "id: 1xa100\nname: One A100\nresources: {requests: {memory: 32Gi}, limits: {nvidia.com/gpu: 1}}\n"


def runyard(*arguments: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [RUNYARD, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
    )


def runyard_on_terminal(*arguments: str, columns: int = 60, **environment: str) -> str:
    """Everything that a terminal of a width is sent."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    settings = {"TERM": "xterm-256color", **environment}
    base = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    with subprocess.Popen([RUNYARD, *arguments], stdout=follower, stderr=follower, env={**base, **settings}) as process:
        os.close(follower)
        sent = b""
        while chunk := _read(leader):
            sent += chunk
        process.wait()
    os.close(leader)
    return sent.decode()


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # the terminal's other end is closed
        return b""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    forget_servers(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(RUN)
    (tmp_path / "a100.yaml").write_text(PROFILE)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--version"], {}),
        (["--help"], {}),
        (["render", "--help"], {}),
        (["policy", "diff", "--help"], {}),
        (["schema"], {}),
        (["completion", "zsh"], {}),
        ([], {"_RUNYARD_COMPLETE": "bash_complete", "COMP_WORDS": "runyard re", "COMP_CWORD": "1"}),
        ([], {"_RUNYARD_COMPLETE": "bash_complete", "COMP_WORDS": "runyard render --pro", "COMP_CWORD": "2"}),
        ([], {"_RUNYARD_COMPLETE": "fish_complete", "COMP_WORDS": "runyard schema ", "COMP_CWORD": ""}),
    ],
)
def test_nothing_heavy_is_loaded_when_only_words_are_asked(
    arguments: Sequence[str], environment: dict[str, str]
) -> None:
    program = (
        "import atexit, sys; from runyard.cli.main import main\n"
        f"atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr))\n"
        "sys.exit(main())"
    )
    argv = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr.splitlines()[-1] == "[]"


def test_run_is_rendered_and_explained_when_no_server_is_there(folder: Path) -> None:
    done = runyard("render", "-f", "run.yaml", "--profiles", "a100.yaml")
    assert done.returncode == 0, done.stderr
    (job,) = yaml.safe_load_all(done.stdout)
    assert job["kind"] == "Job"
    assert "run.yaml:2:18: warning: " in done.stderr
    piped = runyard("render", "-f", "-", "--profiles", "a100.yaml", stdin=RUN)
    assert piped.stdout == done.stdout
    explained = runyard("explain", "-f", "run.yaml", "--profiles", "a100.yaml", "-o", "json")
    assert json.loads(explained.stdout)["effective"]["resources"]["mem"]["requests"] == "32Gi"


def test_exit_codes_tell_refused_from_wrong_use_when_it_goes_wrong(folder: Path) -> None:
    assert runyard("render", "-f", "run.yaml").returncode == 1
    assert runyard("render", "-f", "nowhere.yaml").returncode == 2
    assert runyard("render").returncode == 2
    assert runyard("nonsense").returncode == 2


def test_table_is_whole_and_plain_when_piped(folder: Path) -> None:
    value = "v" * 70
    done = runyard("explain", "-f", "-", stdin=f"image: busybox:1.36\nenvs: {{LONG: {value}}}\n", COLUMNS="20")
    assert done.returncode == 0
    assert value in done.stdout
    assert "\x1b" not in done.stdout


def test_colour_is_sent_when_a_person_looks_and_did_not_decline(folder: Path) -> None:
    words = ("explain", "-f", "run.yaml", "--profiles", "a100.yaml")
    shown = runyard_on_terminal(*words)
    assert "\x1b[1m" in shown
    assert "\x1b[33m" in shown
    for declined in (runyard_on_terminal(*words, NO_COLOR="1"), runyard_on_terminal(*words, TERM="dumb")):
        assert "\x1b" not in declined
        assert "profile 1xa100" in declined.replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_table_keeps_to_the_terminal_when_it_is_narrow(folder: Path, columns: int) -> None:
    words = ("explain", "-f", "run.yaml", "--profiles", "a100.yaml")
    piped = runyard(*words, COLUMNS=str(columns)).stdout
    shown = runyard_on_terminal(*words, columns=columns, NO_COLOR="1").replace("\r\n", "\n")
    table = shown.split("\n\n")[1]
    assert all(len(line) <= columns for line in table.splitlines())
    # No word was broken: each one stands in the piped table too, or is marked as shortened.
    whole = set(piped.split())
    rows = [line for line in table.splitlines() if not line.startswith("(")]
    assert [word for line in rows for word in line.split() if word not in whole and not word.endswith("…")] == []
    assert ("REPLACED" in table) is (columns >= 80)
    assert "profile" in table


def test_columns_of_the_environment_win_when_a_terminal_has_another_width(folder: Path) -> None:
    words = ("explain", "-f", "run.yaml", "--profiles", "a100.yaml")
    shown = runyard_on_terminal(*words, columns=200, COLUMNS="60", NO_COLOR="1").replace("\r\n", "\n")
    assert all(len(line) <= 60 for line in shown.split("\n\n")[1].splitlines())


def test_answer_is_complete_when_the_terminal_knows_few_letters(folder: Path) -> None:
    run = f"image: busybox:1.36\nenvs: {{WORD: naïve ☃, LONG: {'v' * 100}}}\n".encode()
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    explained = subprocess.run([RUNYARD, "explain", "-f", "-"], input=run, capture_output=True, env=environment)
    assert explained.returncode == 0, explained.stderr
    assert "naïve \\u2603".encode("latin-1") in explained.stdout
    assert b"vvv\\u2026" in explained.stdout
    # Programs read UTF-8, whatever the terminal's letters are.
    rendered = subprocess.run([RUNYARD, "render", "-f", "-"], input=run, capture_output=True, env=environment)
    assert "naïve ☃".encode() in rendered.stdout


def test_end_is_quiet_when_the_reader_goes_away(folder: Path) -> None:
    with subprocess.Popen(
        [RUNYARD, "render", "-f", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(b"{id: a, image: 'busybox:1.36'}")
        process.stdin.close()
        told = process.stderr.read()
    assert (process.returncode, told.decode()) == (141, BUILT_IN_NOTE)


def test_exit_code_is_130_when_interrupted(folder: Path) -> None:
    with subprocess.Popen(
        [RUNYARD, "render", "-f", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        _wait_for_read(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def _wait_for_read(pid: int) -> None:
    """Until the process waits for its input: a signal during imports would be another test."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if Path(f"/proc/{pid}/wchan").read_text() in ("pipe_read", "anon_pipe_read"):
            return
        time.sleep(0.05)
    pytest.fail("the command does not read its input")


def test_output_is_refused_in_one_line_when_the_disk_is_full(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([RUNYARD, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: No space left on device\n"


@pytest.mark.parametrize(
    "words",
    [
        "explain -f -",
        "render -f -",
        "policy check -",
        "policy diff none none --runs -",
        "policy diff - none --runs run.yaml",
        "user create ada --password-stdin",
        "user create ada",
        "user password ada",
        "user delete ada",
    ],
)
def test_reason_is_one_line_when_standard_input_is_closed(folder: Path, words: str) -> None:
    ended = _run_in_shell(f"{words} <&-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "error: standard input is closed\n")


@pytest.mark.parametrize(
    "words", ["explain -f run.yaml", "render -f run.yaml", "schema", "--version", "--help", "completion bash", "nope"]
)
def test_reason_is_one_line_when_standard_output_is_closed(folder: Path, words: str) -> None:
    ended = _run_in_shell(f"{words} >&-")
    assert (ended.returncode, ended.stderr) == (1, "error: standard output is closed\n")


def test_command_works_when_standard_error_and_input_are_closed(folder: Path) -> None:
    ended = _run_in_shell("render -f run.yaml --profiles a100.yaml <&- 2>&-")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert yaml.safe_load(ended.stdout)["kind"] == "Job"


def _run_in_shell(words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(f"exec '{RUNYARD}' {words}", shell=True, capture_output=True, text=True)


def test_policy_is_rehearsed_when_runs_are_recorded(folder: Path) -> None:
    (folder / "runs.yaml").write_text("id: a\nresources: {mem: 32Gi}\n---\nid: b\nresources: {mem: 1Gi}\n")
    (folder / "new.yaml").write_text("resources.mem: {max: 16Gi}\n")
    done = runyard("policy", "diff", "none", "new.yaml", "--runs", "runs.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 refused, 1 unchanged"
