"""Projects in a cluster: their namespaces and rules are ours, and a stranger's are never touched."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from runyard.app.engine import EngineRefusal, EngineUnavailable
from runyard.domain.reasons import Reason
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes import projects as projects_module
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings, ProjectLimits
from runyard.engines.kubernetes.projects import Projects
from runyard.kube import Client, NotFound, Object
from runyard.kube.resources import (
    CONFIG_MAPS,
    LIMIT_RANGES,
    NAMESPACES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from runyard.spec.policy import read_policy
from tests.cluster.kube.conditions import wait_until

SETTINGS = KubernetesSettings(installation="i1", endpoint="http://192.0.2.7:8080")
RULES = AdminRules()


async def find(client: Client, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
    try:
        return await client.get(resource, name, namespace=namespace)
    except NotFound:
        return None


async def remove(projects: Projects, project: str) -> None:
    async with asyncio.timeout(90):
        while not await projects.remove_project(project):  # noqa: ASYNC110 - the cluster does it
            await asyncio.sleep(0.2)


async def test_namespace_has_labels_and_rules_when_the_project_is_prepared_many_times_at_once(
    plane_client: Client,
) -> None:
    prepared = [Projects(plane_client, SETTINGS) for _ in range(2)]
    await asyncio.gather(*(one.ensure_project("demo", RULES) for one in prepared * 2))
    found = await plane_client.get(NAMESPACES, "runyard-demo")
    assert {
        "runyard.io/installation": "i1",
        "runyard.io/project": "demo",
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
        "pod-security.kubernetes.io/audit": "restricted",
    }.items() <= found["metadata"]["labels"].items()
    policy = await plane_client.get(NETWORK_POLICIES, "runyard-project", namespace="runyard-demo")
    assert {"to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}], "ports": [{"protocol": "TCP", "port": 8080}]} in policy[
        "spec"
    ]["egress"]
    assert policy["spec"]["egress"][0]["ports"] == [{"protocol": name, "port": 53} for name in ("UDP", "TCP")]
    binding = await plane_client.get(ROLE_BINDINGS, "runyard-project", namespace="runyard-demo")
    assert binding["roleRef"]["name"] == "runyard-project"
    assert await find(plane_client, RESOURCE_QUOTAS, "runyard-project", "runyard-demo") is None


async def test_level_follows_when_the_policy_relaxes_pod_security(plane_client: Client) -> None:
    projects = Projects(plane_client, SETTINGS)
    await projects.ensure_project("relaxed", RULES)
    policy = read_policy({"platform": {"pod_security": "baseline"}})
    await projects.ensure_project("relaxed", AdminRules(policy=policy))
    labels = (await plane_client.get(NAMESPACES, "runyard-relaxed"))["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"runyard.io/installation": "i2", "runyard.io/project": "taken", "app.kubernetes.io/managed-by": "runyard"},
        {"runyard.io/installation": "i1", "runyard.io/project": "other", "app.kubernetes.io/managed-by": "runyard"},
    ],
    ids=["a stranger's", "another installation's", "another project's"],
)
async def test_namespace_of_others_is_refused_and_untouched_when_it_has_the_name(
    plane_client: Client, labels: dict[str, str], request: pytest.FixtureRequest
) -> None:
    project = f"taken{abs(hash(request.node.name)) % 10**6}"
    name = f"runyard-{project}"
    before = await plane_client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    projects = Projects(plane_client, SETTINGS)
    with pytest.raises(EngineRefusal) as refusal:
        await projects.ensure_project(project, RULES)
    assert refusal.value.code == Reason.NAMESPACE_TAKEN
    assert await projects.remove_project(project)
    after = await plane_client.get(NAMESPACES, name)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "deletionTimestamp" not in after["metadata"]
    assert after["metadata"]["labels"] == {**labels, "kubernetes.io/metadata.name": name}
    assert await find(plane_client, NETWORK_POLICIES, "runyard-project", name) is None


async def test_binding_of_others_is_refused_when_it_has_the_name(plane_client: Client) -> None:
    stranger = {"metadata": {"name": "runyard-bound.pods"}, "spec": {"policyName": "x", "validationActions": ["Audit"]}}
    await plane_client.create(VALIDATING_ADMISSION_POLICY_BINDINGS, stranger)
    with pytest.raises(EngineRefusal) as refusal:
        await Projects(plane_client, SETTINGS).ensure_project("bound", RULES)
    assert refusal.value.code == Reason.NAMESPACE_TAKEN
    after = await plane_client.get(VALIDATING_ADMISSION_POLICY_BINDINGS, "runyard-bound.pods")
    assert after["spec"]["policyName"] == "x"


async def test_quota_and_defaults_exist_as_long_as_they_are_asked_for(plane_client: Client) -> None:
    limits = ProjectLimits(
        quota={"requests.cpu": "4", "count/jobs.batch": "100"},
        default_requests={"cpu": "100m"},
        default_limits={"memory": "1Gi"},
    )
    await Projects(plane_client, replace(SETTINGS, project_limits=limits)).ensure_project("limited", RULES)
    quota = await plane_client.get(RESOURCE_QUOTAS, "runyard-project", namespace="runyard-limited")
    assert quota["spec"]["hard"] == {"requests.cpu": "4", "count/jobs.batch": "100"}
    ranged = await plane_client.get(LIMIT_RANGES, "runyard-project", namespace="runyard-limited")
    [limit] = ranged["spec"]["limits"]
    assert (limit["default"], limit["defaultRequest"]["cpu"]) == ({"memory": "1Gi"}, "100m")
    await Projects(plane_client, SETTINGS).ensure_project("limited", RULES)
    assert await find(plane_client, RESOURCE_QUOTAS, "runyard-project", "runyard-limited") is None
    assert await find(plane_client, LIMIT_RANGES, "runyard-project", "runyard-limited") is None


async def test_own_network_policy_goes_and_others_stay_when_all_networks_may_be_reached(plane_client: Client) -> None:
    open_to_all = replace(SETTINGS, project_limits=ProjectLimits(is_network_isolated=False))
    await Projects(plane_client, SETTINGS).ensure_project("opened", RULES)
    assert await find(plane_client, NETWORK_POLICIES, "runyard-project", "runyard-opened") is not None
    other = {"metadata": {"name": "other"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
    await plane_client.create(NETWORK_POLICIES, other, namespace="runyard-opened")
    await Projects(plane_client, open_to_all).ensure_project("opened", RULES)
    left = await plane_client.list(NETWORK_POLICIES, namespace="runyard-opened")
    assert [policy["metadata"]["name"] for policy in left.items] == ["other"]

    stranger = {**other, "metadata": {"name": "runyard-project", "labels": {"runyard.io/installation": "i2"}}}
    await plane_client.create(NETWORK_POLICIES, stranger, namespace="runyard-opened")
    await Projects(plane_client, open_to_all).ensure_project("opened", RULES)
    assert await find(plane_client, NETWORK_POLICIES, "runyard-project", "runyard-opened") is not None


async def test_namespace_and_wall_are_gone_when_the_project_is_removed(plane_client: Client) -> None:
    projects = Projects(plane_client, SETTINGS)
    await projects.ensure_project("brief", RULES)
    assert await find(plane_client, VALIDATING_ADMISSION_POLICY_BINDINGS, "runyard-brief.pods") is not None
    await remove(projects, "brief")
    assert await find(plane_client, NAMESPACES, "runyard-brief") is None
    assert await find(plane_client, VALIDATING_ADMISSION_POLICY_BINDINGS, "runyard-brief.pods") is None
    assert await projects.remove_project("brief")


async def test_namespace_stays_when_it_holds_a_claim_that_nobody_knows(plane_client: Client) -> None:
    projects = Projects(plane_client, SETTINGS)
    await projects.ensure_project("precious", RULES)
    claim: dict[str, Any] = {
        "metadata": {"name": "thesis"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
            "storageClassName": "x",
        },
    }
    await plane_client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace="runyard-precious")
    with pytest.raises(EngineUnavailable, match="holds claims that no run owns and no volume knows: thesis") as waiting:
        await projects.remove_project("precious")
    assert waiting.value.code == Reason.PROJECT_REMOVING
    await plane_client.delete(PERSISTENT_VOLUME_CLAIMS, "thesis", namespace="runyard-precious")
    await wait_until(lambda: _is_gone(plane_client, "thesis"))
    await remove(projects, "precious")


async def _is_gone(client: Client, claim: str) -> bool:
    return await find(client, PERSISTENT_VOLUME_CLAIMS, claim, "runyard-precious") is None


async def test_message_names_what_is_left_when_the_deletion_of_a_namespace_is_stuck(
    plane_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = Projects(plane_client, SETTINGS)
    await projects.ensure_project("stuck", RULES)
    held = {"metadata": {"name": "held", "finalizers": ["example.com/stay"]}}
    await plane_client.create(CONFIG_MAPS, held, namespace="runyard-stuck")
    assert not await projects.remove_project("stuck")
    monkeypatch.setattr(projects_module, "STUCK_SECONDS", -1)

    async def is_told() -> bool:
        try:
            return await projects.remove_project("stuck")
        except EngineUnavailable as waiting:
            return "example.com/stay in 1 resource instances" in str(waiting)

    await wait_until(is_told)
    with pytest.raises(EngineUnavailable) as missing:
        await projects.ensure_project("stuck", RULES)
    assert missing.value.code == Reason.NAMESPACE_MISSING
    patch = {"metadata": {"finalizers": None}}
    await plane_client.patch(CONFIG_MAPS, "held", patch, namespace="runyard-stuck")
    monkeypatch.undo()
    await remove(projects, "stuck")


async def test_shared_namespace_is_neither_changed_nor_removed_when_projects_come_and_go(plane_client: Client) -> None:
    projects = Projects(plane_client, replace(SETTINGS, namespace="team"))
    with pytest.raises(EngineUnavailable, match="namespace team does not exist: create it") as missing:
        await projects.ensure_project("demo", RULES)
    assert missing.value.code == Reason.NAMESPACE_MISSING
    before = await plane_client.create(NAMESPACES, {"metadata": {"name": "team"}})
    await projects.ensure_project("demo", RULES)
    assert await projects.remove_project("demo")
    after = await plane_client.get(NAMESPACES, "team")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
