"""The limits that a run of the local engine gets are those of its own container."""

from pathlib import Path
from typing import Any

from runyard.engines.local.pod_plans import (
    LARGEST_SETUP_BYTES,
    MOST_SETUP_MILLIS,
    AdmittedRun,
    Paths,
    PlanInputs,
    Preparation,
    find_memory_limit,
    make_plan,
)
from runyard.spec.launcher import LAUNCHER_LIMITS, LAUNCHER_NAME

MIB = 1 << 20


def make_run(limits: dict[str, str]) -> AdmittedRun:
    main = {"name": "main", "image": "python:3.11", "command": ["launcher"], "resources": {"limits": limits}}
    launcher = {"name": LAUNCHER_NAME, "image": "launcher:1", "resources": {"limits": dict(LAUNCHER_LIMITS)}}
    pod: dict[str, Any] = {"containers": [main], "initContainers": [launcher]}
    return AdmittedRun(workload={"kind": "Job", "spec": {"template": {"spec": pod}}})


def plan_run(run: AdmittedRun) -> Any:
    paths = {name: Path("/place") / name for name in Paths.__dataclass_fields__}
    preparation = Preparation(python="/environment/bin/python3", launcher=Path("/place/launcher.pyz"))
    return make_plan(PlanInputs(run=run, identity=None, paths=Paths(**paths), preparation=preparation))


def test_launcher_raises_no_limit_when_the_run_has_a_smaller_one() -> None:
    run = make_run({"memory": "64Mi", "cpu": "500m"})
    plan = plan_run(run)
    assert (plan.limits.memory_bytes, plan.limits.cpu_millis) == (64 * MIB, 500)
    assert find_memory_limit(run) == 64 * MIB


def test_launcher_sets_no_limit_when_the_run_has_none() -> None:
    run = make_run({})
    assert plan_run(run).limits.memory_bytes is None
    assert find_memory_limit(run) is None


def test_set_up_has_the_limits_of_the_run_when_they_are_enough_to_install_packages() -> None:
    small = plan_run(make_run({"memory": "64Mi", "cpu": "500m"})).step_limits
    assert (small.memory_bytes, small.cpu_millis) == (LARGEST_SETUP_BYTES, MOST_SETUP_MILLIS)
    large = plan_run(make_run({"memory": "8Gi", "cpu": "3"})).step_limits
    assert (large.memory_bytes, large.cpu_millis) == (8192 * MIB, 3000)
    unlimited = plan_run(make_run({})).step_limits
    assert (unlimited.memory_bytes, unlimited.cpu_millis) == (None, None)
