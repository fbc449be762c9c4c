"""The installation's objects in memory: reflectors of every kind that an observation needs, indexed by run.

Objects are found by the label `runyard.io/installation`, in the namespace of all runs or, with a namespace per project,
in the whole cluster. Secrets are never listed or watched.

The **version** of what the cache holds is the largest resourceVersion that it has reached: etcd's revision counts
all objects, so it never decreases in a process, and a later process begins with a larger one. If it is smaller than
before, or than the newest observation in the database (the watermark), etcd was restored: then the **epoch** grows,
once for all kinds, and each of them is listed anew. Only kinds of runs' objects count: a cluster may keep its events in
an etcd of their own, which counts for itself.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Self, TypeVar

from runyard.app.engine import ContainerEnd
from runyard.engines.kubernetes.gone_pods import GonePods
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.engines.kubernetes.namespaces import project_namespace
from runyard.engines.kubernetes.observations import collect_ends, merge_ends
from runyard.engines.kubernetes.run_objects import (
    AnchorView,
    GonePod,
    RunObjects,
    get_project,
    get_run_id,
    get_run_uid,
)
from runyard.engines.kubernetes.views import (
    ClaimView,
    DeploymentView,
    EventView,
    JobView,
    NodeView,
    PodView,
    ServiceView,
)
from runyard.engines.kubernetes.watched_resource import WatchedResource
from runyard.kube import Client, KubeError, Reflector, Resource, Subscription, View
from runyard.kube.permissions import Access, find_missing
from runyard.kube.reflector import Timing
from runyard.kube.resources import (
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICES,
)
from runyard.kube.store import StoreLimits
from runyard.manifests.identity import RunIdentity
from runyard.manifests.metadata import INSTALLATION_LABEL, to_label_value
from runyard.manifests.names import find_run_name, run_name

V = TypeVar("V", bound=View)

MOST_PODS = 1000
"""How many pods of a run an observation is made of, the newest."""
MOST_GONE_RUNS = 1000
"""How many runs are remembered after the cluster has said that their anchor is gone, the newest."""
MOST_UNCONFIRMED_RUNS = 10_000
"""How many runs are remembered after their anchor is gone in all, also while the cluster was not asked yet."""
MOST_RUN_EVENTS = 50
"""How many warnings about the objects of a run are kept, and an observation is made of, the newest."""
MOST_EVENTS = 20_000
"""How many warnings about runs are kept, the latest; also of other installations, whose runs have names alike."""
MOST_WRITTEN = 10_000
"""How many anchors are kept as this process wrote them, until the watch shows them."""
LONGEST_WRITTEN_SECONDS = 60.0
"""How long an anchor is believed as it was written, while the watch does not show it."""
MOST_REMEMBERED_NAMES = 1000
"""Of how many runs the name of the anchor is remembered; it is computed for every change of one."""
KEYS_AT_A_TIME = 200
"""How many changed objects are taken in before others get a turn."""
SYNC_SECONDS = 30.0
"""How long opening waits for the first lists; then the engine begins without them."""

LONGEST_BACKOFF_SECONDS = 5.0
"""How long a watch waits before it connects again: so long the engine may be blind after an outage of the cluster."""
_TIMING = Timing(backoff_seconds=(0.25, LONGEST_BACKOFF_SECONDS))

_INVOLVED_KINDS = frozenset({"Pod", "PersistentVolumeClaim", "Job", "Deployment", "ReplicaSet"})

Listener = Callable[[Iterable[str]], None]
"""Is told the run keys of what changed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Written:
    """An anchor in the answer to one of our own writes."""

    anchor: AnchorView
    until: float


class ClusterCache:
    """What the watches of one engine have shown so far. Made by `open`, in the event loop that it belongs to.

    A run is known by its key, the value of its label `runyard.io/run-uid` (`to_label_value` of its uid).
    """

    def __init__(self, client: Client, settings: KubernetesSettings, *, has_nodes: bool) -> None:
        selector = f"{INSTALLATION_LABEL}={settings.installation}"

        def watch(
            resource: Resource,
            view: type[V],
            indexes: Any,
            *,
            field_selector: str | None = None,
            limits: StoreLimits[V] | None = None,
        ) -> WatchedResource[V]:
            def make_reflector() -> Reflector[V]:
                return Reflector(
                    client,
                    resource,
                    view=view,
                    namespace=settings.namespace,
                    indexes=indexes,
                    label_selector=None if field_selector else selector,
                    field_selector=field_selector,
                    limits=limits,
                    timing=_TIMING,
                )

            return WatchedResource(resource, make_reflector)

        self._is_per_project = settings.namespace is None
        by_run = {"run": _index_run}
        self.jobs = watch(JOBS, JobView, {"run": self._index_anchor})
        self.deployments = watch(DEPLOYMENTS, DeploymentView, {"run": self._index_anchor})
        self.pods = watch(PODS, PodView, {**by_run, "node": _index_node})
        self.services = watch(SERVICES, ServiceView, by_run)
        self.claims = watch(PERSISTENT_VOLUME_CLAIMS, ClaimView, by_run)
        self.events = watch(
            EVENTS,
            EventView,
            {"involved": _index_involved, "run_name": _index_run_name},
            field_selector="type=Warning",
            # Events have no labels, so those of the whole cluster come. Names of runs' objects are known by their form.
            limits=StoreLimits(
                holds=lambda event: bool(_index_involved(event) and _index_run_name(event)),
                index="run_name",
                most_per_value=MOST_RUN_EVENTS,
                most=MOST_EVENTS,
            ),
        )
        self.nodes = (
            WatchedResource(NODES, lambda: Reflector(client, NODES, view=NodeView, timing=_TIMING))
            if has_nodes
            else None
        )
        self._run_kinds: tuple[WatchedResource[Any], ...] = (
            self.jobs,
            self.deployments,
            self.pods,
            self.services,
            self.claims,
        )
        self._namespaced: tuple[WatchedResource[Any], ...] = (*self._run_kinds, self.events)
        self._epoch, self._version = settings.watermark.epoch, 0
        self._watermark = settings.watermark
        self._gone_pods = GonePods()
        self._gone_anchors: OrderedDict[str, AnchorView] = OrderedDict()
        self._confirmed: OrderedDict[str, None] = OrderedDict()
        """Keys of runs whose anchor is gone by the word of the cluster, which others were told."""
        self._past_ends: dict[str, tuple[ContainerEnd, ...]] = {}
        """Of runs with a container that was started again: a pod shows only its last two instances."""
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._unready: dict[str, str] = {}
        """Nodes that are not ready, and since when."""
        self.incomplete_runs: set[str] = set()
        """Keys of runs of which the cache may lack objects, as its user has found; dropped with their anchors."""
        self._listeners: list[Listener] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, client: Client, settings: KubernetesSettings) -> AsyncIterator[Self]:
        """Watch until the end of the block."""
        has_nodes = not await find_missing(client, [Access(verb, NODES) for verb in ("list", "watch")])
        cache = cls(client, settings, has_nodes=has_nodes)
        tasks = [asyncio.create_task(each.run(partial(cache._take_in, each))) for each in cache._iter_watched()]
        try:
            if await cache.wait_synced(SYNC_SECONDS):
                await cache._wait_taken_in()
            yield cache
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def epoch(self) -> int:
        """Grows when versions begin anew. Final once `is_synced`."""
        return self._epoch

    @property
    def version(self) -> int:
        """The largest resourceVersion that was reached in this epoch."""
        return self._version

    @property
    def is_synced(self) -> bool:
        """Whether everything was listed completely: what the cache lacks was absent then."""
        return all(watched.reflector.has_synced for watched in self._run_kinds)

    @property
    def is_current(self) -> bool:
        """Whether what the cache lacks is absent: everything was listed, every watch is open, no run is incomplete."""
        is_stale = any(watched.is_stale or watched.has_failed for watched in self._run_kinds)
        return self.is_synced and not self.last_errors and not is_stale and not self.incomplete_runs

    @property
    def last_errors(self) -> dict[str, KubeError]:
        """Why the cache may be behind, by resource; empty while all watches of runs' objects are open."""
        return {
            watched.resource.plural: error
            for watched in self._run_kinds
            if (error := watched.reflector.last_error) is not None
        }

    def list_namespaces(self) -> list[str]:
        """The namespaces that have pods of this installation."""
        return sorted({key.namespace for key in self.pods.store})

    async def wait_synced(self, seconds: float) -> bool:
        """Wait for the first complete lists; returns whether they were taken in time."""
        try:
            async with asyncio.timeout(seconds):
                for watched in self._run_kinds:
                    await watched.wait_synced()
        except TimeoutError:
            _log.warning("the cluster was not listed within %g s: %s", seconds, self.describe_errors())
            return False
        for watched in self._run_kinds:
            self._reach(watched)
        return True

    async def _wait_taken_in(self) -> None:
        """Take in what was listed before anybody listens: whoever subscribes then lists all runs anyway."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SYNC_SECONDS):
                for watched in self._run_kinds:
                    if len(watched.store):
                        await watched.taken_in.wait()

    def describe_errors(self) -> str:
        """The errors of all watches, for people."""
        return "; ".join(f"{name}: {error}" for name, error in list(self.last_errors.items())[:5]) or "no error yet"

    def listen(self, listener: Listener) -> None:
        """Call it with the keys of runs whose objects changed, from now on."""
        self._listeners.append(listener)

    def find(self, run_uid: str) -> RunObjects | None:
        """The objects of a run; None if its anchor is not known."""
        return self.find_by_key(to_label_value(run_uid))

    def find_by_key(self, run_key: str) -> RunObjects | None:
        """The objects of the run with that key."""
        anchor = self.find_anchor(run_key)
        return None if anchor is None else self.collect(anchor)

    def collect(self, anchor: AnchorView) -> RunObjects:
        """What the cache knows of the run of an anchor, which may have been read elsewhere."""
        run_key, created_at = anchor.metadata.labels.run_uid, anchor.metadata.created_at
        # Pods of an earlier anchor of the same run are older.
        pods = tuple(pod for pod in self.list_pods_by_key(run_key) if pod.metadata.created_at >= created_at)
        services = self.services.store.find_by_index("run", run_key)
        claims = self.claims.store.find_by_index("run", run_key)
        return RunObjects(
            anchor=anchor,
            pods=pods,
            gone_pods=self._gone_pods.list(run_key),
            past_ends=self._past_ends.get(run_key, ()),
            services=tuple(services),
            claims=tuple(claims),
            events=self._list_events(anchor, pods, claims),
            unready_nodes=self._list_unready(pods),
            epoch=self._epoch,
            version=self._version,
        )

    def find_anchor(self, run_key: str) -> AnchorView | None:
        """The anchor of a run as the watch shows it, or as this process wrote it, whichever is newer."""
        held: AnchorView | None = None
        for store in (self.jobs.store, self.deployments.store):
            for found in store.find_by_index("run", run_key):
                held = found
        return self._choose_newer(run_key, held)

    def find_pod(self, namespace: str, name: str) -> PodView | None:
        """A pod of this installation, by its name."""
        return self.pods.store.find((namespace, name))

    @property
    def pod_lists(self) -> int:
        """How often pods were listed. Each time, some may have come and gone before."""
        return self.pods.reflector.counters.lists

    def has_pods_of(self, anchor: AnchorView) -> bool:
        """Whether the watch of pods has come as far as this anchor: pods that it does not show are gone."""
        reached = _parse_version(self.pods.reflector.resource_version)
        return not self.pods.is_stale and reached >= _parse_version(anchor.metadata.resource_version)

    def list_pods(self, run_uid: str) -> Sequence[PodView]:
        """The pods of a run that exist, oldest first; at most `MOST_PODS`, the newest."""
        return self.list_pods_by_key(to_label_value(run_uid))

    def list_pods_by_key(self, run_key: str) -> Sequence[PodView]:
        """The pods of the run with that key."""
        pods = self.pods.store.find_by_index("run", run_key)
        if len(pods) > 1:
            pods.sort(key=lambda pod: (pod.metadata.created_at, pod.metadata.name))
        return pods[-MOST_PODS:]

    def list_gone_pods(self, run_uid: str) -> Sequence[GonePod]:
        """Pods of a run that this process saw and that were deleted, oldest first; a bounded number."""
        return self._gone_pods.list(to_label_value(run_uid))

    def list_past_ends(self, run_key: str) -> Sequence[ContainerEnd]:
        """Ends of container instances that the pods of the run may not show anymore, oldest first."""
        return self._past_ends.get(run_key, ())

    def find_gone_anchor(self, run_key: str) -> AnchorView | None:
        """The last state of an anchor that the watch no longer shows. It may have lost its labels only."""
        return self._gone_anchors.get(run_key)

    def note_absent(self, run_key: str, *, uid: str) -> None:
        """The cluster has said that this anchor is gone, and who listens was told: it may be forgotten."""
        gone = self._gone_anchors.get(run_key)
        if gone is None or gone.metadata.uid != uid:
            return
        self._confirmed[run_key] = None
        while len(self._confirmed) > MOST_GONE_RUNS:
            self._forget_run(next(iter(self._confirmed)))

    def iter_anchors(self) -> Iterator[AnchorView]:
        """All anchors, in no particular order."""
        for store in (self.jobs.store, self.deployments.store):
            for run_key in store.index_values("run"):
                if (anchor := self.find_anchor(run_key)) is not None:
                    yield anchor

    def note_written(self, anchor: AnchorView) -> None:
        """Remember an anchor as the answer to our own write showed it, until the watch has come as far."""
        run_key = anchor.metadata.labels.run_uid
        self._written[run_key] = _Written(anchor, time.monotonic() + LONGEST_WRITTEN_SECONDS)
        self._written.move_to_end(run_key)
        while len(self._written) > MOST_WRITTEN:
            self._written.popitem(last=False)
        self._advance(_parse_version(anchor.metadata.resource_version))
        self._tell({run_key})

    def _choose_newer(self, run_key: str, held: AnchorView | None) -> AnchorView | None:
        written = self._written.get(run_key)
        if written is None:
            return held
        gone = self._gone_anchors.get(run_key)
        is_gone = gone is not None and gone.metadata.uid == written.anchor.metadata.uid
        is_shown = held is not None and _is_as_new(held, written.anchor)
        if is_gone or is_shown or time.monotonic() > written.until:
            del self._written[run_key]
            return held
        return written.anchor

    def _iter_watched(self) -> Iterator[WatchedResource[Any]]:
        yield from self._namespaced
        if self.nodes is not None:
            yield self.nodes

    async def _take_in(self, watched: WatchedResource[Any], subscription: Subscription[Any]) -> None:
        """Turn changed keys into changed runs."""
        async for keys in subscription:
            self._reach(watched)
            for start in range(0, len(keys), KEYS_AT_A_TIME):
                changed: set[str] = set()
                for key in keys[start : start + KEYS_AT_A_TIME]:
                    try:
                        for tombstone in subscription.deleted(key):
                            changed.update(self._take_deleted(tombstone.view, is_final=tombstone.is_final))
                        if (view := watched.store.find(key)) is not None:
                            changed.update(self._take_changed(view))
                    except Exception:  # noqa: BLE001 - one object must not blind the engine to all others
                        _log.exception("an object could not be taken in", extra={"object": f"{key}"})
                self._tell(changed)
                await asyncio.sleep(0)
            watched.taken_in.set()

    def _take_changed(self, view: View) -> Iterable[str]:
        if isinstance(view, JobView | DeploymentView):
            for run_key in self._index_anchor(view):
                self._forget_gone(run_key, unless_uid=view.metadata.uid)
                yield run_key
        elif isinstance(view, EventView):
            yield from self._list_involved(view)
        elif isinstance(view, NodeView):
            yield from self._take_node(view)
        elif isinstance(view, PodView):
            for run_key in _index_run(view):
                self._keep_past_ends(run_key, view)
                self._count_pods(run_key)
                yield run_key
        elif isinstance(view, ServiceView | ClaimView):
            yield from _index_run(view)

    def _take_deleted(self, view: View, *, is_final: bool) -> Iterable[str]:
        if isinstance(view, JobView | DeploymentView):
            for run_key in self._index_anchor(view):
                self._bury(run_key, view)
                yield run_key
        elif isinstance(view, PodView):
            for run_key in _index_run(view):
                self._keep_gone_pod(run_key, GonePod(view, is_final))
                yield run_key
        elif isinstance(view, NodeView):
            self._unready.pop(view.metadata.name, None)
        elif isinstance(view, ServiceView | ClaimView):
            yield from _index_run(view)

    def _bury(self, run_key: str, anchor: AnchorView) -> None:
        self.incomplete_runs.discard(run_key)
        self._gone_anchors[run_key] = anchor
        self._gone_anchors.move_to_end(run_key)
        self._confirmed.pop(run_key, None)
        while len(self._gone_anchors) > MOST_UNCONFIRMED_RUNS:
            self._forget_run(next(iter(self._gone_anchors)))

    def _forget_gone(self, run_key: str, *, unless_uid: str) -> None:
        """An anchor is there: what was known of another one of the same run is no longer of use."""
        gone = self._gone_anchors.pop(run_key, None)
        self._confirmed.pop(run_key, None)
        if gone is not None and gone.metadata.uid != unless_uid:
            self._forget_pods(run_key)

    def _forget_run(self, run_key: str) -> None:
        del self._gone_anchors[run_key]
        self._confirmed.pop(run_key, None)
        self._forget_pods(run_key)

    def _forget_pods(self, run_key: str) -> None:
        self._gone_pods.forget(run_key)
        self._past_ends.pop(run_key, None)

    def _keep_past_ends(self, run_key: str, pod: PodView) -> None:
        has_restarted = any(status.restart_count for status in (*pod.status.init_containers, *pod.status.containers))
        if has_restarted and self._is_remembered(run_key):
            self._past_ends[run_key] = merge_ends(self._past_ends.get(run_key, ()), collect_ends(pod))

    def _count_pods(self, run_key: str) -> None:
        if self._is_remembered(run_key):
            count = len(self.pods.store.find_keys_by_index("run", run_key))
            self._gone_pods.note_living(run_key, min(count, MOST_PODS))

    def _keep_gone_pod(self, run_key: str, gone: GonePod) -> None:
        if self._is_remembered(run_key):
            self._gone_pods.add(run_key, gone)

    def _is_remembered(self, run_key: str) -> bool:
        return run_key in self._gone_anchors or self.find_anchor(run_key) is not None

    def _take_node(self, node: NodeView) -> Iterable[str]:
        """The runs on a node that became ready or unready."""
        name = node.metadata.name
        ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
        since = None if ready is None or ready.status == "True" else ready.since or ""
        if since == self._unready.get(name):
            return
        if since is None:
            self._unready.pop(name, None)
        else:
            self._unready[name] = since
        for pod in self.pods.store.find_by_index("node", name):
            yield from _index_run(pod)

    def _list_unready(self, pods: Iterable[PodView]) -> tuple[tuple[str, str], ...]:
        if not self._unready:
            return ()
        names = {pod.spec.node_name for pod in pods} & self._unready.keys()
        return tuple((name, self._unready[name]) for name in sorted(names))

    def _list_involved(self, event: EventView) -> Iterable[str]:
        """The runs that an event is about: that of its pod, claim, Job or Deployment."""
        involved, namespace = event.involved, event.metadata.namespace
        if involved.kind == "Pod" and (pod := self.pods.store.find((namespace, involved.name))) is not None:
            yield from _index_run(pod)
        elif involved.kind == "PersistentVolumeClaim":
            claim = self.claims.store.find((namespace, involved.name))
            yield from () if claim is None else _index_run(claim)
        elif involved.kind == "Job" and (job := self.jobs.store.find((namespace, involved.name))) is not None:
            yield from self._index_anchor(job)
        elif involved.kind in ("Deployment", "ReplicaSet"):
            name = involved.name if involved.kind == "Deployment" else involved.name.rpartition("-")[0]
            deployment = self.deployments.store.find((namespace, name))
            yield from () if deployment is None else self._index_anchor(deployment)

    def _list_events(
        self, anchor: AnchorView, pods: Iterable[PodView], claims: Iterable[ClaimView]
    ) -> tuple[EventView, ...]:
        store = self.events.store
        if not len(store):
            return ()
        keys = [anchor.metadata.uid, *(one.metadata.uid for one in (*pods, *claims))]
        if isinstance(anchor, DeploymentView):
            keys.append(_name_replica_sets(anchor.metadata.namespace, anchor.metadata.name))
        found = [event for key in keys for event in store.find_by_index("involved", key)]
        found.sort(key=lambda event: event.last_at or event.at or event.first_at or "")
        return tuple(found[-MOST_RUN_EVENTS:])

    def _index_anchor(self, view: AnchorView) -> Sequence[str]:
        """The run of an anchor. A copy under another name, or outside the namespace of its project, is not one."""
        run_key, metadata = view.metadata.labels.run_uid, view.metadata
        if not run_key or _name_run(get_run_id(view), get_run_uid(view)) != metadata.name:
            return ()
        is_outside = self._is_per_project and metadata.namespace != project_namespace(get_project(view))
        return () if is_outside else (run_key,)

    def _tell(self, run_keys: set[str]) -> None:
        if run_keys:
            for listener in self._listeners:
                listener(run_keys)

    def _reach(self, watched: WatchedResource[Any]) -> None:
        """Take in how far a reflector has come; a smaller version than before begins a new epoch."""
        if watched not in self._run_kinds or watched.is_stale:
            return
        version = _parse_version(watched.reflector.resource_version)
        if not version:
            return  # not listed yet
        if version < watched.reached:
            self._begin_epoch(watched, version)
        watched.reached = version
        if self._version == 0 and version < self._watermark.version:
            self._epoch = self._watermark.epoch + 1
        self._advance(version)

    def _begin_epoch(self, first: WatchedResource[Any], version: int) -> None:
        """The cluster was restored. The other kinds may still show what was before: their versions do not count."""
        self._epoch, self._version = self._epoch + 1, version
        _log.warning("the cluster's versions begin anew: it was restored from a backup", extra={"version": version})
        self._written.clear()
        for watched in self._iter_watched():
            if watched is not first:
                watched.relist()

    def _advance(self, version: int) -> None:
        self._version = max(self._version, version)


def _index_run(view: PodView | ServiceView | ClaimView) -> Sequence[str]:
    run_key = view.metadata.labels.run_uid
    return (run_key,) if run_key else ()


@lru_cache(maxsize=MOST_REMEMBERED_NAMES)
def _name_run(run_id: str, run_uid: str) -> str:
    """The name of a run's anchor, which has nothing of its project."""
    return run_name(RunIdentity(run_id=run_id, run_uid=run_uid, project=""))


def _index_node(pod: PodView) -> Sequence[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _index_involved(event: EventView) -> Sequence[str]:
    """The object that an event is about. A ReplicaSet stands for its Deployment: it is named after it."""
    if event.involved.kind == "ReplicaSet":
        return (_name_replica_sets(event.metadata.namespace, event.involved.name.rpartition("-")[0]),)
    return (event.involved.uid,) if event.involved.uid else ()


def _index_run_name(event: EventView) -> Sequence[str]:
    """The run that an event is about, by the name of its object, which may not be known yet."""
    namespace, name = event.metadata.namespace, find_run_name(event.involved.name)
    return () if name is None or event.involved.kind not in _INVOLVED_KINDS else (f"{namespace}/{name}",)


def _name_replica_sets(namespace: str, deployment: str) -> str:
    return f"ReplicaSets of {namespace}/{deployment}"


def _is_as_new(held: AnchorView, written: AnchorView) -> bool:
    return _parse_version(held.metadata.resource_version) >= _parse_version(written.metadata.resource_version)


def _parse_version(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
