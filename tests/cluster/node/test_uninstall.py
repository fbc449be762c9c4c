"""What is left on both sides when the agent is removed as the operators' page says: nothing."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.cluster import Cluster
from tests.cluster.node.agent_bed import NODE, AgentBed, open_bed, run_command, wait_for

SHAPE = "leaves"
OFFER = {
    "capacity": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "0", "pods": "4"},
    "shapes": [{"name": SHAPE, "handler": "nvidia", "limits": {"cpu": "100m", "memory": "64Mi", "gpu": "0"}}],
}
PUBLISHING = ("--tenant=skg00000", "--domain=provider.test")
ITEMS = '{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
# Of the cluster itself, at any moment; events end by themselves after an hour.
PASSING = {"events", "events.events.k8s.io", "componentstatuses"}

INSTALLED_AT_PROVIDER = {
    "ConfigMap /kube-root-ca.crt",
    "Role /runyard-node-provider",
    "RoleBinding /runyard-node-provider",
    "ServiceAccount /default",
    "ServiceAccount /tenant",
}


def list_everything(cluster: Cluster, namespace: str | None = None) -> set[str]:
    """Every object of every kind that can be listed, in a namespace or anywhere."""
    scope = ["-A"] if namespace is None else ["-n", namespace]
    only = [] if namespace is None else ["--namespaced=true"]
    kinds = set(cluster.kubectl("api-resources", "--verbs=list", "-o", "name", *only).split()) - PASSING
    lines = cluster.kubectl("get", ",".join(sorted(kinds)), *scope, "-o", f"jsonpath={ITEMS}").splitlines()
    return {line for line in lines if line.strip()}


def is_left(item: str) -> bool:
    """Whether somebody must have left it: not the clusters' own Leases, and not what follows a namespace's life."""
    return not item.startswith(("Lease kube-system/apiserver-", "Lease kube-system/kube-"))


@pytest.fixture
def before(local_cluster: Cluster) -> set[str]:
    """The local cluster before an agent was installed."""
    return list_everything(local_cluster)


@pytest.fixture
def bed(
    before: set[str], local_cluster: Cluster, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentBed]:
    assert before
    folder: Path = tmp_path_factory.mktemp("agent")
    with open_bed(local_cluster, cluster, f"leaves-{secrets.token_hex(3)}", folder, offer=OFFER) as bed:
        bed.start(*PUBLISHING)
        bed.wait_ready()
        bed.wait_filling(SHAPE)
        yield bed


def use(bed: AgentBed) -> None:
    """Run a pod with copies at the provider, and publish it."""
    mount = {"name": "settings", "mountPath": "/settings"}
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "3600"], "volumeMounts": [mount]}
    bed.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "inference", "labels": {"run": "inference"}},
            "spec": {
                "runtimeClassName": SHAPE,
                "terminationGracePeriodSeconds": 1,
                "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
                "containers": [container],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "inference"},
            "spec": {
                "type": "LoadBalancer",
                "loadBalancerClass": NODE,
                "selector": {"run": "inference"},
                "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            },
        },
    )
    bed.wait_phase("inference", "Running")
    wait_for("the address of the Service", lambda: find_ingress(bed))


def find_ingress(bed: AgentBed) -> Any:
    return bed.get("service", "inference")["status"].get("loadBalancer", {}).get("ingress")


def test_nothing_is_left_on_either_side_when_the_agent_is_removed(bed: AgentBed, before: set[str]) -> None:
    kubeconfig = f"--kubeconfig={bed.local.kubeconfig}"
    use(bed)
    assert (
        list_everything(bed.local) - before
    )  # the Node, its Leases and classes, the pod: there was something to leave
    run_command("node", "drain", kubeconfig)
    bed.local.kubectl("delete", "service/inference", "configmap/settings", "--timeout=60s")
    bed.processes[-1].stop()
    installed = {"Role", "RoleBinding", "ServiceAccount", "ConfigMap"}
    tenants = {
        item for item in list_everything(bed.provider, bed.provider_namespace) if item.split()[0] not in installed
    }
    assert tenants == set()
    maps = bed.get_remote("configmaps")["items"]
    assert [one["metadata"]["name"] for one in maps] == ["kube-root-ca.crt"]
    run_command("node", "leave", kubeconfig)
    bed.uninstall()
    wait_for("a cluster as before", lambda: not list(filter(is_left, list_everything(bed.local) - before)))
    assert bed.provider_namespace not in bed.provider.kubectl("get", "namespaces")


def test_services_are_let_go_when_no_agent_is_left_to_remove_their_routes(bed: AgentBed) -> None:
    kubeconfig = f"--kubeconfig={bed.local.kubeconfig}"
    use(bed)
    run_command("node", "drain", kubeconfig)
    bed.processes[-1].stop()
    with pytest.raises(AssertionError, match="these Services have routes at the provider: default/inference"):
        run_command("node", "leave", kubeconfig)
    printed = run_command("node", "leave", "--force", kubeconfig)
    assert "service default/inference let go" in printed
    service = bed.get("service", "inference")
    assert not find_ingress(bed)
    assert f"{NODE}/route" not in service["metadata"].get("finalizers", [])
    bed.local.kubectl("delete", "service/inference", "configmap/settings", "--timeout=30s")
    bed.uninstall()
