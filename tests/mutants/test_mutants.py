"""Every planted mutant applies to the code as it is, and a sample of them is killed by the tests they name."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mutants.catalogue import ROOT, Mutant, load_mutants
from tests.mutants.runner import Verdict, run_mutant

SAMPLE = 15
MUTANTS = load_mutants()


def find_seed() -> str:
    """The commit, so that the sample changes with the code and a failure can be repeated."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return os.environ.get("RUNYARD_MUTANTS_SEED") or head.stdout.strip()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_mutant_applies_when_the_code_is_as_it_is(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    assert mutant.plant(text) != text
    for test in mutant.tests:
        path = test.partition("::")[0]
        assert not path.startswith("tests/") or (ROOT / path).exists(), f"{path} is gone"


@pytest.mark.parametrize("index", range(SAMPLE))
def test_mutant_of_the_sample_is_killed_when_its_tests_run(index: int) -> None:
    mutant = random.Random(find_seed()).sample(MUTANTS, SAMPLE)[index]
    outcome = run_mutant(mutant)
    assert outcome.verdict is Verdict.KILLED, f"{mutant.id}: {outcome.output}"


def test_verdict_tells_a_survivor_from_a_kill_when_tests_do_not_look(tmp_path: Path) -> None:
    mutant = Mutant(
        id="harmless",
        file="src/runyard/__init__.py",
        find='__version__ = "',
        replace='__version__ = "9.',
        tests=("tests/unit/spec/test_patterns.py",),
    )
    assert run_mutant(mutant).verdict is Verdict.SURVIVED
    nowhere = Mutant(
        id="nowhere", file=mutant.file, find=mutant.find, replace=mutant.replace, tests=("tests/unit/absent.py",)
    )
    assert run_mutant(nowhere).verdict is Verdict.BROKEN


def test_error_names_the_mutant_when_it_no_longer_applies(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(
        '[[mutant]]\nid = "a"\nfile = "f"\nfind = "x"\nreplace = "y"\ntests = ["tests/unit"]\n'
    )
    (only,) = load_mutants(tmp_path)
    with pytest.raises(ValueError, match=r"^a: `find` occurs 2 times in f; it must occur once$"):
        only.plant("x and x")
    shutil.copy(tmp_path / "one.toml", tmp_path / "two.toml")
    with pytest.raises(ValueError, match=r"^a: two mutants have this id$"):
        load_mutants(tmp_path)
