"""A provider of one's own, as a recipe: every pod "runs" for as long as its first argument says, and succeeds.

Replace `_finish_later` by calls to whatever really runs the work. What must hold is in
`runyard.node.providers.provider`: every call may be repeated, and pods are known by the uid of the local pod.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

from runyard.node.providers.provider import Link, RemotePod, Workload
from runyard.pods.demand import pod_requests


class TimerProvider:
    """Implements the required part of `Provider`; forgets everything when the agent ends."""

    kind = "timer"

    def __init__(self) -> None:
        self._pods: dict[str, RemotePod] = {}
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._followers: set[asyncio.Queue[frozenset[str]]] = set()
        self._link = Link(is_up=True, has_listed=True, since=datetime.now(UTC))

    async def __aenter__(self) -> "TimerProvider":
        return self

    async def __aexit__(self, *error: object) -> None:
        for timer in self._timers.values():
            timer.cancel()

    @property
    def link(self) -> Link:
        """There is nothing that could be out of reach."""
        return self._link

    @property
    def pods(self) -> Mapping[str, RemotePod]:
        """Every pod, by the uid of the local one."""
        return self._pods

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        """The uids of pods that changed, beginning with all."""
        queue: asyncio.Queue[frozenset[str]] = asyncio.Queue()
        queue.put_nowait(frozenset(self._pods))
        self._followers.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._followers.discard(queue)

    async def start(self, workload: Workload) -> None:
        """Start it unless it is there; when this returns, `pods` shows it."""
        if workload.uid in self._pods:
            return
        self._pods[workload.uid] = RemotePod(
            uid=workload.uid,
            name=f"timer-{workload.uid}",
            status=_make_status(workload, running=True),
            requests=pod_requests(workload.spec),
        )
        self._timers[workload.uid] = asyncio.create_task(self._finish_later(workload))
        self._tell(workload.uid)

    async def update(self, workload: Workload) -> None:
        """Labels, ConfigMaps and Secrets mean nothing to a timer."""

    async def stop(self, uid: str, *, grace_seconds: int) -> None:  # noqa: ARG002 - a timer ends at once
        """End a pod; it is gone at once."""
        if timer := self._timers.pop(uid, None):
            timer.cancel()
        if self._pods.pop(uid, None) is not None:
            self._tell(uid)

    async def clean_up(self, uid: str) -> None:
        """Nothing is left of a pod."""

    async def _finish_later(self, workload: Workload) -> None:
        await asyncio.sleep(float((workload.spec["containers"][0].get("args") or ["1"])[0]))
        known = self._pods[workload.uid]
        self._pods[workload.uid] = RemotePod(
            uid=known.uid, name=known.name, status=_make_status(workload, running=False), requests=known.requests
        )
        self._tell(workload.uid)

    def _tell(self, uid: str) -> None:
        for queue in self._followers:
            queue.put_nowait(frozenset({uid}))


def _make_status(workload: Workload, *, running: bool) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = "True" if running else "False"
    state = {"running": {"startedAt": now}} if running else {"terminated": {"exitCode": 0, "finishedAt": now}}
    return {
        "phase": "Running" if running else "Succeeded",
        "conditions": [
            {"type": kind, "status": ready, "lastTransitionTime": now} for kind in ("ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": running,
                "restartCount": 0,
                "state": state,
            }
            for container in workload.spec["containers"]
        ],
    }
