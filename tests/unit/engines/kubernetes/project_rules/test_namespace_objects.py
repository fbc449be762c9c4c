"""The NetworkPolicy of a project, judged by the evaluator of the cluster tests, which knows only the API's words."""

from runyard.engines.kubernetes.kubernetes_settings import ProjectLimits
from runyard.engines.kubernetes.project_rules import render_network_policy
from tests.cluster.engine.network_policies import Endpoint, passes

SERVER_LABELS = {"runyard.io/server": "true"}
SERVER_PORT = 8080


def make_pod(namespace: str, *, labels: dict[str, str] | None = None) -> Endpoint:
    return Endpoint(
        address="10.1.0.9",
        namespace=namespace,
        labels=labels or {},
        namespace_labels={"kubernetes.io/metadata.name": namespace, "team": "a"},
    )


RUN = make_pod("runyard-vision")
SERVER = make_pod("runyard", labels=SERVER_LABELS)
IMPOSTOR = make_pod("of-somebody", labels=SERVER_LABELS)
NEIGHBOUR_OF_THE_SERVER = make_pod("runyard")


def lets(server_namespace: str | None, source: Endpoint, target: Endpoint) -> bool:
    """Whether a connection passes the policy of the project `vision`; its server has no address of its own."""
    limits = ProjectLimits(server_namespace=server_namespace)
    policy = render_network_policy("runyard-vision", {}, limits=limits, servers=[])
    return passes([policy], source, target, port=SERVER_PORT)


def test_pods_and_server_reach_each_other_when_the_server_is_in_the_cluster() -> None:
    assert lets("runyard", SERVER, RUN)
    assert lets("runyard", RUN, SERVER)


def test_pod_with_the_servers_label_is_kept_out_when_its_namespace_is_another() -> None:
    assert not lets("runyard", IMPOSTOR, RUN)
    assert not lets("runyard", RUN, IMPOSTOR)


def test_pod_in_the_servers_namespace_is_kept_out_when_it_lacks_the_label() -> None:
    assert not lets("runyard", NEIGHBOUR_OF_THE_SERVER, RUN)
    assert not lets("runyard", RUN, NEIGHBOUR_OF_THE_SERVER)


def test_no_pod_passes_for_the_server_when_it_is_outside_the_cluster() -> None:
    for pod in (SERVER, IMPOSTOR):
        assert not lets(None, pod, RUN)
        assert not lets(None, RUN, pod)
    assert lets(None, make_pod("runyard-vision", labels=SERVER_LABELS), RUN)
