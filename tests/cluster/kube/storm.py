"""The parts of the storm: who writes, who reads by subscription, who hears of it, and what breaks."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from runyard.kube import (
    AlreadyExists,
    Client,
    Gone,
    KubeError,
    NotFound,
    Object,
    ServerError,
    Throttled,
    Unavailable,
)
from runyard.kube.reflector import Reflector
from runyard.kube.resources import CONFIG_MAPS
from runyard.kube.views import Key
from testbed.cluster import Cluster
from testbed.faults import FaultPlan, FaultProxy, Rule, Stall

COLOURS = ("red", "green", "blue")
STORM_NAMESPACES = ("storm-0", "storm-1", "storm-2")
NAMES_PER_NAMESPACE = 60
WRITE_SECONDS = 5.0
SILENCE_SECONDS = 60.0

Identity = tuple[str, str]  # uid, resourceVersion


class Writer:
    """Creates, changes, deletes and replaces ConfigMaps at random, straight at the apiserver, and survives it."""

    def __init__(self, client: Client, *, seed: str) -> None:
        self._client = client
        self._random = random.Random(seed)
        self.done: Counter[str] = Counter()

    async def run(self) -> None:
        while True:
            act = self._random.choices((self._create, self._change, self._delete, self._replace), (3, 4, 1, 2))[0]
            name, namespace = (
                f"config-{self._random.randrange(NAMES_PER_NAMESPACE)}",
                self._random.choice(STORM_NAMESPACES),
            )
            try:
                await act(name, namespace)
                self.done[act.__name__] += 1
            except (AlreadyExists, NotFound):
                pass  # another writer was there first
            except (Unavailable, Throttled, ServerError):
                await asyncio.sleep(0.1)  # it is being killed, or just waking up
            await asyncio.sleep(self._random.expovariate(1 / 0.02))

    def _content(self) -> dict[str, Any]:
        words = "".join(self._random.choices("abcdefgh\n", k=self._random.randrange(2000)))
        return {"metadata": {"labels": {"colour": self._random.choice(COLOURS)}}, "data": {"words": words}}

    async def _create(self, name: str, namespace: str) -> None:
        content = self._content()
        content["metadata"]["name"] = name
        await self._client.create(CONFIG_MAPS, content, namespace=namespace, deadline_seconds=WRITE_SECONDS)

    async def _change(self, name: str, namespace: str) -> None:
        await self._client.patch(
            CONFIG_MAPS, name, self._content(), namespace=namespace, deadline_seconds=WRITE_SECONDS
        )

    async def _delete(self, name: str, namespace: str) -> None:
        await self._client.delete(CONFIG_MAPS, name, namespace=namespace, deadline_seconds=WRITE_SECONDS)

    async def _replace(self, name: str, namespace: str) -> None:
        await self._delete(name, namespace)
        await self._create(name, namespace)


class Mirror:
    """A copy of a store that is kept by subscription alone, by a reader that is slow now and then."""

    def __init__(self, reflector: Reflector[Object], *, seed: str) -> None:
        self._reflector = reflector
        self._random = random.Random(seed)
        self.copy: dict[Key, Identity] = {}
        self.replaced = 0

    async def run(self) -> None:
        with self._reflector.subscribe(max_pending=20) as subscription:
            async for keys in subscription:
                for key in keys:
                    self._look_at(key)
                await asyncio.sleep(self._random.choice((0, 0, 0.3)))

    def _look_at(self, key: Key) -> None:
        view = self._reflector.store.find(key)
        if view is None:
            self.copy.pop(key, None)
            return
        identity = identify(view)
        self.replaced += key in self.copy and self.copy[key][0] != identity[0]
        self.copy[key] = identity


class Witness(logging.Handler):
    """Hears why reflectors pause, so that the test can tell what they went through."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.errors: Counter[str] = Counter()
        self.expired_for_real = 0

    def emit(self, record: logging.LogRecord) -> None:
        for error in record.args if isinstance(record.args, tuple) else ():
            if isinstance(error, KubeError):
                self.errors[type(error).__name__] += 1
                self.expired_for_real += isinstance(error, Gone) and "fault proxy" not in str(error)


@contextmanager
def witnessed() -> Iterator[Witness]:
    logger = logging.getLogger("runyard.kube.backoff")
    witness, level = Witness(), logger.level
    logger.addHandler(witness)
    logger.setLevel(logging.DEBUG)
    try:
        yield witness
    finally:
        logger.removeHandler(witness)
        logger.setLevel(level)


@asynccontextmanager
async def running(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Tasks that are cancelled at the end of the block; one that failed fails the test."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield
        for task in tasks:
            assert not task.done(), task.exception()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def break_down(plane: Cluster, proxy: FaultProxy) -> None:
    """Leave the reflectors behind, kill the apiserver, and let etcd forget what they would resume from."""
    proxy.refuse(1.5)
    proxy.sever()
    await asyncio.sleep(0.5)
    await asyncio.to_thread(plane.kill, "kube-apiserver")
    await asyncio.to_thread(plane.compact_etcd)
    await asyncio.to_thread(plane.start, "kube-apiserver")
    await asyncio.to_thread(plane.wait_ready)


async def fall_silent(proxy: FaultProxy, *, watches: int) -> None:
    """Let the next watches hang for ever, as on a connection that died unnoticed: only a deadline helps."""
    wanted = proxy.counts["stall"] + watches
    proxy.plan = FaultPlan(rules=[Rule(Stall(), watch=True, times=watches)])
    proxy.sever()
    async with asyncio.timeout(SILENCE_SECONDS):
        while proxy.counts["stall"] < wanted:  # noqa: ASYNC110 - the proxy lives in another thread
            await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)  # the writers go on behind their backs


def identify(obj: Mapping[str, Any]) -> Identity:
    return obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
