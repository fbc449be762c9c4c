"""Variables, secrets, and the run's own Secret."""

import base64
from dataclasses import replace

import pytest

from runyard.manifests.environment import get_platform_envs
from runyard.manifests.identity import PlatformInputs, RunIdentity
from runyard.manifests.render import render_dependents
from runyard.spec.environment import SecretUse
from tests.unit.manifests.object_views import get_container, get_pod, of_kind, render
from tests.unit.manifests.samples import IDENTITY, OWNER, SECRET_VALUES, make_spec

FILE = SecretUse(name="kaggle", mount_path="/secrets/kaggle.json")
VARIABLE = SecretUse(name="TOKEN")


def test_variables_stand_in_order_when_platform_secrets_and_envs_meet() -> None:
    container = get_container(make_spec(envs={"Z": "1", "A": ""}, secrets=[VARIABLE]))
    assert container["env"] == [
        {"name": "PROJECT_NAME", "value": "vision"},
        {"name": "RUN_ID", "value": "r1"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "run-r1-bb82030dbc2bcab-secrets", "key": "TOKEN"}}},
        {"name": "Z", "value": "1"},
        {"name": "A", "value": ""},
    ]


@pytest.mark.parametrize(
    ("index", "trusted"),
    [
        ("https://index.example/simple", {}),
        (
            "http://ada:x@10.0.0.1:3141/simple",
            {"PIP_TRUSTED_HOST": "10.0.0.1:3141", "UV_INSECURE_HOST": "10.0.0.1:3141"},
        ),
    ],
)
def test_installers_know_the_index_when_the_operator_names_one(index: str, trusted: dict[str, str]) -> None:
    identity = RunIdentity(run_id="r1", run_uid="u1", project="vision", platform=PlatformInputs(package_index=index))
    envs = get_platform_envs(identity)
    offline = {"PROJECT_NAME": "vision", "RUN_ID": "r1"}
    assert envs == {**offline, "PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index, **trusted}


def test_variable_stands_once_when_the_policy_let_a_platform_name_through() -> None:
    names = [entry["name"] for entry in get_container(make_spec(envs={"RUN_ID": "mine"}))["env"]]
    assert names == ["PROJECT_NAME", "RUN_ID"]
    assert get_container(make_spec(envs={"RUN_ID": "mine"}))["env"][1]["value"] == "mine"


def test_secret_holds_what_the_run_uses_and_nothing_else_when_more_is_known() -> None:
    (secret,) = of_kind(render(make_spec(secrets=[VARIABLE, FILE, VARIABLE])), "Secret")
    assert secret["metadata"]["name"] == "run-r1-bb82030dbc2bcab-secrets"
    assert {key: base64.b64decode(value).decode() for key, value in secret["data"].items()} == {
        "TOKEN": "t0ken",
        "kaggle": SECRET_VALUES["kaggle"],
    }


def test_value_stands_only_in_the_secret_when_a_run_is_rendered() -> None:
    objects = render(make_spec(secrets=[VARIABLE, FILE]))
    assert "t0ken" not in str(objects)
    encoded = base64.b64encode(b"t0ken").decode()
    assert [obj["kind"] for obj in objects if encoded in str(obj)] == ["Secret"]


def test_secret_states_its_generation_when_it_follows_an_anchor() -> None:
    spec, identity = make_spec(secrets=[VARIABLE]), replace(IDENTITY, generation=7)
    (secret,) = render_dependents(spec, identity, owner=OWNER, secret_values=SECRET_VALUES)
    assert secret["metadata"]["annotations"] == {"runyard.io/generation": "7"}
    (secret,) = of_kind(render(spec), "Secret")
    assert "annotations" not in secret["metadata"]


def test_no_secret_is_made_when_nothing_is_secret() -> None:
    assert of_kind(render(make_spec(envs={"A": "1"})), "Secret") == []


@pytest.mark.parametrize(("fs_group", "mode"), [(None, 0o444), (2000, 0o440)])
def test_secret_file_is_mounted_at_its_path_when_a_mount_path_is_given(fs_group: int | None, mode: int) -> None:
    spec = make_spec(secrets=[VARIABLE, FILE], fs_group=fs_group)
    source = {
        "secretName": "run-r1-bb82030dbc2bcab-secrets",
        "defaultMode": mode,
        "items": [{"key": "kaggle", "path": "kaggle"}],
    }
    assert get_pod(spec)["volumes"] == [{"name": "runyard-secrets", "secret": source}]
    assert get_container(spec)["volumeMounts"] == [
        {"name": "runyard-secrets", "mountPath": "/secrets/kaggle.json", "subPath": "kaggle", "readOnly": True}
    ]
    assert [entry["name"] for entry in get_container(spec)["env"]] == ["PROJECT_NAME", "RUN_ID", "TOKEN"]


def test_only_the_runs_own_secret_is_referenced_when_a_secret_has_a_clusters_secrets_name() -> None:
    spec = make_spec(secrets=[SecretUse(name="TOKEN"), FILE])
    pod = get_pod(spec)
    referenced = {volume["secret"]["secretName"] for volume in pod["volumes"]}
    referenced |= {
        entry["valueFrom"]["secretKeyRef"]["name"] for entry in pod["containers"][0]["env"] if "valueFrom" in entry
    }
    assert referenced == {"run-r1-bb82030dbc2bcab-secrets"}
