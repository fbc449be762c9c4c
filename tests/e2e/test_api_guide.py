"""Every command of the API guide, in its order, against a server of this checkout."""

import re
import shutil
from pathlib import Path

import pytest

from tests.core_process import call_runyard, run_core
from tests.e2e.guides import follow, list_commands, read_definitions

GUIDE = Path(__file__).parents[2] / "docs" / "users" / "api.md"
ACCOUNTS = re.compile(r"<!-- accounts -->\n(.*?)<!-- end -->", re.DOTALL)
PASSWORDS = {"ada": "correct-horse", "bob": "battery-staple"}

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")


def follow_guide(text: str, *, url: str, folder: Path) -> None:
    definitions = read_definitions(GUIDE.read_text()).replace("http://localhost:8080", url)
    follow(list_guide_commands(text), definitions=definitions, folder=folder)


def list_guide_commands(text: str) -> list[tuple[str, str]]:
    return [each for each in list_commands(text) if not each[0].startswith("runyard server")]


def test_every_command_answers_as_the_guide_shows_when_they_are_run_in_order(tmp_path: Path) -> None:
    text = ACCOUNTS.sub("", GUIDE.read_text())
    assert len(list_guide_commands(text)) > 25
    with run_core(folder=tmp_path) as core:
        follow_guide(text, url=core.url, folder=tmp_path)


def test_every_command_answers_as_the_guide_shows_when_there_are_accounts(tmp_path: Path) -> None:
    (part,) = ACCOUNTS.findall(GUIDE.read_text())
    for user, password in PASSWORDS.items():
        made = call_runyard(
            "user", "create", user, "--password-stdin", "--data", str(tmp_path / "data"), given=password
        )
        assert made.code == 0, made.err
    with run_core("--auth", "accounts", folder=tmp_path) as core:
        follow_guide(part, url=core.url, folder=tmp_path)
