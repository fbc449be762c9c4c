from typing import Any, cast

import pytest

from runyard.pods.security import (
    Level,
    Violation,
    check_pod_security,
    check_template_security,
    format_violations,
)
from tests.unit.pods.security.pods import container, judge, pod


def test_nothing_is_held_against_a_pod_when_it_obeys() -> None:
    for minor in range(37):
        assert check_pod_security(pod(), level="restricted", version=f"1.{minor}") == ()


def test_message_is_joined_as_the_plugin_joins_it_when_a_bare_pod_is_judged() -> None:
    found = check_pod_security({"spec": {"containers": [{"name": "main"}], "hostPID": True}}, level="restricted")
    assert found[0] == Violation("hostNamespaces", "host namespaces", "hostPID=true")
    assert format_violations(found) == (
        "host namespaces (hostPID=true), "
        'allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "main" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")'
    )
    assert format_violations([]) == ""


def test_everything_passes_when_the_level_is_privileged() -> None:
    assert check_pod_security(pod(container(context={"privileged": True})), level="privileged") == ()


@pytest.mark.parametrize("version", ["latest", "1.36", "v1.36"])
def test_version_is_read_when_it_is_known(version: str) -> None:
    assert judge(pod(hostPID=True), version=version) != {}


@pytest.mark.parametrize(
    "version", ["", "1", "1.37", "v1.99", "2.0", "1.05", "1.3٦", "1.36 ", "newest", "1.-1", None, 1.3]
)
def test_version_is_refused_when_it_is_not_known(version: Any) -> None:
    with pytest.raises(ValueError, match=r"version: unknown version .*; allowed: 1\.0 to 1\.36, or latest"):
        check_pod_security(pod(), level="baseline", version=version)


@pytest.mark.parametrize("level", ["", "Restricted", "none", None, ["baseline"]])
def test_level_is_refused_when_it_is_not_known(level: Any) -> None:
    with pytest.raises(ValueError, match=r"level: unknown level .*; allowed: privileged, baseline, restricted"):
        check_pod_security(pod(), level=cast("Level", level))


PROBE_OF_ANOTHER_HOST = {"httpGet": {"port": 80, "host": "169.254.169.254"}}


@pytest.mark.parametrize(
    ("given", "check", "since"),
    [
        (pod(container(context={"allowPrivilegeEscalation": True})), "allowPrivilegeEscalation", 8),
        (pod(context={"seccompProfile": {"type": "Unconfined"}}), "seccompProfile_restricted", 19),
        (pod(container(context={"capabilities": {}})), "capabilities_restricted", 22),
        (pod(context={"runAsUser": 0}), "runAsUser", 23),
        (pod(container(livenessProbe=PROBE_OF_ANOTHER_HOST)), "hostProbesAndHostLifecycle", 34),
        (pod(container(context={"procMount": "Unmasked"}), hostUsers=False), "procMount_restricted", 35),
    ],
)
def test_check_begins_exactly_with_its_version_when_it_came_later(given: Any, check: str, since: int) -> None:
    assert check not in judge(given, version=f"1.{since - 1}")
    assert check in judge(given, version=f"1.{since}")


@pytest.mark.parametrize("given", [pod(context={"runAsUser": 0}), pod(context={"runAsNonRoot": False})])
def test_root_of_own_users_passes_exactly_since_1_35_when_it_is_asked_for(given: Any) -> None:
    given = {**given, "spec": {**given["spec"], "hostUsers": False}}
    assert judge(given, version="1.34") != {}
    assert judge(given, version="1.35") == {}


def test_pod_is_left_as_it_was_when_it_is_judged() -> None:
    given = pod(container(ports=[{"containerPort": 80}]), hostNetwork=True)
    check_pod_security(given, level="restricted")
    assert given == pod(container(ports=[{"containerPort": 80}]), hostNetwork=True)


def test_template_is_judged_as_written_when_it_takes_the_hosts_network() -> None:
    given = pod(container(ports=[{"containerPort": 80}]), hostNetwork=True)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": given["spec"]}
    assert [found.check for found in check_template_security(template, level="baseline")] == ["hostNamespaces"]
    assert [found.check for found in check_pod_security(given, level="baseline")] == ["hostNamespaces", "hostPorts"]
