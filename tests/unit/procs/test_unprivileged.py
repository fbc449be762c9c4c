"""Started as root, these tests run once more as somebody else: without cgroups, with user namespaces."""

import os
import re
import sys
from pathlib import Path

import pytest

from runyard.procs import Command, Plan
from tests.unit.procs.lab import IS_ROOT, STRANGER, Lab, read_log

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(not IS_ROOT, reason="the other tests of this folder are run by an unprivileged user anyway")
def test_everything_holds_when_the_user_is_not_root(lab: Lab) -> None:
    work = lab.folder / "work"
    work.mkdir()
    os.chown(work, STRANGER.uid, STRANGER.gid)
    argv = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--basetemp", f"{work}/tmp")
    main = Command(
        name="main",
        argv=(*argv, "tests/unit/procs"),
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
    folder, state = lab.run(Plan(main=main, reachable=needed), seconds=200)
    output = read_log(folder)
    assert state.instances[0].exit_code == 0, output[-5000:]
    counts = re.findall(r"(\d+) passed", output)
    assert int(counts[-1]) > 60, output[-2000:]
