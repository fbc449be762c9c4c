"""Commands of the operator's page, on a real cluster."""

from testbed.cluster import Cluster
from testbed.supervision import PROJECT_ROOT
from tests.e2e.guides import define_kubectl, follow, list_commands, read_part

PAGE = PROJECT_ROOT / "docs" / "operators" / "kubernetes.md"


def test_nothing_is_enforced_when_the_check_of_network_policies_runs_on_the_testbed(cluster: Cluster) -> None:
    commands = list_commands(read_part(PAGE, "enforcement"))
    assert [shown for _, shown in commands if shown] == ["web…"]
    try:
        follow(commands, definitions=define_kubectl(cluster.directory / "bin", cluster.kubeconfig), folder=PROJECT_ROOT)
    finally:
        cluster.kubectl("delete", "namespace", "np-test", "--ignore-not-found", "--wait=false")
