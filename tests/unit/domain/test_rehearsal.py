import json
from typing import Any

import pytest

from runyard.domain.rehearsal import (
    MOST_CAUSES,
    MOST_DISTINCT_CAUSES,
    Causes,
    Change,
    RecordedRequest,
    RehearsedRun,
    assume_inventory,
    rehearse,
)
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem
from tests.unit.domain.worlds import make_profile, make_request, prepare


def _record(run: dict[str, Any], *, name: str = "r1", **request: Any) -> RecordedRequest:
    return RecordedRequest(
        id=name, request=make_request(run, **request), inventory=ProjectInventory(secrets=frozenset({"A"}))
    )


def _play(run: dict[str, Any], old: Any, new: Any, **request: Any) -> RehearsedRun:
    admin_rules = [side if isinstance(side, AdminRules) else prepare(side) for side in (old, new)]
    (played,) = rehearse([_record(run, **request)], old=admin_rules[0], new=admin_rules[1]).runs
    return played


TWO_CORES = {"resources": {"cpu": 2}}


@pytest.mark.parametrize(
    ("old", "new", "outcome"),
    [
        ({}, {}, "unchanged"),
        ({}, {"resources.cpu": {"max": 4}}, "unchanged"),
        ({}, {"resources.cpu": {"max": 1}}, "refused"),
        ({"resources.cpu": {"max": 1}}, {}, "accepted"),
        ({"resources.cpu": {"max": 1}}, {"resources.cpu": {"max": 1}}, "refused_by_both"),
        ({}, {"resources.mem": {"default": "1Gi"}}, "changed"),
        ({"resources.mem": {"default": "1Gi"}}, {}, "changed"),
        ({}, {"resources.cpu": {"default": 1, "locked": True}}, "changed"),
        ({}, {"projects": {"vision": {"resources.cpu": {"max": 1}}}}, "refused"),
        ({}, {"projects": {"audio": {"resources.cpu": {"max": 1}}}}, "unchanged"),
        ({}, {"platform": {"pod_security": "baseline"}}, "changed"),
    ],
)
def test_a_run_is_told_what_becomes_of_it_when_the_policy_changes(old: Any, new: Any, outcome: str) -> None:
    assert _play(TWO_CORES, old, new).outcome == outcome


def test_only_what_is_new_is_told_when_a_refused_run_stays_refused() -> None:
    played = _play(
        {"resources": {"cpu": 2}, "fs_group": 5},
        {"resources.cpu": {"max": 1}},
        {"resources.cpu": {"max": 1}, "fs_group": {"min": 10}},
    )

    assert played.outcome == "refused_by_both"
    assert [problem.code for problem in played.refusals] == ["policy.min"]
    assert [problem.code for problem in played.causes] == ["policy.max", "policy.min"]
    assert [problem["code"] for problem in played.to_dict()["refusals"]] == ["policy.max", "policy.min"]


def test_causes_are_counted_by_run_and_bounded_when_many_runs_stay_refused() -> None:
    causes = Causes()
    for number in range(MOST_DISTINCT_CAUSES + 50):
        problem = Problem(Code.PROFILE_UNKNOWN, ("profile",), f"there is no profile `{number}`")
        often = Problem(Code.POLICY_MAX, ("resources",), "is above the max")
        causes.add(RehearsedRun(id="r", project="p", outcome="refused_by_both", causes=(often, problem, often)))

    first, *others = causes.list_first()
    assert (first.message, first.runs) == ("is above the max", MOST_DISTINCT_CAUSES + 50)
    assert [cause.runs for cause in others] == [1] * (MOST_CAUSES - 1)
    assert causes.left_out == MOST_DISTINCT_CAUSES - MOST_CAUSES + 1


def test_the_refusals_are_told_when_a_run_would_be_refused() -> None:
    played = _play(TWO_CORES, {}, {"resources.cpu": {"max": 1}})

    assert [(problem.code, problem.where) for problem in played.refusals] == [("policy.max", "resources.cpu.requests")]
    assert played.changes == ()


def test_every_leaf_is_told_with_its_author_when_a_run_would_change() -> None:
    played = _play({}, {"fs_group": {"default": 1}, "timeout": {"default": "1h"}}, {"fs_group": {"default": 2}})

    assert set(played.changes) == {
        Change(("fs_group",), 1, 2, "policy"),
        Change(("timeout",), 3600, None, "policy"),
    }


@pytest.mark.parametrize(
    ("old", "new", "direction"),
    [
        ({"resources.cpu": {"default": 1}}, {"resources.cpu": {"default": 2}}, "larger"),
        ({"resources.cpu": {"default": 2}}, {"resources.cpu": {"default": "1500m"}}, "smaller"),
        ({"resources.mem": {"default": "1Gi"}}, {"resources.mem": {"default": "1G"}}, "smaller"),
        ({"resources.gpu": {"default": 1}}, {"resources.gpu": {"default": 0}}, "smaller"),
        ({}, {"resources.gpu": {"default": 1}}, "larger"),
        ({"resources.gpu": {"default": 1}}, {}, "smaller"),
        ({"resources.disk": {"default": "1Gi"}}, {"resources.disk": {"default": "2Gi"}}, "larger"),
        ({}, {"resources.cpu.limits": {"default": 4}}, "mixed"),
        (
            {"resources.cpu": {"default": 1}, "resources.cpu.limits": {"default": 4}},
            {"resources.cpu": {"default": 1}},
            "larger",
        ),
        (
            {"resources.cpu": {"default": 1}},
            {"resources.cpu": {"default": 1}, "resources.cpu.limits": {"default": 4}},
            "smaller",
        ),
        (
            {"resources.cpu": {"default": 1}, "resources.gpu": {"default": 2}},
            {"resources.cpu": {"default": 2}, "resources.gpu": {"default": 1}},
            "mixed",
        ),
        ({"fs_group": {"default": 1}}, {"fs_group": {"default": 2}}, None),
        ({}, {"platform": {"gpu_resources": ["amd.com/gpu"]}}, None),
    ],
)
def test_a_run_is_told_whether_it_gets_more_or_less_when_amounts_change(
    old: Any, new: Any, direction: str | None
) -> None:
    assert _play({}, old, new).direction == direction


def test_a_run_is_told_what_becomes_of_it_when_profiles_change() -> None:
    old = prepare({}, make_profile("p", {"resources": {"cpu": 4}}), make_profile("gone"))
    new = prepare({}, make_profile("p", {"resources": {"cpu": 8}}))

    assert _play({"profile": "p"}, old, new).direction == "larger"
    assert _play({"profile": "gone"}, old, new).outcome == "refused"
    assert _play({}, old, new).outcome == "unchanged"
    assert _play({}, old, prepare({}, make_profile("default", {"fs_group": 1}))).outcome == "changed"


def test_runs_are_told_in_their_order_and_in_sum_when_there_are_several() -> None:
    recorded = [
        _record({"resources": {"cpu": cores}}, name=f"r{number}", project=project)
        for number, (cores, project) in enumerate([(1, "vision"), (9, "vision"), (1, "audio"), (2, "vision")])
    ]
    old, new = prepare({}), prepare({"resources.cpu": {"max": 8}, "resources.mem": {"default": "1Gi"}})

    rehearsal = rehearse(recorded, old=old, new=new)

    assert [(run.id, run.project, run.outcome) for run in rehearsal.runs] == [
        ("r0", "vision", "changed"),
        ("r1", "vision", "refused"),
        ("r2", "audio", "changed"),
        ("r3", "vision", "changed"),
    ]
    assert rehearsal.counts == {
        "refused": 1,
        "accepted": 0,
        "changed": 3,
        "unchanged": 0,
        "refused_by_both": 0,
        "mixed": 3,
    }


def test_the_sum_is_all_zeros_when_no_runs_were_recorded() -> None:
    rehearsal = rehearse([], old=prepare({}), new=prepare({}))

    assert rehearsal.counts == {"refused": 0, "accepted": 0, "changed": 0, "unchanged": 0, "refused_by_both": 0}


def test_a_played_run_is_plain_json_when_it_is_printed() -> None:
    played = _play(
        {"volumes": [{"volume_type": "persistent_volume_claim", "name": "v", "mount_path": "/v"}]},
        {},
        {"volumes.size": {"default": "9Gi"}},
    )

    assert json.loads(json.dumps(played.to_dict())) == {
        "id": "r1",
        "project": "vision",
        "outcome": "changed",
        "changes": [{"path": "volumes.v.size", "old": "2Gi", "new": "9Gi", "by": "policy"}],
    }
    assert _play({}, {}, {"timeout": {"required": True}}).to_dict()["refusals"][0]["code"] == "policy.required"


def test_what_the_project_had_then_counts_when_a_run_is_played() -> None:
    assert _play({"secrets": ["A"]}, {}, {}).outcome == "unchanged"
    assert _play({"secrets": ["A"]}, {}, {"secrets": {"denied": ["A"]}}).outcome == "refused"


def test_the_answer_is_the_same_when_the_same_is_rehearsed_again() -> None:
    recorded = [_record(TWO_CORES)]
    old, new = prepare({}), prepare({"resources.mem": {"default": "1Gi"}})

    assert rehearse(recorded, old=old, new=new) == rehearse(recorded, old=old, new=new)


@pytest.mark.parametrize("name", ["settings", "settings:v1", "store://vision/configmap/configmap/settings:v1"])
def test_config_map_is_assumed_when_a_recorded_run_names_it(name: str) -> None:
    volume = {"volume_type": "config_map", "name": "conf", "mount_path": "/conf", "spec": {"name": name}}
    request = make_request({"volumes": [volume]})
    recorded = [RecordedRequest(id="r1", request=request, inventory=assume_inventory(request.run))]
    denied = prepare({"volumes.type": {"denied": ["config_map"]}})

    (same,) = rehearse(recorded, old=prepare(), new=prepare()).runs
    (refused,) = rehearse(recorded, old=prepare(), new=denied).runs

    assert (same.outcome, refused.outcome) == ("unchanged", "refused")
    assert [problem.code for problem in refused.refusals] == ["policy.denied"]
