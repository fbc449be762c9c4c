"""Every command of the API guide, in its order, against a server of this checkout."""

import re
import shutil
from pathlib import Path

import pytest

from tests.core_process import call_runyard, run_core
from tests.e2e.guides import find_definitions, follow, list_commands, read_part

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = DOCS / "users" / "api.md"
ADDRESS = "http://localhost:8080"
ACCOUNTS = re.compile(r"<!-- accounts -->\n(.*?)<!-- end -->", re.DOTALL)
PASSWORDS = {"ada": "correct-horse", "bob": "battery-staple"}

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")


def follow_guide(text: str, *, url: str, folder: Path, page: Path = GUIDE) -> None:
    follow_commands(list_guide_commands(text), url=url, folder=folder, page=page)


def follow_commands(commands: list[tuple[str, str]], *, url: str, folder: Path, page: Path) -> None:
    """Run commands with the definitions of a page, on the server at that address."""
    definitions = find_definitions(page.read_text()).replace(ADDRESS, url)
    follow(
        [(command.replace(ADDRESS, url), shown) for command, shown in commands], definitions=definitions, folder=folder
    )


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


def test_credentials_are_stored_when_the_page_about_images_is_followed(tmp_path: Path) -> None:
    page = DOCS / "operators" / "images.md"
    text = read_part(page, "registry")
    assert len(list_commands(text)) == 2
    project = [("""api $URL/projects --data '{"kind": "project", "name": "vision"}'""", '{"id":"vision",…')]
    read = [("api $URL/-/vision/secrets/data?keys=DOCKER_AUTH_CONFIG", '{"DOCKER_AUTH_CONFIG":…registry.example.org…')]
    with run_core(folder=tmp_path) as core:
        follow_commands([*project, *list_commands(text), *read], url=core.url, folder=tmp_path, page=page)


def test_state_of_a_run_is_shown_when_the_page_about_troubles_is_followed(tmp_path: Path) -> None:
    page = DOCS / "users" / "troubleshooting.md"
    ((command, _),) = list_commands(page.read_text())
    guide = list_guide_commands(GUIDE.read_text())
    submitted = next(index for index, (each, _) in enumerate(guide) if '"id": "r1"' in each)
    shown = '{…"status": {        "state": "READY",…"message": …"reason": …}'
    with run_core(folder=tmp_path) as core:
        follow_commands(guide[: submitted + 1], url=core.url, folder=tmp_path, page=GUIDE)
        follow_commands([("RUN=r1", ""), (command, shown)], url=core.url, folder=tmp_path, page=page)
