"""Every command of the API guide, in its order, against a server of this checkout."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.core_process import call_runyard, run_core

GUIDE = Path(__file__).parents[2] / "docs" / "users" / "api.md"
BLOCK = re.compile(r"```(?P<language>console|sh)\n(?P<text>.*?)```", re.DOTALL)
ACCOUNTS = re.compile(r"<!-- accounts -->\n(.*?)<!-- end -->", re.DOTALL)
PASSWORDS = {"ada": "correct-horse", "bob": "battery-staple"}

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")


def list_commands(text: str) -> list[tuple[str, str]]:
    """Each command and what the guide shows of its answer."""
    found: list[tuple[str, str]] = []
    for block in BLOCK.finditer(text):
        for line in block["text"].splitlines() if block["language"] == "console" else ():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), ""))
            else:
                command, shown = found[-1]
                found[-1] = (command, shown + line)
    return [(command, shown) for command, shown in found if not command.startswith("runyard server")]


def follow(commands: list[tuple[str, str]], *, url: str, folder: Path) -> None:
    """Run them one after the other, and compare."""
    (preamble,) = [block["text"] for block in BLOCK.finditer(GUIDE.read_text()) if block["language"] == "sh"]
    functions = preamble.replace("http://localhost:8080", url)
    for command, shown in commands:
        done = subprocess.run(
            ["bash", "-c", f"{functions}\n{command}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=folder,
        )
        assert done.returncode == 0, (command, done.stderr)
        assert find_missing(shown, done.stdout) is None, (command, shown, done.stdout)


def find_missing(shown: str, answer: str) -> str | None:
    """The first part of what the guide shows, between its ellipses, that is not in the rest of the answer."""
    rest = answer
    for part in shown.split("…"):
        if part not in rest:
            return part
        rest = rest[rest.index(part) + len(part) :]
    return None


def test_every_command_answers_as_the_guide_shows_when_they_are_run_in_order(tmp_path: Path) -> None:
    commands = list_commands(ACCOUNTS.sub("", GUIDE.read_text()))
    assert len(commands) > 25
    with run_core(folder=tmp_path) as core:
        follow(commands, url=core.url, folder=tmp_path)


def test_every_command_answers_as_the_guide_shows_when_there_are_accounts(tmp_path: Path) -> None:
    (part,) = ACCOUNTS.findall(GUIDE.read_text())
    for user, password in PASSWORDS.items():
        made = call_runyard(
            "user", "create", user, "--password-stdin", "--data", str(tmp_path / "data"), given=password
        )
        assert made.code == 0, made.err
    with run_core("--auth", "accounts", folder=tmp_path) as core:
        follow(list_commands(part), url=core.url, folder=tmp_path)
