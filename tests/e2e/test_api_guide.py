"""Every command of the API guide, in its order, against a server of this checkout."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import serve_runyard_openly

GUIDE = Path(__file__).parents[2] / "docs" / "users" / "api.md"
BLOCK = re.compile(r"```(?P<language>console|sh)\n(?P<text>.*?)```", re.DOTALL)


def list_commands() -> list[tuple[str, str]]:
    """Each command and what the guide shows of its answer."""
    found: list[tuple[str, str]] = []
    for block in BLOCK.finditer(GUIDE.read_text()):
        for line in block["text"].splitlines() if block["language"] == "console" else ():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), ""))
            else:
                command, shown = found[-1]
                found[-1] = (command, shown + line)
    return [(command, shown) for command, shown in found if not command.startswith("runyard server")]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if shutil.which("curl") is None:
        pytest.skip("no curl on this machine")
    with serve_runyard_openly(tmp_path_factory.mktemp("guide")) as url:
        yield url


def test_every_command_answers_as_the_guide_shows_when_they_are_run_in_order(url: str) -> None:
    (preamble,) = [block["text"] for block in BLOCK.finditer(GUIDE.read_text()) if block["language"] == "sh"]
    functions = preamble.replace("http://localhost:8080", url)
    commands = list_commands()
    assert len(commands) > 25
    for command, shown in commands:
        done = subprocess.run(
            ["bash", "-c", f"{functions}\n{command}"], capture_output=True, text=True, timeout=60, check=False
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
