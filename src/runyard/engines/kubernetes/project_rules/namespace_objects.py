"""The other objects of a project's namespace: Pod Security labels, NetworkPolicy, quota, limit range, our rights."""

from collections.abc import Mapping, Sequence
from typing import Any

from runyard.engines.kubernetes.kubernetes_settings import ProjectLimits
from runyard.engines.kubernetes.rbac import PROJECT_ROLE
from runyard.pods.security import Level

NETWORK_POLICY_NAME = "runyard-project"
QUOTA_NAME = "runyard-project"
LIMIT_RANGE_NAME = "runyard-project"
BINDING_NAME = "runyard-project"
_PRIVATE_NETWORKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
"""Private and link-local addresses: nodes, other namespaces, and the metadata services of clouds."""
_PRIVATE_NETWORKS_6 = ("fc00::/7", "fe80::/10")


def render_security_labels(level: Level) -> dict[str, str]:
    """The labels by which the apiserver enforces Pod Security in a namespace."""
    modes = ("enforce", "audit", "warn")
    return {
        **{f"pod-security.kubernetes.io/{mode}": level for mode in modes},
        **{f"pod-security.kubernetes.io/{mode}-version": "latest" for mode in modes},
    }


def render_role_binding(namespace: str, labels: Mapping[str, str], *, subject: Mapping[str, str]) -> dict[str, Any]:
    """Gives the server its rights in the namespace, and nowhere else."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": BINDING_NAME, "namespace": namespace, "labels": dict(labels)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PROJECT_ROLE},
        "subjects": [dict(subject)],
    }


def render_network_policy(
    namespace: str, labels: Mapping[str, str], *, limits: ProjectLimits, servers: Sequence[tuple[str, int]]
) -> dict[str, Any]:
    """Ingress from the project's own pods; egress to DNS, the server, public addresses, and what an operator adds.

    `servers` are the addresses and ports of the server's endpoint. A server in the cluster is reached by its Service:
    there its namespace decides, and the label `runyard.io/server: "true"` of its pods. The label alone would admit
    everybody who may create a pod anywhere. Port-forwards come from the node and always pass.
    """
    own: dict[str, Any] = {"podSelector": {}}
    server_pods = _select_server_pods(limits.server_namespace)
    dns = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    public: list[dict[str, Any]] = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(_PRIVATE_NETWORKS)}},
        {"ipBlock": {"cidr": "::/0", "except": list(_PRIVATE_NETWORKS_6)}},
    ]
    egress: list[dict[str, Any]] = [
        {"ports": dns},
        {"to": [own]},
        {"to": public},
    ]
    if server_pods:
        egress.append({"to": server_pods})
    for address, port in servers:
        block = {"cidr": f"{address}/{128 if ':' in address else 32}"}
        egress.append({"to": [{"ipBlock": block}], "ports": [{"protocol": "TCP", "port": port}]})
    if limits.reachable_networks:
        egress.append({"to": [{"ipBlock": {"cidr": network}} for network in limits.reachable_networks]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": NETWORK_POLICY_NAME, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [own, *server_pods]}],
            "egress": egress,
        },
    }


def _select_server_pods(namespace: str | None) -> list[dict[str, Any]]:
    """The peers that are the server; none if it is outside the cluster. The apiserver sets the namespace's label."""
    if namespace is None:
        return []
    return [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "podSelector": {"matchLabels": {"runyard.io/server": "true"}},
        }
    ]


def render_quota(namespace: str, labels: Mapping[str, str], *, limits: ProjectLimits) -> dict[str, Any] | None:
    """The quota of the namespace; None if none is asked for."""
    if not limits.quota:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": QUOTA_NAME, "namespace": namespace, "labels": dict(labels)},
        "spec": {"hard": dict(limits.quota)},
    }


def render_limit_range(namespace: str, labels: Mapping[str, str], *, limits: ProjectLimits) -> dict[str, Any] | None:
    """The defaults of containers; None if none are asked for."""
    sides = {"default": dict(limits.default_limits), "defaultRequest": dict(limits.default_requests)}
    given = {side: amounts for side, amounts in sides.items() if amounts}
    if not given:
        return None
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": LIMIT_RANGE_NAME, "namespace": namespace, "labels": dict(labels)},
        "spec": {"limits": [{"type": "Container", **given}]},
    }
