import sys
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from runyard.cli.commands.init import ACTIONS
from runyard.cli.main import root
from runyard.cli.run_starter import DEFAULT_CODE
from runyard.spec.kinds.registry import KINDS, list_function_kinds
from runyard.spec.run_documents import RunFile, read_run_file
from runyard.spec.yaml.loader import load_document
from tests.unit.cli.conftest import Call

CODE = 'def train(epochs=3):\n\t"""Tab, and ünïcode: # {x}"""\n\n    \ndef _inner():\n    pass\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(CODE)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/big.yaml").write_text("id: big\nresources: {requests: {memory: 1Gi}}\n")
    return tmp_path


def read(path: Path) -> RunFile:
    return read_run_file(load_document(path.read_bytes()).data)


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--action serve",
        "--action deploy --image registry.example.org/model:1 --gpu 1 --disk 10Gi",
        "--kind python",
        "--kind python --action serve",
        "--code train.py --requirement numpy==2.1 --requirement torch --python-version PYTHON3_12",
        "--kind python --code train.py --handler train --mem 8Gi --image python:3.12",
        "--profile big --project demo --run-as-user 2000",
    ],
)
def test_file_passes_explain_when_it_is_written(call: Call, here: Path, flags: str) -> None:
    called = call("init", *flags.split())
    assert called.code == 0, called.err
    assert called.out == "written: run.yaml\n"
    assert called.err.startswith("note: next: `runyard explain -f run.yaml")
    explained = call("explain", "-f", "run.yaml", "--profiles", "profiles", "--strict")
    assert explained.code == 0, explained.out + explained.err
    assert "warning" not in explained.out + explained.err


def test_path_of_the_code_is_relative_to_the_run_file_when_it_is_named(call: Call, here: Path) -> None:
    assert call("init", "--code", "train.py").code == 0
    fields = read(here / "run.yaml").fields
    assert fields.source == {"handler": "train", "source": "train.py"}
    assert fields.python_version == f"PYTHON3_{sys.version_info.minor}"
    (here / "runs").mkdir()
    assert call("init", "runs/first.yaml", "--code", here / "train.py").code == 0
    assert read(here / "runs/first.yaml").fields.source == {"handler": "train", "source": "../train.py"}


def test_code_to_try_is_a_function_when_no_file_is_named(call: Call, here: Path) -> None:
    assert call("init", "--kind", "python").code == 0
    run = read(here / "run.yaml")
    assert run.fields.source is not None
    assert run.fields.source["code"] == DEFAULT_CODE
    module: dict[str, Any] = {}
    exec(run.fields.source["code"], module)
    assert module[run.fields.source["handler"]](**run.fields.parameters or {}) == {"greeting": "hello world"}


def test_flags_are_in_the_file_when_they_are_set(call: Call, here: Path) -> None:
    words = ["--command", "python -c 'print(1)'", "--image", "python:3.11"]
    words += ["--cpu", "2", "--gpu", "1", "--project", "demo"]
    assert call("init", "other.yaml", "--no-input", *words).code == 0
    run = read(here / "other.yaml")
    assert (run.kind, run.action, run.project) == ("container", "job", "demo")
    assert run.fields.command == ("python", "-c", "print(1)")
    assert run.fields.resources is not None
    assert set(run.fields.resources) == {"cpu", "gpu"}


def test_file_is_kept_when_it_exists(call: Call, here: Path) -> None:
    (here / "run.yaml").write_text("mine\n")
    called = call("init")
    assert (called.code, called.out) == (1, "")
    assert called.err == "error: run.yaml exists: add --force to replace it, or name another FILE\n"
    assert (here / "run.yaml").read_text() == "mine\n"
    assert call("init", "--force").code == 0
    assert read(here / "run.yaml").kind == "container"
    assert sorted(path.name for path in here.iterdir()) == ["profiles", "run.yaml", "train.py"]


def test_file_goes_to_standard_output_when_it_is_a_dash(call: Call, here: Path) -> None:
    called = call("init", "-", "--mem", "1Gi")
    assert (called.code, called.err) == (0, "")
    assert call("explain", "-f", "-", stdin=called.out).code == 0
    assert not (here / "run.yaml").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--mem", "5xi"], "resources.mem: "),
        (["--kind", "pyton"], "did you mean: python"),
        (["--kind", "python", "--action", "deploy"], "a python function cannot `deploy`; allowed: job, serve"),
        (["--kind", "container", "--code", "train.py"], "--code would have no effect on kind container"),
        (["--kind", "python", "--run-as-user", "7"], "--run-as-user would have no effect on kind python"),
        (["--code", "train.py", "--handler", "trian"], "the code has no function `trian`; did you mean train?"),
        (["--command", "sh 'x"], "--command: `sh 'x` cannot be split: no closing quotation"),
        (["--run-as-user", "0"], "run_as_user: 0 is root"),
        (["--python-version", "3.12"], "PYTHON3_12"),
    ],
)
def test_wrong_option_is_named_when_nothing_is_written(call: Call, here: Path, words: list[str], told: str) -> None:
    called = call("init", *words)
    assert (called.code, called.out) == (2, "")
    assert told in called.err.splitlines()[-1]
    assert not (here / "run.yaml").exists()


def test_handler_must_be_named_when_there_are_several(call: Call, here: Path) -> None:
    (here / "two.py").write_text("def a(): ...\ndef b(): ...\n")
    assert "--handler is missing: two.py has a, b" in call("init", "--code", "two.py").err
    (here / "broken.py").write_text("def (:\n")
    assert "--handler is missing: broken.py has no function" in call("init", "--code", "broken.py").err
    assert call("init", "--code", "broken.py", "--handler", "new_syntax").code == 0


def test_only_the_missing_is_asked_when_a_person_is_there(
    call: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.cli.run_starter.can_ask", lambda: True)
    answers = "pyton\npython\n\nnowhere.py\ntrain.py\n\n\n\nlots\n4Gi\n\n"
    called = call("init", "--cpu", "2", stdin=answers)
    assert called.code == 0, called.err
    assert "unknown answer `pyton`" in called.err
    assert "nowhere.py" in called.err
    assert "CPU cores" not in called.err
    run = read(here / "run.yaml")
    assert (run.kind, run.action) == ("python", "job")
    assert run.fields.source is not None
    assert run.fields.source["handler"] == "train"


def test_nothing_is_written_when_the_questions_are_interrupted(
    call: Call, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.cli.run_starter.can_ask", lambda: True)
    assert call("init", stdin="container\n").code == 130  # the end of standard input is Ctrl-D
    assert not (here / "run.yaml").exists()


def test_choices_are_the_known_ones_when_completed() -> None:
    shell = ShellComplete(root, {}, "runyard", "_RUNYARD_COMPLETE")
    kinds = [item.value for item in shell.get_completions(["init", "--kind"], "")]
    assert kinds == list(list_function_kinds())
    assert {*ACTIONS, "build"} == {action for kind in KINDS.values() for action in kind.actions}
