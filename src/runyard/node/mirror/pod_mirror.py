"""The loop that keeps the pods of the node and the pods at the provider in accord."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from runyard.kube import Client, KubeError, Reflector
from runyard.kube.resources import PODS
from runyard.node.event_recorder import EventRecorder, ObjectEvent
from runyard.node.mirror.needed_objects import NeededObjects
from runyard.node.mirror.pod_reconciler import UID_INDEX, MirrorSettings, Owner, PodReconciler
from runyard.node.providers.provider import Events, Link, Object, Provider, ProviderError, RemoteEvent
from runyard.node.timestamps import write_time
from runyard.node.workqueue import WorkQueue

WORKERS = 8
"""How many pods are worked on at once."""
OLDEST_EVENT = timedelta(minutes=5)
"""Events that the provider had that long before the agent began are not repeated."""
_EVENTS_RESTART_SECONDS = 10.0

_log = logging.getLogger(__name__)


def bound_pods(client: Client, node: str) -> Reflector[Object]:
    """All pods that are bound to the node, as whole objects; found by uid under `UID_INDEX`."""
    return Reflector(
        client,
        PODS,
        field_selector=f"spec.nodeName={node}",
        indexes={UID_INDEX: lambda pod: [pod["metadata"].get("uid", "")]},
    )


class PodMirror:
    """Mirrors pods between a reflector (`bound_pods`) and a provider, both entered by the caller. Run it once."""

    def __init__(
        self,
        client: Client,
        provider: Provider,
        pods: Reflector[Object],
        *,
        owner: Owner,
        settings: MirrorSettings,
        recorder: EventRecorder,
        read_link: Callable[[], Link] | None = None,
    ) -> None:
        self._provider = provider
        self._pods = pods
        self._queue: WorkQueue[str] = WorkQueue()
        self._recorder = recorder
        self._needed = NeededObjects(client, on_change=self._queue.add)
        self._reconciler = PodReconciler(
            client,
            provider,
            pods,
            owner=owner,
            settings=settings,
            needed=self._needed,
            recorder=self._recorder,
            read_link=read_link,
        )

    def wake(self) -> None:
        """Look at all pods again: another link is read now."""
        self._add_all()

    async def run(self) -> None:
        """Mirror until cancelled. Pods at the provider live on."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow_local(), name="mirror: local pods")
                tasks.create_task(self._follow_provider(), name="mirror: provider's pods")
                if isinstance(self._provider, Events):
                    tasks.create_task(self._follow_events(self._provider), name="mirror: provider's events")
                for number in range(WORKERS):
                    tasks.create_task(self._work(), name=f"mirror: worker {number}")
        finally:
            await self._needed.close()

    async def _follow_local(self) -> None:
        with self._pods.subscribe(max_pending=None) as subscription:
            await self._pods.wait_synced()
            self._add_all()
            async for keys in subscription:
                for key in keys:
                    gone = [tombstone.view for tombstone in subscription.deleted(key)]
                    found = self._pods.store.find(key)
                    for pod in gone if found is None else [*gone, found]:
                        self._queue.add(pod["metadata"].get("uid", ""))

    async def _follow_provider(self) -> None:
        async for uids in self._provider.changes():
            for uid in uids:
                self._queue.add(uid)
            if not uids:
                self._add_all()

    def _add_all(self) -> None:
        for uid in {*self._provider.pods, *self._pods.store.index_values(UID_INDEX)}:
            self._queue.add(uid)

    async def _work(self) -> None:
        while True:
            uid = await self._queue.take()
            try:
                seconds = await self._reconciler.reconcile(uid)
            except (KubeError, ProviderError) as error:
                _log.info("a pod is tried again later: %s", error, extra={"uid": uid})
                self._queue.retry(uid)
            except Exception:  # noqa: BLE001 - one pod that cannot be handled must not end the work on the others
                _log.exception("a pod cannot be handled, and is tried again later", extra={"uid": uid})
                self._queue.retry(uid)
            else:
                self._queue.forget(uid)
                if seconds is not None:
                    self._queue.add_after(uid, seconds)
            finally:
                self._queue.done(uid)

    async def _follow_events(self, provider: Events) -> None:
        await self._pods.wait_synced()
        oldest = write_time(datetime.now(UTC) - OLDEST_EVENT)
        while True:
            try:
                async for event in provider.events():
                    if event.last_at >= oldest:
                        self._record(event)
            except (KubeError, ProviderError) as error:
                _log.warning("events of the provider are not followed for a while: %s", error)
            await asyncio.sleep(_EVENTS_RESTART_SECONDS)

    def _record(self, event: RemoteEvent) -> None:
        local, remote = self._reconciler.find_local(event.uid), self._provider.pods.get(event.uid)
        if local is None:
            return
        message = event.message if remote is None else event.message.replace(remote.name, local["metadata"]["name"])
        self._recorder.record(
            local,
            ObjectEvent(
                type=event.type,
                reason=event.reason,
                message=message,
                event_id=event.event_id,
                count=event.count,
                first_at=event.first_at,
                last_at=event.last_at,
                container=event.container,
            ),
        )
