"""Started as root, tests of the local engine run once more as somebody else.

There are no cgroups then, runs are the server's own user, and mounts need user namespaces.
"""

import os
import re
import time
from pathlib import Path

import pytest

from runyard.procs import Identity, end_leftovers, log_path, read_state, request_stop, start
from tests.unit.procs.lab import plan_tests

FOLDER = "tests/integration/local"
STRANGER = Identity(uid=600_100_778, gid=600_100_778)
SECONDS = 300
LEAST_PASSED = 70
"""So many tests of the suite need neither mounts nor root."""


@pytest.mark.skipif(os.geteuid() != 0, reason="these tests are run by an unprivileged user anyway")
@pytest.mark.parametrize(
    ("tests", "least"),
    [
        (("-k", "process and not kubernetes", "tests/contract/engine"), LEAST_PASSED),
        ((f"{FOLDER}/test_life_of_a_local_run.py", f"{FOLDER}/test_machine_of_local_runs.py"), 12),
        ((f"{FOLDER}/test_supervisor_killed.py",), 3),
    ],
    ids=["contract", "server", "kills"],
)
def test_everything_holds_when_the_server_is_not_root(tmp_path: Path, tests: tuple[str, ...], least: int) -> None:
    folder = tmp_path / "supervision"
    folder.mkdir(mode=0o700)
    start(folder, plan_tests(*tests, work=tmp_path / "work", user=STRANGER), listeners=tmp_path / "listeners")
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
    assert int(re.findall(r"(\d+) passed", output)[-1]) >= least, output[-2000:]
