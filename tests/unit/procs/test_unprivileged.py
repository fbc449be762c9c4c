"""Started as root, these tests run once more as somebody else: without cgroups, with user namespaces."""

import re

import pytest

from tests.unit.procs.lab import IS_ROOT, Lab, plan_tests, read_log


@pytest.mark.skipif(not IS_ROOT, reason="the other tests of this folder are run by an unprivileged user anyway")
def test_everything_holds_when_the_user_is_not_root(lab: Lab) -> None:
    plan = plan_tests("-x", "tests/unit/procs", work=lab.folder / "work")
    folder, state = lab.run(plan, seconds=200)
    output = read_log(folder)
    assert state.instances[0].exit_code == 0, output[-5000:]
    counts = re.findall(r"(\d+) passed", output)
    assert int(counts[-1]) > 60, output[-2000:]
