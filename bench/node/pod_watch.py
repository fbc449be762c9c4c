"""When the pods of a namespace were bound, ran and were gone, as one watch saw it."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from bench.cluster.raw_api import RawApi

WAIT_SECONDS = 120.0
"""When a measure gives up waiting for one pod."""


class _Metadata(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    node: str = msgspec.field(name="nodeName", default="")


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


_EVENTS = msgspec.json.Decoder(_Event)


@dataclass
class _Moment:
    """Something that happens once."""

    at: float | None = None
    _happened: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, now: float) -> None:
        if self.at is None:
            self.at = now
            self._happened.set()

    async def wait(self) -> float:
        """The time of it."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self._happened.wait()
        if self.at is None:
            raise RuntimeError("a moment without its time")
        return self.at


@dataclass
class PodMoments:
    """What was seen of one pod, by this process's clock."""

    bound: _Moment = field(default_factory=_Moment)
    running: _Moment = field(default_factory=_Moment)
    gone: _Moment = field(default_factory=_Moment)


class PodWatch:
    """The pods of one namespace. Made by `watch_pods`."""

    def __init__(self, api: RawApi, *, namespace: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._pods: defaultdict[str, PodMoments] = defaultdict(PodMoments)
        self._news = asyncio.Event()
        self.opened = asyncio.Event()

    def get(self, name: str) -> PodMoments:
        """What was, or will be, seen of the pod of that name."""
        return self._pods[name]

    @property
    def running(self) -> int:
        """How many pods were seen running."""
        return sum(pod.running.at is not None for pod in self._pods.values())

    async def wait_running(self, count: int, *, seconds: float) -> None:
        """Wait until so many pods were seen running."""
        async with asyncio.timeout(seconds):
            while self.running < count:
                self._news.clear()
                await self._news.wait()

    async def follow(self) -> None:
        """Note what the pods do, until cancelled."""
        async for line in self._api.watch(self._path, on_open=self.opened.set):
            event, now = _EVENTS.decode(line), time.perf_counter()
            pod = self._pods[event.object.metadata.name]
            if event.object.spec.node:
                pod.bound.note(now)
            if event.object.status.phase == "Running":
                pod.running.note(now)
            if event.type == "DELETED":
                pod.gone.note(now)
            self._news.set()


@asynccontextmanager
async def watch_pods(api: RawApi, *, namespace: str) -> AsyncIterator[PodWatch]:
    """A watch that is open."""
    pods = PodWatch(api, namespace=namespace)
    async with asyncio.TaskGroup() as group:  # a watch that fails ends the measure
        following = group.create_task(pods.follow())
        await pods.opened.wait()
        yield pods
        following.cancel()
