"""Pods in one namespace of another Kubernetes cluster. Several nodes may share it: a label tells them apart."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Self

from runyard.kube import (
    AlreadyExists,
    Client,
    Conflict,
    Forbidden,
    Key,
    KubeError,
    NotFound,
    Reflector,
    Subscription,
)
from runyard.kube.resources import NAMESPACES, PODS
from runyard.kube.store import is_older
from runyard.node.offer import Amounts
from runyard.node.providers.change_feed import ChangeFeed
from runyard.node.providers.kubernetes import remote_objects
from runyard.node.providers.kubernetes.copies import Copies
from runyard.node.providers.kubernetes.link_monitor import LinkMonitor, LinkProblem
from runyard.node.providers.kubernetes.refusals import provider_errors
from runyard.node.providers.kubernetes.remote_events import follow_events
from runyard.node.providers.kubernetes.remote_objects import CONTENTS_ANNOTATION, NODE_LABEL, UID_LABEL, pod_name
from runyard.node.providers.kubernetes.views import RemotePodView, SpecView, spec_to_mapping
from runyard.node.providers.provider import (
    Link,
    Object,
    ProviderRefused,
    ProviderUnavailable,
    RemoteEvent,
    RemotePod,
    Workload,
)
from runyard.pods.demand import pod_requests

MOST_FINAL_STATUSES = 10_000
"""How many last states of pods that are gone are kept."""
_PROBE = "link-probe"
"""A pod that never exists: to be told so proves that the provider answers."""
_RESTART_SECONDS = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTiming:
    """Durations of the provider's loops."""

    probe_seconds: float = 10.0
    """How often the link is tried out, and how long an answer may take."""
    down_after_seconds: float = 15.0
    """How long it must fail to count as down."""
    sweep_seconds: float = 300.0
    """How often copies are looked for that a pod left behind; removed are those found twice."""


class KubernetesProvider:
    """Implements `Provider`, `Identity`, `FinalStatuses` and `Events`. Enter it once."""

    kind = "kubernetes"

    def __init__(self, client: Client, *, namespace: str, node: str, timing: ProviderTiming | None = None) -> None:
        self._client = client
        self._namespace = namespace
        self._node = remote_objects.check_node_label(node)
        self._timing = timing or ProviderTiming()
        self._copies = Copies(client, namespace=namespace, node=node)
        self._pods: dict[str, RemotePod] = {}
        self._remote_uids: dict[str, str] = {}
        self._final: dict[str, Object] = {}
        self._created: dict[str, str] = {}
        """Versions of pods that were created here, and that the watch has not shown yet."""
        self._starting: set[str] = set()
        self._feed = ChangeFeed()
        self._listed = asyncio.Event()
        self._heard = asyncio.Event()
        """Set when the link is worth another look."""
        self._identity: str | None = None
        self._monitor = LinkMonitor(now=datetime.now(UTC), down_after_seconds=self._timing.down_after_seconds)
        self._reflector = self._make_reflector()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Start to watch."""
        self._tasks = [
            asyncio.create_task(self._forever(work), name=f"provider {work.__name__}")
            for work in (self._watch_pods, self._watch_link, self._sweep)
        ]
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop watching; pods live on."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def link(self) -> Link:
        """Whether the provider answers, and its pods can be watched."""
        return self._monitor.link

    @property
    def identity(self) -> str | None:
        """The uid of the namespace; empty if the tenant may not read it."""
        return self._identity

    @property
    def pods(self) -> Mapping[str, RemotePod]:
        """Every pod of this node, by the uid of the local pod."""
        return MappingProxyType(self._pods)

    def changes(self) -> AsyncIterator[frozenset[str]]:
        """The uids of pods that changed or went; an empty set: the link changed."""
        return self._feed.follow(self._pods)

    def find_final_status(self, uid: str) -> Object | None:
        """The last status of a pod that is gone, kept until `clean_up`."""
        return self._final.get(uid)

    def find_remote(self, uid: str) -> str | None:
        """The name at the provider of a pod that it has."""
        pod = self._pods.get(uid)
        return None if pod is None else pod.name

    async def events(self) -> AsyncIterator[RemoteEvent]:
        """Events of this node's pods, once these are known."""
        await self._listed.wait()
        async for event in follow_events(self._client, namespace=self._namespace, find_pod=self._find_for_event):
            yield event

    async def start(self, workload: Workload) -> None:
        """Create the pod, after the copies of what it needs; one that exists is adopted."""
        uid = workload.uid
        if uid in self._pods:
            return
        try:
            body = remote_objects.render_pod(workload, node=self._node)
        except ValueError as error:
            raise ProviderRefused("InvalidAtProvider", str(error)) from error
        self._starting.add(uid)
        try:
            with provider_errors("start the pod"):
                await self._copies.write(workload)
                try:
                    created = await self._client.create(PODS, body, namespace=self._namespace)
                except AlreadyExists:
                    created = await self._adopt(uid)
            self._note_created(uid, created)
        finally:
            self._starting.discard(uid)

    async def update(self, workload: Workload) -> None:
        """Bring the copies and the pod's labels up to date."""
        with provider_errors("update the pod"):
            await self._copies.write(workload)
            await self._copies.remove_absent(workload)
            await self._update_metadata(workload)

    async def stop(self, uid: str, *, grace_seconds: int) -> None:
        """Delete the pod with that grace; its end shows in `pods`."""
        if uid not in self._pods:
            return
        with provider_errors("stop the pod"), suppress(NotFound, Conflict):
            await self._client.delete(
                PODS,
                pod_name(uid),
                namespace=self._namespace,
                uid=self._remote_uids.get(uid),
                grace_period_seconds=grace_seconds,
            )

    async def clean_up(self, uid: str) -> None:
        """Remove the copies of a pod that is gone, and forget its last status."""
        if self._is_needed(uid):
            return
        with provider_errors("remove what a pod left"):
            await self._copies.remove(uid)
        self._final.pop(uid, None)

    async def _adopt(self, uid: str) -> Object:
        """The pod of that name, if it is this one: an earlier attempt may have been carried out unheard."""
        found = await self._client.get(PODS, pod_name(uid), namespace=self._namespace)
        labels = found["metadata"].get("labels") or {}
        if labels.get(UID_LABEL) != uid or labels.get(NODE_LABEL) != self._node:
            raise ProviderRefused(
                "NameTaken", f"the provider has a pod {pod_name(uid)} that is not of this node; remove it there"
            )
        return found

    async def _update_metadata(self, workload: Workload) -> None:
        found = self._reflector.store.find(Key(self._namespace, pod_name(workload.uid)))
        if found is None:
            return
        held = found.metadata
        labels: dict[str, str | None] = {**remote_objects.pod_labels(workload, self._node)}
        labels |= {key: None for key in held.labels if key not in labels}
        contents = remote_objects.digest_contents(workload)
        if held.labels == labels and held.annotations.get(CONTENTS_ANNOTATION) == contents:
            return
        metadata = {"uid": held.uid, "labels": labels, "annotations": {CONTENTS_ANNOTATION: contents}}
        with suppress(NotFound):
            await self._client.patch(PODS, held.name, {"metadata": metadata}, namespace=self._namespace)

    def _note_created(self, uid: str, created: Object) -> None:
        if uid in self._pods:
            return
        metadata = created["metadata"]
        self._created[uid] = metadata.get("resourceVersion", "")
        self._remote_uids[uid] = metadata["uid"]
        self._pods[uid] = RemotePod(
            uid=uid,
            name=metadata["name"],
            status=created.get("status") or {},
            requests=_read_requests(created.get("spec") or {}),
            is_deleting="deletionTimestamp" in metadata,
        )
        self._feed.publish([uid])

    def _is_needed(self, uid: str) -> bool:
        return uid in self._pods or uid in self._starting

    def _find_for_event(self, name: str) -> str | None:
        uid = name.removeprefix("pod-")
        return uid if self._is_needed(uid) or uid in self._final else None

    def _make_reflector(self) -> Reflector[RemotePodView]:
        return Reflector(
            self._client,
            PODS,
            view=RemotePodView,
            namespace=self._namespace,
            label_selector=f"{NODE_LABEL}={self._node}",
        )

    async def _forever(self, work: Callable[[], Awaitable[None]]) -> None:
        """Whatever ends a loop, it begins again: without it the node would be blind."""
        while True:
            try:
                await work()
            except Exception:  # noqa: BLE001 - see above
                _log.exception("a loop of the provider failed, and begins again")
            await asyncio.sleep(_RESTART_SECONDS)

    async def _watch_pods(self) -> None:
        self._reflector = self._make_reflector()
        async with self._reflector as reflector:
            await reflector.wait_synced()
            with reflector.subscribe(max_pending=None) as subscription:
                self._take_list(reflector)
                async for keys in subscription:
                    self._take_changes(keys, subscription)

    def _take_list(self, reflector: Reflector[RemotePodView]) -> None:
        """Take in the first complete list: everything else of `pods` is gone."""
        listed = {key.name for key in reflector.store}
        gone = [uid for uid in self._pods if pod_name(uid) not in listed and uid not in self._created]
        for uid in gone:
            self._drop(uid)
        changed = [taken for view in reflector.store.views() if (taken := self._take(view))]
        self._monitor.note_listed()
        self._listed.set()
        self._feed.publish([*gone, *changed])
        self._feed.publish(())
        self._heard.set()

    def _take_changes(self, keys: list[Key], subscription: Subscription[RemotePodView]) -> None:
        changed: list[str] = []
        for key in keys:
            for tombstone in subscription.deleted(key):
                if gone := _uid_of(tombstone.view):
                    self._bury(gone, tombstone.view.status)
                    changed.append(gone)
            view = self._reflector.store.find(key)
            if view is not None and (uid := self._take(view)):
                changed.append(uid)
        if changed:
            self._feed.publish(changed)

    def _take(self, view: RemotePodView) -> str | None:
        uid = _uid_of(view)
        if uid is None:
            return None
        self._created.pop(uid, None)
        self._remote_uids[uid] = view.metadata.uid
        before = self._pods.get(uid)
        requests = before.requests if before is not None else _read_requests(view.spec)
        self._pods[uid] = RemotePod(
            uid=uid,
            name=view.metadata.name,
            status=view.status,
            requests=requests,
            is_deleting=bool(view.metadata.deleted_at),
        )
        return uid

    def _bury(self, uid: str, status: Object) -> None:
        self._drop(uid)
        self._final[uid] = status
        while len(self._final) > MOST_FINAL_STATUSES:
            del self._final[next(iter(self._final))]

    def _drop(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._created.pop(uid, None)
        self._remote_uids.pop(uid, None)

    async def _watch_link(self) -> None:
        """Try the link out, and look whether the watch works; drop created pods that the watch will never show."""
        was_up = False
        while True:
            self._heard.clear()
            problem = await self._find_problem()
            if self._monitor.observe(problem, now=datetime.now(UTC)):
                _log.warning("the link to the provider is %s", "up" if problem is None else f"down: {problem.message}")
                if self.link.is_up and was_up:
                    self._reflector.relist()  # A watch that the cut left silent would be believed for a while.
                was_up = True
                self._feed.publish(())
            self._drop_unseen()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.probe_seconds / (1 if problem is None else 5)):
                    await self._heard.wait()

    async def _find_problem(self) -> LinkProblem | None:
        try:
            problem = await self._look_at_namespace()
        except KubeError as error:
            return LinkProblem(str(error))
        if problem is not None:
            return problem
        if not self._reflector.has_synced:
            return LinkProblem(f"its pods are not listed yet: {self._reflector.last_error or 'the list is under way'}")
        if self._reflector.last_error is not None:
            return LinkProblem(f"its pods cannot be watched: {self._reflector.last_error}")
        return None

    async def _look_at_namespace(self) -> LinkProblem | None:
        """Who the provider is, and whether it keeps the namespace."""
        seconds = self._timing.probe_seconds
        try:
            found = await self._client.get(NAMESPACES, self._namespace, deadline_seconds=seconds)
        except NotFound:
            message = f"namespace {self._namespace} does not exist at the provider"
            return LinkProblem(message, "ProviderNamespaceMissing", is_certain=True)
        except Forbidden:
            problem = await self._probe_pods()
            if problem is None:
                self._identity = ""
            return problem
        if "deletionTimestamp" in found["metadata"]:
            message = f"namespace {self._namespace} is being deleted at the provider"
            return LinkProblem(message, "ProviderNamespaceTerminating", is_certain=True)
        self._identity = found["metadata"]["uid"]
        return None

    async def _probe_pods(self) -> LinkProblem | None:
        """For a tenant that may not read its namespace. Without rights to pods there may be no namespace any more."""
        try:
            await self._client.get(PODS, _PROBE, namespace=self._namespace, deadline_seconds=self._timing.probe_seconds)
        except NotFound:
            return None
        except Forbidden as error:
            why = f"the tenant has no rights in namespace {self._namespace}, or it was deleted: {error}"
            return LinkProblem(why, "ProviderForbidden")
        return None

    def _drop_unseen(self) -> None:
        """Pods that were created and were gone before the watch came to them."""
        reached = self._reflector.resource_version
        gone = [uid for uid, version in self._created.items() if reached and not is_older(reached, than=version)]
        for uid in gone:
            if (self._namespace, pod_name(uid)) not in self._reflector.store:
                self._drop(uid)
        if gone:
            self._feed.publish(gone)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._timing.sweep_seconds)
            if not self.link.has_listed:
                continue
            try:
                await self._copies.sweep(self._is_needed)
            except (KubeError, ProviderUnavailable) as error:
                _log.warning("cannot look for what pods left at the provider: %s", error)


def _uid_of(view: RemotePodView) -> str | None:
    """The uid that a pod says it has; None where its name is not the one that we gave it."""
    uid = view.metadata.labels.get(UID_LABEL, "")
    return uid if view.metadata.name == f"pod-{uid}" else None


def _read_requests(spec: SpecView | Mapping[str, Any]) -> Amounts:
    try:
        return pod_requests({"spec": spec_to_mapping(spec) if isinstance(spec, SpecView) else spec})
    except ValueError as error:
        _log.warning("cannot read the requests of a pod at the provider: %s", error)
        return {}
