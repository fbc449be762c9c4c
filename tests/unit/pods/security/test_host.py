import pytest

from tests.unit.pods.security.pods import Object, container, judge, pod


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        (pod(hostPID=True), "hostPID=true"),
        (pod(hostIPC=True), "hostIPC=true"),
        (pod(hostIPC=True, hostNetwork=True, hostPID=True), "hostNetwork=true, hostPID=true, hostIPC=true"),
    ],
)
def test_host_namespaces_are_refused_when_any_is_asked_for(given: Object, detail: str) -> None:
    assert judge(given, level="baseline", version="1.0") == {"hostNamespaces": detail}
    assert judge(given) == {"hostNamespaces": detail}


def test_host_namespaces_are_no_matter_when_they_are_false_or_null() -> None:
    assert judge(pod(hostPID=False, hostIPC=None, hostNetwork=False)) == {}


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_pod_is_refused_when_a_container_of_any_kind_is_privileged(kind: str) -> None:
    given = pod()
    given["spec"][kind] = [container("bad", context={"privileged": True}), *given["spec"].get(kind, [])]
    assert judge(given) == {"privileged": 'container "bad" must not set securityContext.privileged=true'}


def test_containers_are_named_in_the_plugins_order_when_several_are_privileged() -> None:
    bad = {"privileged": True}
    given = pod(
        container("main", context=bad),
        ephemeralContainers=[container("debug", context=bad)],
        initContainers=[container("fetch", context=bad)],
    )
    assert judge(given, level="baseline") == {
        "privileged": 'containers "fetch", "main", "debug" must not set securityContext.privileged=true'
    }


@pytest.mark.parametrize(
    ("ports", "detail"),
    [
        ([{"containerPort": 80, "hostPort": 80}], 'container "main" uses hostPort 80'),
        (
            [{"containerPort": 80, "hostPort": 9}, {"containerPort": 81, "hostPort": 80, "protocol": "UDP"}],
            'container "main" uses hostPorts 80, 9',
        ),
    ],
)
def test_host_ports_are_sorted_as_text_when_they_are_refused(ports: list[Object], detail: str) -> None:
    assert judge(pod(container(ports=ports)), level="baseline") == {"hostPorts": detail}


@pytest.mark.parametrize("port", [{"containerPort": 80}, {"containerPort": 80, "hostPort": 0}])
def test_container_port_is_allowed_when_it_takes_none_of_the_host(port: Object) -> None:
    assert judge(pod(container(ports=[port, {**port, "hostPort": None}]))) == {}


def test_ports_become_the_hosts_when_the_pod_takes_its_network() -> None:
    given = pod(container("a", ports=[{"containerPort": 80}]), container("b"), hostNetwork=True)
    assert judge(given) == {"hostNamespaces": "hostNetwork=true", "hostPorts": 'container "a" uses hostPort 80'}


@pytest.mark.parametrize(
    "handler",
    [
        {"livenessProbe": {"httpGet": {"port": 80, "host": "h"}}},
        {"readinessProbe": {"tcpSocket": {"port": 80, "host": "h"}}},
        {"startupProbe": {"httpGet": {"port": 80, "host": "h"}}},
        {"lifecycle": {"postStart": {"tcpSocket": {"port": 80, "host": "h"}}}},
        {"lifecycle": {"preStop": {"httpGet": {"port": 80, "host": "h"}}}},
    ],
)
def test_explicit_host_of_a_handler_is_refused_when_the_version_is_1_34_or_later(handler: Object) -> None:
    given = pod(container(**handler))
    detail = 'container "main" uses probe or lifecycle host "h"'
    assert judge(given, version="1.34") == {"hostProbesAndHostLifecycle": detail}
    assert judge(given, version="1.33") == {}


def test_containers_and_hosts_are_sorted_when_several_handlers_leave_the_pod() -> None:
    given = pod(
        container("b", livenessProbe={"tcpSocket": {"port": 1, "host": "z"}}),
        container("a", lifecycle={"preStop": {"httpGet": {"port": 1, "host": "y"}}}),
        container(
            "c", livenessProbe={"tcpSocket": {"port": 1, "host": ""}}, readinessProbe={"exec": {"command": ["x"]}}
        ),
    )
    assert judge(given) == {"hostProbesAndHostLifecycle": 'containers "a", "b" use probe or lifecycle hosts "y", "z"'}


def test_host_process_is_refused_when_pod_or_container_ask_for_it() -> None:
    asks = {"windowsOptions": {"hostProcess": True}}
    given = pod(container("a", context=asks), container("b", context=asks), context=asks)
    assert judge(given, level="baseline") == {
        "windowsHostProcess": 'pod and containers "a", "b" must not set securityContext.windowsOptions.hostProcess=true'
    }
    assert judge(pod(context={"windowsOptions": {"hostProcess": False}})) == {}
