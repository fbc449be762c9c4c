import re
from pathlib import Path

from bench.light import section
from bench.light.section import (
    ALONE,
    BASE,
    EVERY_NAME,
    OURS,
    THEIRS,
    THEIRS_AND_RUNTIMES,
    WITH_RUNTIMES,
    Cost,
)

FOLDER = Path(section.__file__).parent


def test_goals_are_ratios_of_the_same_run_when_figures_are_shown() -> None:
    costs = {
        OURS: Cost(10, 20),
        EVERY_NAME: Cost(50, 60),
        THEIRS: Cost(100, 200),
        THEIRS_AND_RUNTIMES: Cost(200, 400),
    }
    sizes = {BASE: 20.0, ALONE: 300.0, WITH_RUNTIMES: 600.0}
    shown = section._describe(costs, sizes, rounds=3)
    assert [(goal.value, goal.at_most, goal.is_met) for goal in shown.goals] == [
        (0.1, 0.2, True),
        (20 / 600, 0.05, True),
    ]
    assert [row[-1] for row in shown.tables[0].rows] == [10, 50, 100, 200]
    assert [row[-2:] for row in shown.tables[1].rows] == [[20 / 3, 20 / 6], [100, 50], [200, 100]]


def test_pins_are_complete_and_those_of_the_tested_sdk_when_compiled() -> None:
    tested = (FOLDER.parents[1] / "tests/e2e/sdk/requirements-0.15.in").read_text().split()
    assert (FOLDER / "digitalhub-runtimes.in").read_text().split() == tested
    for name in ("digitalhub", "digitalhub-runtimes"):
        pinned = (FOLDER / f"{name}.txt").read_text()
        assert [one for one in (FOLDER / f"{name}.in").read_text().split() if f"\n{one}\n" not in pinned] == []
        assert "://" not in pinned
        assert [line for line in pinned.splitlines() if not re.match(r" *#|[a-z0-9.-]+(\[[a-z]+\])?==", line)] == []
