"""Pods, service and events in the status of a run."""

import json

import pytest

from runyard.app.engine import LARGEST_DETAILS_BYTES
from runyard.engines.kubernetes.observations import observe_run
from runyard.engines.kubernetes.observations.status_details import MOST_EVENTS, MOST_PODS, MOST_PORTS
from runyard.engines.kubernetes.views import PodView, ServiceView
from tests.unit.engines.kubernetes.observations.objects import (
    NAME,
    READY,
    RUNNING,
    ended,
    make_condition,
    make_container,
    make_deployment,
    make_event,
    make_job,
    make_pod,
    make_run,
    make_service,
    waiting,
)
from tests.unit.engines.kubernetes.observations.recorded import make_recorded

WORKS = make_pod("Running", make_container(RUNNING), conditions=[READY], hostIP="10.1.0.4")
STARTED = make_condition("PodReadyToStartContainers")
SETUP = {"name": "setup", "state": RUNNING, "restartCount": 0}


@pytest.mark.parametrize(
    ("pod", "step"),
    [
        (make_pod("Pending", node=None), "scheduling"),
        (make_pod("Pending", make_container(waiting("ContainerCreating"))), "preparing"),
        (make_pod("Pending", make_container(waiting("ContainerCreating")), conditions=[STARTED]), "pulling"),
        (make_pod("Pending", make_container(waiting("PodInitializing")), conditions=[STARTED], init=[SETUP]), "init"),
        (make_pod("Running", make_container(RUNNING)), "running"),
        (WORKS, "ready"),
        (make_pod("Running", make_container(waiting("CrashLoopBackOff"), ended(1), restartCount=1)), "restarting"),
        (make_pod("Running", make_container(ended(1), restartCount=1)), "restarting"),
        (
            make_pod("Running", make_container(RUNNING), conditions=[READY], deleted_at="2026-11-16T10:03:00Z"),
            "draining",
        ),
        (make_pod("Succeeded", make_container(ended(0))), "succeeded"),
        (make_pod("Failed", make_container(ended(1)), deleted_at="2026-11-16T10:03:00Z"), "failed"),
    ],
)
def test_step_says_how_far_a_pod_has_come_when_it_is_shown(pod: PodView, step: str) -> None:
    (shown,) = observe_run(make_run(make_job("run"), pod)).details["pods"]
    assert shown["step"] == step


def test_pod_is_shown_as_digitalhub_shows_it_when_it_runs() -> None:
    (shown,) = observe_run(make_recorded("service-crash-loop")).details["pods"]
    assert (shown["phase"], shown["step"], shown["is_ready"], shown["restarts"]) == ("Running", "restarting", False, 1)
    assert shown["namespace"] == "team-a"
    assert shown["startTime"].endswith("Z")
    (container,) = shown["containers"]
    assert container == {
        "name": "main",
        "ready": False,
        "restartCount": 1,
        "image": "docker.io/library/busybox:1.36",
        "state": "waiting: CrashLoopBackOff",
    }


@pytest.mark.parametrize(
    ("service", "url", "addresses"),
    [
        (make_service(), f"{NAME}.ns:80", [{"url": f"{NAME}.ns:80", "from": "cluster"}]),
        (
            make_service("NodePort", node_port=30080),
            f"{NAME}.ns:80",
            [{"url": f"{NAME}.ns:80", "from": "cluster"}, {"url": "10.1.0.4:30080", "from": "nodes"}],
        ),
        (
            make_service("LoadBalancer", ingress=[{"ip": "192.0.2.7"}]),
            "192.0.2.7:80",
            [{"url": "192.0.2.7:80", "from": "outside"}, {"url": f"{NAME}.ns:80", "from": "cluster"}],
        ),
        (
            make_service("LoadBalancer", ingress=[{"hostname": "lb.example", "ip": "2001:db8::1"}]),
            "lb.example:80",
            [{"url": "lb.example:80", "from": "outside"}, {"url": f"{NAME}.ns:80", "from": "cluster"}],
        ),
        (
            make_service("LoadBalancer", ingress=[{"ip": "2001:db8::1"}]),
            "[2001:db8::1]:80",
            [{"url": "[2001:db8::1]:80", "from": "outside"}, {"url": f"{NAME}.ns:80", "from": "cluster"}],
        ),
    ],
)
def test_service_has_its_addresses_and_where_they_work_when_it_is_ready(
    service: object, url: str, addresses: list[dict[str, str]]
) -> None:
    alias = make_service(name="svc-p--f--chat")
    found = observe_run(make_run(make_deployment("run"), WORKS, services=(alias, service))).details["service"]
    assert (found["url"], found["addresses"]) == (url, addresses)
    assert found["urls"] == [address["url"] for address in addresses]
    assert found["aliases"] == ["svc-p--f--chat.ns:80"]
    assert found["name"] == NAME


@pytest.mark.parametrize(
    ("service", "shown"),
    [
        (make_service(), {}),
        (make_service(externalIPs=["192.0.2.9", "192.0.2.10"]), {"externalIps": ["192.0.2.9", "192.0.2.10"]}),
        (make_service("LoadBalancer"), {}),
        (
            make_service("LoadBalancer", ingress=[{"ip": "192.0.2.7"}, {"hostname": "second.example"}]),
            {"ip": "192.0.2.7"},
        ),
        (
            make_service("LoadBalancer", ingress=[{"ip": "192.0.2.7", "hostname": "lb.example"}]),
            {"ip": "192.0.2.7", "hostname": "lb.example"},
        ),
    ],
)
def test_service_has_the_fields_of_digitalhub_when_the_cluster_gave_them(
    service: ServiceView, shown: dict[str, object]
) -> None:
    found = observe_run(make_run(make_deployment("run"), WORKS, services=(service,))).details["service"]
    own = {"addresses", "aliases", "name", "namespace", "ports", "type", "url", "urls"}
    assert {name: value for name, value in found.items() if name not in own} == {"clusterIP": "10.0.0.7", **shown}
    assert found["type"] == service.spec.type


def test_only_some_addresses_are_shown_when_a_service_has_very_many() -> None:
    service = make_service(externalIPs=[f"192.0.2.{number}" for number in range(100)])
    found = observe_run(make_run(make_deployment("run"), WORKS, services=(service,))).details["service"]
    assert len(found["externalIps"]) == MOST_PORTS


def test_service_is_not_shown_when_nothing_answers() -> None:
    services = (make_service(),)
    starting = make_pod("Running", make_container(RUNNING))
    assert "service" not in observe_run(make_run(make_deployment("run"), starting, services=services)).details
    assert "service" not in observe_run(make_run(make_deployment("stop"), WORKS, services=services)).details
    assert "service" not in observe_run(make_run(make_deployment("run"), WORKS)).details


def test_newest_are_shown_and_the_whole_is_small_when_there_is_very_much() -> None:
    pods = [
        make_pod(
            "Running",
            *(make_container(waiting("X", "y" * 9000)) for _ in range(50)),
            conditions=[make_condition("C" * 900, message="é" * 9000) for _ in range(50)],
            name=f"pod-{number}",
            message="m" * 9000,
        )
        for number in range(60)
    ]
    events = tuple(make_event("Failed", f"{number} " + "e" * 5000) for number in range(100))
    details = observe_run(make_run(make_job("run"), *pods, events=events)).details
    assert len(json.dumps(details)) <= LARGEST_DETAILS_BYTES
    assert details["pods"][-1]["name"] == "pod-59"
    assert details["events"][-1]["message"].startswith("99 ")
    assert len(details["events"]) <= MOST_EVENTS
    small = observe_run(make_run(make_job("run"), *[make_pod("Running", name=f"p{n}") for n in range(60)])).details
    assert [pod["name"] for pod in small["pods"]] == [f"p{n}" for n in range(60 - MOST_PODS, 60)]


def test_service_is_shortened_when_it_has_very_many_addresses() -> None:
    ingress = [{"hostname": f"{number}." + "a" * 240} for number in range(40)]
    service = make_service("LoadBalancer", ingress=ingress)
    found = observe_run(make_run(make_deployment("run"), WORKS, services=(service,))).details["service"]
    assert set(found) == {"name", "namespace", "type", "url"}
    assert found["url"].startswith("0.aaa")


def test_event_has_its_last_time_and_count_when_it_was_repeated() -> None:
    events = observe_run(make_recorded("quota-job")).details["events"]
    assert (events[-1]["reason"], events[-1]["kind"], events[-1]["name"]) == ("FailedCreate", "Job", "run")
    assert events[-1]["note"] == events[-1]["message"]
    assert events[-1]["timestamp"].endswith("Z")
