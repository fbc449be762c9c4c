import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_attempt import FAILED, MOST_TRIED_AGAIN

ROOT = Path(__file__).parents[3]
FLAKY = """
from pathlib import Path

def test_passes_alone():
    tried = Path("tried")
    was_tried = tried.exists()
    tried.touch()
    assert was_tried

def test_passes():
    pass
"""
PROMISE = """
from pathlib import Path
from tests.second_attempt import PromiseBroken

def test_promise():
    tried = Path("tried")
    if not tried.exists():
        tried.touch()
        raise PromiseBroken("a doubled Job")
"""
BROKEN = "def test_fails():\n    assert False\n"


def run_python(folder: Path, *arguments: str) -> tuple[int, str]:
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout


def run_twice(folder: Path, *tests: str) -> tuple[int, str]:
    """As `make test` does: beside each other, then alone."""
    (folder / "pytest.ini").touch()
    for number, text in enumerate(tests):
        (folder / f"test_{number}.py").write_text(text)
    code, _ = run_python(folder, "-m", "pytest", "--numprocesses", "1", "-p", "tests.second_attempt")
    assert code == 1
    return run_python(folder, "-m", "tests.second_attempt")


def test_run_passes_and_names_the_test_when_it_passes_alone(tmp_path: Path) -> None:
    code, said = run_twice(tmp_path, FLAKY)
    assert code == 0
    assert "FLAKY test_0.py::test_passes_alone: failed beside others, passed alone" in said
    assert "1 passed" in said


def test_run_fails_when_one_test_fails_again(tmp_path: Path) -> None:
    code, said = run_twice(tmp_path, FLAKY, BROKEN)
    assert code == 1
    assert "FLAKY" not in said
    assert "1 failed, 1 passed" in said


def test_nothing_is_tried_again_when_a_promise_was_broken(tmp_path: Path) -> None:
    code, said = run_twice(tmp_path, PROMISE)
    assert code == 1
    assert said == "broke a promise, and is not tried again: test_0.py::test_promise\n"


def test_nothing_is_tried_again_when_many_failed(tmp_path: Path) -> None:
    code, said = run_twice(tmp_path, *[BROKEN] * (MOST_TRIED_AGAIN + 1))
    assert code == 1
    assert said == "6 tests failed; at most 5 are tried again\n"


@pytest.mark.parametrize("arguments", [(), ("--numprocesses", "0")])
def test_failed_tests_are_not_noted_when_a_run_is_alone(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "test_broken.py").write_text(BROKEN)
    assert run_python(tmp_path, "-m", "pytest", *arguments, "-p", "tests.second_attempt")[0] == 1
    assert not (tmp_path / FAILED).exists()
