"""The Makefile explains itself, and CI calls it as an engineer does."""

import os
import re
import subprocess
from pathlib import Path

from testbed.build import KUBERNETES_VERSIONS, kubernetes_release

PROJECT_ROOT = Path(__file__).resolve().parents[2]


def test_every_target_is_explained_when_make_is_called_alone() -> None:
    done = subprocess.run(["make"], cwd=PROJECT_ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    explained = {line.split()[1] for line in done.stdout.splitlines()}
    assert {"test", "check", "fmt", "bench", "cluster-up", "cluster-down", "clean"} <= explained


def test_everything_is_tested_and_nothing_skipped_when_ci_runs(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "$PWD" "$RUNYARD_TESTBED_REQUIRED" "$@"\n')
    make.chmod(0o755)
    done = subprocess.run(
        [PROJECT_ROOT / ".ci/run"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNYARD_TESTBED_REQUIRED": ""},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"{PROJECT_ROOT} 1 test\n")


def test_kubernetes_is_prepared_and_gates_pass_before_tests_start_when_everything_is_tested() -> None:
    steps = read_recipe("test")
    wanted = ["lint-imports", "testbed setup\n", "testbed setup --build &", "bin/pytest", "wait $build"]
    found = [next(place for place, step in enumerate(steps) if part in f"{step}\n") for part in wanted]
    assert found == sorted(found)
    assert "--numprocesses" in steps[found[3]]


def test_every_supported_kubernetes_is_tested_when_all_versions_are() -> None:
    (versions,) = re.findall(r"for version in ([\d. ]+);", "\n".join(read_recipe("test-versions")))
    assert set(versions.split()) == set(KUBERNETES_VERSIONS)


def test_whole_contract_suite_runs_in_both_modes_when_all_versions_are_tested() -> None:
    recipe = "\n".join(read_recipe("test-versions"))
    assert "RUNYARD_CONTRACT_LONG=1 RUNYARD_CONTRACT_IN_ONE_NAMESPACE=all " in recipe


def test_changelog_says_when_all_versions_were_tested_when_there_is_a_release() -> None:
    sections = re.split(r"^## ", (PROJECT_ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    releases = " and ".join(kubernetes_release(version) for version in KUBERNETES_VERSIONS)
    assert sections[0].startswith("Unreleased\n")
    assert f"Tested with Kubernetes {releases} by `make test-versions`" in sections[0]
    for section in sections[1:]:
        assert re.search(
            r"^Tested with Kubernetes .+ by `make test-versions` on \d{4}-\d\d-\d\d\.$", section, re.MULTILINE
        )


def read_recipe(target: str) -> list[str]:
    """The lines that make would run, without running any of them."""
    done = subprocess.run(
        ["make", "--dry-run", "--assume-old=.venv/.ready", target], cwd=PROJECT_ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
