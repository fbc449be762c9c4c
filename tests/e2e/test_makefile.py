"""The Makefile explains itself."""

import subprocess
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]


def test_every_target_is_explained_when_make_is_called_alone() -> None:
    done = subprocess.run(["make"], cwd=PROJECT_ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    explained = {line.split()[1] for line in done.stdout.splitlines()}
    assert {"test", "check", "fmt", "bench", "cluster-up", "cluster-down", "clean"} <= explained


def test_ci_runs_what_an_engineer_runs() -> None:
    script = (PROJECT_ROOT / ".ci/run").read_text()
    assert script.splitlines()[-1] == "exec make test"
