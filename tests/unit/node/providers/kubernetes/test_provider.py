"""What the provider shows between its own requests and what its watch has seen."""

from typing import Any, cast

import msgspec
import pytest

from runyard.kube import AlreadyExists, Client, Key, NotFound, Reflector, Resource, Subscription, Tombstone
from runyard.kube.resources import PODS
from runyard.kube.store import WritableStore
from runyard.kube.views import build_lens
from runyard.node.offer import Shape
from runyard.node.providers.kubernetes.provider import KubernetesProvider
from runyard.node.providers.kubernetes.remote_objects import NODE_LABEL, UID_LABEL, pod_name
from runyard.node.providers.kubernetes.views import RemotePodView
from runyard.node.providers.provider import ProviderRefused, Workload

UID = "8d0a8f33-e9f9-434a-b3de-9ae58ac9de76"
NAME = pod_name(UID)
LABELS = {UID_LABEL: UID, NODE_LABEL: "k8s.gpu"}
WORKLOAD = Workload(UID, "team", "train", Shape("s", "h", {}), {}, {}, {"containers": [{"name": "main"}]})


def _pod(version: str, *, labels: dict[str, str] = LABELS, **status: Any) -> dict[str, Any]:
    metadata = {"name": NAME, "namespace": "gpu", "uid": "r-1", "resourceVersion": version, "labels": labels}
    return {"metadata": metadata, "spec": {"containers": []}, "status": status or {"phase": "Pending"}}


def _view(version: str, **status: Any) -> RemotePodView:
    return msgspec.convert(_pod(version, **status), RemotePodView)


class _Client:
    transport = None
    priority = None

    def __init__(self) -> None:
        self.existing: dict[str, Any] | None = None
        self.creations = 0

    async def create(self, _: Resource, body: dict[str, Any], *, namespace: str) -> dict[str, Any]:
        self.creations += 1
        if self.existing is not None:
            raise AlreadyExists("there is one")
        return _pod("10", labels=body["metadata"]["labels"])

    async def get(self, *_: object, **__: object) -> dict[str, Any]:
        if self.existing is None:
            raise NotFound("none")
        return self.existing


class _Watch:
    """A reflector that has come to `resource_version`, and a subscription that has `tombstones`."""

    def __init__(self) -> None:
        self.store: WritableStore[RemotePodView] = WritableStore(build_lens(RemotePodView, resource=PODS))
        self.resource_version = "5"
        self.tombstones: list[Tombstone[RemotePodView]] = []

    def deleted(self, key: Key) -> list[Tombstone[RemotePodView]]:
        return self.tombstones


@pytest.fixture
def client() -> _Client:
    return _Client()


@pytest.fixture
def watch() -> _Watch:
    return _Watch()


@pytest.fixture
async def provider(client: _Client, watch: _Watch) -> KubernetesProvider:
    made = KubernetesProvider(cast("Client", client), namespace="gpu", node="k8s.gpu")
    made._reflector = cast("Reflector[RemotePodView]", watch)
    return made


def _take_changes(provider: KubernetesProvider, watch: _Watch) -> None:
    provider._take_changes([Key("gpu", NAME)], cast("Subscription[RemotePodView]", watch))


async def test_started_pod_is_shown_when_the_watch_has_not_seen_it(provider: KubernetesProvider) -> None:
    await provider.start(WORKLOAD)
    assert provider.pods[UID].name == NAME
    provider._drop_unseen()
    assert UID in provider.pods


async def test_started_pod_is_gone_when_the_watch_came_past_it_without_it(
    provider: KubernetesProvider, watch: _Watch
) -> None:
    await provider.start(WORKLOAD)
    watch.resource_version = "12"
    provider._drop_unseen()
    assert UID not in provider.pods


async def test_started_pod_stays_when_the_watch_has_it(provider: KubernetesProvider, watch: _Watch) -> None:
    await provider.start(WORKLOAD)
    watch.resource_version = "12"
    watch.store.upsert(_view("11", phase="Running"))
    provider._drop_unseen()
    assert UID in provider.pods
    _take_changes(provider, watch)
    assert provider.pods[UID].status == {"phase": "Running"}


async def test_nothing_is_created_when_the_pod_is_shown(provider: KubernetesProvider, client: _Client) -> None:
    await provider.start(WORKLOAD)
    await provider.start(WORKLOAD)
    assert client.creations == 1


async def test_pod_is_adopted_when_an_earlier_attempt_created_it(provider: KubernetesProvider, client: _Client) -> None:
    client.existing = _pod("8")
    await provider.start(WORKLOAD)
    assert UID in provider.pods


@pytest.mark.parametrize("labels", [{**LABELS, UID_LABEL: "other"}, {**LABELS, NODE_LABEL: "other"}, {}])
async def test_pod_of_somebody_else_is_not_adopted_when_it_has_the_name(
    provider: KubernetesProvider, client: _Client, labels: dict[str, str]
) -> None:
    client.existing = _pod("8", labels=labels)
    with pytest.raises(ProviderRefused, match="not of this node"):
        await provider.start(WORKLOAD)
    assert UID not in provider.pods


async def test_last_status_is_kept_when_the_pod_is_gone(provider: KubernetesProvider, watch: _Watch) -> None:
    await provider.start(WORKLOAD)
    watch.tombstones = [Tombstone(_view("11", phase="Succeeded"), is_final=True)]
    _take_changes(provider, watch)
    assert UID not in provider.pods
    assert provider.find_final_status(UID) == {"phase": "Succeeded"}


async def test_pod_is_ignored_when_its_name_is_not_that_of_its_uid(provider: KubernetesProvider, watch: _Watch) -> None:
    watch.store.upsert(msgspec.convert(_pod("9", labels={**LABELS, UID_LABEL: "forged"}), RemotePodView))
    _take_changes(provider, watch)
    assert dict(provider.pods) == {}
