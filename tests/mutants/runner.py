"""Plants a mutant in a copy of `src` and runs its tests against the copy."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant

TIMEOUT_SECONDS = 240
"""A mutant that makes its tests run for ever is killed by this; the tests themselves take seconds."""


class Verdict(StrEnum):
    """What the tests said of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    BROKEN = "broken"
    """Nothing was tested: no test was collected, or pytest itself failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A mutant, the verdict, and the end of what pytest printed."""

    mutant: Mutant
    verdict: Verdict
    output: str


def run_mutants(mutants: Sequence[Mutant], *, workers: int) -> Iterator[Outcome]:
    """Yield an outcome for each mutant, in order, as they come."""
    with ThreadPoolExecutor(workers) as threads:
        yield from threads.map(run_mutant, mutants)


def run_mutant(mutant: Mutant) -> Outcome:
    """Plant one mutant and run its tests. Raises `ValueError` if it no longer applies."""
    planted = mutant.plant((ROOT / mutant.file).read_text())
    with tempfile.TemporaryDirectory(prefix="runyard-mutant-") as folder:
        # Times are kept, so that Python finds the bytecode of every other module valid.
        shutil.copytree(ROOT / "src", Path(folder) / "src", copy_function=shutil.copy2)
        (Path(folder) / mutant.file).write_text(planted)
        verdict, output = _run_tests(mutant.tests, Path(folder) / "src")
    return Outcome(mutant, verdict, output)


def find_failing(selections: Iterable[tuple[str, ...]], *, workers: int, note: Callable[[str], None]) -> list[str]:
    """Return the selections that do not pass without any mutant: their failures would count as kills."""
    selections = list(selections)
    with ThreadPoolExecutor(workers) as threads:
        outcomes = list(threads.map(lambda tests: _run_tests(tests, ROOT / "src"), selections))
    failing = []
    for tests, (verdict, output) in zip(selections, outcomes, strict=True):
        if verdict is not Verdict.SURVIVED:
            note(output)
            failing.append(" ".join(tests))
    return failing


def _run_tests(tests: tuple[str, ...], source: Path) -> tuple[Verdict, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = {**os.environ, "PYTHONPATH": str(source), "RUNYARD_MUTANT": "1"}
    # The tests of a mutant may be run by a test: what pytest told its own workers is not for them.
    for name in ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        environment.pop(name, None)
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Verdict.KILLED, f"timed out after {TIMEOUT_SECONDS} s"
    verdict = {0: Verdict.SURVIVED, 1: Verdict.KILLED}.get(done.returncode, Verdict.BROKEN)
    return verdict, (done.stdout + done.stderr)[-2000:]
