"""Every command of the README's and the user's quick start, in its order, on a server with the local engine."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo.stage import end_runs
from tests.core_process import COMMAND, call_runyard, run_core
from tests.e2e.guides import PROJECT_ROOT, find_definitions, follow, list_commands, read_part

README = PROJECT_ROOT / "README.md"
PAGE = PROJECT_ROOT / "docs" / "users" / "quick-start.md"
RULES = PROJECT_ROOT / "examples" / "rules"
HERE = f"PYTHON3_{sys.version_info.minor}"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")


def follow_page(text: str, *, page: Path, folder: Path, options: tuple[str, ...] = ()) -> None:
    """Run the commands with the Python version of this machine, on a server of their own."""
    definitions = find_definitions(page.read_text())
    (folder / "examples").symlink_to(PROJECT_ROOT / "examples")
    try:
        with run_core("--engine", "local", *options, folder=folder) as core:
            definitions = definitions.replace("http://localhost:8080", core.url)
            follow(list_commands(text.replace("PYTHON3_11", HERE)), definitions=definitions, folder=folder)
    finally:
        end_runs(folder / "data")


def test_every_command_answers_as_shown_when_the_readme_is_followed(tmp_path: Path) -> None:
    part = read_part(README, "quick start")
    assert len(list_commands(part)) == 6
    follow_page(part, page=README, folder=tmp_path)


def test_offline_commands_answer_as_shown_when_the_readme_is_followed() -> None:
    text = README.read_text()
    commands = [each for each, _ in list_commands(text) if each.startswith("runyard") and "examples/gpu" in each]
    assert len(commands) == 3
    follow([(command, "") for command in commands], folder=PROJECT_ROOT)
    done = subprocess.run(
        [*COMMAND, *shlex.split(commands[0])[1:]], cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=60
    )
    answer = [" ".join(line.split()) for line in done.stdout.splitlines()]
    (shown,) = re.findall(r"```text\n(FIELD.*?)```", text, re.DOTALL)
    for line in shown.splitlines():
        start = " ".join(line.partition("…")[0].split())
        assert any(start in each for each in answer), line


def test_settings_of_the_systemd_unit_are_legal_when_they_are_checked(tmp_path: Path) -> None:
    settings = (PROJECT_ROOT / "deploy" / "systemd" / "settings.yaml").read_text()
    path = tmp_path / "settings.yaml"
    path.write_text(settings.replace("/var/lib/runyard", str(tmp_path / "data")))
    checked = call_runyard("server", "--settings", str(path), "--check")
    assert checked.code == 0, checked.err
    assert re.search(r"^engine\s+local", checked.out, re.MULTILINE), checked.out


def test_runs_outlive_the_service_when_the_unit_is_installed() -> None:
    unit = (PROJECT_ROOT / "deploy" / "systemd" / "runyard.service").read_text()
    page = (PROJECT_ROOT / "docs" / "operators" / "one-machine.md").read_text()
    assert {"KillMode=process", "Delegate=yes", "DelegateSubgroup=server", "OOMPolicy=continue"} <= set(
        unit.splitlines()
    )
    explained = re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE)
    lines = [line for cell in explained for line in re.findall(r"`([^`]+)`", cell)]
    assert lines
    assert [line for line in lines if line not in unit.splitlines()] == []


def test_every_command_answers_as_shown_when_the_quick_start_is_followed(tmp_path: Path) -> None:
    text = PAGE.read_text()
    assert len(list_commands(text)) > 20
    options = ("--profiles", str(RULES / "profiles"), "--policy", str(RULES / "policy.yaml"))
    follow_page(text, page=PAGE, folder=tmp_path, options=options)


def test_function_of_the_quick_start_is_the_example_when_the_page_is_read() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown in (PROJECT_ROOT / "examples" / "hello" / "hello.py").read_text()
