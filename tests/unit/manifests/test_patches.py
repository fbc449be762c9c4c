import json
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from runyard.domain.admission import AdmittedObject, admit
from runyard.manifests.environment import get_platform_envs
from runyard.manifests.identity import Owner
from runyard.manifests.patches import EndPod, Release, Remind, Settle, Stop, TakeServiceName
from runyard.manifests.render import render_alias, render_anchor, render_preview
from runyard.spec.policy import Policy
from tests.unit.manifests.samples import IDENTITY, SPECS

WHERE: dict[str, Any] = {"name": "run-r1-x", "namespace": "runs", "uid": "a-uid", "seen_generation": 3, "generation": 4}
GENERATION, WISH = "/metadata/annotations/runyard.io~1generation", "/metadata/annotations/runyard.io~1wish"
MOMENT = "2026-11-15T12:00:00.000001Z"
EXPECTED = [
    {"op": "test", "path": "/metadata/uid", "value": "a-uid"},
    {"op": "test", "path": GENERATION, "value": "3"},
]


def tell(wish: str) -> list[dict[str, str]]:
    return [{"op": "add", "path": GENERATION, "value": "4"}, {"op": "add", "path": WISH, "value": wish}]


def read(patch: Any) -> Any:
    assert patch.content_type == "application/json-patch+json"
    return json.loads(patch.body)


def test_job_is_released_when_nothing_newer_was_told() -> None:
    patch = Release(kind="Job", **WHERE)
    assert (patch.api_version, patch.kind, patch.name) == ("batch/v1", "Job", "run-r1-x")
    assert read(patch) == [*EXPECTED, *tell("run"), {"op": "add", "path": "/spec/suspend", "value": False}]


@pytest.mark.parametrize("replicas", [0, 2])
def test_service_gets_only_the_replicas_that_were_admitted_when_it_is_released(replicas: int) -> None:
    admitted = {"op": "test", "path": "/metadata/annotations/runyard.io~1replicas", "value": str(replicas)}
    set_replicas = {"op": "add", "path": "/spec/replicas", "value": replicas}
    patch = Release(kind="Deployment", replicas=replicas, **WHERE)
    assert patch.api_version == "apps/v1"
    assert read(patch) == [*EXPECTED, admitted, *tell("run"), set_replicas]


def test_job_makes_no_further_pods_when_it_is_stopped() -> None:
    closed = {"op": "add", "path": "/spec/backoffLimit", "value": 0}
    assert read(Stop(kind="Job", **WHERE)) == [*EXPECTED, *tell("stop"), closed]
    suspended = {"op": "add", "path": "/spec/suspend", "value": True}
    assert read(Stop(kind="Job", is_suspended=True, **WHERE)) == [*EXPECTED, *tell("stop"), closed, suspended]


def test_service_has_no_replicas_when_it_is_stopped() -> None:
    none = {"op": "add", "path": "/spec/replicas", "value": 0}
    assert read(Stop(kind="Deployment", **WHERE)) == [*EXPECTED, *tell("stop"), none]


def test_job_gets_only_the_ttl_that_was_admitted_when_it_is_settled() -> None:
    admitted = {"op": "test", "path": "/metadata/annotations/runyard.io~1ttl", "value": "60"}
    ttl = {"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": 60}
    assert read(Settle(kind="Job", ttl_seconds=60, **WHERE)) == [*EXPECTED, admitted, ttl]


def test_job_starts_no_further_pod_when_it_is_settled_before_its_controller_has_ended_it() -> None:
    ended = [
        {"op": "add", "path": "/spec/backoffLimit", "value": 0},
        {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 0},
        {"op": "add", "path": "/spec/suspend", "value": False},
    ]
    assert read(Settle(kind="Job", ttl_seconds=None, ends_job=True, **WHERE)) == [*EXPECTED, *ended]
    assert read(Settle(kind="Job", ttl_seconds=60, ends_job=True, **WHERE))[-3:] == ended


def test_job_gets_nothing_but_an_annotation_when_its_controller_is_reminded() -> None:
    told = {"op": "add", "path": "/metadata/annotations/runyard.io~1reminded-at", "value": "2026-11-19T05:00:00Z"}
    patch = Remind(name="run", namespace="runs", uid="u", at="2026-11-19T05:00:00Z")
    assert read(patch) == [{"op": "test", "path": "/metadata/uid", "value": "u"}, told]


def test_pod_is_ended_in_place_when_it_is_the_one_that_was_seen() -> None:
    patch = EndPod(name="run-r1-x-abcde", namespace="runs", uid="p")
    assert (patch.api_version, patch.kind) == ("v1", "Pod")
    assert read(patch) == [
        {"op": "test", "path": "/metadata/uid", "value": "p"},
        {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1},
    ]


def admit_alias() -> AdmittedObject:
    """The Service with the stable name of a service, as its run would create it."""
    spec, identity = replace(SPECS["serve with an alias"], run_as_user=1000), replace(IDENTITY, namespace="runs")
    anchor, preview = render_anchor(spec, identity), render_preview(spec, identity)
    alias = render_alias(spec, identity, owner=Owner("Deployment", anchor["metadata"]["name"], "o"))
    assert alias is not None
    others = [one for one in preview if one["metadata"]["name"] != alias["metadata"]["name"]]
    envs = get_platform_envs(identity)
    (admitted,) = admit(
        [alias], unsent=[anchor, *others], policy=Policy(), project="vision", is_anchor=True, platform_envs=envs
    )
    return admitted


def test_name_leads_to_another_run_when_it_is_in_the_state_that_was_read() -> None:
    admitted = admit_alias()
    wanted = json.loads(admitted.body)
    patch = TakeServiceName(service=admitted, uid="s", resource_version="7", served=MOMENT)
    assert (patch.api_version, patch.kind) == ("v1", "Service")
    assert (patch.name, patch.namespace) == (wanted["metadata"]["name"], "runs")
    owners = wanted["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == ["o"]
    assert read(patch) == [
        {"op": "test", "path": "/metadata/uid", "value": "s"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/metadata/labels", "value": wanted["metadata"]["labels"]},
        {"op": "add", "path": "/metadata/annotations", "value": {"runyard.io/serves-run-of": MOMENT}},
        {"op": "add", "path": "/metadata/ownerReferences", "value": owners},
        {"op": "add", "path": "/spec/ports", "value": wanted["spec"]["ports"]},
        {"op": "add", "path": "/spec/selector", "value": wanted["spec"]["selector"]},
        {"op": "add", "path": "/spec/type", "value": "ClusterIP"},
    ]


@pytest.mark.parametrize(
    "fields", [{"uid": ""}, {"resource_version": ""}, {"served": "2026-11-15T12:00:00Z"}, {"served": ""}]
)
def test_name_is_not_taken_when_it_is_not_said_what_is_replaced(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"a patch names one object|not a moment"):
        TakeServiceName(service=admit_alias(), **{"uid": "s", "resource_version": "7", "served": MOMENT, **fields})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Release(kind="Job", **{**WHERE, "seen_generation": 5}),
        lambda: Stop(kind="Deployment", **{**WHERE, "seen_generation": 5}),
        lambda: Settle(kind="Job", ttl_seconds=1, **{**WHERE, "seen_generation": 5}),
        lambda: replace(Release(kind="Job", **WHERE), seen_generation=5),
    ],
)
def test_patch_is_not_made_when_the_anchor_has_seen_a_newer_generation(make: Any) -> None:
    with pytest.raises(ValueError, match="the anchor has seen a newer generation"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Release(kind="Pod", **WHERE),  # type: ignore[arg-type]
        lambda: Release(kind="Job", replicas=1, **WHERE),
        lambda: Release(kind="Deployment", **WHERE),
        lambda: Release(kind="Deployment", replicas=-1, **WHERE),
        lambda: Release(kind="Deployment", replicas=True, **WHERE),
        lambda: Release(kind="Job", **{**WHERE, "uid": ""}),
        lambda: Release(kind="Job", **{**WHERE, "generation": "4"}),
        lambda: Stop(kind="Deployment", is_suspended=True, **WHERE),
        lambda: Settle(kind="Deployment", ttl_seconds=1, **WHERE),
        lambda: Settle(kind="Job", ttl_seconds=-1, **WHERE),
        lambda: Settle(kind="Job", ttl_seconds=None, **WHERE),
        lambda: Settle(kind="Job", ttl_seconds=2**31, **WHERE),
        lambda: EndPod(name="", namespace="runs", uid="p"),
    ],
)
def test_patch_is_not_made_when_it_makes_no_sense(make: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        make()


def test_patches_hold_nothing_else_when_they_are_listed() -> None:
    kinds = (Release, Stop, Settle, EndPod, Remind, TakeServiceName)
    where = {"kind", "name", "namespace", "uid", "seen_generation", "generation"}
    assert {kind: {field.name for field in fields(kind)} for kind in kinds} == {
        Release: where | {"replicas"},
        Stop: where | {"is_suspended"},
        Settle: where | {"ttl_seconds", "ends_job"},
        EndPod: {"name", "namespace", "uid"},
        Remind: {"name", "namespace", "uid", "at"},
        TakeServiceName: {"service", "uid", "resource_version", "served"},
    }
    with pytest.raises(FrozenInstanceError):
        EndPod(name="a", namespace="runs", uid="p").name = "b"  # type: ignore[misc]
