"""Both sides of a mirror in memory: an apiserver that merges statuses, and a provider that may lose answers."""

import copy
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from runyard.kube import Client, Conflict, NotFound, Reflector, Resource
from runyard.kube.resources import PODS
from runyard.kube.store import WritableStore
from runyard.kube.views import build_lens
from runyard.node.admission.refusal import Refusal
from runyard.node.event_recorder import EventRecorder
from runyard.node.mirror.needed_objects import NeededObjects
from runyard.node.mirror.pod_reconciler import UID_INDEX, MirrorSettings, Owner, PodReconciler
from runyard.node.mirror.statuses import StatusSettings
from runyard.node.offer import Shape
from runyard.node.providers.provider import Link, Provider, ProviderError, ProviderUnavailable, RemotePod, Workload

Object = dict[str, Any]
UP = Link(is_up=True, has_listed=True, since=datetime(2026, 1, 1, tzinfo=UTC))


class FakeCluster:
    """The local cluster, as far as the mirror uses it: a client and a reflector in one."""

    def __init__(self) -> None:
        self.store: WritableStore[Object] = WritableStore(
            build_lens(dict, resource=PODS), indexes={UID_INDEX: lambda pod: [pod["metadata"]["uid"]]}
        )
        self.has_synced = True
        self.objects: dict[tuple[str, str], Object] = {}
        self.patches: list[Object] = []
        self.applied: list[Object] = []
        self.is_lagging = False
        """Whether writes are not shown by the watch yet."""
        self._version = 100

    def put(self, pod: Object) -> None:
        """Write a pod as somebody else."""
        self._version += 1
        pod = copy.deepcopy(pod)
        pod["metadata"]["resourceVersion"] = str(self._version)
        self.store.upsert(pod)

    def pod(self, name: str = "train") -> Object | None:
        return self.store.find(("team", name))

    def remove(self, name: str = "train") -> None:
        if (pod := self.pod(name)) is not None:
            self.store.remove(pod)

    async def get(self, resource: Resource, name: str, *, namespace: str) -> Object:
        if (resource.kind, name) not in self.objects:
            raise NotFound(f"no {resource.kind} {name}")
        return self.objects[resource.kind, name]

    async def patch(self, _: Resource, name: str, patch: Object, **__: Any) -> Object:
        pod = copy.deepcopy(self.pod(name))
        if pod is None:
            raise NotFound("no pod")
        if pod["metadata"]["uid"] != patch["metadata"]["uid"]:
            raise Conflict("another uid")
        self.patches.append(patch)
        for field, value in patch["status"].items():
            if field == "conditions":
                held = {condition["type"]: condition for condition in pod["status"].get("conditions") or ()}
                pod["status"][field] = [*(held | {condition["type"]: condition for condition in value}).values()]
            elif value is None:
                pod["status"].pop(field, None)
            elif isinstance(value, list):
                pod["status"][field] = [item for item in value if "$patch" not in item]
            else:
                pod["status"][field] = value
        if self.is_lagging:
            self._version += 1
            pod["metadata"]["resourceVersion"] = str(self._version)
            return pod
        self.put(pod)
        return cast("Object", self.pod(name))

    async def delete(self, _: Resource, name: str, *, uid: str, grace_period_seconds: int, **__: Any) -> Object:
        pod = self.pod(name)
        if pod is None:
            raise NotFound("no pod")
        if pod["metadata"]["uid"] != uid:
            raise Conflict("another uid")
        assert grace_period_seconds == 0
        self.remove(name)
        return {}


class FakeProvider:
    """A provider in memory. `fault` is raised by the next call, which is carried out before if `is_done`."""

    kind = "fake"

    def __init__(self) -> None:
        self.link = UP
        self.held: dict[str, RemotePod] = {}
        self.final: dict[str, Object] = {}
        self.creations: list[str] = []
        self.stops: list[tuple[str, int]] = []
        self.updates: list[Workload] = []
        self.cleaned: list[str] = []
        self.fault: ProviderError | None = None
        self.is_done = False

    @property
    def pods(self) -> Mapping[str, RemotePod]:
        return self.held

    async def __aenter__(self) -> "FakeProvider":
        return self

    async def __aexit__(self, *error: object) -> None:
        return

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        yield frozenset(self.held)

    def find_final_status(self, uid: str) -> Object | None:
        return self.final.get(uid)

    async def start(self, workload: Workload) -> None:
        if (self.fault is None or self.is_done) and workload.uid not in self.held:
            self.creations.append(workload.uid)
            self.held[workload.uid] = RemotePod(workload.uid, "remote", {"phase": "Pending"}, {})
        self._fail()

    async def update(self, workload: Workload) -> None:
        self._fail()
        self.updates.append(workload)

    async def stop(self, uid: str, *, grace_seconds: int) -> None:
        self._fail()
        self.stops.append((uid, grace_seconds))
        if uid in self.held:
            self.held[uid] = replace(self.held[uid], is_deleting=True)

    async def clean_up(self, uid: str) -> None:
        assert uid not in self.held
        self.cleaned.append(uid)

    def show(self, uid: str, **status: Any) -> None:
        """Let a pod have another status."""
        self.held[uid] = replace(self.held[uid], status={**self.held[uid].status, **status})

    def remove(self, uid: str) -> None:
        """Let a pod be gone."""
        if (pod := self.held.pop(uid, None)) is not None:
            self.final[uid] = pod.status

    def _fail(self) -> None:
        fault, self.fault, self.is_done = self.fault, None, False
        if fault is not None:
            raise fault


@dataclass
class Sides:
    """Both sides, and a reconciler that may be replaced by a new one."""

    local: FakeCluster
    provider: FakeProvider
    gone: list[str]
    refusal: Refusal | None = None
    shape: Shape | None = Shape("gpu-1x", "nvidia", {})  # noqa: RUF009 - frozen

    def restart(self) -> PodReconciler:
        """A reconciler that knows nothing."""
        client = cast("Client", self.local)
        return PodReconciler(
            client,
            cast("Provider", self.provider),
            cast("Reflector[Object]", self.local),
            owner=Owner(
                find_shape=lambda pod: self.shape, find_refusal=lambda pod: self.refusal, on_gone=self.gone.append
            ),
            settings=MirrorSettings(status=StatusSettings(host_address="10.0.0.1")),
            needed=NeededObjects(client, on_change=lambda uid: None),
            recorder=EventRecorder(client, component="k8s.gpu"),
        )


def make_sides() -> Sides:
    return Sides(FakeCluster(), FakeProvider(), [])


def unavailable() -> ProviderUnavailable:
    return ProviderUnavailable("no answer")
