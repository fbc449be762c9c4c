"""How the gateway finds the pods of a host."""

from typing import Any

import msgspec
import pytest

from runyard.kube.resources import ENDPOINT_SLICES
from runyard.kube.store import Store, WritableStore
from runyard.kube.views import build_lens
from runyard.node.gateway.route_views import (
    SERVICE_INDEX,
    RouteView,
    SliceView,
    Target,
    find_targets,
    index_host,
    index_service,
)

UID = "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76"


def route(**annotations: str) -> RouteView:
    given = {"k8s.gpu/host": f"{UID}-t.example.org", "k8s.gpu/port": "80", **annotations}
    return msgspec.convert(
        {
            "metadata": {
                "name": "r",
                "namespace": "p",
                "labels": {"k8s.gpu/service-uid": UID},
                "annotations": given,
            },
            "spec": {"ports": [{"name": "metrics", "port": 9090}, {"name": "http", "port": 80}]},
        },
        RouteView,
    )


def slices(*endpoints: dict[str, Any], service: str = "r") -> Store[SliceView]:
    store: WritableStore[SliceView] = WritableStore(
        build_lens(SliceView, resource=ENDPOINT_SLICES), indexes={SERVICE_INDEX: index_service}
    )
    store.upsert(
        msgspec.convert(
            {
                "metadata": {
                    "name": "r-1",
                    "namespace": "p",
                    "labels": {"kubernetes.io/service-name": service},
                },
                "ports": [{"name": "metrics", "port": 9999}, {"name": "http", "port": 8080}],
                "endpoints": list(endpoints),
            },
            SliceView,
        )
    )
    return store


def test_targets_are_the_ready_pods_when_some_are_not() -> None:
    found = find_targets(
        route(),
        slices(
            {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
            {"addresses": ["fd00::3"]},
            {"addresses": []},
        ),
    )
    assert found == [Target("10.0.0.1", 8080), Target("fd00::3", 8080)]
    assert [target.authority for target in found] == ["10.0.0.1:8080", "[fd00::3]:8080"]


def test_no_target_is_found_when_port_or_service_is_another() -> None:
    pod = {"addresses": ["10.0.0.1"]}
    assert find_targets(route(**{"k8s.gpu/port": "81"}), slices(pod)) == []
    assert find_targets(route(), slices(pod, service="other")) == []


@pytest.mark.parametrize("host", ["", "www.example.org", "0" + UID + "-t.example.org"])
def test_host_is_not_served_when_it_is_not_of_the_labelled_service(host: str) -> None:
    assert list(index_host(route(**{"k8s.gpu/host": host}))) == []
    assert list(index_host(route())) == [f"{UID}-t.example.org"]
