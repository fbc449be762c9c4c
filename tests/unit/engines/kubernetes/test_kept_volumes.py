"""Lists of kept volumes: our own are complete however many strangers there are, and memory holds a page at a time."""

import weakref
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from runyard.engines.kubernetes import kept_volumes
from runyard.engines.kubernetes.cluster_writes import ClusterWrites
from runyard.engines.kubernetes.kept_volumes import KeptVolumes
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.kube import Client, Listing, Object, Resource
from runyard.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS

PAGE_SIZE = 2
OURS = {"runyard.io/installation": "i1", "runyard.io/project": "demo"}
NOBODYS = {"runyard.io/project": "demo"}
THEIRS = {"runyard.io/installation": "i2", "runyard.io/project": "demo"}


class Body(dict[str, Any]):
    """A whole object that a test can see go."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def make_claim(name: str, labels: Mapping[str, str], *, namespace: str = "runyard-demo", **metadata: Any) -> Object:
    named = {"name": name, "namespace": namespace, "uid": name, "labels": dict(labels), **metadata}
    return {"metadata": named, "spec": {}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}


def make_pod(name: str, *, run_uid: str, claim: str, phase: str = "Running") -> Object:
    labels = {**OURS, "runyard.io/run-uid": run_uid}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}, {"name": "tmp", "emptyDir": {}}]
    metadata = {"name": name, "namespace": "runyard-demo", "labels": labels}
    return {"metadata": metadata, "spec": {"volumes": volumes}, "status": {"phase": phase}}


def is_selected(item: Object, selector: str | None) -> bool:
    labels = item["metadata"].get("labels", {})
    for part in (selector or "").split(",") if selector else ():
        if "!=" in part:
            key, _, value = part.partition("!=")
            fits = labels.get(key) != value
        elif "=" in part:
            key, _, value = part.partition("=")
            fits = labels.get(key) == value
        else:
            fits = (part.removeprefix("!") in labels) is not part.startswith("!")
        if not fits:
            return False
    return True


class FakeCluster:
    """Lists what a test has put into it, by label selectors and in pages."""

    def __init__(self, **objects: list[Object]) -> None:
        self.objects = objects
        namespace = {"metadata": {"name": "runyard-demo", "labels": OURS}}
        self.objects.setdefault(NAMESPACES.plural, [namespace])
        self.most_held = 0
        self._held: weakref.WeakSet[Body] = weakref.WeakSet()

    async def list(self, resource: Resource, **_: object) -> Listing:
        return Listing(self.objects.get(resource.plural, []), "1")

    async def iter_pages(
        self, resource: Resource, *, label_selector: str | None = None, **_: object
    ) -> AsyncIterator[Listing]:
        found = [item for item in self.objects.get(resource.plural, []) if is_selected(item, label_selector)]
        for start in range(0, len(found), PAGE_SIZE):
            page = [Body(item) for item in found[start : start + PAGE_SIZE]]
            self._held.update(page)
            yield Listing(cast("list[Object]", page), "1")
            del page
            self.most_held = max(self.most_held, len(self._held))


def make_volumes(cluster: FakeCluster, *, namespace: str | None = None) -> KeptVolumes:
    client = cast("Client", cluster)
    settings = KubernetesSettings(installation="i1", namespace=namespace)
    return KeptVolumes(client, settings, cast("ClusterWrites", object()))


@pytest.mark.parametrize(("namespace", "stranger"), [(None, {}), (None, THEIRS), ("runyard-demo", NOBODYS)])
async def test_every_own_volume_is_listed_when_strangers_have_more_claims_than_are_listed(
    namespace: str | None, stranger: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_volumes, "MOST_LISTED_VOLUMES", 3)
    claims = [make_claim(f"a-{number}", stranger) for number in range(9)]
    own = [make_claim(f"vol-{number}", {**OURS, "runyard.io/volume-id": f"v{number}"}) for number in range(7)]
    cluster = FakeCluster(persistentvolumeclaims=claims + own)
    listed = await make_volumes(cluster, namespace=namespace).list_volumes()
    assert [state.volume_id for state in listed] == [*(f"v{number}" for number in range(7)), None, None, None]


async def test_claims_of_runs_and_of_other_namespaces_are_not_listed_when_projects_have_their_own() -> None:
    owned = make_claim("run-1", OURS, ownerReferences=[{"uid": "job"}])
    elsewhere = make_claim("elsewhere", {}, namespace="team")
    left = make_claim("left", OURS)
    listed = await make_volumes(FakeCluster(persistentvolumeclaims=[owned, elsewhere, left])).list_volumes()
    assert [(state.project, state.claim, state.volume_id) for state in listed] == [("demo", "left", None)]


async def test_claims_of_others_are_not_listed_when_the_namespace_is_shared() -> None:
    claims = [make_claim("theirs", THEIRS), make_claim("somebodys", {}), make_claim("old", NOBODYS)]
    listed = await make_volumes(FakeCluster(persistentvolumeclaims=claims), namespace="runyard-demo").list_volumes()
    assert [state.claim for state in listed] == ["old"]


async def test_one_page_of_pods_and_claims_is_held_when_there_are_many() -> None:
    claims = [make_claim(f"vol-{number}", {**OURS, "runyard.io/volume-id": f"v{number}"}) for number in range(9)]
    pods = [make_pod(f"p{number}", run_uid=f"u{number}", claim="vol-1") for number in range(9)]
    ended = make_pod("p", run_uid="ended", claim="vol-1", phase="Succeeded")
    cluster = FakeCluster(**{PERSISTENT_VOLUME_CLAIMS.plural: claims, PODS.plural: [*pods, ended]})
    mounted = {state.claim: state.mounted_by for state in await make_volumes(cluster).list_volumes()}
    assert mounted["vol-1"] == tuple(f"u{number}" for number in range(9))
    assert mounted["vol-2"] == ()
    assert cluster.most_held <= PAGE_SIZE + 1  # and perhaps the item that a loop has looked at last
