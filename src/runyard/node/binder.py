"""The scheduler of the node's shapes: judges unbound pods, reserves in the ledger, binds.

Pods are taken by priority, then by age; one that has no room does not hold up smaller ones behind it, as in the default
scheduler. Nothing is preempted. The binder reserves before it sends a binding, and gives a reservation back only when
it knows that the pod is not bound: an answer that got lost is asked for. A term that ends gives nothing back; the next
one rebuilds the ledger.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from runyard.kube import (
    BadRequest,
    Client,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    Leadership,
    NotFound,
    Object,
    Reflector,
)
from runyard.kube.backoff import Backoff
from runyard.kube.resources import PODS
from runyard.node.admission.judgement import find_demand, judge_pod
from runyard.node.admission.refusal import Refusal, format_refusals
from runyard.node.event_recorder import ObjectEvent
from runyard.node.ledger import Ledger
from runyard.node.node_settings import NodeSettings
from runyard.node.offer import Amounts, Shape
from runyard.node.pending_reasons import PendingReasons

MOST_BINDINGS = 16
"""Bindings under way at a time."""
IDLE_SECONDS = 30.0
"""How often pending pods are judged again although nothing seems to have changed."""
JUDGED_AT_ONCE = 50
"""Pods that are judged before others get a turn: 10,000 would hold the event loop for seconds."""
REFUSED_SECONDS = (1.0, 60.0)
"""Between two bindings of a pod that was not bound."""
RECHECK_SECONDS = (0.5, 15.0)
"""Between two questions whether a lost binding was done."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What was found of one state of a pod, for one offer."""

    generation: object
    shape: Shape | None
    refusals: tuple[Refusal, ...]
    demand: Amounts


def _make_backoff() -> Backoff:
    return Backoff(initial_seconds=REFUSED_SECONDS[0], maximum_seconds=REFUSED_SECONDS[1])


@dataclass(slots=True)
class _Refused:
    """A pod that was not bound although there was room."""

    backoff: Backoff = field(default_factory=_make_backoff)
    until: float = 0.0


class Binder:
    """One term of the leader. `wake` it when there may be room, or another offer."""

    def __init__(
        self,
        client: Client,
        settings: NodeSettings,
        *,
        leadership: Leadership,
        ledger: Ledger,
        unbound: Reflector[Object],
        read_shapes: Callable[[], Mapping[str, Shape]],
        find_hold: Callable[[], Refusal | None],
        node_labels: Mapping[str, str],
        reasons: PendingReasons,
        on_reserved: Callable[[], None],
        observe: Callable[[float, str], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._leadership = leadership
        self._ledger = ledger
        self._unbound = unbound
        self._read_shapes = read_shapes
        self._find_hold = find_hold
        """Why the node takes no new pods now, whatever they ask for."""
        self._node_labels = node_labels
        self._reasons = reasons
        self._on_reserved = on_reserved
        self._observe = observe
        """Told how long each binding took, and how it ended."""
        self._awake = asyncio.Event()
        self._slots = asyncio.Semaphore(MOST_BINDINGS)
        self._verdicts: dict[str, _Verdict] = {}
        self._bindings: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, _Refused] = {}

    def wake(self) -> None:
        """Look at all pending pods again."""
        self._awake.set()

    async def run(self) -> None:
        """Bind what has room, for ever."""
        await self._unbound.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._work(group))

    async def _follow(self) -> None:
        with self._unbound.subscribe() as changes:
            async for _ in changes:
                self.wake()

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._awake.clear()
            async for pod, demand in self.choose():
                uid = pod["metadata"]["uid"]
                self._ledger.reserve(uid, demand)
                self._reasons.forget(uid)
                self._on_reserved()
                self._bindings[uid] = group.create_task(self._bind(pod))
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._awake.wait()
            except TimeoutError:
                continue

    def is_binding(self, uid: str) -> bool:
        """Whether a pod is being bound, or nobody knows whether it was."""
        return uid in self._bindings

    async def choose(self) -> AsyncIterator[tuple[Object, Amounts]]:
        """Yield the pods that can be bound now, each to be reserved before the next one; tell the others why."""
        shapes, hold = self._read_shapes(), self._find_hold()
        pods = sorted((pod for pod in self._unbound.store.views() if self._is_candidate(pod)), key=_order)
        uids = {pod["metadata"]["uid"] for pod in pods}
        self._verdicts = {uid: verdict for uid, verdict in self._verdicts.items() if uid in uids}
        self._refused = {uid: refused for uid, refused in self._refused.items() if uid in uids}
        self._reasons.keep(uids)
        for number, pod in enumerate(pods, start=1):
            if number % JUDGED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if self._is_refused(pod["metadata"]["uid"]):
                continue
            try:
                verdict = self._judge(pod, shapes)
            except Exception:  # noqa: BLE001 - one pod that cannot be judged must not hold up the others
                _log.exception("a pod cannot be judged", extra={"uid": pod["metadata"]["uid"]})
                continue
            if verdict.refusals:
                self._reasons.tell(pod, verdict.refusals[0].reason, format_refusals(verdict.refusals))
            elif hold is not None:
                self._reasons.tell(pod, hold.reason, hold.message)
            elif shortages := self._ledger.find_shortage(verdict.demand):
                listed = ", ".join(map(str, shortages))
                self._reasons.tell(pod, "InsufficientCapacity", f"node {self._settings.name} has no room now; {listed}")
            else:
                yield pod, verdict.demand

    def _is_candidate(self, pod: Object) -> bool:
        """Ours, not going, not held back by a gate, and not being bound."""
        spec, metadata = pod.get("spec") or {}, pod["metadata"]
        return (
            spec.get("schedulerName") == self._settings.scheduler
            and not spec.get("nodeName")
            and not spec.get("schedulingGates")
            and not metadata.get("deletionTimestamp")
            and metadata["uid"] not in self._ledger.reserved
        )

    def _judge(self, pod: Object, shapes: Mapping[str, Shape]) -> _Verdict:
        """Judged once for each offer and generation of the pod, which our own writes of its status leave alone."""
        metadata = pod["metadata"]
        uid, generation = metadata["uid"], metadata.get("generation") or metadata.get("resourceVersion")
        name = pod["spec"].get("runtimeClassName") or ""
        shape = shapes.get(name)
        known = self._verdicts.get(uid)
        if known is not None and known.generation == generation and known.shape is shape:
            return known
        refusals: tuple[Refusal, ...]
        demand: Amounts = {}
        if shape is None:
            offered = ", ".join(sorted(shapes)) or "none"
            text = f"runtimeClassName {name!r} is not offered by node {self._settings.name}; offered: {offered}"
            refusals = (Refusal("RuntimeClassNotOffered", text),)
        else:
            refusals = judge_pod(
                pod,
                shape,
                node_name=self._settings.name,
                node_labels=self._node_labels,
                allows_tokens=self._settings.allows_tokens,
            )
            demand = {} if refusals else find_demand(pod)
        verdict = self._verdicts[uid] = _Verdict(generation, shape, refusals, demand)
        return verdict

    def _is_refused(self, uid: str) -> bool:
        """Whether its last binding failed a moment ago."""
        refused = self._refused.get(uid)
        return refused is not None and asyncio.get_running_loop().time() < refused.until

    async def _bind(self, pod: Object) -> None:
        """Bind a pod whose resources are reserved; what is not bound is given back."""
        metadata = pod["metadata"]
        uid = metadata["uid"]
        clock = asyncio.get_running_loop().time
        try:
            async with self._slots:
                self._leadership.check()
                began = clock()
                is_bound = await self._send_binding(pod)
                self._observe(clock() - began, "bound" if is_bound else "not bound")
        finally:
            self._bindings.pop(uid, None)
        if is_bound:
            self._verdicts.pop(uid, None)
            self._refused.pop(uid, None)
            target = f"{metadata.get('namespace')}/{metadata['name']} to {self._settings.name}"
            event = ObjectEvent(type="Normal", reason="Scheduled", message=f"Successfully assigned {target}")
            self._reasons.recorder.record(pod, event)
        else:
            self._ledger.release(uid)
            self._on_reserved()
            refused = self._refused.setdefault(uid, _Refused())
            seconds = refused.backoff.next_seconds()
            refused.until = clock() + seconds
            asyncio.get_running_loop().call_later(seconds, self.wake)

    async def _send_binding(self, pod: Object) -> bool:
        """Whether the pod is bound to our node, found out however long it takes."""
        metadata = pod["metadata"]
        try:
            await self._client.bind(
                metadata["name"], namespace=metadata["namespace"], node=self._settings.name, uid=metadata["uid"]
            )
        except (NotFound, Conflict):
            return await self._find_out(pod)  # gone, or bound: perhaps by a request whose answer got lost
        except (BadRequest, Forbidden, Invalid) as error:
            self._reasons.tell(pod, "BindingRefused", f"the cluster refused the binding: {error}")
            return False
        except KubeError as error:
            _log.warning("the answer to a binding got lost: %s", error, extra={"pod": metadata["name"]})
            return await self._find_out(pod)
        return True

    async def _find_out(self, pod: Object) -> bool:
        metadata = pod["metadata"]
        backoff = Backoff(initial_seconds=RECHECK_SECONDS[0], maximum_seconds=RECHECK_SECONDS[1])
        while True:
            try:
                found = await self._client.get(PODS, metadata["name"], namespace=metadata["namespace"])
            except NotFound:
                return False
            except KubeError:
                await asyncio.sleep(backoff.next_seconds())
                continue
            is_same = found["metadata"]["uid"] == metadata["uid"]
            return bool(is_same and found["spec"].get("nodeName") == self._settings.name)


def _order(pod: Object) -> tuple[int, str, str]:
    """By priority, then by age."""
    priority = pod["spec"].get("priority")
    rank = -priority if isinstance(priority, int) else 0
    return rank, str(pod["metadata"].get("creationTimestamp", "")), pod["metadata"]["uid"]
