from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.domain.effective_spec import OWNERS, Replaced, iter_leaves
from runyard.domain.resolution import Resolution, resolve
from runyard.domain.resolve_inputs import ProjectInventory
from tests.unit.domain.worlds import decide, get_leaf, make_profile, make_request, prepare

OURS = ProjectInventory(secrets=frozenset({"A", "B", "TOKEN"}), volumes={"kept": "run-0-kept"})

_volumes = st.lists(
    st.builds(
        lambda kind, name, path, size: {
            "volume_type": kind,
            "name": name,
            "mount_path": path,
            "spec": {"size": size} if size else {},
        },
        st.sampled_from(["persistent_volume_claim", "ephemeral", "empty_dir"]),
        st.sampled_from(["a", "b", "kept"]),
        st.sampled_from(["/a", "/b", "/shared", "/dev/shm"]),
        st.sampled_from([None, "1Gi", "20Gi"]),
    ),
    max_size=2,
    unique_by=(lambda volume: volume["name"], lambda volume: volume["mount_path"]),
)
_cpu = st.sampled_from(["1", 2, {"limits": 4}, {"requests": 1, "limits": 2}, {"requests": "8"}])
_mem = st.sampled_from(["1Gi", {"limits": "512Mi"}, {"requests": "2Gi", "limits": "3Gi"}])
_taint = st.sampled_from([{"key": "spot", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}])
_any_fields = st.fixed_dictionaries(
    {},
    optional={
        "resources": st.fixed_dictionaries(
            {}, optional={"cpu": _cpu, "mem": _mem, "gpu": st.integers(0, 2), "disk": st.just("1Gi")}
        ),
        "node_selector": st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"])),
        "envs": st.dictionaries(st.sampled_from(["A", "B", "C"]), st.sampled_from(["1", "2"])),
        "secrets": st.lists(st.sampled_from(["A", "B", "TOKEN"]), unique=True, max_size=2),
        "tolerations": st.lists(_taint, max_size=2),
        "volumes": _volumes,
        "fs_group": st.integers(1, 3),
        "run_as_user": st.integers(1, 3),
        "image": st.sampled_from(["a:1", "b:1"]),
        "args": st.sampled_from([[], ["x"], ["y", "z"]]),
        "timeout": st.sampled_from(["1h", "2h"]),
        "replicas": st.integers(0, 2),
        "affinity": st.sampled_from([{}, {"nodeAffinity": {}}]),
        "service_ports": st.sampled_from([[], [80]]),
    },
)


def _set_variables_once(fields: dict[str, Any]) -> dict[str, Any]:
    """The same fields, without variables that a secret sets too."""
    envs = {name: value for name, value in fields.get("envs", {}).items() if name not in fields.get("secrets", ())}
    return {**fields, "envs": envs} if "envs" in fields else fields


_fields = _any_fields.map(_set_variables_once)


def _ruled(values: list[Any]) -> st.SearchStrategy[Any]:
    rule = st.fixed_dictionaries({"default": st.sampled_from(values)}, optional={"locked": st.booleans()})
    return rule | st.just({"locked": True})


_rules = st.fixed_dictionaries(
    {},
    optional={
        name: _ruled(values)
        for name, values in cast(
            "dict[str, list[Any]]",
            {
                "resources.cpu": ["1"],
                "resources.cpu.limits": ["2", "16"],
                "resources.mem": ["1Gi"],
                "resources.gpu": [0, 1],
                "resources.disk": ["2Gi"],
                "resources.disk.storage_class": ["fast"],
                "resources.ephemeral-storage": ["1Gi"],
                "volumes.size": ["5Gi"],
                "volumes.size_limit": ["1Gi"],
                "volumes.storage_class": ["fast"],
                "node_selector": [{"x": "9"}, {}],
                "envs": [{"A": "9"}, {"TOKEN": "9"}],
                "tolerations": [[], [{"key": "spot", "operator": "Exists"}]],
                "affinity": [{}, {"nodeAffinity": {}}],
                "image": ["c:1"],
                "fs_group": [9],
                "timeout": ["3h"],
                "replicas": [1],
                "service_type": ["ClusterIP"],
            },
        ).items()
    },
)


def _check(resolution: Resolution) -> None:
    spec = dict(iter_leaves(resolution.spec.to_dict()))
    owned = {leaf.path: leaf.value for leaf in resolution.leaves}
    assert owned == spec
    assert len(owned) == len(resolution.leaves)
    for leaf in resolution.leaves:
        assert leaf.owner in OWNERS
        assert leaf.source
        assert all(entry.value != leaf.value and entry.by for entry in leaf.replaced)


@settings(max_examples=150)
@given(
    layers=st.tuples(_fields, _fields, _fields, _fields),
    base=_fields,
    platform=_rules,
    project=_rules,
    action=st.sampled_from(["job", "serve", "deploy", "build"]),
    choices=st.sampled_from(
        [{}, {"disk_medium": "empty_dir"}, {"gpu_resources": ["amd.com/gpu"], "image_pull_secrets": ["r"]}]
    ),
)
def test_every_leaf_has_an_owner_and_every_owner_a_leaf_when_anything_is_resolved(
    layers: tuple[Any, ...], base: Any, platform: Any, project: Any, action: str, choices: Any
) -> None:
    function, task, run, profile = layers
    request = make_request({**run, "profile": "p"}, task=task, function=function, action=action)
    objects: Any = {"Job": base, "Deployment": base}
    policy = {**platform, "platform": choices, "projects": {"vision": project}}
    admin_rules = prepare(policy, make_profile("p", profile, base=objects))

    resolution = resolve(request, admin_rules, OURS)

    _check(resolution)
    assert resolve(request, admin_rules, OURS) == resolution


def test_the_least_run_has_owners_when_nothing_is_asked_for() -> None:
    resolution = decide()

    _check(resolution)
    assert {leaf.path: leaf.owner for leaf in resolution.leaves} == {
        ("kind",): "you",
        ("action",): "you",
        ("pod_security",): "platform",
        ("backoff_limit",): "platform",
    }


def test_all_that_was_replaced_is_listed_strongest_first_when_every_layer_speaks() -> None:
    resolution = decide(
        {"fs_group": 4},
        base={"Job": {"fs_group": 1}},
        function={"fs_group": 2},
        task={"fs_group": 3},
        profile={"fs_group": 5},
        policy={"fs_group": {"default": 6, "locked": True}},
    )

    leaf = get_leaf(resolution, "fs_group")
    assert (leaf.value, leaf.owner, leaf.source, leaf.rule) == (6, "policy", "policy", "locked")
    assert leaf.replaced == (
        Replaced("profile p", 5),
        Replaced("you", 4),
        Replaced("task", 3),
        Replaced("function", 2),
        Replaced("base Job of p", 1),
    )


def test_an_equal_value_is_not_replaced_when_a_stronger_layer_says_the_same() -> None:
    leaf = get_leaf(decide({"fs_group": 4}, profile={"fs_group": 4}), "fs_group")

    assert (leaf.owner, leaf.replaced) == ("profile", ())


@pytest.mark.parametrize(
    ("world", "path", "owner", "source", "rule"),
    [
        ({"run": {"resources": {"cpu": 1}}}, ("resources", "cpu", "requests"), "you", "you", None),
        (
            {"run": {"resources": {"cpu": {"limits": 1}}}},
            ("resources", "cpu", "requests"),
            "you",
            "you",
            "limits alone: requests = limits",
        ),
        (
            {"run": {"resources": {"mem": "1Gi"}}},
            ("resources", "mem", "limits"),
            "platform",
            "platform default",
            "requests × 1.1",
        ),
        (
            {"run": {"resources": {"mem": "1Gi"}}, "policy": {"platform": {"mem_tolerance": 1.5}}},
            ("resources", "mem", "limits"),
            "policy",
            "policy",
            "requests × 1.5",
        ),
        (
            {"run": {"resources": {"mem": "1Gi"}}, "policy": {"resources.mem": {"max": "1Gi"}}},
            ("resources", "mem", "limits"),
            "policy",
            "policy",
            "requests × 1.1, at most the policy's max",
        ),
        ({"policy": {"fs_group": {"default": 1}}}, ("fs_group",), "policy", "policy", "default"),
        (
            {"policy": {"projects": {"vision": {"fs_group": {"default": 1}}}}},
            ("fs_group",),
            "policy",
            "policy of project vision",
            "default",
        ),
        ({"policy": {"envs": {"default": {"A": "1"}}}}, ("envs", "A"), "policy", "policy", "default"),
        ({"profile": {"envs": {"A": "1"}}}, ("envs", "A"), "profile", "profile p", None),
        ({"base": {"Job": {"ttl": 5}}}, ("ttl",), "base", "base Job of p", None),
        ({"function": {"image": "a:1"}}, ("image",), "function", "function", None),
        ({"task": {"image": "a:1"}}, ("image",), "task", "task", None),
        (
            {"profile": {"resources": {"limits": {"nvidia.com/gpu": 1}}}},
            ("resources", "gpu", "resource"),
            "profile",
            "profile p",
            None,
        ),
        (
            {"profile": {"resources": {"limits": {"nvidia.com/gpu": 1}}}},
            ("resources", "gpu", "limits"),
            "profile",
            "profile p",
            "nvidia.com/gpu is a GPU resource of the platform",
        ),
        (
            {"profile": {"resources": {"limits": {"example.com/nic": 1}}}},
            ("resources", "example.com/nic", "requests"),
            "profile",
            "profile p",
            "requests = limits, as Kubernetes requires for this resource",
        ),
        (
            {"run": {"resources": {"disk": "1Gi"}}},
            ("resources", "disk", "medium"),
            "platform",
            "platform default",
            None,
        ),
        ({"policy": {"platform": {"pod_security": "baseline"}}}, ("pod_security",), "policy", "policy", None),
        (
            {"function": {"python_version": "PYTHON3_11"}, "kind": "python"},
            ("image",),
            "platform",
            "platform default",
            "the image for PYTHON3_11",
        ),
        ({"function": {}}, ("kind",), "function", "function", None),
    ],
)
def test_a_leaf_says_who_and_why_when_it_is_explained(
    world: dict[str, Any], path: tuple[str, ...], owner: str, source: str, rule: str | None
) -> None:
    world = dict(world)

    leaf = get_leaf(decide(world.pop("run", None), **world), *path)

    assert (leaf.owner, leaf.source, leaf.rule) == (owner, source, rule)


def test_each_part_of_a_volume_has_its_own_owner_when_blanks_were_filled() -> None:
    resolution = decide(
        {
            "volumes": [
                {"volume_type": "persistent_volume_claim", "name": "v", "mount_path": "/v", "spec": {"size": "9Gi"}}
            ]
        },
        policy={"volumes.size": {"default": "5Gi", "locked": True}, "volumes.storage_class": {"default": "fast"}},
    )

    owners = {leaf.path[2]: (leaf.owner, leaf.rule) for leaf in resolution.leaves if leaf.path[0] == "volumes"}
    assert owners == {
        "name": ("you", None),
        "type": ("you", None),
        "mount_path": ("you", None),
        "size": ("policy", "locked"),
        "storage_class": ("policy", "default"),
        "lifetime": ("platform", None),
    }
    assert get_leaf(resolution, "volumes", "v", "size").replaced == (Replaced("you", "9Gi"),)


def test_a_volume_says_what_it_replaced_part_by_part_when_a_profile_overrides_it() -> None:
    def mount(path: str) -> dict[str, Any]:
        return {"volumes": [{"volume_type": "empty_dir", "name": "v", "mount_path": path}]}

    resolution = decide(mount("/mine"), profile=mount("/theirs"))

    assert get_leaf(resolution, "volumes", "v", "mount_path").replaced == (Replaced("you", "/mine"),)
    assert get_leaf(resolution, "volumes", "v", "type").replaced == ()


def test_the_profile_says_what_it_replaced_when_several_layers_name_one() -> None:
    admin_rules = prepare({"profile": {"default": "c", "locked": True}}, *map(make_profile, "abc"))

    resolution = resolve(make_request({"profile": "b"}, function={"profile": "a"}), admin_rules, ProjectInventory())

    leaf = get_leaf(resolution, "profile")
    assert (leaf.owner, leaf.rule, leaf.replaced) == (
        "policy",
        "locked",
        (Replaced("you", "b"), Replaced("function", "a")),
    )


def test_a_refused_run_is_explained_all_the_same_when_it_would_have_been() -> None:
    resolution = decide({"resources": {"cpu": 9}}, policy={"resources.cpu": {"max": 1}})

    assert resolution.is_refused
    _check(resolution)
    assert get_leaf(resolution, "resources", "cpu", "requests").value == "9"
