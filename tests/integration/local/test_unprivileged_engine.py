"""Started as root, the contract suite of the local engine runs once more as somebody else: no cgroups of its own, runs
as the server's own user, mounts by user namespaces where the kernel allows them."""

import os
import re
import sys
import time
from pathlib import Path

import pytest

from runyard.procs import Command, Identity, Plan, end_leftovers, log_path, read_state, request_stop, start

ROOT = Path(__file__).parents[3]
STRANGER = Identity(uid=600_100_778, gid=600_100_778)
SECONDS = 300
LEAST_PASSED = 70
"""So many tests of the suite need neither mounts nor root."""


@pytest.mark.skipif(os.geteuid() != 0, reason="the contract suite is run by an unprivileged user anyway")
def test_contract_holds_when_the_server_is_not_root(tmp_path: Path) -> None:
    work, folder = tmp_path / "work", tmp_path / "supervision"
    folder.mkdir(mode=0o700)
    work.mkdir()
    os.chown(work, STRANGER.uid, STRANGER.gid)
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", f"{work}/tmp")
    main = Command(
        name="main",
        argv=(*argv, "-k", "process", "tests/contract/engine"),
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(work),
            "TMPDIR": str(work),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RUNYARD_TESTBED_STATE": "/tmp/no-testbed",
        },
        cwd=str(ROOT),
        identity=STRANGER,
    )
    needed = (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), str(ROOT), str(work))
    start(folder, Plan(main=main, reachable=needed, grace_seconds=5), listeners=tmp_path / "listeners")
    deadline = time.monotonic() + SECONDS
    try:
        while (state := read_state(folder)) is None or not state.is_ended:
            assert time.monotonic() < deadline, "the suite did not end in time"
            time.sleep(0.1)
    finally:
        request_stop(folder, grace_seconds=1)
        end_leftovers(folder)
    output = log_path(folder, "main", 0).read_text()
    if state.failure is not None and state.failure.code == "mount.impossible":
        pytest.skip(f"another user cannot be given the interpreter: {state.failure.message}")
    assert state.failure is None, state.failure
    assert state.instances[0].exit_code == 0, output[-5000:]
    assert int(re.findall(r"(\d+) passed", output)[-1]) >= LEAST_PASSED, output[-2000:]
