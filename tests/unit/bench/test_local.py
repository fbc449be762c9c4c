import re

import pytest

from bench.local.first_line import find_percentile
from bench.local.section import Sizes, measure
from bench.report import Section

SMALLEST = Sizes(lone_runs=1, runs=2, in_flight=2, lines=1, idle_runs=2, idle_seconds=0.1, printed_bytes=1_000_000)


@pytest.fixture(scope="module")
def section() -> Section:
    return measure(SMALLEST)


def test_every_figure_stands_beside_the_same_work_without_runyard_when_the_local_engine_is_measured(
    section: Section,
) -> None:
    runs, line, idle, printing = section.tables
    assert [row[:2] for row in runs.rows] == [
        [name, in_flight]
        for in_flight in ("1", "2")
        for name in (
            "python -c pass, plain loop",
            "python -c pass, run",
            "def main(): pass, run by the launcher",
        )
    ]
    assert [row[3] for row in runs.rows if row[0] == "python -c pass, plain loop"] == [1.0, 1.0]
    assert all(float(row[2]) > 0 for row in runs.rows)
    assert [row[0] for row in printing.rows] == [
        "cat > file",
        "supervisor, without a server",
        "supervisor, with a server",
        "server: reads, stores, notifies",
    ]
    assert all(0 < float(row[1]) <= float(row[2]) for row in line.rows)
    assert [row[3] for row in idle.rows] == ["≤ 12", "≤ 12"]


def test_the_plain_loop_writes_what_a_run_writes_when_the_local_engine_is_measured(section: Section) -> None:
    found = re.search(
        r"(\d+) folders, (\d+) files written and renamed \((\d+) bytes\), (\d+) rows", " ".join(section.notes)
    )
    assert found is not None
    folders, files, size, rows = map(int, found.groups())
    assert folders >= 3
    assert files >= 8
    assert size > 1000
    # One row of the run, and one of each transition: CREATED, READY, PENDING, RUNNING, COMPLETED.
    assert rows >= 6


def test_percentile_is_a_value_that_was_measured_when_there_are_few() -> None:
    assert find_percentile([3.0], 99) == 3.0
    assert find_percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.0
    assert find_percentile([float(number) for number in range(1, 101)], 99) == 99.0
