from typing import Any

import pytest

from runyard.domain.resolve_inputs import ProjectInventory
from tests.unit.domain.worlds import decide, get_leaf, list_refusals, show

OURS = ProjectInventory(
    secrets=frozenset({"my-secret-key", "HF_TOKEN"}),
    volumes={"datasets": "run-1-datasets", "models": "run-2-models"},
    claims=frozenset({"shared-data"}),
    config_maps=frozenset({"settings"}),
)
"""What the project has."""


def _mount(kind: str, spec: Any = None, *, name: str = "v") -> dict[str, Any]:
    return {"volumes": [{"volume_type": kind, "name": name, "mount_path": "/v", "spec": spec or {}}]}


@pytest.mark.parametrize(
    ("run", "code", "where", "suggestion"),
    [
        ({"secrets": ["HF_TOKN"]}, "secret.unknown", "secrets.HF_TOKN", "HF_TOKEN"),
        ({"secrets": [{"name": "my-key", "mount_path": "/s"}]}, "secret.unknown", "secrets.my-key", "my-secret-key"),
        ({"secrets": ["zzz"]}, "secret.unknown", "secrets.zzz", None),
        (_mount("shared_volume", name="dataset"), "volume.unknown", "volumes.dataset", "datasets"),
        (_mount("shared_volume", {"claim_name": "model"}), "volume.unknown", "volumes.v", "models"),
        (_mount("shared_volume", {"claimName": "run-1-datasets"}), "volume.unknown", "volumes.v", "datasets"),
        (_mount("shared_volume", {"claim_name": "shared-data"}), "volume.unknown", "volumes.v", None),
        (_mount("config_map", {"name": "setings"}), "config_map.unknown", "volumes.v.name", "settings"),
        (_mount("config_map", {"name": "kube-root-ca.crt"}), "config_map.unknown", "volumes.v.name", None),
    ],
)
def test_a_run_is_refused_with_the_nearest_when_it_names_what_the_project_has_not(
    run: Any, code: str, where: str, suggestion: str | None
) -> None:
    (refusal,) = decide(run, inventory=OURS).refusals

    assert (refusal.code, refusal.where, refusal.suggestion) == (code, where, suggestion)
    assert refusal.allowed


@pytest.mark.parametrize(
    "run",
    [
        {"secrets": ["my-secret-key"]},
        {"secrets": [{"name": "HF_TOKEN", "mount_path": "/s"}]},
        _mount("shared_volume", name="datasets"),
        _mount("shared_volume", {"claim_name": "models"}),
        _mount("config_map", {"name": "settings"}),
        _mount("config_map", {"data": {"a": "b"}}),
        _mount("config_map", {"data": {}}),
        _mount("persistent_volume_claim"),
        _mount("ephemeral"),
        _mount("empty_dir"),
        _mount("image", {"image": "model:1"}),
    ],
)
def test_a_run_is_taken_when_it_names_what_the_project_has(run: Any) -> None:
    assert decide(run, inventory=OURS).refusals == ()


@pytest.mark.parametrize(
    "run",
    [
        {"secrets": ["my-secret-key"]},
        _mount("shared_volume", name="datasets"),
        _mount("config_map", {"name": "settings"}),
    ],
)
@pytest.mark.parametrize("layer", ["function", "task", "profile"])
def test_a_layer_is_refused_when_the_project_has_not_what_it_names(run: Any, layer: str) -> None:
    world: dict[str, Any] = {layer: run}

    assert [code.partition(".")[2] for code, _ in list_refusals(decide(**world))] == ["unknown"]


def test_the_claim_behind_it_is_mounted_when_a_kept_volume_is_named() -> None:
    resolution = decide(_mount("shared_volume", {"size": "1Gi"}, name="datasets"), inventory=OURS)

    assert show(resolution, "volumes", "datasets") == {
        "name": "datasets",
        "type": "shared_volume",
        "mount_path": "/v",
        "claim_name": "run-1-datasets",
    }
    assert get_leaf(resolution, "volumes", "datasets", "claim_name").owner == "you"


def test_an_existing_claim_is_mounted_when_it_is_the_projects_and_allowed() -> None:
    resolution = decide(
        _mount("persistent_volume_claim", {"claim_name": "shared-data"}),
        policy={"volumes.claim_name": {"allowed": ["shared-*"]}},
        inventory=OURS,
    )

    assert resolution.refusals == ()
    assert show(resolution, "volumes", "v") == {
        "name": "v",
        "type": "persistent_volume_claim",
        "mount_path": "/v",
        "claim_name": "shared-data",
    }


def test_rules_for_new_claims_do_not_judge_when_a_claim_exists_already() -> None:
    resolution = decide(
        _mount("persistent_volume_claim", {"claim_name": "shared-data"}),
        policy={
            "volumes.claim_name": {"allowed": ["shared-data"]},
            "volumes.size": {"default": "1Gi", "max": "1Gi", "locked": True},
            "volumes.storage_class": {"default": "fast", "options": ["fast"]},
        },
        inventory=OURS,
    )

    assert resolution.refusals == ()
    assert show(resolution, "volumes", "v", "size") is None
    assert show(resolution, "volumes", "v", "storage_class") is None


def test_every_stranger_is_told_when_a_run_names_several() -> None:
    run = {"secrets": ["a", "b"], "volumes": _mount("shared_volume", name="c")["volumes"]}

    assert len(decide(run, inventory=OURS).refusals) == 3


def test_the_project_is_said_to_have_nothing_when_it_has_nothing() -> None:
    (refusal,) = decide({"secrets": ["a"]}).refusals

    assert refusal.allowed == "the project has no secrets"


def test_a_secret_is_refused_when_only_its_spelling_is_the_projects() -> None:
    for name in ("hf_token", "HF_TOKEN.", "MY-SECRET-KEY"):
        assert [code for code, _ in list_refusals(decide({"secrets": [name]}, inventory=OURS))] == ["secret.unknown"]
