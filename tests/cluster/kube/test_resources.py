"""The resource constants against a real server's discovery, metrics of real pods, and what RBAC allows."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runyard.kube import resources
from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.errors import Forbidden, NotServed, Unavailable
from runyard.kube.permissions import Access, find_missing, list_rules, review_access
from runyard.kube.resources import (
    CONFIG_MAPS,
    JOBS,
    NODE_METRICS,
    NODES,
    POD_METRICS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from testbed.cluster import Cluster
from testbed.pytest_plugin import kubernetes_version
from testbed.site import Options
from tests.cluster.kube.conditions import wait_until
from tests.cluster.kube.identities import config_of, create_account
from tests.cluster.testbed.manifests import pod

CONSTANTS = {name: value for name, value in vars(resources).items() if isinstance(value, Resource)}


# What a cluster has only if somebody adds or switches it on.
OPTIONAL_GROUPS = ("gateway.networking.k8s.io", "metrics.k8s.io")


def is_optional(name: str, resource: Resource) -> bool:
    is_too_new = name.startswith("MUTATING_ADMISSION_") and kubernetes_version() < "1.36"
    return resource.group in OPTIONAL_GROUPS or name.endswith("_V1BETA1") or is_too_new


async def discover(client: Client, resource: Resource) -> dict[str, Any]:
    """What the server says of a resource type."""
    path = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    answer = msgspec.json.decode(await client.transport.request("GET", path))
    return next(each for each in answer["resources"] if each["name"] == resource.plural)


async def test_constants_are_the_server_s_when_it_is_asked(client: Client) -> None:
    for name, resource in CONSTANTS.items():
        if is_optional(name, resource):
            continue
        found = await discover(client, resource)
        assert (found["kind"], found["namespaced"]) == (resource.kind, resource.namespaced), name
        if "list" in found["verbs"]:
            await client.list(resource, page_size=1)


async def test_metrics_are_not_there_when_the_cluster_has_no_metrics_server(client: Client, namespace: str) -> None:
    with pytest.raises((NotServed, Unavailable)):
        await client.list(POD_METRICS, namespace=namespace, deadline_seconds=2)


@pytest.fixture
def metrics_cluster(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with a metrics server."""
    options = Options(kubernetes=cluster.site.options.kubernetes, dns=False, storage=False, metrics=True)
    own = Cluster.up(f"metrics-{os.getpid()}", options, outlives_us=False)
    yield own
    own.down()


async def test_usage_is_known_when_the_cluster_has_a_metrics_server(metrics_cluster: Cluster) -> None:
    async with Client.connect(load_kubeconfig(metrics_cluster.kubeconfig)) as client:
        await client.create(PODS, pod("p", "sleep 600"), namespace="default")

        async def has_metrics() -> bool:
            try:
                return bool((await client.list(POD_METRICS, namespace="default")).items)
            except (NotServed, Unavailable):
                return False  # Not ready yet.

        await wait_until(has_metrics, seconds=150)
        [usage] = (await client.list(POD_METRICS, namespace="default")).items
        assert (usage["kind"], usage["metadata"]["name"]) == ("PodMetrics", "p")
        assert {"cpu", "memory"} <= usage["containers"][0]["usage"].keys()
        assert [await discover(client, each) is not None for each in (POD_METRICS, NODE_METRICS)] == [True, True]
        assert (await client.list(NODE_METRICS)).items[0]["kind"] == "NodeMetrics"


async def test_missing_rights_are_named_when_an_account_has_a_small_role(
    cluster: Cluster, client: Client, namespace: str, tmp_path: Path
) -> None:
    token = await create_account(client, "small", namespace=namespace)
    granted = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}
    await client.create(ROLES, {"metadata": {"name": "r"}, "rules": [granted]}, namespace=namespace)
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "small", "namespace": namespace}],
    }
    await client.create(ROLE_BINDINGS, binding, namespace=namespace)
    allowed = [
        Access("get", PODS, namespace),
        Access("list", PODS, namespace),
        Access("get", PODS, namespace, subresource="log"),
    ]
    denied = [
        Access("list", PODS),
        Access("delete", PODS, namespace),
        Access("get", PODS, "default"),
        Access("create", JOBS, namespace),
        Access("get", CONFIG_MAPS, namespace),
        Access("list", NODES),
    ]
    async with Client.connect(config_of(cluster, {"token": token}, folder=tmp_path)) as small:

        async def is_known() -> bool:
            return (await review_access(small, allowed[:1]))[allowed[0]].is_allowed

        await wait_until(is_known)
        assert await find_missing(small, [*allowed, *denied]) == denied
        rules = await list_rules(small, namespace=namespace)
        here = [access for access in [*allowed, *denied] if access.namespace == namespace]
        assert [access for access in here if not rules.allow(access)] == [
            access for access in denied if access.namespace == namespace
        ]
        with pytest.raises(Forbidden):
            await small.list(NODES)
    assert await find_missing(client, denied) == []
