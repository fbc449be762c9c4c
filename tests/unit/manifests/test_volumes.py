"""Volumes of each type, and the objects behind them."""

import json
from typing import Any

import pytest

from runyard.manifests.render import render_dependents, render_kept_claims
from runyard.spec.volumes import Volume
from tests.unit.manifests.object_views import get_container, get_pod, of_kind, render
from tests.unit.manifests.samples import IDENTITY, OWNER, SPECS, claim, make_spec, make_volume


def get_source(volume: Volume) -> dict[str, Any]:
    (rendered,) = get_pod(make_spec(volumes=[volume]))["volumes"]
    assert rendered.pop("name") == volume.name
    assert isinstance(rendered, dict)
    return rendered


def get_claim_template(volume: dict[str, Any]) -> dict[str, Any]:
    template = volume["ephemeral"]["volumeClaimTemplate"]
    assert isinstance(template, dict)
    return template


@pytest.mark.parametrize(
    ("volume", "source"),
    [
        (claim(), {"persistentVolumeClaim": {"claimName": "run-r1-bb82030dbc2bcab.data"}}),
        (
            make_volume("persistent_volume_claim", claim_name="old"),
            {"persistentVolumeClaim": {"claimName": "old"}},
        ),
        (make_volume("shared_volume", claim_name="old"), {"persistentVolumeClaim": {"claimName": "old"}}),
        (make_volume("empty_dir"), {"emptyDir": {}}),
        (make_volume("empty_dir", size="1Gi"), {"emptyDir": {"sizeLimit": "1Gi"}}),
        (make_volume("empty_dir", medium="Memory"), {"emptyDir": {"medium": "Memory"}}),
        (make_volume("empty_dir", mount_path="/dev/shm"), {"emptyDir": {"medium": "Memory"}}),
        (make_volume("config_map", data={"a": "1"}), {"configMap": {"name": "run-r1-bb82030dbc2bcab.data"}}),
        (
            make_volume("config_map", config_map="settings", data={"a": "1"}),
            {"configMap": {"name": "run-r1-bb82030dbc2bcab.data"}},
        ),
        (
            make_volume("image", image="m:7"),
            {"image": {"reference": "m:7", "pullPolicy": "IfNotPresent"}},
        ),
    ],
)
def test_pod_has_the_volume_when_its_type_is(volume: Volume, source: dict[str, Any]) -> None:
    assert get_source(volume) == source


def test_mount_has_path_and_sub_path_when_they_are_given() -> None:
    volumes = [claim(sub_path="a/b"), make_volume("empty_dir", name="e", mount_path="/e")]
    assert get_container(make_spec(volumes=volumes))["volumeMounts"] == [
        {"name": "data", "mountPath": "/data", "subPath": "a/b"},
        {"name": "e", "mountPath": "/e"},
    ]


def test_claim_is_made_when_a_volume_is_new() -> None:
    (made,) = of_kind(render(make_spec(volumes=[claim(storage_class="fast")])), "PersistentVolumeClaim")
    assert made["metadata"]["name"] == "run-r1-bb82030dbc2bcab.data"
    assert made["metadata"]["labels"]["runyard.io/volume"] == "data"
    assert made["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }


def test_no_claim_is_made_when_it_exists() -> None:
    for sample in ("existing claim", "shared volume"):
        assert of_kind(render(SPECS[sample]), "PersistentVolumeClaim") == []


@pytest.mark.parametrize("lifetime", [None, "run"])
def test_claim_is_owned_when_it_lives_with_the_run(lifetime: object) -> None:
    spec = make_spec(volumes=[claim(lifetime=lifetime)])
    (made,) = render_dependents(spec, IDENTITY, owner=OWNER, secret_values={})
    assert made["metadata"]["annotations"] == {"runyard.io/lifetime": "run"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == OWNER.uid
    assert render_kept_claims(spec, IDENTITY) == []


@pytest.mark.parametrize("lifetime", ["keep", 604800, 0])
def test_claim_is_not_among_the_dependents_when_it_outlives_the_run(lifetime: object) -> None:
    """A late release could leave it behind: nothing would own it."""
    spec = make_spec(volumes=[claim(lifetime=lifetime)])
    assert render_dependents(spec, IDENTITY, owner=OWNER, secret_values={}) == []
    (kept,) = render_kept_claims(spec, IDENTITY)
    assert kept["metadata"]["annotations"] == {"runyard.io/lifetime": str(lifetime)}
    assert "ownerReferences" not in kept["metadata"]
    assert kept in render(spec)


def test_config_maps_are_separate_and_fixed_when_two_volumes_have_data() -> None:
    one, other = of_kind(render(SPECS["two config maps"]), "ConfigMap")
    assert (one["metadata"]["name"], other["metadata"]["name"]) == (
        "run-r1-bb82030dbc2bcab.data",
        "run-r1-bb82030dbc2bcab.b",
    )
    assert one["immutable"] is True
    assert one["data"] == {"config.yaml": "a: 1\n", "empty": ""}


def test_config_map_of_the_run_is_made_when_the_files_are_those_of_the_project() -> None:
    spec = SPECS["config map of the project"]
    (made,) = render_dependents(spec, IDENTITY, owner=OWNER, secret_values={})
    assert (made["kind"], made["metadata"]["name"]) == ("ConfigMap", "run-r1-bb82030dbc2bcab.data")
    assert made["metadata"]["ownerReferences"][0]["uid"] == OWNER.uid
    assert made["data"] == {"config.yaml": "a: 1\n", "empty": ""}
    assert "settings" not in json.dumps(render(spec))


@pytest.mark.parametrize(("sample", "storage_class"), [("disk", None), ("disk with a class", "fast")])
def test_scratch_space_is_a_volume_of_the_pods_own_when_disk_is_given(sample: str, storage_class: str | None) -> None:
    (volume,) = get_pod(SPECS[sample])["volumes"]
    assert volume["name"] == "runyard-scratch"
    template = get_claim_template(volume)
    assert template["metadata"]["labels"]["runyard.io/volume"] == "runyard-scratch"
    assert template["metadata"]["labels"]["runyard.io/run"] == "r1"
    assert template["spec"]["resources"] == {"requests": {"storage": "10Gi"}}
    assert template["spec"].get("storageClassName") == storage_class
    assert get_container(SPECS[sample])["volumeMounts"] == [{"name": "runyard-scratch", "mountPath": "/shared"}]


def test_scratch_space_is_an_empty_dir_when_the_policy_says_so() -> None:
    assert get_pod(SPECS["disk in an empty dir"])["volumes"] == [
        {"name": "runyard-scratch", "emptyDir": {"sizeLimit": "10Gi"}}
    ]


def test_ephemeral_volume_is_like_scratch_space_when_it_is_asked_for() -> None:
    (volume,) = get_pod(SPECS["ephemeral"])["volumes"]
    assert get_claim_template(volume)["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "2Gi"}},
    }
