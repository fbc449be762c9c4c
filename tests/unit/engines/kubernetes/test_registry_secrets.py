"""The Secret with a project's registry credentials: whose it is, and when it is written again."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import cast

import pytest

from runyard.app.engine import EngineRefusal, Place, ReadRegistries
from runyard.domain.resolve_inputs import AdminRules
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.kubernetes_engine import KubernetesEngine
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.engines.kubernetes.namespaces import Namespaces
from runyard.engines.kubernetes.registry_secrets import RegistrySecrets
from runyard.kube import Client
from runyard.spec.registries import RegistryCredential
from tests.unit.engines.kubernetes.fake_cluster import FakeClient, FakeCluster
from tests.unit.engines.kubernetes.test_cluster_cache import NAMESPACE, make_cache

FIRST = {"r.example": RegistryCredential(user="ada", password="first")}
SECOND = {"r.example": RegistryCredential(user="ada", password="second")}


def make(cluster: FakeCluster, installation: str = "here") -> RegistrySecrets:
    """Those of a server that has just been started."""
    client = cast("Client", FakeClient(cluster))
    writes = ClusterWrites(client, request_seconds=1)
    return RegistrySecrets(client, writes, Namespaces(NAMESPACE, installation), installation=installation)


def reading(registries: Mapping[str, RegistryCredential]) -> ReadRegistries:
    async def read() -> Mapping[str, RegistryCredential]:
        return registries

    return read


@pytest.mark.parametrize("project", ["demo", "demo-", "-demo", "x" + "0" * 20])
async def test_secret_is_replaced_and_deleted_when_the_label_of_its_project_is_a_hash(project: str) -> None:
    cluster = FakeCluster()
    await make(cluster).ensure(project, reading(FIRST))
    before = cluster.find("Secret")
    assert before is not None
    await make(cluster).ensure(project, reading(SECOND))
    after = cluster.find("Secret")
    assert after is not None
    assert after["data"] != before["data"]
    await make(cluster).remove(project)
    assert cluster.find("Secret") is None


async def test_secret_is_left_alone_when_it_is_of_another_project_or_installation() -> None:
    cluster = FakeCluster()
    await make(cluster).ensure("demo-", reading(FIRST))
    secret = cluster.find("Secret")
    assert secret is not None
    secret["metadata"]["annotations"]["runyard.io/project"] = "demo--"
    for secrets in (make(cluster), make(cluster, "other")):
        with pytest.raises(EngineRefusal) as refused:
            await secrets.ensure("demo-", reading(SECOND))
        assert refused.value.code == "registries.taken"
        await secrets.remove("demo-")
    assert cluster.find("Secret") is secret


async def test_secret_is_written_when_its_project_was_removed_and_created_again() -> None:
    cluster = FakeCluster()
    secrets = make(cluster)
    await secrets.ensure("vision", reading(FIRST))
    await secrets.remove("vision")
    await secrets.ensure("vision", reading(FIRST))
    assert cluster.find("Secret") is not None


@pytest.mark.parametrize("namespace", [NAMESPACE, None], ids=["one namespace", "a namespace per project"])
async def test_secret_is_written_when_another_server_removed_the_project(
    monkeypatch: pytest.MonkeyPatch, namespace: str | None
) -> None:
    cluster = FakeCluster()
    settings = KubernetesSettings(installation="here", namespace=namespace)
    async with AsyncExitStack() as stack:
        client = cast("Client", FakeClient(cluster))
        engine = KubernetesEngine(settings, client, make_cache(), place=Place("kubernetes", "c"), stack=stack)

        async def prepare(_: str, __: AdminRules) -> None:
            """The namespace is there."""

        monkeypatch.setattr(engine._projects, "ensure_project", prepare)
        await engine._registries.ensure("vision", reading(FIRST))
        cluster.objects.clear()
        await engine.ensure_project("vision", AdminRules())
        await engine._registries.ensure("vision", reading(FIRST))
        assert cluster.find("Secret") is not None
