"""A blank that Kubernetes takes for «without bound» does not slip under a policy's max."""

from typing import Any

import pytest

from runyard.domain.resolution import Resolution, resolve
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.spec.policy import read_policy
from runyard.spec.profile import Profile
from runyard.spec.run_fields import read_admin_fields, read_run_fields


def decide(run: dict[str, Any], *, policy: dict[str, Any], profile: dict[str, Any] | None = None) -> Resolution:
    profiles = {} if profile is None else {"default": Profile(id="default", fields=read_admin_fields(profile))}
    request = Request(project="vision", action="job", run=read_run_fields({"image": "busybox:1.36", **run}))
    return resolve(request, AdminRules(policy=read_policy(policy), profiles=profiles), ProjectInventory())


def list_codes(resolution: Resolution) -> list[str]:
    return [problem.code for problem in resolution.refusals]


def test_a_run_is_refused_when_memory_is_capped_and_it_asks_for_none() -> None:
    assert list_codes(decide({}, policy={"resources.mem": {"max": "1Gi"}})) == ["policy.unbounded"]
    assert list_codes(decide({}, policy={"resources.mem": {"max": "1Gi", "default": "256Mi"}})) == []
    assert list_codes(decide({"resources": {"mem": "1Gi"}}, policy={"resources.mem": {"max": "1Gi"}})) == []


@pytest.mark.parametrize("name", ["timeout", "pending_timeout", "ttl"])
def test_a_blank_is_the_most_allowed_when_a_time_is_capped(name: str) -> None:
    resolution = decide({}, policy={name: {"max": "1h"}})
    (leaf,) = [leaf for leaf in resolution.leaves if leaf.path == (name,)]
    assert (leaf.value, leaf.owner) == (3600, "policy")


def test_an_empty_dir_has_the_largest_size_allowed_when_it_says_none() -> None:
    volume = {"volume_type": "empty_dir", "name": "shm", "mount_path": "/dev/shm"}
    resolution = decide({"volumes": [volume]}, policy={"volumes.size_limit": {"max": "1Gi"}})
    assert str(resolution.spec.volumes[0].size) == "1Gi"


def test_the_clusters_own_priorities_are_denied_when_no_policy_names_them() -> None:
    run = {"priority_class": "system-node-critical"}
    assert list_codes(decide(run, policy={})) == ["denied.priority_class"]
    assert list_codes(decide(run, policy={"priority_class": {"options": ["system-node-critical"]}})) == []


def test_a_mount_is_refused_when_it_would_hide_what_a_profile_mounts() -> None:
    profile = {"volumes": [{"volume_type": "empty_dir", "name": "lic", "mount_path": "/opt/lic"}]}
    inside = {"volumes": [{"volume_type": "empty_dir", "name": "mine", "mount_path": "/opt/lic/key"}]}
    beside = {"volumes": [{"volume_type": "empty_dir", "name": "mine", "mount_path": "/opt/licence"}]}
    assert list_codes(decide(inside, policy={}, profile=profile)) == ["mount_path.inside"]
    assert list_codes(decide(beside, policy={}, profile=profile)) == []


def test_nothing_is_told_to_be_unused_when_profile_and_user_name_the_same_volume() -> None:
    volume = {"volume_type": "persistent_volume_claim", "name": "v", "mount_path": "/v", "spec": {"size": "1Gi"}}
    assert decide({"volumes": [volume]}, policy={}, profile={"volumes": [volume]}).warnings == ()


def test_a_project_only_tightens_when_it_sets_the_tolerance() -> None:
    policy = {"platform": {"mem_tolerance": 1.1}, "projects": {"vision": {"platform": {"mem_tolerance": 10}}}}
    assert str(decide({"resources": {"mem": "1G"}}, policy=policy).spec.resources["mem"].limits) == "1100M"


def test_cpu_has_the_limit_and_a_small_request_when_only_its_limit_is_capped() -> None:
    sides = decide({}, policy={"resources.cpu.limits": {"max": 64}}).spec.resources["cpu"]
    assert (str(sides.requests), str(sides.limits)) == ("100m", "64")


def test_a_run_is_refused_when_its_request_is_above_the_limits_max() -> None:
    resolution = decide({"resources": {"cpu": 16}}, policy={"resources.cpu.limits": {"max": 8}})
    assert list_codes(resolution) == ["policy.max"]


def test_an_affinity_is_no_node_selector_when_one_is_required() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert list_codes(decide({"affinity": affinity}, policy={"node_selector": {"required": True}})) == [
        "policy.required"
    ]
