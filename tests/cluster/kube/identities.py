"""Kubeconfigs of other users than the admin, and who the apiserver takes us for."""

from pathlib import Path
from typing import Any

import yaml

from runyard.kube.client import Client
from runyard.kube.config import ClusterConfig, load_kubeconfig
from runyard.kube.resources import SERVICE_ACCOUNTS, Resource
from testbed.cluster import Cluster

SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)


def config_of(cluster: Cluster, user: dict[str, Any], *, folder: Path, **cluster_fields: Any) -> ClusterConfig:
    """What a kubeconfig with this user, written into `folder`, says."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [
            {
                "name": "test",
                "cluster": {
                    "server": cluster.server,
                    "certificate-authority": str(cluster.ca_file),
                    **cluster_fields,
                },
            }
        ],
        "users": [{"name": "test", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return load_kubeconfig(path)


async def create_account(client: Client, name: str, *, namespace: str) -> str:
    """A service account without any rights; returns a token of its."""
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace=namespace)
    token = (await client.create_token(name, namespace=namespace, expiration_seconds=600))["status"]["token"]
    assert isinstance(token, str)
    return token


async def who_am_i(client: Client) -> dict[str, Any]:
    """The user, as the apiserver authenticated it."""
    review = await client.create(SELF_SUBJECT_REVIEWS, {})
    user = review["status"]["userInfo"]
    assert isinstance(user, dict)
    return user
