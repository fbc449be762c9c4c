import pytest

from runyard.domain.project_policy import ProjectPolicy
from runyard.spec.policy import read_policy
from tests.unit.domain.worlds import decide, show


@pytest.mark.parametrize(
    ("platform", "project", "owner"), [("8", "4", "policy of project vision"), ("4", "8", "policy")]
)
def test_smallest_cap_counts_when_several_scopes_set_one(platform: str, project: str, owner: str) -> None:
    rules = {"resources.cpu.limits": {"max": platform}}
    policy = read_policy({**rules, "projects": {"vision": {"resources.cpu.limits": {"max": project}}}})
    cap = ProjectPolicy(policy, "vision").max_for("resources.cpu.limits")
    assert cap is not None
    assert (str(cap[0]), cap[1].name) == ("4", owner)


def test_smallest_cap_counts_when_several_fields_are_asked() -> None:
    policy = ProjectPolicy(read_policy({"resources.mem": {"max": "4Gi"}, "resources.mem.limits": {"max": "8Gi"}}), "p")
    for names in (("resources.mem", "resources.mem.limits"), ("resources.mem.limits", "resources.mem")):
        cap = policy.max_for(*names)
        assert cap is not None
        assert str(cap[0]) == "4Gi"


def test_no_cap_is_found_when_no_rule_has_a_max() -> None:
    assert ProjectPolicy(read_policy({"timeout": {"default": "1h"}}), "p").max_for("timeout") is None


@pytest.mark.parametrize(("cap", "grace"), [("10s", 10), ("29s", 29), ("30s", None), ("60s", None)])
def test_blank_grace_period_is_filled_when_the_cap_is_below_that_of_kubernetes(cap: str, grace: int | None) -> None:
    assert show(decide(policy={"grace_period": {"max": cap}}), "grace_period") == grace


@pytest.mark.parametrize("name", ["timeout", "pending_timeout", "ttl"])
def test_blank_is_filled_by_the_cap_when_a_blank_has_no_bound(name: str) -> None:
    assert show(decide(policy={name: {"max": "1h"}}), name) == 3600


def test_platforms_gpus_stay_gpus_when_a_project_names_others() -> None:
    """Otherwise a project's list would free what the platform calls a GPU from the rules about GPUs."""
    platform = {"gpu_resources": ["nvidia.com/gpu", "amd.com/gpu"]}
    policy = read_policy(
        {"platform": platform, "projects": {"vision": {"platform": {"gpu_resources": ["intel.com/gpu"]}}}}
    )
    assert ProjectPolicy(policy, "vision").gpu_resources == ("intel.com/gpu", "nvidia.com/gpu", "amd.com/gpu")
    assert ProjectPolicy(policy, "other").gpu_resources == ("nvidia.com/gpu", "amd.com/gpu")
    assert ProjectPolicy(read_policy({}), "other").gpu_resources == ("nvidia.com/gpu",)
