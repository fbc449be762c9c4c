from datetime import UTC, datetime
from typing import Any

import pytest

from runyard.node.mirror.statuses import (
    LONGEST_MESSAGE,
    STARTED,
    StatusSettings,
    end_status,
    is_started,
    mirror_status,
    status_patch,
    unready_status,
    wait_status,
)
from tests.unit.node.mirror.pods import local_pod

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
EARLIER = "2026-11-18T11:00:00Z"
SETTINGS = StatusSettings(host_address="10.1.2.3")
Object = dict[str, Any]


def _condition(kind: str, status: str = "True", **fields: str) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": EARLIER, **fields}


def _container(name: str = "main", **state: Any) -> Object:
    return {"name": name, "image": "i", "imageID": "sha", "ready": True, "restartCount": 0, "state": state}


def _remote(**fields: Any) -> Object:
    return {
        "phase": "Running",
        "qosClass": "Guaranteed",
        "nominatedNodeName": "n",
        "resize": "Proposed",
        "resourceClaimStatuses": [{}],
        "hostIP": "192.168.0.9",
        "hostIPs": [{"ip": "192.168.0.9"}],
        "podIP": "172.16.0.4",
        "podIPs": [{"ip": "172.16.0.4"}],
        "startTime": EARLIER,
        "observedGeneration": 9,
        "conditions": [_condition("Ready"), _condition("PodScheduled"), _condition("remote.example.com/x")],
        "containerStatuses": [_container(running={"startedAt": EARLIER}), _container("injected", running={})],
        **fields,
    }


def _mirror(local: Object, remote: Object, settings: StatusSettings = SETTINGS, **more: Any) -> Object:
    return mirror_status(local, remote, remote_name="pod-1", settings=settings, now=NOW, **more)


def _types(status: Object) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in status["conditions"]}


def test_only_what_a_kubelet_owns_is_taken_over_when_the_pod_runs() -> None:
    status = _mirror(local_pod(), _remote())
    assert set(status) == {
        *("phase", "reason", "message", "startTime", "hostIP", "hostIPs", "containerStatuses", "conditions"),
        "observedGeneration",
    }
    assert (status["hostIP"], status["hostIPs"]) == ("10.1.2.3", [{"ip": "10.1.2.3"}])
    assert [found["name"] for found in status["containerStatuses"]] == ["main"]
    assert _types(status) == {"Ready": "True", STARTED: "True"}
    assert status["observedGeneration"] == 1


@pytest.mark.parametrize(("pod_ips", "address"), [("remote", "172.16.0.4"), ("agent", "10.1.2.3")])
def test_pod_has_an_address_when_the_setting_says_whose(pod_ips: Any, address: str) -> None:
    status = _mirror(local_pod(), _remote(), StatusSettings(host_address="10.1.2.3", pod_ips=pod_ips))
    assert (status["podIP"], status["podIPs"]) == (address, [{"ip": address}])


def test_nothing_is_written_when_the_status_is_the_same() -> None:
    local = local_pod()
    patch = status_patch(local, _mirror(local, _remote()))
    assert patch is not None
    assert patch["metadata"] == {"uid": local["metadata"]["uid"]}
    assert patch["status"]["hostIPs"] == [{"$patch": "replace"}, {"ip": "10.1.2.3"}]
    written = {**local["status"], **patch["status"], "hostIPs": [{"ip": "10.1.2.3"}]}
    again = local_pod(status={key: value for key, value in written.items() if value is not None})
    assert is_started(again)
    assert status_patch(again, _mirror(again, _remote())) is None


def test_conditions_of_others_are_not_in_the_patch_when_something_changes() -> None:
    conditions = [_condition("PodScheduled"), _condition("lb.example.com/ready"), _condition(STARTED)]
    local = local_pod(status={"phase": "Pending", "conditions": conditions})
    patch = status_patch(local, _mirror(local, _remote()))
    assert patch is not None
    assert {condition["type"] for condition in patch["status"]["conditions"]} == {"Ready", STARTED}


def test_old_reason_is_removed_when_the_provider_has_none() -> None:
    local = local_pod(status={"phase": "Pending", "reason": "QuotaExceeded", "message": "no room"})
    patch = status_patch(local, _mirror(local, _remote()))
    assert patch is not None
    assert (patch["status"]["reason"], patch["status"]["message"]) == (None, None)


def test_pod_is_not_ready_when_a_readiness_gate_is_not_true() -> None:
    local = local_pod(readinessGates=[{"conditionType": "lb.example.com/ready"}])
    ready = next(found for found in _mirror(local, _remote())["conditions"] if found["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
    local["status"]["conditions"] = [_condition("lb.example.com/ready")]
    assert _types(_mirror(local, _remote()))["Ready"] == "True"


def test_pod_is_not_ready_but_runs_when_the_provider_is_unreachable() -> None:
    status = _mirror(local_pod(), _remote(), unreachable="since noon")
    ready = next(found for found in status["conditions"] if found["type"] == "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "ProviderUnreachable", "since noon")
    assert status["phase"] == "Running"
    assert "running" in status["containerStatuses"][0]["state"]


def test_pod_of_unknown_fate_is_not_ready_when_it_was() -> None:
    local = local_pod(status={"phase": "Running", "conditions": [_condition("Ready")]})
    assert _types(unready_status(local, message="m", now=NOW)) == {"Ready": "False"}
    assert unready_status(local_pod(), message="m", now=NOW) == {}


def test_reason_is_the_schedulers_when_the_provider_finds_no_machine() -> None:
    waiting = _condition("PodScheduled", "False", reason="Unschedulable", message="0/3 nodes")
    status = _mirror(local_pod(), {"phase": "Pending", "conditions": [waiting]})
    assert (status["phase"], status["reason"], status["message"]) == (
        "Pending",
        "ProviderUnschedulable",
        "0/3 nodes",
    )


@pytest.mark.parametrize(
    ("policy", "code", "of_container", "stays"),
    [
        ("Never", 1, {}, True),
        ("Never", 0, {}, True),
        ("OnFailure", 0, {}, True),
        ("OnFailure", 1, {}, False),
        ("Always", 0, {}, False),
        ("Never", 0, {"restartPolicy": "Always"}, False),
        ("Never", 1, {"restartPolicyRules": [{}]}, False),
    ],
)
def test_container_stays_terminated_when_it_may_not_run_again(
    policy: str, code: int, of_container: Object, stays: bool
) -> None:
    ended = _container(terminated={"exitCode": code})
    local = local_pod(
        status={"phase": "Running", "containerStatuses": [ended]},
        restartPolicy=policy,
        containers=[{"name": "main", "image": "i", **of_container}],
    )
    found = _mirror(local, _remote())["containerStatuses"][0]
    assert ("terminated" in found["state"]) is stays


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_stays_as_it_is_when_the_provider_says_otherwise(phase: str) -> None:
    local = local_pod(status={"phase": phase})
    assert status_patch(local, _mirror(local, _remote())) is None
    assert end_status(local, _remote(), reason="R", message="m", settings=SETTINGS, now=NOW) == {}


def test_pod_has_failed_when_it_vanished_while_it_ran() -> None:
    local = local_pod(status={"phase": "Running", "conditions": [_condition("Ready")]})
    status = end_status(local, _remote(), reason="Gone", message="m", settings=SETTINGS, now=NOW)
    assert (status["phase"], status["reason"]) == ("Failed", "Gone")
    assert _types(status) == {"Ready": "False"}
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["startedAt"]) == (137, "ContainerStatusUnknown", EARLIER)


def test_pod_has_its_own_end_when_that_was_the_last_seen() -> None:
    final = _remote(phase="Succeeded", containerStatuses=[_container(terminated={"exitCode": 0})])
    status = end_status(local_pod(), final, reason="Gone", message="m", settings=SETTINGS, now=NOW)
    assert (status["phase"], status["reason"]) == ("Succeeded", None)


def test_containers_wait_for_a_reason_when_the_pod_cannot_start() -> None:
    local = local_pod(initContainers=[{"name": "first", "image": "i"}])
    status = wait_status(local, reason="CreateContainerConfigError", message="m", settings=SETTINGS, now=NOW)
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": "m"}}
    assert status["containerStatuses"][0]["state"] == waiting
    assert status["initContainerStatuses"][0]["state"] == waiting
    assert not is_started({**local, "status": status})


def test_messages_are_cut_when_they_are_long() -> None:
    long = "x" * (LONGEST_MESSAGE + 1)
    remote = _remote(message=long, containerStatuses=[_container(terminated={"exitCode": 1, "message": long})])
    status = _mirror(local_pod(), remote)
    assert len(status["message"]) == LONGEST_MESSAGE
    assert len(status["containerStatuses"][0]["state"]["terminated"]["message"]) == LONGEST_MESSAGE
