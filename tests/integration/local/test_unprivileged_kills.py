"""Started as root, the tests of kills run once more with a server of somebody else: without cgroups of its own."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.procs import Command, Plan
from tests.contract.engine.local_lab import make_folder
from tests.unit.procs.lab import IS_ROOT, STRANGER, Lab, read_log

ROOT = Path(__file__).parents[3]
FILES = ("test_supervisor_killed.py",)


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A folder that everybody reaches."""
    opened = Lab(make_folder())
    yield opened
    opened.close()
    shutil.rmtree(opened.folder, ignore_errors=True)


@pytest.mark.long
@pytest.mark.skipif(not IS_ROOT, reason="the other tests of this folder are run by an unprivileged user anyway")
def test_everything_holds_when_the_user_is_not_root(lab: Lab) -> None:
    work = lab.folder / "work"
    work.mkdir()
    os.chown(work, STRANGER.uid, STRANGER.gid)
    argv = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--basetemp", f"{work}/tmp")
    main = Command(
        name="main",
        argv=(*argv, *(f"tests/integration/local/{name}" for name in FILES)),
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(work),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RUNYARD_TESTBED_STATE": "/tmp/no-testbed",
        },
        cwd=str(ROOT),
        identity=STRANGER,
    )
    needed = (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), str(ROOT), str(work))
    folder, state = lab.run(Plan(main=main, reachable=needed), seconds=280)
    output = read_log(folder)
    assert state.instances[0].exit_code == 0, output[-5000:]
    counts = re.findall(r"(\d+) passed", output)
    assert int(counts[-1]) == 3, output[-2000:]
