"""What is said of kept volumes that are not bound; the rest is in the contract suite of the engines."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from runyard.app.engine import EngineRefusal, EngineUnavailable, KeptVolume
from runyard.domain.reasons import Reason
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.kept_volumes import KeptVolumes, explain_phase
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.kube import Client
from runyard.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from tests.cluster.engine.kubectl_users import ensure

NAMESPACE = "volumes"
SETTINGS = KubernetesSettings(installation="i1", namespace=NAMESPACE)


def make_volume(**fields: Any) -> KeptVolume:
    unique = uuid4().hex
    return KeptVolume(**{"project": "demo", "claim": f"vol-{unique}", "volume_id": unique, "size": "1Mi", **fields})


@pytest.fixture
async def volumes(plane_client: Client) -> KeptVolumes:
    await ensure(plane_client, NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for name, mode in (("lazy", "WaitForFirstConsumer"), ("eager", "Immediate")):
        body = {"metadata": {"name": name}, "provisioner": "example.com/none", "volumeBindingMode": mode}
        await ensure(plane_client, STORAGE_CLASSES, body)
    return KeptVolumes(plane_client, SETTINGS, ClusterWrites(plane_client, request_seconds=20.0))


@pytest.mark.parametrize(
    ("storage_class", "message"),
    [
        ("lazy", "storage class lazy binds the claim when the first run mounts it"),
        ("eager", "waiting for the provisioner example.com/none of storage class eager"),
        ("missing", "storage class missing does not exist; the cluster has: eager, lazy"),
        (None, "no storage class is set, and the cluster has no default: choose one"),
    ],
)
async def test_message_says_why_when_a_claim_is_pending(
    volumes: KeptVolumes, storage_class: str | None, message: str
) -> None:
    volume = make_volume(storage_class=storage_class)
    state = await volumes.ensure_volume(volume)
    assert (state.phase, state.storage_class, state.message) == ("pending", storage_class, message)
    assert state in await volumes.list_volumes()


def test_message_names_the_class_when_storage_classes_may_not_be_read() -> None:
    message = explain_phase("pending", {"storageClassName": "lazy"}, None)
    assert message == "the claim is not bound yet; its storage class is lazy"
    assert explain_phase("pending", {}, None) == "the claim is not bound yet; its storage class is not set"


async def test_claim_is_gone_when_its_volume_is_removed(volumes: KeptVolumes) -> None:
    volume = make_volume(storage_class="lazy")
    await volumes.ensure_volume(volume)
    async with asyncio.timeout(60):
        while not await volumes.remove_volume(volume):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert volume.claim not in {state.claim for state in await volumes.list_volumes()}


async def test_project_is_exact_when_its_label_is_a_hash(volumes: KeptVolumes) -> None:
    volume = make_volume(project="odd-", storage_class="lazy")
    await volumes.ensure_volume(volume)
    assert [one.project for one in await volumes.list_volumes() if one.claim == volume.claim] == ["odd-"]
    assert (await volumes.ensure_volume(volume)).volume_id == volume.volume_id


async def test_claim_of_another_project_is_refused_when_it_has_the_same_id(volumes: KeptVolumes) -> None:
    volume = make_volume(storage_class="lazy")
    await volumes.ensure_volume(volume)
    with pytest.raises(EngineRefusal) as refusal:
        await volumes.ensure_volume(make_volume(claim=volume.claim, volume_id=volume.volume_id, project="other"))
    assert refusal.value.code == Reason.VOLUME_TAKEN


async def test_claims_of_other_installations_and_of_nobody_are_not_listed_when_the_namespace_is_shared(
    volumes: KeptVolumes, plane_client: Client
) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "storageClassName": "lazy"}
    labels = {"theirs": {"runyard.io/installation": "i2", "runyard.io/project": "demo"}, "nobodys": {}}
    for name, given in labels.items():
        body = {"metadata": {"name": name, "labels": given}, "spec": spec}
        await plane_client.create(PERSISTENT_VOLUME_CLAIMS, body, namespace=NAMESPACE)
    assert not {state.claim for state in await volumes.list_volumes()} & labels.keys()


async def test_volume_waits_when_its_namespace_does_not_exist(plane_client: Client) -> None:
    writes = ClusterWrites(plane_client, request_seconds=20.0)
    volumes = KeptVolumes(plane_client, KubernetesSettings(installation="i1"), writes)
    with pytest.raises(EngineUnavailable, match="namespace runyard-demo does not exist") as missing:
        await volumes.ensure_volume(make_volume())
    assert missing.value.code == Reason.NAMESPACE_MISSING
