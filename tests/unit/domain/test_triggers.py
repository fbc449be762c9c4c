from typing import Any

import pytest

from runyard.domain.triggers import find_trigger_problems, find_types, matches_key

STATES = frozenset({"READY", "COMPLETED", "ERROR"})
SCHEDULER = {"task": "container+job://p/t", "schedule": "0 0 3 * * ?", "template": {"args": ["{{input.at}}"]}}
LIFECYCLE = {"task": "container+job://p/t", "key": "store://p/run/*", "states": ["COMPLETED"]}


@pytest.mark.parametrize(
    ("pattern", "key", "is_meant"),
    [
        ("store://p/run/*", "store://p/run/python+job:run/r1:r1", True),
        ("store://p/model/*/churn*", "store://p/model/mlflow/churn-2:abc", True),
        ("store://p/model/*/churn*", "store://p/model/mlflow/other:abc", False),
        ("store://p/model/mlflow/m", "store://p/model/mlflow/m:abc", True),
        ("store://p/model/mlflow/m:abc", "store://p/model/mlflow/m:abc", True),
        ("store://p/model/mlflow/m:abd", "store://p/model/mlflow/m:abc", False),
        ("store://p/model/mlflow/m", "store://p/model/mlflow/m2:abc", False),
        ("store://p/model/a.c/m", "store://p/model/abc/m:1", False),
        ("store://p/*", "store://pp/model/mlflow/m:1", False),
    ],
)
def test_key_is_meant_when_the_pattern_fits(pattern: str, key: str, is_meant: bool) -> None:
    assert matches_key(pattern, key) is is_meant


@pytest.mark.timeout(20)
def test_key_is_compared_in_linear_time_when_the_pattern_invites_backtracking() -> None:
    pattern = "store://p/run/*" + "a*" * 900 + "b"
    assert not matches_key(pattern, "store://p/run/container+job:run/" + "a" * 1000)
    assert matches_key(pattern, "store://p/run/container+job:run/" + "a" * 1000 + "b")


@pytest.mark.parametrize(
    ("pattern", "types"),
    [
        ("store://p/run/*", ("run",)),
        ("store://p/mo*", ("run", "model")),
        ("store://p/*", ("run", "model")),
        ("store://p/nothing/x", ()),
        ("store://p", ("run", "model")),
    ],
)
def test_types_are_those_that_can_be_meant_when_a_pattern_is_given(pattern: str, types: tuple[str, ...]) -> None:
    assert find_types(pattern, ("run", "model")) == types


@pytest.mark.parametrize(("kind", "spec"), [("scheduler", SCHEDULER), ("lifecycle", LIFECYCLE), ("automl", {"x": 1})])
def test_there_is_no_problem_when_the_spec_is_right(kind: str, spec: dict[str, Any]) -> None:
    assert find_trigger_problems(kind, spec, project="p", states=STATES) == []


@pytest.mark.parametrize(
    ("kind", "fields", "codes"),
    [
        ("scheduler", {"schedule": "61 * * * *"}, {"spec.schedule": "schedule.invalid"}),
        ("scheduler", {"schedule": "0 0 30 2 *"}, {"spec.schedule": "schedule.never"}),
        ("scheduler", {"schedule": 5}, {"spec.schedule": "field.missing"}),
        ("scheduler", {"timezone": "Europe/Rom"}, {"spec.timezone": "timezone.invalid"}),
        ("scheduler", {"timezone": 1}, {"spec.timezone": "type.text"}),
        ("scheduler", {"cron": "x"}, {"spec.cron": "field.unknown"}),
        ("scheduler", {"template": []}, {"spec.template": "type.mapping"}),
        ("scheduler", {"template": {"local_execution": True}}, {"spec.template.local_execution": "trigger.local"}),
        ("scheduler", {"template": {"a": "{{x.y}}"}}, {"spec.template": "template.placeholder"}),
        ("scheduler", {"task": None}, {"spec.task": "field.missing"}),
        ("lifecycle", {"key": "store://q/run/*"}, {"spec.key": "reference.project"}),
        ("lifecycle", {"key": "run/*"}, {"spec.key": "trigger.key"}),
        ("lifecycle", {"key": "store://*/run/*"}, {"spec.key": "reference.project"}),
        ("lifecycle", {"states": []}, {"spec.states": "field.missing"}),
        ("lifecycle", {"states": ["DONE", "READY"]}, {"spec.states[0]": "state.unknown"}),
        (
            "lifecycle",
            {"states": [{}, ["READY"]]},
            {"spec.states[0]": "state.unknown", "spec.states[1]": "state.unknown"},
        ),
        ("lifecycle", {"states": ["DONE"] * 100_000}, {"spec.states": "size.entries"}),
        ("lifecycle", {"template": {"args": ["x"] * 100_000}}, {"spec.template": "size.entries"}),
        (
            "lifecycle",
            {"states": None, "key": None, "task": None},
            {"spec.task": "field.missing", "spec.key": "trigger.key", "spec.states": "field.missing"},
        ),
        ("cron", {}, {"kind": "trigger.kind"}),
    ],
)
def test_every_problem_is_named_when_the_spec_is_wrong(
    kind: str, fields: dict[str, Any], codes: dict[str, str]
) -> None:
    base = LIFECYCLE if kind == "lifecycle" else SCHEDULER
    problems = find_trigger_problems(kind, {**base, **fields}, project="p", states=STATES)
    assert {problem.where: problem.code for problem in problems} == codes
