"""Snapshots of the cluster for the explainer: nodes, and what the pods of all namespaces request.

Two reflectors of narrow views, opened by the first snapshot: a server that is never asked does not watch all pods. Pods
that have ended are not selected. Of every other pod five fields are kept: name, node, requests, priority and phase;
the requests of its containers are added up when it is decoded, as the scheduler counts them.

Without the right to see the pods of all namespaces, those of the namespace of runs are watched. When the right is
granted, that watch is replaced by a wide one. A watch that fails shows what was: the snapshot says since when.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.engines.kubernetes.placement_views import PlacedPod, PlacingNode
from runyard.kube import Client, Reflector, Resource, Unavailable
from runyard.kube.permissions import Access, find_missing
from runyard.kube.resources import NODES, PODS
from runyard.pods.snapshot import Snapshot, Unseen

RIGHTS_SECONDS = 60.0
"""How often a missing right is asked for again."""
SILENT_SECONDS = 120.0
"""After this time without a word a watch counts as broken. One that works is opened again after 90 silent seconds."""
_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class _Watch:
    """An open watch, and how much it shows."""

    reflector: Reflector[Any]
    namespace: str | None
    """None: all of them, or objects without one."""
    stack: AsyncExitStack

    def find_stale(self, what: str, *, now: datetime) -> Unseen | None:
        """Since when nothing is heard of what it watches; None if it works."""
        heard_at, error = self.reflector.heard_at or now, self.reflector.last_error
        if error is None and now - heard_at < timedelta(seconds=SILENT_SECONDS):
            return None
        missing = "the apiserver is silent" if error is None else f"the apiserver cannot be watched: {error}"
        return Unseen(what=f"changes of {what}", missing=missing, since=heard_at.isoformat())


class ClusterSnapshots:
    """Takes snapshots. `close` ends the watches."""

    def __init__(self, client: Client, settings: KubernetesSettings) -> None:
        self._client = client
        self._settings = settings
        self._opening = asyncio.Lock()
        self._asked_at = -RIGHTS_SECONDS
        self._nodes: _Watch | None = None
        self._pods: _Watch | None = None
        self._unseen: tuple[Unseen, ...] = ()

    async def take(self) -> Snapshot:
        """What the watches show, and which of them is behind. Raises `KubeError` if they cannot be opened."""
        async with self._opening:
            await self._open()
        nodes = [] if self._nodes is None else self._nodes.reflector.store.views()
        pods = [] if self._pods is None else self._pods.reflector.store.views()
        now = datetime.now(UTC)
        watches = (("nodes", self._nodes), ("pods", self._pods))
        found = [watch.find_stale(what, now=now) for what, watch in watches if watch is not None]
        stale = [unseen for unseen in found if unseen is not None]
        at = min([unseen.since for unseen in stale if unseen.since is not None], default=now.isoformat())
        # On a thread: a cluster may have tens of thousands of pods.
        return await asyncio.to_thread(_render, nodes, pods, at=at, unseen=(*self._unseen, *stale))

    async def close(self) -> None:
        """End the watches. Idempotent."""
        for watch in (self._nodes, self._pods):
            if watch is not None:
                await watch.stack.aclose()

    async def _open(self) -> None:
        """Open the watches that may be opened, as wide as they may, and look again for rights that were missing."""
        clock = asyncio.get_running_loop().time
        if self._nodes is not None and self._pods is not None and not self._unseen:
            return
        if clock() - self._asked_at < RIGHTS_SECONDS:
            return
        shared = self._settings.namespace
        accesses = [Access(verb, resource) for resource in (NODES, PODS) for verb in ("list", "watch")]
        missing = await find_missing(self._client, accesses)
        may_see_nodes = not any(access.resource is NODES for access in missing)
        may_see_pods = not any(access.resource is PODS for access in missing)
        if self._nodes is None and may_see_nodes:
            self._nodes = await self._watch(NODES, PlacingNode)
        if may_see_pods and (self._pods is None or self._pods.namespace is not None):
            narrow, self._pods = self._pods, await self._watch(PODS, PlacedPod)
            if narrow is not None:
                await narrow.stack.aclose()
        elif self._pods is None and shared is not None:
            self._pods = await self._watch(PODS, PlacedPod, namespace=shared)
        sees_all_pods = self._pods is not None and self._pods.namespace is None
        self._unseen = tuple(_describe_unseen(sees_nodes=self._nodes is not None, sees_all_pods=sees_all_pods))
        self._asked_at = clock()

    async def _watch(self, resource: Resource, view: type[Any], *, namespace: str | None = None) -> _Watch:
        selector = _NOT_ENDED if resource is PODS else None
        reflector: Reflector[Any] = Reflector(
            self._client, resource, view=view, namespace=namespace, field_selector=selector
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(reflector)
            try:
                async with asyncio.timeout(self._settings.request_seconds):
                    await reflector.wait_synced()
            except TimeoutError:
                raise reflector.last_error or Unavailable(f"{resource.plural} could not be listed in time") from None
            return _Watch(reflector, namespace, stack.pop_all())


def _describe_unseen(*, sees_nodes: bool, sees_all_pods: bool) -> Iterable[Unseen]:
    if not sees_nodes:
        yield Unseen(what="nodes", missing="list and watch nodes")
    if not sees_all_pods:
        yield Unseen(what="pods of other namespaces", missing="list and watch pods in all namespaces")


def _render(
    nodes: Iterable[PlacingNode], pods: Iterable[PlacedPod], *, at: str, unseen: tuple[Unseen, ...]
) -> Snapshot:
    return Snapshot(at=at, nodes=tuple(map(_render_node, nodes)), pods=tuple(map(_render_pod, pods)), unseen=unseen)


def _render_node(node: PlacingNode) -> Mapping[str, Any]:
    spec: dict[str, Any] = {"unschedulable": True} if node.spec.unschedulable else {}
    if node.spec.taints:
        spec["taints"] = list(node.spec.taints)
    return {
        "metadata": {"name": node.metadata.name, "labels": node.metadata.labels},
        "spec": spec,
        "status": {
            "allocatable": node.status.allocatable,
            "conditions": [
                {"type": one.type, "status": one.status, "reason": one.reason} for one in node.status.conditions
            ],
        },
    }


def _render_pod(pod: PlacedPod) -> Mapping[str, Any]:
    """A pod with one container, which requests what all of them do."""
    total = pod.spec.total
    spec: dict[str, Any] = {
        "priority": pod.spec.priority,
        "containers": [{"resources": {"requests": dict(zip(total[::2], total[1::2], strict=True))}}],
    }
    if pod.spec.node_name:
        spec["nodeName"] = pod.spec.node_name
    return {
        "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
        "spec": spec,
        "status": {"phase": pod.status.phase},
    }
