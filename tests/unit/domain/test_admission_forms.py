"""Every place of a run's objects, changed in every way that no form allows."""

from collections.abc import Iterator
from typing import Any

import pytest

from runyard.spec.profile import Profile
from tests.unit.domain.legal_objects import make_job, make_profile, make_service
from tests.unit.domain.planted_bypasses import Objects, find, judge, main, pod

Place = tuple[str | int, ...]

FREE_TEXT = {"args", "command", "value", "subPath", "data", "runyard.io/run-name"}
"""Under these any text is fine."""
FREE_KEYS = ("data", "nodeSelector", "matchLabels")
WRONG: tuple[Any, ...] = ({"a": "b"}, [["x"]], True, None, 1.5, -1, "Not A Name!")


def make_rich_job() -> Objects:
    """With what `make_job` leaves out."""
    objects = make_job()
    pod(objects)["tolerations"].append(
        {"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoExecute", "tolerationSeconds": 60}
    )
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
    affinity = pod(objects)["affinity"]
    affinity["podAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {**term, "matchLabelKeys": ["b"], "mismatchLabelKeys": ["c"]}
        ]
    }
    affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = [
        {
            "weight": 5,
            "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
        }
    ]
    pod(objects)["serviceAccountName"] = "trainer"
    pod(objects)["schedulerName"] = "gpu"
    pod(objects)["imagePullSecrets"] = [{"name": "registry"}]
    pod(objects)["hostAliases"] = [{"ip": "10.0.0.1", "hostnames": ["a"]}]
    pod(objects)["topologySpreadConstraints"] = [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    find(objects, "Job")["spec"]["suspend"] = False
    find(objects, "Secret")["immutable"] = True
    return objects


def make_rich_service() -> Objects:
    objects = make_service()
    pod(objects)["serviceAccountName"] = "trainer"
    pod(objects)["schedulerName"] = "gpu"
    pod(objects)["imagePullSecrets"] = [{"name": "registry"}]
    pod(objects)["hostAliases"] = [{"ip": "10.0.0.1", "hostnames": ["a"]}]
    pod(objects)["topologySpreadConstraints"] = [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    main(objects)["readinessProbe"] = {"tcpSocket": {"port": 8080}, "periodSeconds": 5}
    return objects


def make_rich_profile() -> Profile:
    return make_profile(
        service_account="trainer",
        scheduler_name="gpu",
        image_pull_secrets=["registry"],
        host_aliases=[{"ip": "10.0.0.1", "hostnames": ["a"]}],
        topology_spread=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    )


def iter_places(part: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    yield place, part
    children = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, child in children:
        yield from iter_places(child, (*place, key))


def find_passed(objects: Objects, changes: Iterator[tuple[Place, Any]]) -> list[Place]:
    """The places where a change is not seen. Each is made alone and taken back."""
    profile, passed = make_rich_profile(), []
    for place, value in changes:
        part: Any = objects
        for key in place[:-1]:
            part = part[key]
        is_new = isinstance(part, dict) and place[-1] not in part
        old = None if is_new else part[place[-1]]
        part[place[-1]] = value
        if not judge(objects, profile=profile):
            passed.append(place)
        if is_new:
            del part[place[-1]]
        else:
            part[place[-1]] = old
    assert judge(objects, profile=profile) == []
    return passed


def is_legal(place: Place, old: Any, new: Any) -> bool:
    """Whether a change is none, or leads to another legal form."""
    key = place[-1]
    if type(old) is type(new) and old == new:
        return True
    if isinstance(new, str) and FREE_TEXT.intersection(place) and key != "name":
        return not (key == "value" and old in ("vision", "r1", "a"))
    if isinstance(new, dict):
        return key in FREE_KEYS
    return (key, new) == ("tolerationSeconds", -1) or (key in ("suspend", "immutable") and isinstance(new, bool))


def iter_own_places(objects: Objects) -> list[tuple[Place, Any]]:
    """Of a service only what a job does not have."""
    places = [(place, part) for place, part in iter_places(objects) if len(place) > 1]
    if find_kind(objects) == "Job":
        return places
    own = ("Deployment", "Service")
    indexes = [index for index, item in enumerate(objects) if item["kind"] in own]
    probes = {"readinessProbe", "ports"}
    return [
        (place, part)
        for place, part in places
        if place[0] in indexes and ("template" not in place or probes.intersection(place))
    ]


def find_kind(objects: Objects) -> str:
    return next(str(item["kind"]) for item in objects if item["kind"] in ("Job", "Deployment"))


@pytest.mark.parametrize("make", [make_rich_job, make_rich_service])
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_it_is_refused_when_any_place_has_a_value_of_no_form(make: Any, wrong: Any) -> None:
    objects = make()
    places = [(place, wrong) for place, old in iter_own_places(objects) if not is_legal(place, old, wrong)]

    assert find_passed(objects, iter(places)) == []


@pytest.mark.parametrize("make", [make_rich_job, make_rich_service])
def test_it_is_refused_when_any_mapping_has_a_key_that_is_not_known(make: Any) -> None:
    objects = make()
    places = [((*place, "unknownKey"), {"a": "b"}) for place, part in iter_places(objects) if isinstance(part, dict)]

    assert find_passed(objects, iter(places)) == []


@pytest.mark.parametrize("make", [make_rich_job, make_rich_service])
def test_it_is_refused_when_any_list_grows_by_something_strange(make: Any) -> None:
    objects = make()
    places = [(place, [*part, {"unknownKey": 1}]) for place, part in iter_own_places(objects) if isinstance(part, list)]

    assert find_passed(objects, iter(places)) == []


def test_value_of_a_secret_is_not_shown_when_it_has_the_wrong_type() -> None:
    objects = make_rich_job()
    find(objects, "Secret")["data"] = {"password": 20250101}
    problems = judge(objects)
    assert [problem.code for problem in problems] == ["admission.type"]
    assert "20250101" not in str(problems[0])
