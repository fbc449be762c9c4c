"""pytest plugin and program: tests that failed beside others are tried once more, alone.

`make test` runs three tests at a time beside a real Kubernetes on two cores. There a test may fail because it did not
get processor time. Tried again alone, one after the other, a real fault fails again and so does the run. A test that
passes then is printed as FLAKY: it has a race, and whoever sees the line mends it. If more than a few tests failed, the
machine is not to blame, and nothing is tried again. A test that saw a promise of the product broken
(`PromiseBroken`) is not tried again either: it may have found a race that another attempt does not meet.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

FAILED = Path(".artifacts/failed-tests.txt")
"""The tests that failed in the last run under `pytest -n`, one a line."""
MOST_TRIED_AGAIN = 5
_BROKEN = "\tbroken"
"""Behind a test that is not tried again."""


class PromiseBroken(AssertionError):
    """A run of a test of faults broke a rule, by the evidence. Slowness does not raise it."""


class FailedTests:
    """Collects the failed tests of a session; only the controlling process of `pytest -n` has one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._names: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            is_broken = PromiseBroken.__name__ in report.longreprtext
            self._names[report.nodeid] = self._names.get(report.nodeid, False) or is_broken

    def pytest_sessionfinish(self) -> None:
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text("".join(f"{name}{_BROKEN * is_broken}\n" for name, is_broken in self._names.items()))


def pytest_configure(config: pytest.Config) -> None:
    """Collect where tests run beside each other: there is nothing to say of a run that is alone."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailedTests(config.rootpath / FAILED), "failed-tests")


def try_again(names: Sequence[str]) -> int:
    """Run these tests alone, and print which of them passed; returns the exit code of the whole run."""
    if not 0 < len(names) <= MOST_TRIED_AGAIN:
        _say(f"{len(names)} tests failed; at most {MOST_TRIED_AGAIN} are tried again")
        return 1
    if broken := [name.removesuffix(_BROKEN) for name in names if name.endswith(_BROKEN)]:
        _say(f"broke a promise, and is not tried again: {', '.join(broken)}")
        return 1
    _say(f"== {len(names)} failed beside others: tried once more, alone")
    code = int(pytest.main(["--numprocesses", "0", *names]))
    if code == 0:
        for name in names:
            _say(f"FLAKY {name}: failed beside others, passed alone")
    return code


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(try_again(FAILED.read_text().splitlines()))
