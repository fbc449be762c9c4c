"""What a run consists of when something was left out: the option of a file, the kind, the name."""

import re
from pathlib import Path

import pytest

from runyard.cli.run_definitions import SubmitOptions, define_run
from tests.unit.cli.conftest import Call

pytestmark = pytest.mark.usefixtures("here")
CODE = "python_version: PYTHON3_11\nsource: {source: train.py, handler: fit}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("run.yaml", "nothing to run is named; did you mean `runyard run -f run.yaml`?"),
        ("train.py", "train.py is code: `runyard init --code train.py` writes a run file for it"),
        ("absent.yaml", "the run names nothing to run: set `image`, `source` or `function` in a file for -f"),
    ],
)
def test_command_that_was_meant_is_told_when_a_file_has_no_option(
    call: Call, tmp_path: Path, file: str, told: str
) -> None:
    (tmp_path / "run.yaml").write_text(CODE)
    (tmp_path / "train.py").write_text("def fit(): ...\n")
    called = call("run", file, "--yes")
    assert called.code == 2
    assert told in called.err


def test_kind_follows_from_the_fields_when_nobody_answers_but_this_program(call: Call, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def fit(): ...\n")
    (tmp_path / "run.yaml").write_text(CODE)
    explained = call("explain", "-f", "run.yaml", "--offline")
    assert explained.code == 0, explained.err
    assert re.search(r"^kind +python +", explained.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("run.yaml", CODE, "fit"),
        ("train.yaml", CODE, "train"),
        ("run.yaml", "image: registry.example.org/team/fine_tune:1\n", "fine-tune"),
        ("run.yaml", "name: mine\nimage: busybox\n", "mine"),
    ],
)
def test_function_is_named_by_the_first_word_that_says_something(
    tmp_path: Path, file: str, text: str, name: str
) -> None:
    (tmp_path / file).write_text(text)
    assert define_run(SubmitOptions(file=str(tmp_path / file))).name == name
