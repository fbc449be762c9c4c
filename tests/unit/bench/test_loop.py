import re

import pytest

from bench.loop.section import Sizes, measure
from bench.report import Section

SMALLEST = Sizes(
    lone_lives=1,
    lives=2,
    events=3,
    creates=2,
    hinted_runs=2,
    hint_rounds=1,
    restarted=6,
    changed=2,
    few=3,
    repeats=1,
    quiet_seconds=0.1,
)


@pytest.fixture(scope="module")
def section() -> Section:
    return measure(SMALLEST, has_postgresql=False)


def test_every_measure_has_a_figure_beside_its_goal_when_the_loop_is_measured(section: Section) -> None:
    (table,) = section.tables
    assert [row[0] for row in table.rows if row[3]] == [
        "CPU per life, 2 at once",
        "write transactions per life, 2 at once",
        "write transactions per life, alone",
        "3 events at once: p99",
        "3 events behind 2 creates: p99",
        "CPU per hint without a change",
        "transactions per hint without a change",
        "restart with 6 active runs",
        "memory per active run",
    ]
    assert all(re.fullmatch(r"-?\d+\.\d+", str(row[2])) for row in table.rows)


def test_no_wait_has_given_up_when_the_loop_is_measured(section: Section) -> None:
    """A wait that gives up shows its limit of 30 s: no loop needs that long for three runs."""
    waits = {goal.name: goal.value for goal in section.goals if goal.unit == "s"}
    assert len(waits) == 3
    assert max(waits.values()) < 20, waits


def test_every_life_is_written_several_times_when_the_loop_is_measured(section: Section) -> None:
    """PENDING, RUNNING, COMPLETED and settled are states of their own; fewer writes would be no whole life."""
    commits = {goal.name: goal.value for goal in section.goals if "write transactions per life" in goal.name}
    assert len(commits) == 2
    assert min(commits.values()) >= 2, commits
