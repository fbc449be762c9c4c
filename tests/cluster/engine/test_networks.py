"""Which connections the NetworkPolicies of projects let through, with real pods and addresses of the cluster.

The objects are read back from the apiserver, and judged by `network_policies.py`, which knows only the API's words. The
network plugin of the testbed enforces no NetworkPolicy: that packets are dropped is not tested anywhere.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from runyard.domain.outcomes import Seen
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes.kubernetes_engine import KubernetesEngine
from runyard.engines.kubernetes.kubernetes_settings import ProjectLimits
from runyard.engines.kubernetes.projects import Projects
from runyard.kube import Client, Resource
from runyard.kube.resources import NAMESPACES, NETWORK_POLICIES, PODS
from runyard.manifests.metadata import INSTALLATION_LABEL
from testbed.cluster import Cluster
from tests.cluster.engine.network_policies import Endpoint, Policy, Protocol, passes
from tests.contract.engine.kubernetes_lab import IMAGE, KubernetesLab, open_kubernetes_lab
from tests.contract.engine.lab import assign, begin_and_see, eventually

ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True)
SERVER_PORT = 8080
ADDED_NETWORK = "10.20.0.0/16"


@dataclass(frozen=True, slots=True)
class World:
    """The policies of two projects, and what is in the cluster."""

    policies: list[Policy]
    own: Endpoint
    neighbour: Endpoint
    """Of the same project."""
    other: Endpoint
    """Of another project."""
    stranger: Endpoint
    """In a namespace that is not of Runyard."""
    server_pod: Endpoint
    impostor: Endpoint
    """In a namespace that is not the server's, with the label of the server's pods."""
    server: Endpoint
    """The server's `--endpoint`, outside the cluster."""
    dns: Endpoint
    """What the Service of the cluster's DNS leads to."""
    dns_port: int
    node: Endpoint

    def lets(self, source: Endpoint, target: Endpoint, port: int, protocol: Protocol = "TCP") -> bool:
        """Whether a connection passes, in either reading of `ipBlock`; fails if the readings differ."""
        readings = {
            passes(self.policies, source, target, port=port, protocol=protocol, is_block_for_pods=is_block_for_pods)
            for is_block_for_pods in (True, False)
        }
        assert len(readings) == 1, (source, target, port)
        return readings.pop()


@pytest.fixture
def other_namespace(cluster: Cluster, namespace: str) -> Iterator[str]:
    name = f"{namespace}-other"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
async def world(cluster: Cluster, namespace: str, other_namespace: str) -> AsyncIterator[World]:
    async with open_kubernetes_lab(cluster) as lab:
        own, neighbour, other = [await start(lab, project) for project in (lab.project, lab.project, lab.other_project)]
        stranger = await create_pod(lab, "stranger", namespace, {})
        server_pod = await create_pod(lab, "server", namespace, {"runyard.io/server": "true"})
        impostor = await create_pod(lab, "impostor", other_namespace, {"runyard.io/server": "true"})
        host = cluster.site.addresses.host_ip
        limits = ProjectLimits(reachable_networks=(ADDED_NETWORK,), server_namespace=namespace)
        settings = replace(lab.make_settings(), endpoint=f"http://{host}:{SERVER_PORT}", project_limits=limits)
        assert isinstance(lab.engine, KubernetesEngine)
        for project in (lab.project, lab.other_project):
            await Projects(lab.engine._client, settings).ensure_project(project, AdminRules())
        selector = f"{INSTALLATION_LABEL}={lab.installation}"
        dns, dns_port = await find_dns(lab.client)
        yield World(
            policies=[*(await lab.client.list(NETWORK_POLICIES, label_selector=selector)).items],
            own=own,
            neighbour=neighbour,
            other=other,
            stranger=stranger,
            server_pod=server_pod,
            impostor=impostor,
            server=Endpoint(address=host),
            dns=dns,
            dns_port=dns_port,
            node=Endpoint(address=cluster.node_ip),
        )


async def start(lab: KubernetesLab, project: str) -> Endpoint:
    """The pod of a run."""
    run = assign(lab, project=project)
    await begin_and_see(lab, run, Seen.RUNNING)
    return await describe(lab, (await lab._get_pod(run))["metadata"]["name"], lab.get_namespace(project))


async def create_pod(lab: KubernetesLab, name: str, namespace: str, labels: dict[str, str]) -> Endpoint:
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "3600"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    await lab.client.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, namespace=namespace)
    return await describe(lab, name, namespace)


async def describe(lab: KubernetesLab, name: str, namespace: str) -> Endpoint:
    """A pod, once it has an address."""

    async def read() -> dict[str, Any]:
        return await lab.client.get(PODS, name, namespace=namespace)

    pod = await eventually(lab, read, lambda found: "podIP" in found["status"])
    about = await lab.client.get(NAMESPACES, namespace)
    return Endpoint(
        address=pod["status"]["podIP"],
        namespace=namespace,
        labels=pod["metadata"].get("labels") or {},
        namespace_labels=about["metadata"]["labels"],
    )


async def find_dns(client: Client) -> tuple[Endpoint, int]:
    """The address and port to which the Service kube-dns leads: rules count behind a Service."""
    selector = "kubernetes.io/service-name=kube-dns"
    (found,) = (await client.list(ENDPOINT_SLICES, namespace="kube-system", label_selector=selector)).items
    (port,) = {one["port"] for one in found["ports"]}
    return Endpoint(address=found["endpoints"][0]["addresses"][0]), port


async def test_dns_server_own_pods_and_public_addresses_are_reached_and_nothing_else_when_policies_are_enforced(
    world: World,
) -> None:
    assert len(world.policies) == 2
    for protocol in ("UDP", "TCP"):
        assert world.lets(world.own, world.dns, world.dns_port, protocol)
        in_pod = replace(world.stranger, labels={"k8s-app": "kube-dns"})
        assert world.lets(world.own, in_pod, 53, protocol)
    reached = [
        (world.server, SERVER_PORT),
        (world.server_pod, SERVER_PORT),
        (world.neighbour, 80),
        (Endpoint(address="203.0.113.9"), 443),
        (Endpoint(address="2606:4700:4700::1111"), 443),
        (Endpoint(address="10.20.3.4"), 9000),
    ]
    assert [target for target, port in reached if not world.lets(world.own, target, port)] == []
    kept_out = [
        (world.server, 22),
        (world.other, 80),
        (world.stranger, 80),
        (world.impostor, SERVER_PORT),
        (world.node, 10250),
        (world.node, 6443),
        (Endpoint(address="169.254.169.254"), 80),
        (Endpoint(address="fd00:ec2::254"), 80),
        (Endpoint(address="10.21.0.1"), 443),
        (Endpoint(address="192.168.1.1"), 443),
    ]
    assert [target for target, port in kept_out if world.lets(world.own, target, port)] == []


async def test_pods_are_reached_from_their_project_and_the_server_only_when_policies_are_enforced(world: World) -> None:
    let_in = [world.neighbour, world.server_pod]
    assert [source for source in let_in if not world.lets(source, world.own, 8080)] == []
    kept_out = [world.other, world.stranger, world.impostor, world.node, Endpoint(address="203.0.113.9")]
    assert [source for source in kept_out if world.lets(source, world.own, 8080)] == []
    # What is not of Runyard is left as it is.
    assert world.lets(world.stranger, world.server_pod, 80)


def make_policy(**spec: Any) -> Policy:
    return {"metadata": {"namespace": "a"}, "spec": spec}


POD = Endpoint(address="10.0.0.1", namespace="a", labels={"app": "web"}, namespace_labels={"team": "a"})
FAR = Endpoint(address="10.0.0.2", namespace="b", labels={"app": "db"}, namespace_labels={"team": "b"})
OUTSIDE = Endpoint(address="203.0.113.9")


@pytest.mark.parametrize(
    ("spec", "source", "target", "is_let"),
    [
        ({"podSelector": {}}, FAR, POD, False),
        ({"podSelector": {}}, POD, FAR, True),
        ({"podSelector": {"matchLabels": {"app": "db"}}}, FAR, POD, True),
        ({"ingress": [{}]}, OUTSIDE, POD, True),
        ({"ingress": [{"from": [{"podSelector": {}}]}]}, FAR, POD, False),
        ({"ingress": [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]}, FAR, POD, True),
        ({"ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"team": "b"}}}]}]}, FAR, POD, True),
        ({"ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"team": "c"}}}]}]}, FAR, POD, False),
        ({"ingress": [{"ports": [{"port": 79, "endPort": 81}]}]}, FAR, POD, True),
        ({"ingress": [{"ports": [{"port": 80, "protocol": "UDP"}]}]}, FAR, POD, False),
        ({"policyTypes": ["Egress"]}, FAR, POD, True),
        ({"policyTypes": ["Egress"]}, POD, FAR, False),
        ({"egress": [{"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}]}]}, POD, OUTSIDE, True),
        (
            {"egress": [{"to": [{"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.9/32"]}}]}]},
            POD,
            OUTSIDE,
            False,
        ),
        ({"egress": [{"to": [{"podSelector": {}, "namespaceSelector": {}}]}]}, POD, OUTSIDE, False),
    ],
)
def test_judge_says_what_the_api_says_when_a_policy_has_one_rule(
    spec: dict[str, Any], source: Endpoint, target: Endpoint, *, is_let: bool
) -> None:
    assert passes([make_policy(**spec)], source, target, port=80) is is_let
