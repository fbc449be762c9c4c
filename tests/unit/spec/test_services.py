from typing import Any

import pytest

from runyard.spec.services import (
    SERVICE_TYPES,
    ServicePort,
    read_readiness_path,
    read_service_name,
    read_service_ports,
    read_service_type,
)
from tests.unit.spec.refusals import find_problem, find_problems


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ()),
        ([8080], (ServicePort(port=8080, target_port=8080),)),
        (["8080"], (ServicePort(port=8080, target_port=8080),)),
        ([{"port": 80, "target_port": 8080}], (ServicePort(port=80, target_port=8080),)),
        ([{"port": "80", "targetPort": "8080"}], (ServicePort(port=80, target_port=8080),)),
        ([{"port": 80}], (ServicePort(port=80, target_port=80),)),
        ([{"port": 80, "target_port": None}], (ServicePort(port=80, target_port=80),)),
        ([{"port": 80, "name": "http"}], (ServicePort(port=80, target_port=80, name="http"),)),
        ([1, 65535], (ServicePort(port=1, target_port=1), ServicePort(port=65535, target_port=65535))),
        (
            [{"port": 80, "target_port": 8080}, {"port": 81, "target_port": 8080}],
            (ServicePort(port=80, target_port=8080), ServicePort(port=81, target_port=8080)),
        ),
    ],
)
def test_ports_are_read_when_they_are_numbers_or_pairs(given: Any, expected: tuple[ServicePort, ...]) -> None:
    assert read_service_ports(given) == expected


@pytest.mark.parametrize(
    ("given", "where", "code"),
    [
        (8080, "", "type.list"),
        ({"port": 80}, "", "type.list"),
        ([0], "[0]", "number.range"),
        ([65536], "[0]", "number.range"),
        ([-1], "[0]", "number.range"),
        ([True], "[0]", "number.invalid"),
        (["http"], "[0]", "number.invalid"),
        ([80.5], "[0]", "number.invalid"),
        ([None], "[0]", "number.invalid"),
        ([{"target_port": 80}], "[0].port", "field.missing"),
        ([{"port": 80, "targetPort": 0}], "[0].targetPort", "number.range"),
        ([{"port": 80, "targetPorts": 1}], "[0].targetPorts", "field.unknown"),
        ([{"port": 80, "nodePort": 30000}], "[0].nodePort", "field.unknown"),
        ([{"port": 80, "hostPort": 80}], "[0].hostPort", "field.unknown"),
        ([80, 80], "[1].port", "service_ports.twice"),
        ([80, {"port": 80, "target_port": 81}], "[1].port", "service_ports.twice"),
        ([{"port": 1, "name": "a"}, {"port": 2, "name": "a"}], "[1].name", "service_ports.name_twice"),
        ([{"port": 1, "name": "Not-A-Name"}], "[0].name", "service_ports.name"),
        ([{"port": 1, "name": "a" * 16}], "[0].name", "text.long"),
        ([{"port": 1, "target_port": 2, "targetPort": 3}], "[0].targetPort", "field.twice"),
        (list(range(1, 34)), "", "size.entries"),
    ],
)
def test_ports_are_refused_when_no_service_can_have_them(given: Any, where: str, code: str) -> None:
    problem = find_problem(read_service_ports, given)

    assert (problem.where, problem.code) == (where, code)


def test_every_problem_is_told_when_several_ports_are_wrong() -> None:
    assert set(find_problems(read_service_ports, [0, {"port": "x", "name": ""}, {"nam": 1}])) == {
        "[0]",
        "[1].port",
        "[1].name",
        "[2].nam",
        "[2].port",
    }


@pytest.mark.parametrize("given", SERVICE_TYPES)
def test_a_service_type_is_read_when_kubernetes_knows_it(given: str) -> None:
    assert read_service_type(given) == given


@pytest.mark.parametrize(
    ("given", "suggestion"),
    [("clusterip", "ClusterIP"), ("NODEPORT", "NodePort"), ("LoadBalancr", "LoadBalancer"), ("None", None), (3, None)],
)
def test_a_service_type_is_refused_with_the_nearest_when_it_is_unknown(given: Any, suggestion: str | None) -> None:
    problem = find_problem(read_service_type, given)

    assert (problem.code, problem.suggestion) == ("value.option", suggestion)


@pytest.mark.parametrize(("given", "suggestion"), [("1svc", "svc"), ("My_Svc", "my-svc"), ("a" * 64, "a" * 63)])
def test_a_service_name_is_refused_with_a_proposal_when_no_service_can_have_it(given: str, suggestion: str) -> None:
    problem = find_problem(read_service_name, given)

    assert (problem.code, problem.suggestion) == ("service_name.invalid", suggestion)


def test_a_service_name_is_read_when_a_service_can_have_it() -> None:
    assert read_service_name("my-model") == "my-model"


@pytest.mark.parametrize("given", ["/", "/healthz", "/v1/health?deep=1", "/a%20b"])
def test_a_readiness_path_is_read_when_it_is_one(given: str) -> None:
    assert read_readiness_path(given) == given


@pytest.mark.parametrize(
    ("given", "suggestion"), [("healthz", "/healthz"), ("/a b", "/a b".replace(" ", "%20")), ("/é", "/%C3%A9")]
)
def test_a_readiness_path_is_refused_with_a_proposal_that_would_be_taken_when_it_is_none(
    given: str, suggestion: str
) -> None:
    problem = find_problem(read_readiness_path, given)

    assert (problem.code, problem.suggestion) == ("readiness_path.invalid", suggestion)
    assert read_readiness_path(suggestion) == suggestion
