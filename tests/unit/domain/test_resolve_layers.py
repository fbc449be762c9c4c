from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from runyard.domain.effective_spec import OWNERS, to_plain
from runyard.domain.resolution import resolve
from runyard.domain.resolve_inputs import ProjectInventory
from runyard.spec.environment import read_secrets
from tests.unit.domain.worlds import (
    decide,
    get_leaf,
    list_refusals,
    list_warnings,
    make_profile,
    make_request,
    prepare,
    show,
)

LAYERS = ("base", "function", "task", "run", "profile")
"""Weakest first; the platform's defaults lie below, locks of the policy above."""
WHOLE: dict[str, tuple[Any, ...]] = {
    "runtime_class": ("a", "b", "c", "d", "e"),
    "priority_class": ("a", "b", "c", "d", "e"),
    "run_as_user": (1, 2, 3, 4, 5),
    "run_as_group": (1, 2, 3, 4, 5),
    "fs_group": (1, 2, 3, 4, 5),
    "image": ("a:1", "b:1", "c:1", "d:1", "e:1"),
    "image_pull_policy": ("Always", "Never", "IfNotPresent", "Always", "Never"),
    "backoff_limit": (0, 1, 2, 3, 4),
    "timeout": (10, 20, 30, 40, 50),
    "args": (["a"], ["b"], ["c"], ["d"], ["e"]),
    "affinity": tuple(
        {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": weight, "preference": {"matchExpressions": [{"key": "z", "operator": "Exists"}]}}
                ]
            }
        }
        for weight in range(1, 6)
    ),
}
"""Fields that a stronger layer replaces as a whole, with a value for each layer."""


def _world(values: dict[str, Any], name: str) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    fields = {layer: {name: value} for layer, value in values.items()}
    base = fields.pop("base", None)
    world: dict[str, Any] = {layer: content for layer, content in fields.items() if layer != "run"}
    if base is not None:
        world["base"] = {"Job": base}
    return fields.get("run"), world


def _volume(name: str, path: str, kind: str = "empty_dir", **spec: Any) -> dict[str, Any]:
    return {"volume_type": kind, "name": name, "mount_path": path, "spec": spec}


@pytest.mark.parametrize(("weaker", "stronger"), list(combinations(range(len(LAYERS)), 2)))
@pytest.mark.parametrize("name", WHOLE)
def test_the_stronger_layer_wins_whole_when_two_set_one_field(name: str, weaker: int, stronger: int) -> None:
    values = {LAYERS[index]: WHOLE[name][index] for index in (weaker, stronger)}
    run, world = _world(values, name)

    resolution = decide(run, **world)

    assert show(resolution, name) == values[LAYERS[stronger]]
    assert get_leaf(resolution, name).owner == {"run": "you"}.get(LAYERS[stronger], LAYERS[stronger])


@pytest.mark.parametrize("name", WHOLE)
def test_the_profile_wins_when_every_layer_sets_the_field(name: str) -> None:
    run, world = _world(dict(zip(LAYERS, WHOLE[name], strict=True)), name)

    resolution = decide(run, **world)

    assert show(resolution, name) == WHOLE[name][-1]
    assert [entry.by for entry in get_leaf(resolution, name).replaced][:1] == ["you"]


def test_owners_are_in_the_order_of_the_design_when_they_are_listed() -> None:
    assert OWNERS == ("platform", "base", "function", "task", "you", "profile", "policy")


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("profile", [{}, {"labels": {"a": "b"}}])
def test_a_profile_erases_nothing_when_it_leaves_a_field_blank(name: str, profile: dict[str, Any]) -> None:
    assert show(decide({name: WHOLE[name][0]}, profile=profile), name) == WHOLE[name][0]


@pytest.mark.parametrize(
    ("profile", "run"),
    [
        ({"affinity": {}}, {"affinity": WHOLE["affinity"][0]}),
        ({"args": []}, {"args": ["a"]}),
        ({"tolerations": []}, {"tolerations": [{"key": "a", "operator": "Exists"}]}),
        ({"envs": {}}, {"envs": {"A": "1"}}),
        ({"node_selector": []}, {"node_selector": {"a": "b"}}),
        ({"volumes": []}, {"volumes": [_volume("a", "/a")]}),
    ],
)
def test_a_profile_erases_nothing_when_it_says_nothing_in_many_words(profile: Any, run: Any) -> None:
    with_profile, without = decide(run, profile=profile), decide(run)

    (name,) = run
    assert show(with_profile, name) == show(without, name)


@pytest.mark.parametrize("name", ["node_selector", "envs"])
def test_pairs_are_merged_by_name_when_layers_set_different_ones(name: str) -> None:
    resolution = decide(
        {name: {"run": "r", "both": "r", "all": "r"}},
        function={name: {"function": "f", "all": "f"}},
        task={name: {"task": "t", "all": "t"}},
        profile={name: {"profile": "p", "both": "p", "all": "p"}},
        base={"Job": {name: {"base": "b", "all": "b"}}},
    )

    assert show(resolution, name) == {
        "base": "b",
        "function": "f",
        "task": "t",
        "run": "r",
        "profile": "p",
        "both": "p",
        "all": "p",
    }
    assert set(list_warnings(resolution)) == {("override", f"{name}.both"), ("override", f"{name}.all")}


def test_secrets_are_a_union_when_layers_name_different_ones() -> None:
    resolution = decide(
        {"secrets": ["B", "C"]},
        function={"secrets": ["A", "B"]},
        profile={"secrets": ["D"]},
        inventory=ProjectInventory(secrets=frozenset("ABCD")),
    )

    assert {use.name for use in resolution.spec.secrets} == set("ABCD")
    assert resolution.refusals == ()


def test_the_stronger_use_wins_when_two_layers_use_one_secret_differently() -> None:
    resolution = decide(
        {"secrets": ["A"]},
        profile={"secrets": [{"name": "A", "mount_path": "/s/a"}]},
        inventory=ProjectInventory(secrets=frozenset("A")),
    )

    assert show(resolution, "secrets") == [{"name": "A", "mount_path": "/s/a"}]


def test_tolerations_are_a_union_without_doubles_when_layers_set_them() -> None:
    spot, gpu = {"key": "spot", "operator": "Exists"}, {"key": "gpu", "operator": "Equal", "value": "a"}

    resolution = decide({"tolerations": [spot, gpu]}, function={"tolerations": [gpu]}, profile={"tolerations": [spot]})

    assert show(resolution, "tolerations") == [gpu, spot]
    assert [leaf.owner for leaf in resolution.leaves if leaf.path[0] == "tolerations"] == ["you", "profile"]


def test_labels_are_the_admins_when_profile_and_base_set_them() -> None:
    resolution = decide(profile={"labels": {"a": "p", "b": "p"}}, base={"Job": {"labels": {"a": "x", "c": "x"}}})

    assert show(resolution, "labels") == {"a": "p", "b": "p", "c": "x"}


def test_volumes_are_merged_by_name_when_layers_set_different_ones() -> None:
    resolution = decide(
        {"volumes": [_volume("both", "/run"), _volume("mine", "/mine")]},
        function={"volumes": [_volume("code", "/code")]},
        profile={"volumes": [_volume("both", "/profile", size_limit="1Gi")]},
    )

    assert {volume.name: volume.mount_path for volume in resolution.spec.volumes} == {
        "code": "/code",
        "both": "/profile",
        "mine": "/mine",
    }
    assert ("override", "volumes.both") in list_warnings(resolution)


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [("function", "task"), ("function", "run"), ("task", "run"), ("run", "profile"), ("task", "profile")],
)
def test_the_stronger_volume_stays_when_two_layers_want_one_path(weaker: str, stronger: str) -> None:
    world: dict[str, Any] = {
        weaker: {"volumes": [_volume("weak", "/data")]},
        stronger: {"volumes": [_volume("strong", "/data")]},
    }
    run = world.pop("run", None)

    resolution = decide(run, **world)

    assert [volume.name for volume in resolution.spec.volumes] == ["strong"]
    assert ("override", "volumes.weak") in list_warnings(resolution)
    assert resolution.refusals == ()


@pytest.mark.parametrize(
    ("world", "kept"),
    [
        ({"run": {"resources": {"disk": "1Gi"}}, "profile": {"volumes": [_volume("v", "/shared")]}}, "volume"),
        ({"run": {"volumes": [_volume("v", "/shared")]}, "profile": {"resources": {"disk": "1Gi"}}}, "disk"),
        ({"run": {"volumes": [_volume("v", "/shared")]}, "function": {"resources": {"disk": "1Gi"}}}, "volume"),
    ],
)
def test_the_stronger_stays_when_a_volume_and_the_disk_want_one_path(world: dict[str, Any], kept: str) -> None:
    resolution = decide(world.pop("run"), **world)

    assert resolution.refusals == ()
    assert (resolution.spec.disk is not None) == (kept == "disk")
    assert len(resolution.spec.volumes) == (kept == "volume")
    assert [code for code, _ in list_warnings(resolution)] == ["override"]


def test_a_run_is_refused_when_its_own_volume_and_disk_want_one_path() -> None:
    resolution = decide({"resources": {"disk": "1Gi"}, "volumes": [_volume("v", "/shared")]})

    assert list_refusals(resolution) == [("collision", "volumes.v")]


def test_a_run_is_refused_when_its_own_volume_and_secret_want_one_path() -> None:
    resolution = decide(
        {"volumes": [_volume("v", "/data")], "secrets": [{"name": "A", "mount_path": "/data"}]},
        inventory=ProjectInventory(secrets=frozenset("A")),
    )

    assert list_refusals(resolution) == [("collision", "secrets.A")]


def test_a_run_is_refused_when_its_own_variable_and_secret_have_one_name() -> None:
    request = make_request({"envs": {"A": "1"}})
    run = request.run.model_copy(update={"secrets": read_secrets(["A"])})

    resolution = resolve(replace(request, run=run), prepare(), ProjectInventory(secrets=frozenset("A")))

    assert list_refusals(resolution) == [("collision", "envs.A")]


@pytest.mark.parametrize(
    ("run", "profile", "kept"),
    [({"envs": {"A": "1"}}, {"secrets": ["A"]}, "secrets"), ({"secrets": ["A"]}, {"envs": {"A": "1"}}, "envs")],
)
def test_the_profile_stays_when_its_variable_or_secret_has_the_users_name(run: Any, profile: Any, kept: str) -> None:
    resolution = decide(run, profile=profile, inventory=ProjectInventory(secrets=frozenset("A")))

    assert {name for name in ("envs", "secrets") if show(resolution, name)} == {kept}
    assert [code for code, _ in list_warnings(resolution)] == ["override"]


def test_a_secret_may_have_a_variables_name_when_it_is_a_file() -> None:
    resolution = decide(
        {"envs": {"A": "1"}, "secrets": [{"name": "A", "mount_path": "/a"}]},
        inventory=ProjectInventory(secrets=frozenset("A")),
    )

    assert resolution.refusals == ()


@pytest.mark.parametrize(("same", "warned"), [(True, False), (False, True)])
def test_a_user_is_warned_when_the_profile_overrides_and_not_when_it_agrees(*, same: bool, warned: bool) -> None:
    resolution = decide({"fs_group": 1}, profile={"fs_group": 1 if same else 2})

    assert (list_warnings(resolution) == [("override", "fs_group")]) == warned


@pytest.mark.parametrize("layer", ["function", "task", "run"])
def test_a_likely_mistake_is_told_when_any_layer_of_a_user_makes_it(layer: str) -> None:
    world: dict[str, Any] = {layer: {"resources": {"mem": 2048}}}

    resolution = decide(**world)

    assert [where for _, where in list_warnings(resolution)] == ["resources.mem.requests"]


@pytest.mark.parametrize(("name", "action"), [("backoff_limit", "job"), ("replicas", "serve")])
def test_zero_wins_when_the_stronger_layer_says_it(name: str, action: str) -> None:
    assert show(decide({name: 0}, function={name: 3}, action=action), name) == 0
    assert show(decide({name: 3}, profile={name: 0}, action=action), name) == 0


def test_nobody_is_warned_when_a_run_overrides_its_own_function() -> None:
    resolution = decide({"fs_group": 1, "envs": {"A": "1"}}, function={"fs_group": 2, "envs": {"A": "2"}})

    assert list_warnings(resolution) == []


def test_the_warning_names_both_values_when_the_profile_overrides() -> None:
    (warning,) = decide({"resources": {"cpu": 6}}, profile={"resources": {"cpu": 8}}).warnings

    assert warning.where == "resources.cpu.requests"
    assert {"8", "6"} <= set(warning.message.replace(";", " ").split())
    assert "profile p" in warning.message


@pytest.mark.parametrize(
    ("named_by", "expected"),
    [({}, None), ({"function": "a"}, "a"), ({"function": "a", "task": "b"}, "b"), ({"function": "a", "run": "c"}, "c")],
)
def test_the_strongest_layers_profile_applies_when_several_name_one(
    named_by: dict[str, str], expected: str | None
) -> None:
    world: dict[str, Any] = {layer: {"profile": name} for layer, name in named_by.items()}
    admin_rules = prepare({}, *(make_profile(name, {"fs_group": number}) for number, name in enumerate("abc", start=1)))

    resolution = resolve(make_request(world.pop("run", None), **world), admin_rules, ProjectInventory())

    assert resolution.spec.profile == expected
    assert (resolution.profile.id if resolution.profile else None) == expected
    assert resolution.spec.fs_group == (None if expected is None else "abc".index(expected) + 1)


def test_the_profile_default_applies_when_none_is_named() -> None:
    admin_rules = prepare({}, make_profile("default", {"fs_group": 7}), make_profile("p", {"fs_group": 8}))

    resolution = resolve(make_request(), admin_rules, ProjectInventory())

    assert (resolution.spec.profile, resolution.spec.fs_group) == ("default", 7)
    assert get_leaf(resolution, "profile").rule == "applies when no profile is named"
    assert resolve(make_request({"profile": "p"}), admin_rules, ProjectInventory()).spec.fs_group == 8


def test_the_profile_default_does_not_apply_when_an_unknown_one_is_named() -> None:
    admin_rules = prepare({}, make_profile("default", {"fs_group": 7}))

    resolution = resolve(make_request({"profile": "defalt"}), admin_rules, ProjectInventory())

    assert resolution.spec.fs_group is None
    (refusal,) = resolution.refusals
    assert (refusal.code, refusal.where, refusal.suggestion) == ("profile.unknown", "profile", "default")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("1xa10", "1xa100"), ("1XA100", "1xa100"), ("2xa100", "1xa100"), ("cpu_small", "cpu-small"), ("zzz", None)],
)
def test_a_run_is_refused_with_the_nearest_profile_when_it_names_an_unknown_one(
    name: str, suggestion: str | None
) -> None:
    admin_rules = prepare({}, make_profile("1xa100"), make_profile("cpu-small"))

    (refusal,) = resolve(make_request({"profile": name}), admin_rules, ProjectInventory()).refusals

    assert (refusal.suggestion, refusal.value) == (suggestion, name)
    assert refusal.allowed == "1xa100, cpu-small"


def test_a_run_is_told_that_there_are_no_profiles_when_none_are_loaded() -> None:
    (refusal,) = decide({"profile": "p"}).refusals

    assert refusal.allowed == "no profiles are loaded"


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("job", {"ttl": 60, "replicas": None, "service_type": None, "fs_group": 1}),
        ("serve", {"ttl": None, "replicas": 2, "service_type": "NodePort", "fs_group": 2}),
        ("deploy", {"ttl": None, "replicas": 2, "service_type": None, "fs_group": 2}),
    ],
)
def test_base_objects_count_when_they_are_of_the_actions_kind(action: str, expected: dict[str, Any]) -> None:
    base: Any = {
        "Job": {"ttl": 60, "fs_group": 1},
        "Deployment": {"replicas": 2, "fs_group": 2},
        "Service": {"service_type": "NodePort"},
    }

    resolution = decide(base=base, action=action)

    assert {name: show(resolution, name) for name in expected} == expected
    assert list_warnings(resolution) == []


@pytest.mark.parametrize(
    ("action", "kind", "fields"),
    [
        ("job", "container", {"replicas": 2}),
        ("job", "container", {"service_ports": [80]}),
        ("job", "container", {"service_type": "ClusterIP"}),
        ("job", "container", {"service_name": "a"}),
        ("job", "container", {"readiness_path": "/"}),
        ("serve", "container", {"backoff_limit": 2}),
        ("serve", "container", {"timeout": "2h"}),
        ("serve", "container", {"ttl": "2h"}),
        ("deploy", "container", {"service_ports": [80]}),
        ("deploy", "container", {"timeout": "2h"}),
        ("job", "container", {"parameters": {"a": 1}}),
        ("job", "container", {"inputs": {"a": "b"}}),
        ("job", "container", {"python_version": "PYTHON3_11"}),
    ],
)
def test_a_user_is_told_when_a_field_says_nothing_to_the_action(action: str, kind: str, fields: dict[str, Any]) -> None:
    resolution = decide(fields, action=action, kind=kind)

    (name,) = fields
    assert list_warnings(resolution) == [("field.pointless", name)]
    assert show(resolution, name) is None
    assert resolution.refusals == ()


@pytest.mark.parametrize(
    ("action", "kind", "fields"),
    [
        (
            "serve",
            "container",
            {"replicas": 0, "service_ports": [80], "service_type": "NodePort", "readiness_path": "/"},
        ),
        ("deploy", "container", {"replicas": 3}),
        ("job", "container", {"backoff_limit": 0, "timeout": 7200, "ttl": 60, "pending_timeout": 900}),
        ("job", "python", {"parameters": {"a": 1}, "inputs": {"a": "b"}, "python_version": "PYTHON3_11"}),
        ("serve", "python", {"init_parameters": {"a": 1}}),
    ],
)
def test_a_field_is_taken_when_it_says_something_to_the_action(action: str, kind: str, fields: dict[str, Any]) -> None:
    resolution = decide(fields, action=action, kind=kind)

    assert list_warnings(resolution) == []
    assert all(show(resolution, name) is not None for name in fields)


@pytest.mark.parametrize(
    ("policy", "image", "owner"),
    [
        ({}, "python:3.11", "platform"),
        (
            {"platform": {"python_images": {"PYTHON3_11": "registry.example.org/py:3.11"}}},
            "registry.example.org/py:3.11",
            "policy",
        ),
    ],
)
def test_a_python_function_has_the_platforms_image_when_it_says_none(policy: Any, image: str, owner: str) -> None:
    resolution = decide(function={"python_version": "PYTHON3_11"}, kind="python", policy=policy)

    assert resolution.spec.image == image
    assert get_leaf(resolution, "image").owner == owner


def test_a_python_function_keeps_its_image_when_it_says_one() -> None:
    resolution = decide(function={"python_version": "PYTHON3_11", "image": "mine:1"}, kind="python")

    assert resolution.spec.image == "mine:1"


def test_the_answer_is_the_same_when_the_same_is_asked_again() -> None:
    request = make_request({"envs": {"B": "1", "A": "2"}, "resources": {"mem": "1Gi"}}, function={"envs": {"C": "3"}})
    admin_rules = prepare({"resources.mem": {"max": "512Mi"}, "envs": {"default": {"D": "4"}}})

    first, second = (resolve(request, admin_rules, ProjectInventory()) for _ in range(2))

    assert first == second
    assert first.spec.to_dict() == second.spec.to_dict()


def test_inputs_stay_as_they_were_when_a_run_is_resolved() -> None:
    request = make_request(
        {
            "profile": "p",
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "affinity": WHOLE["affinity"][0],
            "volumes": [_volume("a", "/a", "persistent_volume_claim")],
            "resources": {"mem": {"limits": "1Gi"}},
            "parameters": {"x": [1]},
        },
        kind="python",
    )
    admin_rules = prepare(
        {
            "tolerations": {"default": [{"key": "z", "operator": "Exists"}], "locked": True},
            "volumes.size": {"default": "9Gi"},
        },
        make_profile("p", {"tolerations": [{"key": "b", "operator": "Exists"}], "resources": {"mem": "2Gi"}}),
    )
    inputs = (request.run.__dict__, admin_rules.profiles["p"].fields.__dict__)
    before = to_plain(inputs)

    resolution = resolve(request, admin_rules, ProjectInventory())
    resolution.spec.to_dict()["tolerations"].clear()

    assert to_plain(inputs) == before
    assert admin_rules.policy.scope.rules["tolerations"].default == [{"key": "z", "operator": "Exists"}]
