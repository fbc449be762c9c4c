"""Events on objects of the local cluster, for `kubectl describe`: deduplicated, and bounded in number and rate.

An event that cannot be written is dropped: nothing waits for one.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.kube import Client, KubeError
from runyard.kube.resources import EVENTS
from runyard.node.timestamps import write_now

MOST_WAITING = 1_000
"""How many events wait to be written; more are dropped."""
MOST_REMEMBERED = 10_000
"""How many events are remembered, to tell repetitions."""
MOST_OF_AN_OBJECT = 50
"""How many different events an object gets from one agent."""
EVENTS_PER_SECOND = 20.0
LONGEST_MESSAGE = 1024
"""What Kubernetes takes."""

_FIELD_MANAGER = "runyard-node"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEvent:
    """An event about a local object."""

    type: str
    reason: str
    message: str
    event_id: str = ""
    """The same for every repetition; empty: made of reason and message."""
    count: int | None = None
    """How often it happened; None: once more."""
    first_at: str = ""
    last_at: str = ""
    container: str | None = None


class EventRecorder:
    """Writes events on behalf of one component, in the background."""

    def __init__(self, client: Client, *, component: str) -> None:
        self._client = client
        self._component = component
        self._waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_WAITING)
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._of_objects: OrderedDict[str, set[str]] = OrderedDict()

    def record(self, regarding: Mapping[str, Any], event: ObjectEvent) -> None:
        """Write an event about an object, or count it once more. Never blocks and never fails."""
        uid = regarding["metadata"]["uid"]
        told = event.event_id or f"{event.type} {event.reason} {event.message}"
        name = hashlib.sha256(f"{uid}\0{told}".encode()).hexdigest()[:16]
        known = self._counts.get(name, 0)
        count = known + 1 if event.count is None else event.count
        if count <= known:
            return
        names = self._of_objects.setdefault(uid, set())
        while len(self._of_objects) > MOST_REMEMBERED:
            self._of_objects.popitem(last=False)
        if name not in names and len(names) >= MOST_OF_AN_OBJECT:
            return
        try:
            self._waiting.put_nowait(self._render(regarding, event, name=name, count=count))
        except asyncio.QueueFull:
            return
        names.add(name)
        self._remember(name, uid, count)

    async def run(self) -> None:
        """Write what waits until cancelled."""
        while True:
            body = await self._waiting.get()
            try:
                await self._client.apply(EVENTS, body, field_manager=_FIELD_MANAGER, force=True)
            except KubeError as error:
                _log.debug("an event was not written: %s", error)
            await asyncio.sleep(1 / EVENTS_PER_SECOND)

    def _remember(self, name: str, uid: str, count: int) -> None:
        self._counts[name] = count
        self._counts.move_to_end(name)
        self._of_objects.move_to_end(uid)
        while len(self._counts) > MOST_REMEMBERED:
            self._counts.popitem(last=False)

    def _render(self, regarding: Mapping[str, Any], event: ObjectEvent, *, name: str, count: int) -> dict[str, Any]:
        metadata = regarding["metadata"]
        now = write_now()
        about = {
            "apiVersion": regarding.get("apiVersion", "v1"),
            "kind": regarding.get("kind", "Pod"),
            **({"namespace": metadata["namespace"]} if "namespace" in metadata else {}),
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        namespace = metadata.get("namespace", "default")  # where Kubernetes keeps events of what has none
        if event.container:
            about["fieldPath"] = f"spec.containers{{{event.container}}}"
        return {
            "metadata": {"name": f"{metadata['name'][:200]}.{name}", "namespace": namespace},
            "involvedObject": about,
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:LONGEST_MESSAGE],
            "count": count,
            "firstTimestamp": event.first_at or now,
            "lastTimestamp": event.last_at or now,
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }
