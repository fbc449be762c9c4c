from typing import Any

import pytest

from runyard.domain.resolve_inputs import ProjectInventory
from runyard.spec.config_maps import MOST_CONFIG_MAPS, MOST_INLINE_BYTES, MOST_RUN_CONFIG_BYTES, ConfigMap
from tests.unit.domain.worlds import decide, get_leaf, list_refusals, show

OURS = ProjectInventory(
    secrets=frozenset({"my-secret-key", "HF_TOKEN"}),
    volumes={"datasets": "run-1-datasets", "models": "run-2-models"},
    claims=frozenset({"shared-data"}),
    config_maps={"settings": ConfigMap(name="settings", version="v2", data={"a.toml": "x = 2\n"})},
    config_map_names=frozenset({"settings"}),
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


def _with_config_maps(*references: str, size: int = 0, version: str = "v1") -> ProjectInventory:
    made = {}
    for reference in references:
        name, _, pinned = reference.partition(":")
        made[reference] = ConfigMap(name=name, version=pinned or version, data={"f": "x" * size})
    return ProjectInventory(config_maps=made, config_map_names=frozenset(each.name for each in made.values()))


def _mount_all(*names: str) -> dict[str, Any]:
    return {
        "volumes": [
            {"volume_type": "config_map", "name": f"v{index}", "mount_path": f"/v{index}", "spec": {"name": name}}
            for index, name in enumerate(names)
        ]
    }


def test_newest_version_is_copied_when_a_config_map_is_named() -> None:
    resolution = decide(_mount("config_map", {"name": "settings", "sub_path": "a.toml"}), inventory=OURS)

    (volume,) = resolution.spec.volumes
    assert (volume.config_map, volume.config_map_version) == ("settings", "v2")
    assert volume.data == {"a.toml": "x = 2\n"}
    version, data = (get_leaf(resolution, "volumes", "v", key) for key in ("config_map_version", "data"))
    assert (version.value, version.owner, version.rule) == ("v2", "you", "the newest version")
    assert (data.value, data.owner) == ({"a.toml": "x = 2\n"}, "you")
    assert data.rule == "the files of the config map settings"


@pytest.mark.parametrize("name", ["settings:v1", "store://vision/configmap/configmap/settings:v1"])
def test_named_version_is_copied_when_a_config_map_is_pinned(name: str) -> None:
    resolution = decide(
        _mount("config_map", {"name": name}), project="vision", inventory=_with_config_maps("settings", "settings:v1")
    )

    assert resolution.refusals == ()
    assert get_leaf(resolution, "volumes", "v", "config_map").value == "settings"
    version = get_leaf(resolution, "volumes", "v", "config_map_version")
    assert (version.value, version.rule) == ("v1", None)


@pytest.mark.parametrize("layer", ["function", "task", "profile"])
def test_layer_owns_the_files_when_it_names_the_config_map(layer: str) -> None:
    world: dict[str, Any] = {layer: _mount("config_map", {"name": "settings"})}

    assert get_leaf(decide(**world, inventory=OURS), "volumes", "v", "data").owner == layer


def test_cure_is_named_when_a_config_map_is_unknown() -> None:
    (refusal,) = decide(_mount("config_map", {"name": "setings"}), project="vision", inventory=OURS).refusals

    assert refusal.message == "the project has no config map `setings`"
    assert refusal.allowed == (
        "settings; create it with POST /api/v1/-/vision/configmaps, or write the files in `data`"
    )


def test_run_is_refused_when_the_version_is_unknown() -> None:
    (refusal,) = decide(_mount("config_map", {"name": "settings:v9"}), inventory=OURS).refusals

    assert (refusal.code, refusal.message) == (
        "config_map.unknown",
        "the config map `settings` has no version `v9`",
    )
    assert (refusal.value, refusal.suggestion) == ("settings:v9", None)


def test_run_is_refused_when_the_config_map_is_of_another_project() -> None:
    run = _mount("config_map", {"name": "store://speech/configmap/configmap/settings:v1"})
    (refusal,) = decide(run, project="vision", inventory=_with_config_maps("settings:v1")).refusals

    assert (refusal.code, refusal.where) == ("reference.project", "volumes.v.name")


@pytest.mark.parametrize(("count", "is_refused"), [(MOST_CONFIG_MAPS, False), (MOST_CONFIG_MAPS + 1, True)])
def test_run_is_refused_when_it_names_too_many_config_maps(count: int, is_refused: bool) -> None:
    names = [f"c{index}" for index in range(count)]
    refusals = decide(_mount_all(*names), inventory=_with_config_maps(*names)).refusals

    assert [(problem.code, problem.where) for problem in refusals] == (
        [("size.entries", "volumes")] if is_refused else []
    )


def test_one_config_map_counts_once_when_it_is_mounted_often() -> None:
    names = ["settings"] * (MOST_CONFIG_MAPS + 1)

    assert decide(_mount_all(*names), inventory=_with_config_maps("settings")).refusals == ()


@pytest.mark.parametrize(("extra", "is_refused"), [(0, False), (1, True)])
def test_run_is_refused_when_its_config_maps_are_too_large_together(extra: int, is_refused: bool) -> None:
    names = ["c0", "c1"]
    size = MOST_RUN_CONFIG_BYTES // 2 - 1  # the name of the file counts too
    run = _mount_all(*names)
    if extra:
        run["volumes"].append(
            {"volume_type": "config_map", "name": "own", "mount_path": "/own", "spec": {"data": {"f": ""}}}
        )
    refusals = decide(run, inventory=_with_config_maps(*names, size=size)).refusals

    assert [(problem.code, problem.where) for problem in refusals] == (
        [("size.bytes", "volumes")] if is_refused else []
    )


def test_own_files_count_when_a_run_has_too_many_bytes() -> None:
    volumes = [
        {"volume_type": "config_map", "name": f"v{n}", "mount_path": f"/v{n}", "spec": {"data": {"f": "x" * size}}}
        for n, size in enumerate([MOST_INLINE_BYTES - 1] * 2)
    ]

    assert [problem.code for problem in decide({"volumes": volumes}).refusals] == ["size.bytes"]


@pytest.mark.parametrize("spec", [{"name": "settings"}, {"data": {"a": "b"}}])
def test_both_forms_are_refused_when_the_policy_denies_config_maps(spec: Any) -> None:
    world: dict[str, Any] = {"policy": {"volumes.type": {"denied": ["config_map"]}}}

    assert list_refusals(decide(_mount("config_map", spec), inventory=OURS, **world)) == [
        ("policy.denied", "volumes.v.type")
    ]
