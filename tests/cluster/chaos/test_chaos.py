"""The short form of the storm: some forty runs through every fault that fits into ten seconds, by fixed seeds.

`make chaos` is the long form. A failure prints the seed, the run and its history.
"""

from pathlib import Path

import pytest

from testbed.cluster import Cluster
from tests.chaos.faults import WEIGHTS
from tests.chaos.storm import StormPlan, run_storm
from tests.second_attempt import PromiseBroken

SEEDS = (14,)
LONG = ("node-not-ready", "server-freeze")
"""Faults that take longer than the short form; tests of their own have them."""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_every_rule_holds_when_a_storm_has_passed(
    breakable_cluster: Cluster, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = StormPlan(
        seed=seed,
        runs=40,
        total=40,
        seconds=10.0,
        pause_seconds=0.7,
        kinds={kind: weight for kind, weight in WEIGHTS.items() if kind not in LONG},
        is_quick=True,
        settle_seconds=180.0,
    )
    report = await run_storm(plan, breakable_cluster, tmp_path)
    with capsys.disabled():
        print(f"\n{report.format()}")  # noqa: T201 - the figures are the proof
    if not report.is_clean:
        raise PromiseBroken(report.format())
    assert len(report.evidences) == plan.total
    assert set(report.faults) == set(plan.choose_kinds())
    assert sum(report.proxy_faults.values()) > 10
