"""Keeps the routes at the provider equal to the Services of our class. Level-based: a change is only a key.

One failure level per function:
  run          for ever: the list of Services, the workers, the sweep
  _work        one key after another; a failure is retried later and never ends the others
  _reconcile   one Service: publish, refuse or release
  _sweep       routes at the provider whose Service is gone, Services whose route is gone, and routes that are rejected
"""

import asyncio
import itertools
import logging
from collections.abc import Mapping
from contextlib import suppress

from runyard.kube import Client, Conflict, Key, KubeError, NotFound
from runyard.kube.reflector import Reflector
from runyard.kube.resources import SERVICES
from runyard.node.event_recorder import EventRecorder, ObjectEvent
from runyard.node.providers.provider import Object, ProviderError, ProviderRefused, Route, Routes
from runyard.node.services.route_rules import Refusal, plan_route
from runyard.node.services.service_settings import ServiceSettings
from runyard.node.services.service_views import ServiceView, concerns_us, wants_route
from runyard.node.workqueue import WorkQueue

WORKERS = 4
SWEEP_SECONDS = 60.0
SWEEPS_BETWEEN_REPUBLICATIONS = 10
"""Every so many sweeps each route is written again, so that what others changed of it is mended."""
FRESH_LIST_SECONDS = 60.0
RETRY_SECONDS = (1.0, 60.0)
REFUSED_RETRY_SECONDS = 300.0

_log = logging.getLogger(__name__)


class ServiceLoop:
    """Runs once, on the leader only. `routes` is None where the provider has none."""

    def __init__(
        self,
        client: Client,
        routes: Routes | None,
        settings: ServiceSettings,
        *,
        recorder: EventRecorder,
        sweep_seconds: float = SWEEP_SECONDS,
    ) -> None:
        self._client = client
        self._routes = routes
        self._settings = settings
        self._hosts = settings.find_hosts()
        self._sweep_seconds = sweep_seconds
        self._services: Reflector[ServiceView] = Reflector(client, SERVICES, view=ServiceView)
        self._queue: WorkQueue[Key] = WorkQueue(backoff_seconds=RETRY_SECONDS)
        self._published: dict[str, Route] = {}
        self._rejected: dict[str, str] = {}
        self._recorder = recorder

    async def run(self) -> None:
        """Run until cancelled."""
        async with self._services, asyncio.TaskGroup() as tasks:
            await self._services.wait_synced()
            for _ in range(WORKERS):
                tasks.create_task(self._work())
            if self._routes is not None:
                tasks.create_task(self._sweep_again_and_again(self._routes))
            with self._services.subscribe() as changes:
                async for keys in changes:
                    for key in keys:
                        self._note(key)

    def _note(self, key: Key) -> None:
        view = self._services.store.find(key)
        if view is not None and concerns_us(view, self._settings):
            self._queue.add(key)
        else:
            self._queue.forget(key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            try:
                await self._reconcile(key)
                self._queue.forget(key)
            except Conflict:
                self._queue.add_after(key, RETRY_SECONDS[0])  # The Service changed meanwhile: read it again.
            except ProviderRefused as error:
                _log.warning("service %s: the provider refuses: %s", key, error)
                self._queue.add_after(key, REFUSED_RETRY_SECONDS)
            except (KubeError, ProviderError) as error:
                _log.warning("service %s: %s; tried again later", key, error)
                self._queue.retry(key)
            finally:
                self._queue.done(key)

    async def _reconcile(self, key: Key) -> None:
        view = self._services.store.find(key)
        if view is None or not concerns_us(view, self._settings):
            return
        try:
            service = await self._client.get(SERVICES, key.name, namespace=key.namespace)
        except NotFound:
            return
        if not wants_route(service, self._settings):
            await self._release(service)
            return
        planned = plan_route(service, self._hosts) if self._routes is not None else _NO_ROUTES
        if isinstance(planned, Refusal):
            await self._refuse(service, planned)
        elif self._routes is not None:
            await self._publish(service, planned, self._routes)

    async def _publish(self, service: Object, route: Route, routes: Routes) -> None:
        """The finalizer first: from then on the route cannot be forgotten."""
        if self._settings.finalizer not in service["metadata"].get("finalizers", ()):
            service = await self._write_finalizers(service, is_held=True)
        if self._published.get(route.uid) != route:
            self._published.pop(route.uid, None)
            try:
                await routes.publish_route(route)
            except ProviderError as error:
                self._tell(service, _reason_of(error), str(error))
                raise
            self._published[route.uid] = route
        ingress = [{"hostname": route.host}]
        if service.get("status", {}).get("loadBalancer", {}).get("ingress") != ingress:
            await self._write_ingress(service, ingress)
            message = f"reachable at https://{route.host}"
            self._recorder.record(service, ObjectEvent(type="Normal", reason="RoutePublished", message=message))

    async def _refuse(self, service: Object, refusal: Refusal) -> None:
        """No route, no address, no finalizer; the event says why."""
        self._tell(service, refusal.reason, refusal.message)
        if service.get("status", {}).get("loadBalancer", {}).get("ingress"):
            service = await self._write_ingress(service, None)
        await self._release(service)

    async def _release(self, service: Object) -> None:
        """Withdraw the route, then let go of the Service. Does nothing to a Service without our finalizer."""
        metadata = service["metadata"]
        if self._settings.finalizer not in metadata.get("finalizers", ()):
            return
        self._published.pop(metadata["uid"], None)
        if self._routes is not None:
            try:
                await self._routes.withdraw_route(metadata["uid"])
            except ProviderError as error:
                self._tell(service, "RouteNotWithdrawn", str(error))
                raise
        with suppress(NotFound):
            await self._write_finalizers(service, is_held=False)

    def _tell(self, service: Object, reason: str, message: str) -> None:
        self._recorder.record(service, ObjectEvent(type="Warning", reason=reason, message=message))

    async def _write_finalizers(self, service: Object, *, is_held: bool) -> Object:
        metadata = service["metadata"]
        others = [name for name in metadata.get("finalizers", ()) if name != self._settings.finalizer]
        finalizers = [*others, self._settings.finalizer] if is_held else others
        return await self._client.patch(
            SERVICES,
            metadata["name"],
            {"metadata": {**_preconditions(service), "finalizers": finalizers}},
            namespace=metadata["namespace"],
        )

    async def _write_ingress(self, service: Object, ingress: list[Object] | None) -> Object:
        metadata = service["metadata"]
        return await self._client.patch(
            SERVICES,
            metadata["name"],
            {"metadata": _preconditions(service), "status": {"loadBalancer": {"ingress": ingress}}},
            namespace=metadata["namespace"],
            subresource="status",
        )

    async def _sweep_again_and_again(self, routes: Routes) -> None:
        for count in itertools.count(1):
            try:
                if count % SWEEPS_BETWEEN_REPUBLICATIONS == 0:
                    self._published.clear()
                    for key in self._services.store:
                        self._note(key)
                await self._sweep(routes)
            except (KubeError, ProviderError, TimeoutError) as error:
                _log.warning("leftover routes are looked for later: %s", error)
            await asyncio.sleep(self._sweep_seconds)

    async def _sweep(self, routes: Routes) -> None:
        """First the provider's complete list, then ours: what is not in the later one was withdrawn or is gone."""
        routed = await routes.list_routes()
        held = {
            view.metadata.uid: key for key, view in self._services.store.items() if concerns_us(view, self._settings)
        }
        for uid in [uid for uid in self._published if uid not in routed or uid not in held]:
            del self._published[uid]
        for uid in held.keys() - routed:
            self._queue.add(held[uid])
        if suspects := routed - held.keys():
            for uid in suspects - await self._list_held_uids():
                try:
                    await routes.withdraw_route(uid)
                except ProviderError as error:
                    _log.warning("the leftover route of service %s: %s", uid, error)
                else:
                    _log.info("withdrew the route of service %s, which is gone", uid)
        await self._tell_rejected(routes, held)

    async def _tell_rejected(self, routes: Routes, held: Mapping[str, Key]) -> None:
        """Tell of routes that are rejected in two sweeps in a row: a controller takes a moment to take one."""
        before, self._rejected = self._rejected, dict(await routes.list_rejected_routes())
        for uid, cause in self._rejected.items():
            if uid not in held or before.get(uid) != cause:
                continue
            with suppress(NotFound):
                service = await self._client.get(SERVICES, held[uid].name, namespace=held[uid].namespace)
                if service["metadata"]["uid"] == uid:
                    self._tell(service, "RouteNotAccepted", cause)

    async def _list_held_uids(self) -> frozenset[str]:
        """The uids of all Services that may have a route, by a list of now: another leader may have published one."""
        async with asyncio.timeout(FRESH_LIST_SECONDS), Reflector(self._client, SERVICES, view=ServiceView) as fresh:
            await fresh.wait_synced()
            views = fresh.store.views()
        return frozenset(view.metadata.uid for view in views if concerns_us(view, self._settings))


_NO_ROUTES = Refusal(
    "RoutesNotSupported",
    "the provider of the virtual node cannot publish routes: use a provider that can, or another type of Service",
)


def _reason_of(error: ProviderError) -> str:
    return error.reason if isinstance(error, ProviderRefused) else "RouteNotPublished"


def _preconditions(service: Object) -> Object:
    metadata = service["metadata"]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
