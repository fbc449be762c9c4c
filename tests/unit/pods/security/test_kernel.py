import pytest

from tests.unit.pods.security.pods import Object, container, judge, pod


def adding(*names: str) -> Object:
    return pod(container(context={"capabilities": {"add": list(names), "drop": ["ALL"]}}))


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        (adding("NET_ADMIN"), 'container "main" must not include "NET_ADMIN" in securityContext.capabilities.add'),
        (
            adding("SYS_TIME", "CHOWN", "BPF"),
            'container "main" must not include "BPF", "SYS_TIME" in securityContext.capabilities.add',
        ),
        (adding("chown"), 'container "main" must not include "chown" in securityContext.capabilities.add'),
        (adding("CAP_CHOWN"), 'container "main" must not include "CAP_CHOWN" in securityContext.capabilities.add'),
    ],
)
def test_capability_is_refused_by_baseline_when_it_is_not_a_default_one(given: Object, detail: str) -> None:
    assert judge(given, level="baseline") == {"capabilities_baseline": detail}
    assert judge(given, version="1.21") == {"capabilities_baseline": detail}


@pytest.mark.parametrize(
    ("capabilities", "detail"),
    [
        (None, 'container "main" must set securityContext.capabilities.drop=["ALL"]'),
        ({"drop": ["all"]}, 'container "main" must set securityContext.capabilities.drop=["ALL"]'),
        (
            {"drop": ["ALL"], "add": ["CHOWN", "NET_BIND_SERVICE"]},
            'container "main" must not include "CHOWN" in securityContext.capabilities.add',
        ),
        (
            {"add": ["CHOWN"]},
            (
                'container "main" must set securityContext.capabilities.drop=["ALL"]; '
                'container "main" must not include "CHOWN" in securityContext.capabilities.add'
            ),
        ),
    ],
)
def test_capabilities_are_refused_by_restricted_when_not_all_are_dropped(
    capabilities: Object | None, detail: str
) -> None:
    given = pod(container(context={"capabilities": capabilities}))
    assert judge(given) == {"capabilities_restricted": detail}
    assert judge(given, level="baseline") == {}


def test_low_ports_are_allowed_when_all_else_is_dropped() -> None:
    assert judge(adding("NET_BIND_SERVICE")) == {}


def test_windows_pod_may_keep_capabilities_when_the_version_is_1_25_or_later() -> None:
    given = pod(container(context={"capabilities": None}), os={"name": "windows"})
    assert judge(given) == {}
    assert "capabilities_restricted" in judge(given, version="1.24")


def test_windows_pod_is_refused_when_it_adds_capabilities() -> None:
    given = pod(container(context={"capabilities": {"add": ["SYS_ADMIN"]}}), os={"name": "windows"})
    assert judge(given).keys() == {"capabilities_restricted"}


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("kernel.shm_rmid_forced", 0),
        ("net.ipv4.ip_unprivileged_port_start", 0),
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_keepalive_time", 29),
        ("net.ipv4.tcp_wmem", 32),
    ],
)
def test_sysctl_is_allowed_when_it_is_safe_in_the_version(name: str, since: int) -> None:
    given = pod(context={"sysctls": [{"name": name, "value": "1"}]})
    assert judge(given, version=f"1.{since}") == {}
    if since:
        assert judge(given, version=f"1.{since - 1}") == {"sysctls": name}


def test_sysctls_are_named_as_they_stand_when_they_are_not_safe() -> None:
    names = ("vm.swappiness", "net/ipv4/tcp_syncookies", "kernel.msgmax")
    given = pod(context={"sysctls": [{"name": name, "value": "1"} for name in names]})
    assert judge(given, level="baseline") == {"sysctls": "vm.swappiness, net/ipv4/tcp_syncookies, kernel.msgmax"}


def test_unmasked_proc_is_allowed_when_the_pod_has_its_own_user_namespace_since_1_35() -> None:
    shared, own = (pod(container(context={"procMount": "Unmasked"}), hostUsers=users) for users in (None, False))
    detail = 'container "main" must not set securityContext.procMount to "Unmasked"'
    assert judge(shared, level="baseline") == {"procMount": detail}
    assert judge(own, level="baseline", version="1.34") == {"procMount": detail}
    assert judge(own, level="baseline") == {}
    assert judge(own) == {"procMount_restricted": detail}
    assert judge(own, version="1.34") == {"procMount": detail}


def test_masked_proc_is_allowed_when_it_is_said() -> None:
    assert judge(pod(container(context={"procMount": "Default"}))) == {}
