"""Which provider it is, and what a namespace says about the link."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runyard.kube import Client, Forbidden, KubeError, NotFound, Resource
from runyard.kube.resources import NAMESPACES
from runyard.node.providers.kubernetes.provider import KubernetesProvider

THERE = {"metadata": {"name": "gpu", "uid": "uid-a"}}
LEAVING = {"metadata": {"name": "gpu", "uid": "uid-a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}


class Cluster:
    """Answers a read of the namespace, and of a pod in it."""

    transport = None
    priority = None

    def __init__(self, namespace: dict[str, Any] | KubeError, pod: KubeError | None = None) -> None:
        self.namespace = namespace
        self.pod = pod or NotFound("no such pod")

    async def get(self, resource: Resource, *_: object, **__: object) -> dict[str, Any]:
        answer = self.namespace if resource is NAMESPACES else self.pod
        if isinstance(answer, KubeError):
            raise answer
        return answer


def make_provider(cluster: Cluster) -> KubernetesProvider:
    provider = KubernetesProvider(cast("Client", cluster), namespace="gpu", node="k8s.gpu")
    provider._reflector = cast("Any", SimpleNamespace(has_synced=True, last_error=None))
    return provider


async def test_identity_is_the_uid_of_the_namespace_when_it_can_be_read() -> None:
    provider = make_provider(Cluster(THERE))
    assert provider.identity is None
    assert await provider._find_problem() is None
    assert provider.identity == "uid-a"


@pytest.mark.parametrize(
    ("cluster", "reason", "words"),
    [
        (Cluster(NotFound("none")), "ProviderNamespaceMissing", "namespace gpu does not exist at the provider"),
        (Cluster(LEAVING), "ProviderNamespaceTerminating", "namespace gpu is being deleted at the provider"),
        (Cluster(Forbidden("no"), Forbidden("no")), "ProviderForbidden", "no rights in namespace gpu, or it was"),
        (Cluster(KubeError("no answer")), "LinkDown", "no answer"),
    ],
)
async def test_problem_names_the_namespace_when_it_is_not_as_it_was(cluster: Cluster, reason: str, words: str) -> None:
    provider = make_provider(cluster)
    problem = await provider._find_problem()
    assert problem is not None
    assert problem.reason == reason
    assert words in problem.message
    assert provider.identity is None


async def test_identity_cannot_be_told_when_the_tenant_may_not_read_its_namespace() -> None:
    provider = make_provider(Cluster(Forbidden("no")))
    assert await provider._find_problem() is None
    assert provider.identity == ""
