"""Services, ports and readiness of served runs."""

from dataclasses import replace

import pytest

from tests.unit.manifests.object_views import get_container, of_kind, render
from tests.unit.manifests.samples import IDENTITY, SPECS, make_spec


def test_service_leads_to_port_8080_when_no_port_is_given() -> None:
    (service,) = of_kind(render(make_spec(action="serve")), "Service")
    assert service["metadata"]["name"] == "run-r1-bb82030dbc2bcab"
    assert service["spec"] == {
        "type": "ClusterIP",
        "selector": {"runyard.io/installation": "local", "runyard.io/run-uid": "u1"},
        "ports": [{"name": "port8080", "port": 8080, "targetPort": 8080, "protocol": "TCP"}],
    }
    assert get_container(make_spec(action="serve"))["ports"] == [{"containerPort": 8080, "protocol": "TCP"}]


def test_service_has_the_ports_and_type_when_they_are_given() -> None:
    (service,) = of_kind(render(SPECS["serve with ports"]), "Service")
    assert service["spec"]["type"] == "NodePort"
    assert [(port["name"], port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [
        ("port80", 80, 8080),
        ("tls", 443, 8080),
    ]
    assert get_container(SPECS["serve with ports"])["ports"] == [{"containerPort": 8080, "protocol": "TCP"}]


def test_ports_have_different_names_when_one_took_the_others() -> None:
    (service,) = of_kind(render(SPECS["serve with names that clash"]), "Service")
    assert [port["name"] for port in service["spec"]["ports"]] == ["port81", "port81x"]


def test_readiness_asks_the_path_when_one_is_given_and_the_port_when_not() -> None:
    asked = get_container(make_spec(action="serve", readiness_path="/healthz"))["readinessProbe"]
    assert asked["httpGet"] == {"path": "/healthz", "port": 8080}
    opened = get_container(SPECS["serve with names that clash"])["readinessProbe"]
    assert opened["tcpSocket"] == {"port": 80}
    assert "httpGet" not in opened


def test_alias_selects_the_same_pods_when_a_service_name_is_given() -> None:
    identity = replace(IDENTITY, function="detector")
    own, alias = of_kind(render(SPECS["serve with an alias"], identity), "Service")
    assert alias["metadata"]["name"] == "svc-vision--detector--main"
    assert alias["spec"] == own["spec"]
    again = of_kind(render(SPECS["serve with an alias"], replace(identity, run_id="r2")), "Service")[1]
    assert again["metadata"]["name"] == alias["metadata"]["name"]


@pytest.mark.parametrize("action", ["job", "deploy"])
def test_no_service_is_made_when_nothing_is_served(action: str) -> None:
    spec = make_spec(action=action, service_name="main", readiness_path="/")
    assert of_kind(render(spec), "Service") == []
    assert not {"ports", "readinessProbe"} & get_container(spec).keys()
