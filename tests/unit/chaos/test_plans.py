"""What a seed repeats: workloads and faults."""

from itertools import islice

import pytest

from tests.chaos.__main__ import make_plan, parse
from tests.chaos.faults import WEIGHTS, plan_faults
from tests.chaos.storm import StormPlan
from tests.chaos.workloads import iter_workloads


def test_workloads_and_faults_are_the_same_when_the_seed_is() -> None:
    first, again, other = (list(islice(iter_workloads(seed, life_seconds=20), 200)) for seed in (7, 7, 8))
    assert first == again
    assert [workload.lines for workload in first] != [workload.lines for workload in other]
    plans = [plan_faults(seed, seconds=600, pause_seconds=5, kinds=WEIGHTS) for seed in (7, 7, 8)]
    assert plans[0] == plans[1] != plans[2]


def test_storm_has_every_kind_of_fault_and_of_run_when_it_is_long_enough() -> None:
    faults = plan_faults(7, seconds=600, pause_seconds=5, kinds=WEIGHTS)
    assert {fault.kind for fault in faults} == set(WEIGHTS)
    assert all(0 <= fault.at_seconds < 600 for fault in faults)
    workloads = list(islice(iter_workloads(7, life_seconds=20), 300))
    assert {workload.shape for workload in workloads} == {"plain", "flaky", "memory", "serve"}
    assert any(workload.has_volume for workload in workloads)
    assert any(workload.stop_after_seconds is not None for workload in workloads)
    assert any(workload.delete_after_seconds is not None for workload in workloads)
    assert all(
        workload.stop_after_seconds or workload.delete_after_seconds
        for workload in workloads
        if workload.shape == "serve"
    )
    assert len({workload.run_id for workload in workloads}) == 300


@pytest.mark.parametrize(
    "plan",
    [
        StormPlan(seed=7, runs=300, seconds=1800.0, replicas=2, kinds=WEIGHTS, settle_seconds=900.0),
        StormPlan(seed=14, runs=40, total=40, seconds=10.0, pause_seconds=0.7, kinds={"sever": 4}, is_quick=True),
    ],
)
def test_storm_is_the_same_when_its_command_is_repeated(plan: StormPlan) -> None:
    words = plan.command.removeprefix("python -m tests.chaos").split()
    assert make_plan(parse(words)) == plan
