"""Why pods wait: the condition `PodScheduled` and an event, written when the reason changes, and not more often.

A reason is not `Unschedulable`, which would wake cluster autoscalers.
"""

import asyncio
import logging
from collections.abc import Set
from dataclasses import dataclass

from runyard.kube import Client, Conflict, KubeError, NotFound, Object
from runyard.kube.resources import PODS
from runyard.node.event_recorder import EventRecorder, ObjectEvent
from runyard.node.timestamps import write_now

REPEAT_SECONDS = 120.0
"""How long other figures of the same reason wait before they are written: every bound pod changes what is free."""
MESSAGE_CHARACTERS = 1024
WORKERS = 4

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Told:
    reason: str
    message: str
    at: float


class PendingReasons:
    """What pending pods were told, and what is to be written."""

    def __init__(self, client: Client, *, recorder: EventRecorder) -> None:
        self._client = client
        self.recorder = recorder
        self._told: dict[str, _Told] = {}
        self._waiting: dict[str, tuple[Object, str, str]] = {}
        self._added = asyncio.Event()

    def tell(self, pod: Object, reason: str, message: str) -> None:
        """Note why a pod waits; it is written soon, the latest only."""
        uid, message = pod["metadata"]["uid"], message[:MESSAGE_CHARACTERS]
        told = self._told.get(uid)
        if told is not None and told.reason == reason:
            is_same = told.message == message
            if is_same or asyncio.get_running_loop().time() - told.at < REPEAT_SECONDS:
                return
        self._told[uid] = _Told(reason, message, asyncio.get_running_loop().time())
        self._waiting[uid] = (pod, reason, message)
        self._added.set()

    def keep(self, uids: Set[str]) -> None:
        """Forget pods that do not wait any more."""
        self._told = {uid: told for uid, told in self._told.items() if uid in uids}
        self._waiting = {uid: told for uid, told in self._waiting.items() if uid in uids}

    def forget(self, uid: str) -> None:
        """The pod is being bound: nothing more is said of it."""
        self._told.pop(uid, None)
        self._waiting.pop(uid, None)

    async def run(self) -> None:
        """Write reasons, for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            while self._waiting:
                uid = next(iter(self._waiting))
                pod, reason, message = self._waiting.pop(uid)
                await self._write(pod, reason, message)
            self._added.clear()
            await self._added.wait()

    async def _write(self, pod: Object, reason: str, message: str) -> None:
        metadata = pod["metadata"]
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        patch = {
            # Not on a pod that was bound meanwhile.
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": {"conditions": [{**condition, "lastTransitionTime": write_now()}]},
        }
        try:
            await self._client.patch(
                PODS,
                metadata["name"],
                patch,
                namespace=metadata["namespace"],
                kind="strategic",
                subresource="status",
            )
        except NotFound:
            return
        except Conflict:
            self._told.pop(metadata["uid"], None)  # told again with the newer state, if it still waits
            return
        except KubeError as error:
            self._told.pop(metadata["uid"], None)
            _log.warning("a pod could not be told why it waits: %s", error, extra={"pod": metadata["name"]})
            return
        event = ObjectEvent(type="Warning", reason="FailedScheduling", message=message, event_id=f"waits: {reason}")
        self.recorder.record(pod, event)
