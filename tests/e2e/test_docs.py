"""Every example in the user's and the admin's page works as it stands, through the command line."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from runyard.cli.main import root
from runyard.spec.run_documents import read_run_file
from runyard.spec.run_fields import USER_FIELDS
from runyard.spec.yaml.loader import load_document

DOCS = Path(__file__).parents[2] / "docs"
USERS = DOCS / "users" / "resources.md"
ADMINS = DOCS / "admins" / "profiles-and-policy.md"
BLOCK = re.compile(r"(?:<!-- args: (?P<args>.*?) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)

PROFILE = "id: 1xa100\nresources: {requests: {cpu: 1}}\n"


def list_blocks(page: Path, language: str) -> list[tuple[str, str]]:
    found = BLOCK.finditer(page.read_text())
    return [(match["text"], match["args"] or "") for match in found if match["language"] == language]


@pytest.mark.parametrize(("text", "arguments"), list_blocks(USERS, "yaml"))
@pytest.mark.parametrize("command", ["explain", "render"])
def test_example_is_accepted_when_it_is_pasted_from_the_users_page(
    tmp_path: Path, text: str, arguments: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.toml").write_text("epochs = 3\n")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "a100.yaml").write_text(PROFILE)
    words = [command, "-f", "-", "--profiles", str(tmp_path / "profiles"), *shlex.split(arguments)]
    if "image:" not in text:
        words += ["--image", "busybox:1.36"]
    if "action:" not in text and "--action" not in words:
        words += ["--action", "job"]
    result = CliRunner().invoke(root, words, input=text)
    assert result.exit_code == 0, result.output


def test_example_sets_each_field_when_the_users_page_is_read() -> None:
    shown: set[str] = set()
    for text, _ in list_blocks(USERS, "yaml"):
        fields = read_run_file(load_document(text.encode()).data).fields
        shown |= {name for name in USER_FIELDS if getattr(fields, name) is not None}
    assert [name for name in USER_FIELDS if name not in shown] == []


def test_profile_of_the_admins_page_wins_when_it_is_named(tmp_path: Path) -> None:
    (profile,) = [text for text, _ in list_blocks(ADMINS, "yaml") if text.startswith("# profile")]
    (tmp_path / "a100.yaml").write_text(profile)
    words = ["explain", "-f", "-", "--profiles", str(tmp_path), "--image", "busybox:1.36", "--action", "job"]
    result = CliRunner().invoke(root, words, input="profile: 1xa100\nresources: {mem: 6Gi}\n")
    assert result.exit_code == 0, result.output
    assert "64Gi" in result.output


def test_policy_of_the_admins_page_is_legal(tmp_path: Path) -> None:
    (policy,) = [text for text, _ in list_blocks(ADMINS, "yaml") if text.startswith("# policy")]
    (tmp_path / "policy.yaml").write_text(policy)
    result = CliRunner().invoke(root, ["policy", "check", str(tmp_path / "policy.yaml")])
    assert result.exit_code == 0, result.output


def test_policy_of_the_admins_page_refuses_when_a_project_asks_for_too_much(tmp_path: Path) -> None:
    (policy,) = [text for text, _ in list_blocks(ADMINS, "yaml") if text.startswith("# policy")]
    (tmp_path / "policy.yaml").write_text(policy)
    words = ["explain", "-f", "-", "--policy", str(tmp_path / "policy.yaml"), "--action", "job", "--project", "vision"]
    result = CliRunner().invoke(root, words, input="image: registry.example.org/x:1\nresources: {gpu: 3}\n")
    assert result.exit_code == 1
    assert "at most 2" in result.output
    assert "requires `profile`" in result.output


def test_settings_of_the_admins_page_are_a_policy(tmp_path: Path) -> None:
    ((settings, _),) = list_blocks(ADMINS, "ini")
    (tmp_path / "core.env").write_text(settings)
    words = ["explain", "-f", "-", "--policy", str(tmp_path / "core.env"), "--action", "job", "--image", "busybox:1.36"]
    result = CliRunner().invoke(root, words, input="resources: {gpu: 1}\n")
    assert result.exit_code == 0, result.output
    assert "256Mi" in result.output
    assert "8877" in result.output


def test_lost_indentation_is_told_when_the_users_page_shows_it() -> None:
    words = ["explain", "-f", "-", "--image", "busybox:1.36", "--action", "job"]
    result = CliRunner().invoke(root, words, input='resources:\ncpu: "8"\n')
    assert result.exit_code == 1
    assert "`cpu` belongs under `resources`" in result.output
