"""Whole runs: what is rendered, in which order, and what must hold for every run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runyard.domain.effective_spec import Disk, EffectiveSpec
from runyard.manifests.identity import Owner, PlatformInputs, RunIdentity
from runyard.manifests.render import render_anchor, render_dependents, render_kept_claims, render_preview, render_run
from runyard.pods.security import check_template_security
from runyard.spec.environment import SecretUse
from runyard.spec.kubernetes.quantity import Quantity
from tests.unit.manifests.object_views import Object, get_workload, iter_metadata, iter_nodes, render
from tests.unit.manifests.samples import IDENTITY, OWNER, SECRET_VALUES, SPECS, claim, freeze, make_sides, make_spec
from tests.unit.manifests.samples import make_volume as volume

GOLDEN = Path(__file__).parents[2] / "data" / "manifests"
ALWAYS_LABELLED = {
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/managed-by",
    "runyard.io/installation",
    "runyard.io/run",
    "runyard.io/project",
    "runyard.io/action",
    "runyard.io/kind",
    "dhcore/project",
    "dhcore/run",
    "dhcore/runtime",
    "dhcore/framework",
}
TRAINING = make_spec(
    profile="1xa100",
    image="registry.example.com/vision/train:1.4",
    command=["python3", "train.py"],
    args=["--epochs", "3"],
    image_pull_policy="IfNotPresent",
    resources={"cpu": make_sides("8"), "mem": make_sides("32Gi", "37795712205")},
    gpu=1,
    gpu_resource="nvidia.com/gpu",
    disk=Disk(size=Quantity.parse("50Gi")),
    node_selector={"gpu-type": "a100"},
    tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    volumes=[
        claim(name="model", mount_path="/model", lifetime="keep"),
        volume("config_map", name="settings", mount_path="/settings", data={"train.yaml": "lr: 0.1\n"}),
        volume("empty_dir", name="shm", mount_path="/dev/shm", size="8Gi"),
    ],
    envs={"HF_HOME": "/shared/huggingface"},
    secrets=[SecretUse(name="TOKEN"), SecretUse(name="kaggle", mount_path="/secrets/kaggle.json")],
    run_as_user=1000,
    run_as_group=1000,
    fs_group=2000,
    timeout_seconds=7200,
    pending_timeout_seconds=600,
    ttl_seconds=3600,
    grace_period_seconds=60,
)
ADA = RunIdentity(
    run_id="8f14e45fceea167a5a36dedd4bea2543",
    run_uid="3f2504e04f8941d39a0c0305e82c3301",
    project="vision",
    namespace="vision",
    installation="prod",
    user="ada@example.com",
    function="detector",
    run_name="nightly-otter",
)


@pytest.mark.parametrize(("name", "spec"), [("job", TRAINING), ("serve", SPECS["everything"])])
def test_objects_are_those_on_file_when_a_run_is_rendered(name: str, spec: EffectiveSpec) -> None:
    expected = list(yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text()))
    assert render(spec, ADA) == expected


def test_objects_stand_in_an_order_that_can_be_applied_when_a_run_has_all_of_them() -> None:
    config = volume("config_map", name="c", mount_path="/c", data={"a": "1"})
    spec = replace(SPECS["everything"], volumes=(claim(), config))
    expected = ["Secret", "ConfigMap", "PersistentVolumeClaim", "Deployment", "Service", "Service"]
    assert [obj["kind"] for obj in render(spec)] == expected


@pytest.mark.parametrize("sample", SPECS)
def test_anchor_and_dependents_are_the_run_when_taken_together(sample: str) -> None:
    spec = SPECS[sample]
    whole = render(spec)
    workload = get_workload(whole)
    dependents = render_dependents(spec, IDENTITY, owner=OWNER, secret_values=SECRET_VALUES)
    assert all(obj["metadata"].pop("ownerReferences") for obj in dependents)
    for obj in dependents:
        forget_generation(obj)
    others = [obj for obj in whole if obj is not workload]
    assert sort([*dependents, *render_kept_claims(spec, IDENTITY)]) == sort(others)
    anchor = render_anchor(spec, IDENTITY)["metadata"]
    added = {"generation", "wish", "timeout", "ttl", "replicas"}
    notes = {key: value for key, value in anchor.pop("annotations").items() if key.partition("/")[2] not in added}
    assert {**anchor, **({"annotations": notes} if notes else {})} == workload["metadata"]


@pytest.mark.parametrize("sample", SPECS)
def test_preview_is_what_follows_the_anchor_when_secrets_are_not_known(sample: str) -> None:
    spec, identity = SPECS[sample], replace(IDENTITY, platform=PlatformInputs(has_token=True))
    dependents = render_dependents(spec, identity, owner=OWNER, secret_values=SECRET_VALUES, token="t")
    previewed = render_preview(spec, identity)
    for obj in [*dependents, *previewed]:
        obj["metadata"].pop("ownerReferences", None)
        forget_generation(obj)
        if obj["kind"] == "Secret":
            obj["data"] = dict.fromkeys(obj["data"], "")
    assert sort(previewed) == sort([*dependents, *render_kept_claims(spec, identity)])


def forget_generation(obj: Object) -> None:
    """Take away what the Secret of an anchor states, and no other."""
    if obj["kind"] == "Secret" and "annotations" in obj["metadata"]:
        notes = obj["metadata"].pop("annotations")
        notes.pop("runyard.io/generation", None)
        obj["metadata"] |= {"annotations": notes} if notes else {}


def sort(objects: list[Object]) -> list[Object]:
    return sorted(objects, key=lambda obj: (obj["kind"], obj["metadata"]["name"]))


@pytest.mark.parametrize(("has_token", "token"), [(True, None), (False, "t")])
def test_dependents_are_not_rendered_when_the_token_is_not_as_announced(has_token: bool, token: str | None) -> None:
    identity = replace(IDENTITY, platform=PlatformInputs(has_token=has_token))
    with pytest.raises(ValueError, match="has a token exactly if"):
        render_dependents(make_spec(), identity, owner=OWNER, secret_values={}, token=token)


@pytest.mark.parametrize(("kind", "api_version"), [("Job", "batch/v1"), ("Deployment", "apps/v1")])
def test_dependents_are_owned_by_the_anchor_when_it_exists(kind: Any, api_version: str) -> None:
    owner = Owner(kind, "run-r1-bb82030dbc2bcab", "u-1")
    for obj in render_dependents(SPECS["everything"], IDENTITY, owner=owner, secret_values=SECRET_VALUES):
        assert obj["metadata"]["ownerReferences"] == [
            {
                "apiVersion": api_version,
                "kind": kind,
                "name": "run-r1-bb82030dbc2bcab",
                "uid": "u-1",
                "controller": False,
                "blockOwnerDeletion": False,
            }
        ]
        assert all("ownerReferences" not in inner for inner in iter_metadata(obj.get("spec", {})))


def test_nothing_is_owned_when_a_run_is_rendered_for_apply() -> None:
    assert "ownerReferences" not in str([render(spec) for spec in SPECS.values()])


odd_texts = st.text(max_size=80)
identities = st.builds(
    RunIdentity,
    run_id=st.text("aZ09._+-", min_size=1, max_size=256) | odd_texts,
    project=st.text("ab-", min_size=2, max_size=38),
    namespace=st.none() | st.just("team-a"),
    installation=odd_texts,
    user=st.none() | odd_texts,
    function=st.none() | odd_texts,
    run_name=st.none() | odd_texts,
)
changes = st.fixed_dictionaries(
    {},
    optional={
        "profile": odd_texts,
        "labels": st.dictionaries(st.sampled_from(["runyard.io/run", "dhcore/run", "team", "job-name"]), st.just("x")),
        "run_as_user": st.integers(1, 2**31 - 1),
        "fs_group": st.integers(1, 2**31 - 1),
        "envs": st.dictionaries(st.sampled_from(["A", "B", "RUN_ID"]), odd_texts),
        "disk": st.builds(
            Disk, size=st.just(Quantity.parse("1Gi")), medium=st.sampled_from(["ephemeral", "empty_dir"])
        ),
        "replicas": st.integers(0, 3),
        "service_name": odd_texts,
        "pod_security": st.sampled_from(["restricted", "baseline"]),
        "pending_timeout_seconds": st.integers(0, 10**9),
    },
)


@given(st.sampled_from([*SPECS.values(), TRAINING]), identities, changes)
def test_rules_hold_when_any_run_is_rendered(
    spec: EffectiveSpec, identity: RunIdentity, fields: dict[str, Any]
) -> None:
    changed = replace(spec, **{name: freeze(value) for name, value in fields.items()})
    before = repr(changed)
    objects = render_run(changed, identity, secret_values=freeze(SECRET_VALUES))
    assert repr(changed) == before
    assert json.dumps(render_run(changed, identity, secret_values=SECRET_VALUES)) == json.dumps(objects)
    nodes = list(iter_nodes(objects))
    assert len({id(node) for node in nodes}) == len(nodes), "one part stands in two places: changing it changes both"
    for metadata in iter_metadata(objects):
        assert metadata["labels"].keys() >= ALWAYS_LABELLED
        assert metadata.keys() <= {"name", "namespace", "labels", "annotations"}
        assert metadata["labels"]["runyard.io/run"] == objects[0]["metadata"]["labels"]["runyard.io/run"]
    assert "x" not in {objects[0]["metadata"]["labels"][key] for key in ("runyard.io/run", "dhcore/run")} - {
        identity.run_id
    }
    template = get_workload(objects)["spec"]["template"]
    assert check_template_security(template, level=changed.pod_security) == ()
    names = [(obj["kind"], obj["metadata"]["name"]) for obj in objects]
    assert len(set(names)) == len(names)
