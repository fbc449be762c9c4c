"""What every object says about its run."""

from dataclasses import replace

import pytest

from runyard.manifests.identity import RunIdentity
from tests.unit.manifests.object_views import get_workload, iter_metadata, render
from tests.unit.manifests.samples import IDENTITY, SPECS, make_spec

ADA = RunIdentity(
    run_id="Run_1+a",
    run_uid="3f2504e04f8941d39a0c0305e82c3301",
    project="vision",
    namespace="team-a",
    installation="prod",
    user="ada@example.com",
    function="detector",
    run_name="nightly ü",
)


def test_labels_say_whose_run_it_is_when_all_is_known() -> None:
    metadata = get_workload(render(make_spec(action="serve", kind="container", profile="1xa100"), ADA))["metadata"]
    labels = metadata["labels"]
    assert labels.pop("app.kubernetes.io/instance") == metadata["name"]
    hashed = {key: labels.pop(key) for key in ("runyard.io/run", "dhcore/run", "runyard.io/user", "dhcore/user")}
    assert hashed["runyard.io/run"] == hashed["dhcore/run"]
    assert hashed["runyard.io/user"] == hashed["dhcore/user"]
    assert labels == {
        "app.kubernetes.io/name": "detector",
        "app.kubernetes.io/component": "serve",
        "app.kubernetes.io/part-of": "vision",
        "app.kubernetes.io/managed-by": "runyard",
        "runyard.io/installation": "prod",
        "runyard.io/run-uid": "3f2504e04f8941d39a0c0305e82c3301",
        "runyard.io/project": "vision",
        "runyard.io/action": "serve",
        "runyard.io/kind": "container",
        "runyard.io/profile": "1xa100",
        "runyard.io/function": "detector",
        "dhcore/project": "vision",
        "dhcore/runtime": "container",
        "dhcore/framework": "k8sserve",
    }


def test_annotations_hold_the_exact_text_when_a_label_cannot() -> None:
    metadata = get_workload(render(make_spec(), ADA))["metadata"]
    assert metadata["annotations"] == {
        "runyard.io/run": "Run_1+a",
        "runyard.io/user": "ada@example.com",
        "runyard.io/run-name": "nightly ü",
    }
    assert "annotations" not in get_workload(render(make_spec()))["metadata"]


@pytest.mark.parametrize(
    ("action", "framework"), [("job", "k8sjob"), ("serve", "k8sserve"), ("deploy", "k8sdeployment")]
)
def test_framework_label_is_digitalhubs_when_the_action_is_known(action: str, framework: str) -> None:
    assert get_workload(render(make_spec(action=action)))["metadata"]["labels"]["dhcore/framework"] == framework


def test_labels_leave_out_what_is_not_known_when_a_run_has_no_user_function_or_profile() -> None:
    labels = get_workload(render(make_spec()))["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] == "container"
    assert not {"runyard.io/user", "runyard.io/function", "runyard.io/profile", "dhcore/user"} & labels.keys()


def test_platforms_labels_stay_when_an_admin_sets_them_too() -> None:
    plain = get_workload(render(make_spec(profile="1xa100")))["metadata"]["labels"]
    marked = get_workload(render(SPECS["admin's labels"]))["metadata"]["labels"]
    assert marked == {**plain, "team": "a"}


def test_namespace_is_said_when_the_identity_has_one() -> None:
    assert all("namespace" not in metadata for obj in render(SPECS["everything"]) for metadata in iter_metadata(obj))
    objects = render(SPECS["everything"], replace(IDENTITY, namespace="team-a"))
    assert {obj["metadata"]["namespace"] for obj in objects} == {"team-a"}
    assert all("namespace" not in obj["spec"]["template"]["metadata"] for obj in objects if obj["kind"] == "Deployment")
