"""The server's account in a cluster, with exactly the rights that `runyard server rbac` prints."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runyard.engines.kubernetes.rbac import render_rbac
from runyard.kube import AlreadyExists, Client, ClusterConfig, Resource, load_kubeconfig
from runyard.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from testbed.cluster import Cluster

RESOURCES: Mapping[str, Resource] = {
    resource.kind: resource
    for resource in (
        CLUSTER_ROLES,
        CLUSTER_ROLE_BINDINGS,
        ROLES,
        ROLE_BINDINGS,
        VALIDATING_ADMISSION_POLICIES,
        VALIDATING_ADMISSION_POLICY_BINDINGS,
    )
}
ACCOUNT_NAMESPACE = "lab-accounts"
TOKEN_SECONDS = 3600


async def connect_server(
    cluster: Cluster, client: Client, *, namespace: str | None, account: str | None = None, has_view: bool = True
) -> ClusterConfig:
    """The cluster as the server reaches it: with one namespace for all, or with a namespace per project (None).

    With one namespace the account is its own; otherwise all share one, unless another is named. Without `has_view`,
    the rights are those of `--no-cluster-view`.
    """
    name = account or name_account(namespace)
    await _ensure(client, NAMESPACES, {"metadata": {"name": ACCOUNT_NAMESPACE}})
    await _ensure(client, SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace=ACCOUNT_NAMESPACE)
    await grant_rights(client, namespace=namespace, account=name, has_view=has_view)
    answer = await client.create_token(name, namespace=ACCOUNT_NAMESPACE, expiration_seconds=TOKEN_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        return load_kubeconfig(cluster.write_kubeconfig(path, token=answer["status"]["token"]))


def name_account(namespace: str | None) -> str:
    """The account of a server with one namespace for all, or with a namespace per project (None)."""
    return "server" if namespace is None else f"server-{namespace}"


async def grant_rights(client: Client, *, namespace: str | None, account: str, has_view: bool = True) -> None:
    """Give an account the printed rights, again if they were revoked."""
    for item in render_rbac(namespace=namespace, account=(ACCOUNT_NAMESPACE, account), has_view=has_view):
        await client.apply(RESOURCES[item["kind"]], item, field_manager="lab", force=True)


async def revoke_rights(client: Client, *, namespace: str | None, account: str) -> None:
    """Delete the bindings of an account. Watches that are open go on: rights are checked when they are opened."""
    for item in render_rbac(namespace=namespace, account=(ACCOUNT_NAMESPACE, account)):
        if item["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            metadata = item["metadata"]
            await client.delete(RESOURCES[item["kind"]], metadata["name"], namespace=metadata.get("namespace"))


async def _ensure(client: Client, resource: Resource, body: dict[str, Any], *, namespace: str | None = None) -> None:
    try:
        await client.create(resource, body, namespace=namespace)
    except AlreadyExists:
        return
