"""One term of the leader: everything that it remembers, the ledger above all, and the loops that use it.

The ledger is rebuilt from both sides before anything is bound. When the term is lost all loops end at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from runyard.kube import Client, Key, Leadership, Object, Reflector
from runyard.kube.resources import PODS
from runyard.node.admission.judgement import find_demand, find_requests, judge_pod
from runyard.node.admission.refusal import Refusal, format_refusals
from runyard.node.binder import Binder
from runyard.node.bound_pods import BoundPods
from runyard.node.event_recorder import EventRecorder, ObjectEvent
from runyard.node.filling_webhook import FillingWebhook
from runyard.node.kubelet_api.port import KubeletPort
from runyard.node.ledger import Ledger
from runyard.node.mirror.pod_mirror import PodMirror, bound_pods
from runyard.node.mirror.pod_reconciler import UID_INDEX, MirrorSettings, Owner
from runyard.node.mirror.statuses import StatusSettings
from runyard.node.node_settings import NodeSettings
from runyard.node.offer import Offer, Shape
from runyard.node.pending_reasons import PendingReasons
from runyard.node.provider_tie import ProviderTie
from runyard.node.providers.provider import Identity, Link, Provider, Routes
from runyard.node.reservations import Reservations
from runyard.node.runtime_classes import ensure_runtime_classes
from runyard.node.services.service_loop import ServiceLoop
from runyard.node.services.service_settings import ServiceSettings
from runyard.node.virtual_node import Figures, VirtualNode, make_labels
from runyard.telemetry.loop_supervision import keep_going
from runyard.telemetry.node_metrics import NodeMetrics

_log = logging.getLogger(__name__)

PORT_SECONDS = 15.0
"""How long the node waits for its port: a cluster may sign certificates late."""
CLASSES_SECONDS = 60.0
"""How often RuntimeClasses are compared although the offer is the same: somebody may have changed one."""

_STALE = Refusal(
    "OfferUnreadable",
    "no new pods: the agent cannot read its offer since it was started; the node keeps the figures that it had",
)


class Term:
    """Runs once, with a provider that nobody has entered. `set_offer` may be called at any time."""

    def __init__(
        self,
        client: Client,
        provider: Provider,
        settings: NodeSettings,
        *,
        leadership: Leadership,
        offer: Offer,
        is_stale: bool,
        metrics: NodeMetrics,
    ) -> None:
        self._client = client
        self._provider = provider
        self._settings = settings
        self._leadership = leadership
        self._offer = offer
        self._is_stale = is_stale
        """Whether the offer is only what the node last published."""
        self._metrics = metrics
        self._ledger = Ledger(offer.capacity)
        self._figures_changed = asyncio.Event()
        self._offer_changed = asyncio.Event()
        self._is_rebuilt = False
        self._foreign: tuple[str, ...] = ()
        """Shapes whose RuntimeClass is somebody else's."""
        self._bound = bound_pods(client, settings.name)
        selector = f"spec.nodeName=,spec.schedulerName={settings.scheduler}"
        self._unbound: Reflector[Object] = Reflector(client, PODS, field_selector=selector)
        self._recorder = EventRecorder(client, component=settings.name)
        self._reasons = PendingReasons(client, recorder=self._recorder)
        self._reservations = Reservations(
            self._ledger,
            provider,
            self._bound,
            is_ours=self._is_ours,
            find_demand=find_demand if settings.has_ledger else find_requests,
            is_binding=self._is_binding,
            read_link=self._read_link,
            on_changed=self._note_room,
        )
        self._binder = Binder(
            client,
            settings,
            leadership=leadership,
            ledger=self._ledger,
            unbound=self._unbound,
            read_shapes=self._read_shapes,
            find_hold=self._find_hold,
            node_labels=make_labels(settings),
            reasons=self._reasons,
            on_reserved=self._figures_changed.set,
            observe=metrics.observe_bind,
        )
        self._node: VirtualNode | None = None
        self._mirrored: PodMirror | None = None
        identified = provider if isinstance(provider, Identity) else None
        self._tie = ProviderTie(
            None if identified is None else lambda: identified.identity,
            accepted=settings.accepted_provider,
            has_pods=lambda: bool(len(self._bound.store)),
            on_changed=self._note_tie,
        )
        self._trusted = asyncio.Event()
        """Set once the provider is known to be the one that has the node's pods."""
        self._port = KubeletPort(
            client,
            provider,
            BoundPods(self._bound),
            node=settings.name,
            addresses=[settings.address],
            listen="::" if ":" in settings.address else "0.0.0.0",  # noqa: S104 - the apiserver dials it
            port=settings.port,
            read_link=lambda: provider.link,
            on_lost=self._note_lost_stream,
        )

    @property
    def is_registered(self) -> bool:
        """Whether the node has been written in this term."""
        return self._node is not None and self._node.registered.is_set()

    def find_problem(self) -> str | None:
        """Why the node takes no new pods and somebody must act; None if it is registered and all is well."""
        if not self.is_registered:
            return "the node is not registered yet"
        if self._is_stale:
            return _STALE.message
        mismatch = self._tie.find_mismatch()
        return None if mismatch is None or not self._provider.link.is_up else mismatch.message

    def set_offer(self, offer: Offer) -> None:
        """Another offer: pending pods are judged anew; what is bound stays."""
        self._offer, self._is_stale = offer, False
        self._ledger.set_capacity(offer.capacity)
        self._offer_changed.set()
        self._note_room()

    async def run(self) -> None:
        """Run until cancelled: whoever leads ends it when the term is lost."""
        async with self._provider, self._bound, self._unbound:
            await self._bound.wait_synced()
            async with asyncio.TaskGroup() as group:
                count = self._metrics.count_failure
                group.create_task(keep_going("kubelet port", self._port.run, count_failure=count), name="kubelet port")
                self._node = VirtualNode(
                    self._client,
                    self._settings,
                    read_port=lambda: self._port.port,
                    read_figures=self._read_figures,
                    changed=self._figures_changed,
                    tie=self._tie,
                )
                for name, loop in self._make_loops(self._node).items():
                    group.create_task(keep_going(name, loop, count_failure=self._metrics.count_failure), name=name)

    async def _keep_node(self, node: VirtualNode) -> None:
        """The node is registered once its port answers, or without it: pods run, and logs come later.

        One that an earlier leader registered is kept alive meanwhile, and its pods are looked after.
        """
        await node.keep_alive()
        try:
            async with asyncio.timeout(PORT_SECONDS):
                await self._port.wait_listening()
        except TimeoutError:
            _log.error("the kubelet port does not answer yet: %s", self._port.problem)
        await node.run()

    def _make_loops(self, node: VirtualNode) -> Mapping[str, Callable[[], Awaitable[None]]]:
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "node": partial(self._keep_node, node),
            "runtime classes": self._keep_classes,
            "provider": self._follow_provider,
            "bound pods": self._follow_bound,
            "reservations": self._reservations.run,
            "mirror": self._mirror,
            "services": self._serve,
            "events": self._recorder.run,
        }
        if self._settings.webhook_port is not None:
            webhook = FillingWebhook(
                self._client, self._settings, port=self._settings.webhook_port, read_shapes=self._read_shapes
            )
            loops["webhook"] = webhook.run
        if self._settings.has_ledger:
            loops |= {"binder": partial(self._bind, node), "reasons": self._reasons.run}
        return loops

    async def _follow_provider(self) -> None:
        """Rebuild the ledger once the provider was listed; bind again when it can be reached again."""
        async for uids in self._provider.changes():
            self._rebuild()
            if not uids:
                self._tie.check()
                link = self._provider.link
                if not link.is_up and link.reason != "LinkDown":
                    self._node_event(Refusal(link.reason, link.message))
                self._note_room()

    def _rebuild(self) -> None:
        """Once, as soon as the provider's list is complete and it is the right provider."""
        if not self._is_rebuilt and self._read_link().has_listed:
            self._reservations.rebuild()
            self._is_rebuilt = True
            self._note_room()

    def _note_tie(self) -> None:
        """Another answer to the question whether the provider is the right one."""
        mismatch = self._tie.find_mismatch()
        if mismatch is None:
            self._trusted.set()
        elif mismatch.reason != "ProviderUnidentified":
            _log.error("%s: %s", mismatch.reason, mismatch.message, extra={"node": self._settings.name})
            self._node_event(mismatch)
        self._rebuild()
        self._note_room()
        if self._mirrored is not None:
            self._mirrored.wake()

    def _note_lost_stream(self, uid: str, why: str) -> None:
        """Tell it by an event: `kubectl exec` itself says no more than that the connection is gone."""
        for pod in self._bound.store.find_by_index(UID_INDEX, uid):
            self._recorder.record(pod, ObjectEvent(type="Warning", reason="StreamLost", message=why))

    def _node_event(self, refusal: Refusal) -> None:
        if self._node is not None and self._node.uid:
            node = {"kind": "Node", "metadata": {"name": self._settings.name, "uid": self._node.uid}}
            self._recorder.record(node, ObjectEvent(type="Warning", reason=refusal.reason, message=refusal.message))

    async def _bind(self, node: VirtualNode) -> None:
        await node.registered.wait()  # from then on it is known whether the node is cordoned
        await self._binder.run()

    async def _follow_bound(self) -> None:
        """Count pods whose binding was seen before its answer, or that an earlier leader bound."""
        with self._bound.subscribe(max_pending=None) as changes:
            async for keys in changes:
                self._reservations.note_bound(self._find_pods(keys))

    def _find_pods(self, keys: Iterable[Key]) -> list[Object]:
        return [pod for key in keys if (pod := self._bound.store.find(key)) is not None]

    async def _keep_classes(self) -> None:
        while True:
            if self._is_stale:
                self._node_event(_STALE)
                await self._offer_changed.wait()  # what is published must not be taken for what is offered
            self._offer_changed.clear()
            taint_key = None if self._settings.has_ledger else self._settings.taint_key
            outcome = await ensure_runtime_classes(
                self._client, self._offer, node_name=self._settings.name, taint_key=taint_key
            )
            for error in outcome.errors:
                _log.warning("a RuntimeClass is not as offered: %s", error)
            if outcome.foreign != self._foreign:
                self._foreign = outcome.foreign
                self._note_room()
            try:
                async with asyncio.timeout(CLASSES_SECONDS):
                    await self._offer_changed.wait()
            except TimeoutError:
                continue

    async def _mirror(self) -> None:
        owner = Owner(find_shape=self._find_shape, find_refusal=self._find_refusal, on_gone=self._reservations.release)
        status = StatusSettings(host_address=self._settings.address, pod_ips=self._settings.pod_ip)
        settings = MirrorSettings(
            status=status,
            unready_after_seconds=self._settings.unready_after_seconds,
            allows_tokens=self._settings.allows_tokens,
        )
        self._mirrored = PodMirror(
            self._client,
            self._provider,
            self._bound,
            owner=owner,
            settings=settings,
            recorder=self._recorder,
            read_link=self._read_link,
        )
        await self._mirrored.run()

    async def _serve(self) -> None:
        await self._trusted.wait()  # no routes at somebody else's
        routes = self._provider if isinstance(self._provider, Routes) else None
        settings = ServiceSettings(
            node=self._settings.name, tenant=self._settings.tenant or None, domain=self._settings.domain or None
        )
        await ServiceLoop(self._client, routes, settings, recorder=self._recorder).run()

    def _read_shapes(self) -> Mapping[str, Shape]:
        if not self._foreign:
            return self._offer.shapes
        return {name: shape for name, shape in self._offer.shapes.items() if name not in self._foreign}

    def _find_shape(self, pod: Object) -> Shape | None:
        return self._read_shapes().get(pod["spec"].get("runtimeClassName") or "")

    def _find_refusal(self, pod: Object) -> Refusal | None:
        """Why the pod may not begin here: judged again, because somebody else may have put it on the node."""
        self._leadership.check()
        if self._is_stale:
            return _STALE
        shape = self._find_shape(pod)
        if shape is None or not self._is_ours(pod):
            who = "its agent" if self._settings.has_ledger else "the default scheduler for one of its RuntimeClasses"
            message = f"the pod was not put on this node by {who}; the agent runs no others"
            return Refusal("NotBoundByAgent", message)
        labels = make_labels(self._settings)
        refusals = judge_pod(
            pod, shape, node_name=self._settings.name, node_labels=labels, allows_tokens=self._settings.allows_tokens
        )
        return Refusal(refusals[0].reason, format_refusals(refusals)) if refusals else None

    def _is_ours(self, pod: Object) -> bool:
        """Whether the pod counts: it says that it is the agent's, or in the static mode has one of its classes."""
        if self._settings.has_ledger:
            return bool(pod["spec"].get("schedulerName") == self._settings.scheduler)
        return self._find_shape(pod) is not None

    def _read_link(self) -> Link:
        """The provider's link; down as long as the provider is not known to be the one that has the node's pods."""
        link, mismatch = self._provider.link, self._tie.find_mismatch()
        if mismatch is None:
            return link
        if not link.is_up:
            return replace(link, has_listed=False)
        return replace(link, is_up=False, has_listed=False, reason=mismatch.reason, message=mismatch.message)

    def _find_hold(self) -> Refusal | None:
        """Why no new pods are taken, whatever is free. Nothing is bound until the ledger is complete."""
        link, name = self._read_link(), self._settings.name
        if self._settings.has_ledger and self._node is not None and self._node.is_cordoned:
            return Refusal("NodeCordoned", f"node {name} is cordoned and takes no new pods")
        if self._is_stale:
            return _STALE
        if not link.is_up and link.reason == "LinkDown":
            why = link.message or "it does not answer"
            return Refusal("ProviderUnreachable", f"no new pods while the provider is out of reach: {why}")
        if not link.is_up:
            return Refusal(link.reason, f"no new pods: {link.message}")
        if not self._is_rebuilt:
            return Refusal("ProviderUnreachable", "no new pods until the provider's pods are listed")
        return None

    def _read_figures(self) -> Figures:
        capacity = self._ledger.capacity()
        allocatable = self._ledger.allocatable() if self._settings.has_ledger else capacity
        self._metrics.set_pods(bound=len(self._ledger.reserved), waiting=len(self._unbound.store))
        link = self._read_link()
        self._metrics.set_link(is_up=link.is_up)
        streams = self._port.streams
        self._metrics.set_streams(
            is_open=streams.open, sent_bytes=streams.sent_bytes, received_bytes=streams.received_bytes
        )
        is_held = not self._settings.has_ledger and self._find_hold() is not None
        return Figures(capacity, allocatable, link, is_held)

    def _is_binding(self, uid: str) -> bool:
        return self._binder.is_binding(uid)

    def _note_room(self) -> None:
        self._figures_changed.set()
        self._binder.wake()
