from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.domain.resolution import NOT_USED
from runyard.spec.kubernetes.quantity import Quantity
from tests.unit.domain.worlds import decide, get_leaf, list_refusals, list_warnings, show


def _sides(name: str, asked: Any, **world: Any) -> Any:
    return show(decide({"resources": {name: asked}}, **world), "resources", name)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("8", {"requests": "8"}),
        (8, {"requests": "8"}),
        ("500m", {"requests": "500m"}),
        ("0.5", {"requests": "500m"}),
        ({"requests": "10"}, {"requests": "10"}),
        ({"limits": "12"}, {"requests": "12", "limits": "12"}),
        ({"requests": "10", "limits": "12"}, {"requests": "10", "limits": "12"}),
    ],
)
def test_cpu_has_a_limit_only_when_somebody_sets_one(asked: Any, expected: dict[str, str]) -> None:
    assert _sides("cpu", asked) == expected


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        ("1Gi", "1181116007"),
        ("256Mi", "295279002"),
        ("32Gi", "37795712205"),
        ("10", "11"),
        ("11", "13"),
        ("1", "2"),
        ("1G", "1100M"),
        ({"requests": "256Mi"}, "295279002"),
    ],
)
def test_memorys_limit_is_the_request_times_the_tolerance_when_none_is_asked_for(asked: Any, limit: str) -> None:
    resolution = decide({"resources": {"mem": asked}})

    assert show(resolution, "resources", "mem", "limits") == limit
    assert get_leaf(resolution, "resources", "mem", "limits").rule == "requests × 1.1"


@given(request=st.integers(1, 2**50), tolerance=st.decimals("1", "10", places=3))
def test_memorys_limit_is_exact_and_rounded_up_to_a_byte_when_it_is_derived(request: int, tolerance: Any) -> None:
    resolution = decide({"resources": {"mem": request}}, policy={"platform": {"mem_tolerance": str(tolerance)}})

    limit = resolution.spec.resources["mem"].limits
    assert limit is not None
    assert limit.exact == ceil(request * Fraction(tolerance))


@pytest.mark.parametrize(("tolerance", "limit"), [(1, "1Gi"), (1.5, "1536Mi"), ("2", "2Gi"), (10, "10Gi")])
def test_memorys_limit_follows_the_admins_figure_when_there_is_one(tolerance: Any, limit: str) -> None:
    resolution = decide({"resources": {"mem": "1Gi"}}, policy={"platform": {"mem_tolerance": tolerance}})

    assert show(resolution, "resources", "mem", "limits") == limit
    assert get_leaf(resolution, "resources", "mem", "limits").owner == "policy"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"limits": "64Gi"}, {"requests": "64Gi", "limits": "64Gi"}),
        ({"requests": "32Gi", "limits": "64Gi"}, {"requests": "32Gi", "limits": "64Gi"}),
    ],
)
def test_memory_is_as_written_when_its_limit_is_asked_for(asked: Any, expected: dict[str, str]) -> None:
    assert _sides("mem", asked) == expected


def test_the_request_says_why_when_it_follows_from_a_limit_alone() -> None:
    resolution = decide({"resources": {"cpu": {"limits": 2}}})

    leaf = get_leaf(resolution, "resources", "cpu", "requests")
    assert (leaf.owner, leaf.source, leaf.rule) == ("you", "you", "limits alone: requests = limits")


@pytest.mark.parametrize(
    ("asked", "count"), [("1", 1), (2, 2), ({"limits": "1"}, 1), ({"requests": 1}, 1), ("1k", 1000)]
)
def test_gpus_are_counted_under_the_admins_name_when_they_are_asked_for(asked: Any, count: int) -> None:
    resolution = decide({"resources": {"gpu": asked}}, policy={"platform": {"gpu_resources": ["amd.com/gpu"]}})

    assert (resolution.spec.gpu, resolution.spec.gpu_resource) == (count, "amd.com/gpu")
    assert get_leaf(resolution, "resources", "gpu", "resource").owner == "policy"


def test_gpus_are_nvidias_when_no_admin_says_otherwise() -> None:
    resolution = decide({"resources": {"gpu": 1}})

    assert resolution.spec.gpu_resource == "nvidia.com/gpu"
    assert get_leaf(resolution, "resources", "gpu", "resource").source == "platform default"


def test_there_is_no_gpu_when_none_are_asked_for() -> None:
    resolution = decide({"resources": {"gpu": 0}})

    assert (resolution.spec.gpu, resolution.spec.gpu_resource) == (0, None)
    assert ("lint.no_gpu", "resources.gpu") in list_warnings(resolution)


def test_the_profiles_gpus_are_the_platforms_when_it_uses_one_of_its_names() -> None:
    policy = {"platform": {"gpu_resources": ["nvidia.com/gpu", "amd.com/gpu"]}}

    resolution = decide({"resources": {"gpu": 4}}, profile={"resources": {"limits": {"amd.com/gpu": 2}}}, policy=policy)

    assert (resolution.spec.gpu, resolution.spec.gpu_resource) == (2, "amd.com/gpu")
    assert "amd.com/gpu" not in resolution.spec.resources


def test_a_device_is_no_gpu_when_the_platform_does_not_name_it() -> None:
    resolution = decide({"resources": {"gpu": 1}}, profile={"resources": {"limits": {"example.com/nic": 2}}})

    assert resolution.spec.gpu == 1
    assert show(resolution, "resources", "example.com/nic") == {"requests": "2", "limits": "2"}


def test_a_profile_is_refused_when_it_names_gpus_twice() -> None:
    resolution = decide(profile={"resources": {"gpu": 1, "limits": {"nvidia.com/gpu": 2}}})

    assert list_refusals(resolution) == [("resources.gpus", "resources")]


def test_a_device_has_one_amount_when_layers_say_different_sides() -> None:
    resolution = decide(
        base={"Job": {"resources": {"requests": {"example.com/nic": 1}}}},
        profile={"resources": {"limits": {"example.com/nic": 2}}},
    )

    assert show(resolution, "resources", "example.com/nic") == {"requests": "2", "limits": "2"}


@pytest.mark.parametrize("asked", ["10Gi", {"requests": "10Gi"}, {"limits": "10Gi"}])
def test_disk_is_an_ephemeral_volume_when_policy_does_not_choose(asked: Any) -> None:
    assert _sides("disk", asked) == {"size": "10Gi", "medium": "ephemeral"}


def test_disk_is_an_empty_dir_without_a_class_when_policy_chooses_it() -> None:
    policy = {"platform": {"disk_medium": "empty_dir"}, "volumes.storage_class": {"default": "fast"}}

    assert _sides("disk", "10Gi", policy=policy) == {"size": "10Gi", "medium": "empty_dir"}


@pytest.mark.parametrize(
    ("policy", "storage_class"),
    [
        ({"volumes.storage_class": {"default": "standard"}}, "standard"),
        ({"resources.disk.storage_class": {"default": "fast"}}, "fast"),
        (
            {"resources.disk.storage_class": {"default": "fast"}, "volumes.storage_class": {"default": "standard"}},
            "fast",
        ),
        ({"resources.disk.storage_class": {"default": "fast", "locked": True}}, "fast"),
        ({}, None),
    ],
)
def test_disk_has_the_admins_class_when_there_is_one(policy: dict[str, Any], storage_class: str | None) -> None:
    resolution = decide({"resources": {"disk": "10Gi"}}, policy=policy)

    assert show(resolution, "resources", "disk", "storage_class") == storage_class


@pytest.mark.parametrize(
    ("weaker", "stronger", "expected", "lost"),
    [
        ({"requests": 2, "limits": 4}, {"requests": 3}, {"requests": "3", "limits": "4"}, None),
        ({"requests": 2, "limits": 4}, {"limits": 3}, {"requests": "2", "limits": "3"}, None),
        ({"requests": 2, "limits": 4}, {"requests": 8}, {"requests": "8"}, "limits"),
        ({"requests": 2, "limits": 4}, {"limits": 1}, {"requests": "1", "limits": "1"}, "requests"),
        ({"requests": 2, "limits": 4}, {"requests": 8, "limits": 9}, {"requests": "8", "limits": "9"}, None),
        ("2", {"limits": 1}, {"requests": "1", "limits": "1"}, "requests"),
        ("2", {"limits": 4}, {"requests": "2", "limits": "4"}, None),
        ({"limits": 4}, "8", {"requests": "8"}, "limits"),
        ({"limits": 4}, "2", {"requests": "2", "limits": "4"}, None),
        ("2", "8", {"requests": "8"}, None),
        ({"requests": 4, "limits": 4}, {"requests": 4}, {"requests": "4", "limits": "4"}, None),
    ],
)
@pytest.mark.parametrize("layers", [("function", "task"), ("function", "run"), ("task", "run"), ("run", "profile")])
def test_sides_are_merged_one_by_one_when_two_layers_speak_of_one_resource(
    layers: tuple[str, str], weaker: Any, stronger: Any, expected: dict[str, str], lost: str | None
) -> None:
    world: dict[str, Any] = {
        layer: {"resources": {"cpu": sides}} for layer, sides in zip(layers, (weaker, stronger), strict=True)
    }
    run = world.pop("run", None)

    resolution = decide(run, **world)

    assert show(resolution, "resources", "cpu") == expected
    contradictions = [where for code, where in list_warnings(resolution) if code == "resources.contradiction"]
    assert contradictions == ([] if lost is None else [f"resources.cpu.{lost}"])


def test_each_resource_is_merged_for_itself_when_layers_speak_of_different_ones() -> None:
    resolution = decide(
        {"resources": {"mem": "6Gi"}},
        function={"resources": {"cpu": "2", "mem": "1Gi"}},
        profile={"resources": {"gpu": 1}},
    )

    assert show(resolution, "resources", "cpu") == {"requests": "2"}
    assert show(resolution, "resources", "mem", "requests") == "6Gi"
    assert resolution.spec.gpu == 1


def test_the_tolerance_is_the_profiles_when_its_request_replaces_the_users_sides() -> None:
    resolution = decide(
        {"resources": {"mem": {"requests": "8Gi", "limits": "16Gi"}}}, profile={"resources": {"mem": "64Gi"}}
    )

    assert show(resolution, "resources", "mem") == {"requests": "64Gi", "limits": "75591424410"}
    assert list_warnings(resolution) == [
        ("override", "resources.mem.requests"),
        ("resources.contradiction", "resources.mem.limits"),
    ]


@pytest.mark.parametrize(
    ("asked", "limit"),
    [("64Gi", "64Gi"), ("60Gi", "64Gi"), ("58Gi", "68504728372"), ("10Gi", "11Gi")],
)
def test_the_derived_limit_stops_at_the_policys_max_when_the_request_does_not(asked: str, limit: str) -> None:
    resolution = decide({"resources": {"mem": asked}}, policy={"resources.mem": {"max": "64Gi"}})

    assert resolution.refusals == ()
    assert show(resolution, "resources", "mem", "limits") == limit


@pytest.mark.parametrize("scope", ["resources.mem", "resources.mem.limits"])
def test_the_derived_limit_stops_at_the_smallest_max_when_the_project_has_one(scope: str) -> None:
    policy = {"resources.mem": {"max": "64Gi"}, "projects": {"vision": {scope: {"max": "32Gi"}}}}

    resolution = decide({"resources": {"mem": "31Gi"}}, policy=policy)

    assert resolution.refusals == ()
    assert show(resolution, "resources", "mem", "limits") == "32Gi"
    assert get_leaf(resolution, "resources", "mem", "limits").source == "policy of project vision"


def test_a_request_at_the_limits_max_is_refused_when_it_is_above_it() -> None:
    resolution = decide({"resources": {"mem": "65Gi"}}, policy={"resources.mem": {"max": "64Gi"}})

    assert ("policy.max", "resources.mem.requests") in list_refusals(resolution)


def test_a_request_is_refused_when_only_limits_have_a_max_and_it_is_above_it() -> None:
    """No limit could stand between the two: the derived one stays above the request, and the max refuses it."""
    resolution = decide({"resources": {"mem": "10Gi"}}, policy={"resources.mem.limits": {"max": "8Gi"}})

    assert list_refusals(resolution) == [("policy.max", "resources.mem.limits")]
    assert show(resolution, "resources", "mem") == {"requests": "10Gi", "limits": "11Gi"}


def test_strict_refuses_when_a_layer_contradicts_a_weaker_side() -> None:
    resolution = decide({"resources": {"mem": {"limits": "1Gi"}}}, function={"resources": {"mem": "2Gi"}})

    assert list_warnings(resolution) == [("resources.contradiction", "resources.mem.requests")]
    assert {warning.code for warning in resolution.warnings} <= NOT_USED


def test_nothing_is_limited_when_everything_is_left_blank() -> None:
    assert dict(decide().spec.resources) == {}
    assert decide().spec.disk is None


def test_amounts_are_equal_when_they_are_written_differently() -> None:
    resolution = decide({"resources": {"mem": "1024Mi"}}, profile={"resources": {"requests": {"memory": "1Gi"}}})

    assert list_warnings(resolution) == []
    assert resolution.spec.resources["mem"].requests == Quantity.parse("1Gi")


def test_figures_are_for_people_in_messages_and_exact_in_values_when_a_profile_wins() -> None:
    resolution = decide(
        {"resources": {"mem": "37795712205"}, "timeout": 691200},
        profile={"resources": {"mem": "64Gi"}, "timeout": 100000},
    )

    told = {problem.where: problem for problem in resolution.warnings if problem.code == "override"}
    mem, timeout = told["resources.mem.requests"], told["timeout"]
    assert mem.message == "profile p sets 64Gi; about 35.2Gi (37795712205) from you is ignored"
    assert (mem.value, timeout.value) == ("37795712205", 691200)
    assert timeout.message == "profile p sets about 1.16d (100000s); 8d from you is ignored"


def test_figures_are_for_people_when_the_policy_refuses_a_derived_amount() -> None:
    resolution = decide({"resources": {"mem": "32Gi"}}, policy={"resources.mem.limits": {"max": "31Gi"}})

    told = {problem.where: problem for problem in resolution.refusals}["resources.mem.limits"]
    assert told.message == "about 35.2Gi (37795712205) from platform default is above the policy's max"
    assert (told.value, told.suggestion) == ("37795712205", "31Gi")


@pytest.mark.parametrize(
    ("policy", "allowed", "suggestion"),
    [
        ({"max": "37795712205"}, "at most about 35.2Gi (37795712205)", "37795712205"),
        ({"min": "75591424410"}, "at least about 70.4Gi (75591424410)", "75591424410"),
        ({"options": ["1Gi", "37795712205"]}, "1Gi, about 35.2Gi (37795712205)", None),
    ],
)
def test_bounds_are_for_people_and_proposals_exact_when_the_policy_refuses(
    policy: dict[str, Any], allowed: str, suggestion: str | None
) -> None:
    resolution = decide({"resources": {"mem": "64Gi"}}, policy={"resources.mem.requests": policy})

    told = {problem.where: problem for problem in resolution.refusals}["resources.mem.requests"]
    assert (told.allowed, told.suggestion) == (allowed, suggestion)


def test_bounds_are_for_people_when_memory_would_be_unbounded() -> None:
    resolution = decide({}, policy={"resources.mem": {"max": "37795712205"}})
    told = {problem.where: problem for problem in resolution.refusals}["resources.mem"]
    assert told.allowed == "at most about 35.2Gi (37795712205)"
