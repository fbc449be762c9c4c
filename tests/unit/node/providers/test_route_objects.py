"""The objects of a route at a Kubernetes provider."""

import pytest

from runyard.node.node_process import make_route_settings
from runyard.node.providers.kubernetes.route_objects import (
    RouteSettings,
    choose_port,
    find_rejection,
    render_http_route,
    render_ingress,
    render_service,
)
from runyard.node.providers.provider import Route

UID = "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76"
HOST = f"{UID}-skg00000.cloud.provider.tld"
NAME = f"route-{UID}"
ROUTE = Route(
    uid=UID,
    namespace="team",
    name="inference",
    host=HOST,
    selector={"run": "inference"},
    ports=[{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
)
OWNER = {"metadata": {"name": NAME, "uid": "remote-uid"}}


def test_service_selects_pods_of_the_node_and_namespace_only_when_rendered() -> None:
    service = render_service(ROUTE, node="k8s.gpu")
    assert service["spec"]["selector"] == {
        "run": "inference",
        "k8s.gpu/namespace": "team",
        "k8s.gpu/node": "k8s.gpu",
    }
    assert service["metadata"]["labels"] == {
        "k8s.gpu/namespace": "team",
        "k8s.gpu/node": "k8s.gpu",
        "k8s.gpu/service-uid": UID,
    }
    assert service["metadata"]["annotations"]["k8s.gpu/host"] == HOST
    assert len(service["metadata"]["name"]) <= 63


def test_ingress_leads_to_the_service_when_class_secret_and_annotations_are_set() -> None:
    settings = RouteSettings(ingress_class="nginx", tls_secret="wildcard", annotations={"a/b": "c"})
    ingress = render_ingress(ROUTE, node="k8s.gpu", owner=OWNER, settings=settings)
    assert ingress["spec"] == {
        "ingressClassName": "nginx",
        "rules": [
            {
                "host": HOST,
                "http": {
                    "paths": [
                        {
                            "path": "/",
                            "pathType": "Prefix",
                            "backend": {"service": {"name": NAME, "port": {"number": 80}}},
                        }
                    ]
                },
            }
        ],
        "tls": [{"hosts": [HOST], "secretName": "wildcard"}],
    }
    assert ingress["metadata"]["annotations"]["a/b"] == "c"
    assert ingress["metadata"]["ownerReferences"][0]["uid"] == "remote-uid"


def test_http_route_names_its_gateway_when_the_kind_is_httproute() -> None:
    settings = RouteSettings(kind="httproute", gateway="public", gateway_namespace="infra")
    route = render_http_route(ROUTE, node="k8s.gpu", owner=OWNER, settings=settings)
    assert route["spec"] == {
        "parentRefs": [{"name": "public", "namespace": "infra"}],
        "hostnames": [HOST],
        "rules": [{"backendRefs": [{"name": NAME, "port": 80}]}],
    }


def test_http_route_attaches_to_one_listener_when_the_gateway_is_named_with_it() -> None:
    settings = make_route_settings({"routes": "httproute", "ingress_class": None, "gateway": "infra/public/https"})
    route = render_http_route(ROUTE, node="k8s.gpu", owner=OWNER, settings=settings)
    assert route["spec"]["parentRefs"] == [{"name": "public", "namespace": "infra", "sectionName": "https"}]


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        (None, "no controller has taken the route: see whether the Gateway infra/public exists and is programmed"),
        ([], "no controller has taken the route: see whether the Gateway infra/public exists and is programmed"),
        ([("Accepted", "True"), ("ResolvedRefs", "True")], None),
        (
            [("Accepted", "False", "NotAllowedByListeners"), ("ResolvedRefs", "True")],
            "the Gateway infra/public does not serve the route: Accepted is False: NotAllowedByListeners",
        ),
        (
            [("Accepted", "True"), ("ResolvedRefs", "False", "BackendNotFound", "none")],
            "the Gateway infra/public does not serve the route: ResolvedRefs is False: BackendNotFound: none",
        ),
    ],
)
def test_rejection_has_the_controllers_words_when_a_route_is_not_served(
    conditions: list[tuple[str, ...]] | None, words: str | None
) -> None:
    names = ("type", "status", "reason", "message")
    parent = {"conditions": [dict(zip(names, one, strict=False)) for one in conditions or ()]}
    status = {} if conditions is None else {"status": {"parents": [parent]}}
    assert find_rejection({"metadata": {}, **status}, gateway="infra/public") == words


def test_settings_are_refused_when_httproutes_have_no_gateway() -> None:
    with pytest.raises(ValueError, match="need the name of a gateway"):
        RouteSettings(kind="httproute")


def test_port_named_http_is_chosen_when_there_are_several() -> None:
    metrics, http = {"name": "metrics", "port": 9090}, {"name": "http", "port": 80}
    assert choose_port([metrics, http]) is http
    assert choose_port([metrics]) is metrics
