"""The rights that the agent needs in both clusters: printed by `manifests`, checked by `doctor`. Pure."""

from collections.abc import Sequence
from typing import Any

from runyard.kube.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_NAMESPACE,
    CONFIG_MAPS,
    EVENTS,
    HTTP_ROUTES,
    INGRESSES,
    LEASES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    NODES,
    POD_METRICS,
    PODS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICES,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    Resource,
)
from runyard.kube.rights import Right, render_binding, render_role
from runyard.node.virtual_node import ELECTION_PREFIX, LEASE_NAMESPACE

ROLE = "runyard-node"
DEFAULT_NODE = "k8s.gpu"
PROVIDER_ROLE = "runyard-node-provider"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
AUTHENTICATION_READER = "extension-apiserver-authentication-reader"
"""A Role of every cluster: reads the CA of client certificates in `kube-system`."""

_SEEN = ("get", "list", "watch")
_SIGNERS = Resource("certificates.k8s.io", "v1", "signers", "Signer", namespaced=False)


def list_cluster_rights(node: str, *, is_static: bool = False) -> Sequence[Right]:
    """In the whole local cluster. Static: another scheduler binds."""
    binding = () if is_static else (Right(resource=PODS, verbs=("create",), subresource="binding"),)
    return (
        Right(resource=NAMESPACES, verbs=("get",), name=CLUSTER_NAMESPACE),
        Right(resource=NODES, verbs=("create",)),
        Right(resource=NODES, verbs=("get", "patch", "delete"), name=node),
        Right(resource=NODES, verbs=("patch",), subresource="status", name=node),
        Right(resource=PODS, verbs=(*_SEEN, "delete")),
        Right(resource=PODS, verbs=("patch",), subresource="status"),
        *binding,
        Right(resource=EVENTS, verbs=("create", "patch")),
        Right(resource=CONFIG_MAPS, verbs=_SEEN),
        Right(resource=SECRETS, verbs=_SEEN),
        Right(resource=SERVICES, verbs=(*_SEEN, "patch")),
        Right(resource=SERVICES, verbs=("patch",), subresource="status"),
        Right(resource=RUNTIME_CLASSES, verbs=(*_SEEN, "create", "patch", "delete")),
        Right(resource=CERTIFICATE_SIGNING_REQUESTS, verbs=("get", "create", "delete")),
        Right(resource=CERTIFICATE_SIGNING_REQUESTS, verbs=("update",), subresource="approval"),
        Right(resource=_SIGNERS, verbs=("approve",), name=KUBELET_SERVING),
        Right(resource=TOKEN_REVIEWS, verbs=("create",)),
        Right(resource=SUBJECT_ACCESS_REVIEWS, verbs=("create",)),
    )


def list_webhook_rights(node: str) -> Sequence[Right]:
    """Besides, for the webhook."""
    return (
        Right(resource=MUTATING_WEBHOOK_CONFIGURATIONS, verbs=("create",)),
        Right(resource=MUTATING_WEBHOOK_CONFIGURATIONS, verbs=("get", "patch", "delete"), name=f"{node}-filling"),
    )


def list_lease_rights(node: str) -> Sequence[Right]:
    """In `kube-node-lease`: the node's heartbeat."""
    return (
        Right(resource=LEASES, verbs=("create",)),
        Right(resource=LEASES, verbs=("get", "patch", "delete"), name=node),
    )


def list_election_rights(node: str) -> Sequence[Right]:
    """In the agent's namespace."""
    return (
        Right(resource=LEASES, verbs=("create",)),
        Right(resource=LEASES, verbs=("get", "update", "delete"), name=f"{ELECTION_PREFIX}{node}"),
    )


PROVIDER_RIGHTS: Sequence[Right] = (
    Right(resource=PODS, verbs=(*_SEEN, "create", "patch", "delete")),
    Right(resource=PODS, verbs=("get",), subresource="log"),
    *(Right(resource=PODS, verbs=("get", "create"), subresource=part) for part in ("exec", "attach", "portforward")),
    Right(resource=CONFIG_MAPS, verbs=(*_SEEN, "create", "patch", "delete")),
    Right(resource=SECRETS, verbs=(*_SEEN, "create", "patch", "delete")),
    Right(resource=EVENTS, verbs=("list", "watch")),
    Right(resource=SERVICES, verbs=(*_SEEN, "create", "patch", "delete")),
    Right(resource=INGRESSES, verbs=(*_SEEN, "create", "patch", "delete")),
    Right(resource=HTTP_ROUTES, verbs=(*_SEEN, "create", "patch", "delete")),
    Right(resource=POD_METRICS, verbs=("list",)),
)
"""At a provider that is a cluster, in the tenant's namespace."""


def name_objects(node: str) -> str:
    """The name of what installs an agent: several nodes may share a cluster."""
    return ROLE if node == DEFAULT_NODE else f"{ROLE}-{node}"


def render_local_roles(
    *, node: str, account: tuple[str, str], has_webhook: bool, is_static: bool = False
) -> list[dict[str, Any]]:
    """Roles and bindings of the agent's service account in the local cluster; it runs in the account's namespace."""
    webhook, role = list_webhook_rights(node) if has_webhook else (), name_objects(node)
    return [
        render_role("ClusterRole", role, (*list_cluster_rights(node, is_static=is_static), *webhook)),
        render_binding("ClusterRoleBinding", role, "ClusterRole", account),
        render_role("Role", role, list_lease_rights(node), namespace=LEASE_NAMESPACE),
        render_binding("RoleBinding", role, "Role", account, namespace=LEASE_NAMESPACE),
        render_role("Role", f"{role}-election", list_election_rights(node), namespace=account[0]),
        render_binding("RoleBinding", f"{role}-election", "Role", account, namespace=account[0]),
        render_binding("RoleBinding", AUTHENTICATION_READER, "Role", account, namespace="kube-system"),
    ]


def render_provider_roles(*, account: tuple[str, str]) -> list[dict[str, Any]]:
    """The role and binding of the account that the provider's kubeconfig names, in its namespace."""
    own_namespace = Right(resource=NAMESPACES, verbs=("get",), name=account[0])
    return [
        render_role("Role", PROVIDER_ROLE, (own_namespace, *PROVIDER_RIGHTS), namespace=account[0]),
        render_binding("RoleBinding", PROVIDER_ROLE, "Role", account, namespace=account[0]),
    ]
