"""`--no-input`: nothing is asked, wherever it stands."""

from pathlib import Path

import pytest

import runyard.cli.run_starter
import runyard.cli.users  # noqa: F401 - what takes `get_stdin` by name must not find the one of these tests
from tests.unit.cli.conftest import Call


class _Terminal:
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.cli.files.get_stdin", _Terminal)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["user", "delete", "ada"], "--no-input leaves the question unanswered: use --yes"),
        (["user", "create", "ada"], "--no-input leaves no prompt for the password: use --password-stdin"),
        (["user", "password", "ada"], "--no-input leaves no prompt for the password: use --password-stdin"),
    ],
)
def test_option_with_the_answer_is_named_when_nothing_may_be_asked(
    call: Call, tmp_path: Path, words: list[str], told: str
) -> None:
    place = ["--data", str(tmp_path)]
    for called in (
        call("--no-input", *words, *place, stdin="y\ny\n"),
        call(*words, "--no-input", *place, stdin="y\ny\n"),
    ):
        assert (called.code, called.out) == (2, "")
        assert called.err.endswith(f"error: {told}\n")


def test_defaults_are_taken_when_a_terminal_is_there_but_nothing_may_be_asked(call: Call, tmp_path: Path) -> None:
    assert call("--no-input", "init", tmp_path / "run.yaml").code == 0
    assert (tmp_path / "run.yaml").read_text().startswith("# A run of Runyard.")
