"""The fixtures keep their word: shared by workers, kept on request, gone otherwise, and a dump of what failed."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.pytest_plugin import require_machine
from testbed.supervision import PROJECT_ROOT

TESTS = """
from tests.cluster.testbed.manifests import create, pod, wait

def test_that_fails(cluster, namespace):
    create(cluster, namespace, pod("culprit", "echo I did it"))
    wait(cluster, namespace, "pod/culprit", until="jsonpath={.status.phase}=Succeeded")
    assert False

def test_that_passes(cluster, namespace):
    print(f"pid={cluster.supervisor_pid}")
    assert namespace in cluster.kubectl("get", "namespaces")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A state folder of its own, so that the inner sessions do not meet the outer one's cluster."""
    require_machine(node=True)
    path = Path(tempfile.mkdtemp(prefix="ry"))
    (path / "conftest.py").write_text('pytest_plugins = ["testbed.pytest_plugin"]\n')
    (path / "test_inner.py").write_text(TESTS)
    yield path
    _run(path, [sys.executable, "-m", "testbed", "down", "--all"])
    shutil.rmtree(path)


def run_pytest(folder: Path, *arguments: str, keep: bool) -> str:
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rP", "--rootdir", str(folder), *arguments]
    return _run(folder, [*argv, str(folder)], RUNYARD_TESTBED_KEEP="1" if keep else "0")


def _run(folder: Path, argv: list[str], **environment: str) -> str:
    own = {"RUNYARD_TESTBED_STATE": str(folder / "s"), "PYTHONPATH": str(PROJECT_ROOT), **environment}
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(argv, cwd=PROJECT_ROOT, capture_output=True, text=True, env=outer | own).stdout


def clusters(folder: Path) -> list[str]:
    return [path.parent.name for path in (folder / "s").glob("*/cluster.json")]


def pid_of(output: str) -> str:
    found = re.search(r"pid=(\d+)", output)
    assert found, output
    return found[1]


def test_cluster_is_shared_kept_and_dropped_when_sessions_ask_for_it(folder: Path) -> None:
    kept = run_pytest(folder, "-n", "2", keep=True)
    assert "1 failed, 1 passed" in kept
    assert len(clusters(folder)) == 1
    _check_dump(kept)

    again = run_pytest(folder, "-k", "passes", keep=True)
    assert pid_of(again) == pid_of(kept)

    dropped = run_pytest(folder, "-k", "passes", keep=False)
    assert pid_of(dropped) != pid_of(kept)
    assert clusters(folder) == []


def _check_dump(output: str) -> None:
    found = re.search(r"component logs of the failed test: (\S+)", output)
    assert found, output
    dump = Path(found[1])
    assert "name: culprit" in (dump / "pods.yaml").read_text()
    assert "I did it" in (dump / "pod-culprit.log").read_text()
    assert "culprit" in (dump / "events.txt").read_text()
    assert (dump / "component-kubelet.log").read_text().strip()
    shutil.rmtree(dump)
