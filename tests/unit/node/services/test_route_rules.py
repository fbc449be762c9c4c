"""Which route a Service asks for, and every reason why it gets none."""

from typing import Any

import pytest

from runyard.node.hosts import Hosts
from runyard.node.providers.provider import Route
from runyard.node.services.route_rules import Refusal, plan_route

UID = "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76"
HOSTS = Hosts("skg00000", "cloud.provider.tld")


def service(**spec: Any) -> dict[str, Any]:
    """The Service of the guide, as an apiserver returns it."""
    return {
        "metadata": {"name": "inference", "namespace": "default", "uid": UID},
        "spec": {
            "type": "LoadBalancer",
            "loadBalancerClass": "k8s.gpu",
            "selector": {"run": "inference"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 31466}],
            **spec,
        },
    }


def test_route_has_host_selector_and_ports_when_the_service_is_the_guides() -> None:
    assert plan_route(service(), HOSTS) == Route(
        uid=UID,
        namespace="default",
        name="inference",
        host=f"{UID}-skg00000.cloud.provider.tld",
        selector={"run": "inference"},
        ports=[{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
    )


def test_protocol_of_the_application_reaches_the_provider_when_a_port_states_one() -> None:
    port = {"name": "grpc", "port": 80, "protocol": "TCP", "targetPort": 8001, "appProtocol": "kubernetes.io/h2c"}
    route = plan_route(service(ports=[{**port, "nodePort": 31466}]), HOSTS)
    assert isinstance(route, Route)
    assert route.ports == [port]


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"selector": None}, "NoSelector", "spec.selector is empty"),
        ({"ports": []}, "NoPorts", "spec.ports is empty"),
        (
            {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]},
            "UnsupportedProtocol",
            "spec.ports[1].protocol is UDP",
        ),
        ({"selector": {"k8s.gpu/namespace": "other"}}, "ReservedLabel", "names k8s.gpu/namespace"),
        ({"loadBalancerSourceRanges": ["10.0.0.0/8"]}, "SourceRangesNotEnforced", "would not enforce it"),
        ({"ports": [{"port": n} for n in range(1, 102)]}, "TooLarge", "101 ports; allowed: 100 and 100"),
    ],
)
def test_service_is_refused_in_words_when_it_breaks_a_rule(spec: dict[str, Any], reason: str, words: str) -> None:
    refusal = plan_route(service(**spec), HOSTS)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason
    assert words in refusal.message


def test_service_is_refused_when_no_tenant_is_configured() -> None:
    refusal = plan_route(service(), None)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "RoutesNotConfigured"
