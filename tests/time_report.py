"""pytest plugin: ends a run with where its time went, folder by folder.

A folder's time is the sum of its tests' durations, set-up and teardown included; with `pytest -n` the sums of all
folders exceed the wall time. The last line tells a run that computes from one that waits: how busy the processors of
this machine were, whatever program used them.
"""

import os
import time
from collections import defaultdict
from pathlib import Path, PurePosixPath

import pytest

_DEPTH = 3


class TimeReport:
    """Collects the durations of a session; only the controlling process of `pytest -n` has one."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: defaultdict[str, int] = defaultdict(int)
        self._started_at = time.monotonic()
        self._busy_before = read_busy_seconds()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = find_folder(report.nodeid)
        self._seconds[folder] += report.duration
        self._tests[folder] += report.when == "call" or report.outcome != "passed"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._seconds:
            return
        write = terminalreporter.write_line
        terminalreporter.section("time per folder")
        total = sum(self._seconds.values())
        for folder, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            write(f"{seconds:8.1f} s {seconds / total if total else 0:5.0%} {self._tests[folder]:6} tests  {folder}")
        wall = time.monotonic() - self._started_at
        write(f"{total:8.1f} s in {sum(self._tests.values())} tests; {wall:.0f} s of wall time")
        busy = read_busy_seconds()
        if busy is not None and self._busy_before is not None:
            spent, cores = busy - self._busy_before, os.cpu_count() or 1
            write(f"{spent:8.1f} s of processor time on this machine, {spent / wall / cores:.0%} of {cores} cores")


def find_folder(nodeid: str) -> str:
    """The folder that a test's time is counted for: `tests/unit/spec` for all that is below it."""
    parents = PurePosixPath(nodeid.partition("::")[0]).parent.parts
    return "/".join(parents[:_DEPTH])


def read_busy_seconds() -> float | None:
    """The seconds that all processors of this machine were busy since it started; None where nobody says so."""
    try:
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq = (int(field) for field in fields[:7])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(TimeReport(), "time-report")
