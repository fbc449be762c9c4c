"""Watches that fail: one object concerns itself only, and a task that died begins again and is not believed before."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from runyard.engines.kubernetes import cluster_cache, watched_resource
from runyard.engines.kubernetes.cluster_cache import ClusterCache
from runyard.engines.kubernetes.kubernetes_settings import KubernetesSettings
from runyard.engines.kubernetes.views import JobView
from runyard.kube import Client, Transport, View
from tests.unit.engines.kubernetes.test_cluster_cache import NAMESPACE, make_job


class PlayedTransport:
    """An apiserver that lists jobs, and shows those that a test changes."""

    def __init__(self, *jobs: JobView) -> None:
        self.jobs = {job.metadata.name: job for job in jobs}
        self.version = 100
        self._watches: set[asyncio.Queue[bytes]] = set()

    async def request(self, _method: str, path: str, **_: object) -> bytes:
        items = [msgspec.to_builtins(job) for job in self.jobs.values()] if path.endswith("/jobs") else []
        return json.dumps({"metadata": {"resourceVersion": str(self.version)}, "items": items}).encode()

    @asynccontextmanager
    async def stream(self, path: str, **_: object) -> AsyncIterator[AsyncIterator[bytes]]:
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        if path.endswith("/jobs"):
            self._watches.add(lines)
        try:
            yield _iterate(lines)
        finally:
            self._watches.discard(lines)

    def show(self, run_uid: str) -> None:
        """A job is created."""
        self.version += 1
        job = make_job(run_uid, uid=f"job of {run_uid}", version=self.version)
        self.jobs[job.metadata.name] = job
        event: Mapping[str, Any] = {"type": "ADDED", "object": msgspec.to_builtins(job)}
        for lines in self._watches:
            lines.put_nowait(json.dumps(event).encode() + b"\n")


async def _iterate(lines: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while True:
        yield await lines.get()


class Watching:
    """A cache that is open, and the runs that it told to have changed."""

    def __init__(self, cache: ClusterCache, transport: PlayedTransport) -> None:
        self.cache, self.transport = cache, transport
        self.told: list[str] = []
        cache.listen(self.told.extend)

    async def wait(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not is_so():  # noqa: ASYNC110 - the cache has no event for it
                await asyncio.sleep(0.001)


@pytest.fixture
async def watching(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watching]:
    async def miss_nothing(*_: object) -> list[object]:
        return []

    monkeypatch.setattr(cluster_cache, "find_missing", miss_nothing)
    monkeypatch.setattr(watched_resource, "RESTART_SECONDS", 0.1)
    transport = PlayedTransport(make_job("u0", uid="job of u0", version=99))
    settings = KubernetesSettings(installation="here", namespace=NAMESPACE)
    async with ClusterCache.open(Client(cast("Transport", transport)), settings) as cache:
        watching = Watching(cache, transport)
        await watching.wait(lambda: bool(transport._watches))
        assert cache.is_current
        yield watching


async def see(watching: Watching, run_uid: str) -> None:
    """Let a job be created, and wait until it is told."""
    watching.transport.show(run_uid)
    await watching.wait(lambda: run_uid in watching.told)


async def test_what_was_listed_is_taken_in_before_anybody_listens_when_the_cache_opens(watching: Watching) -> None:
    await see(watching, "u1")
    assert watching.told == ["u1"], "whoever subscribes lists all runs: each of them is observed once"


async def test_other_objects_are_taken_in_when_one_cannot_be(watching: Watching) -> None:
    take_changed = watching.cache._take_changed

    def fail(view: View) -> Iterable[str]:
        if isinstance(view, JobView) and view.metadata.labels.run_uid == "bad":
            raise ValueError("an object that nobody expected")
        return take_changed(view)

    watching.cache._take_changed = fail  # type: ignore[method-assign]
    watching.transport.show("bad")
    await see(watching, "good")
    assert "bad" not in watching.told
    assert watching.cache.is_current


def break_reader(watching: Watching) -> None:
    """What takes in the changes fails at the next one."""
    tell = watching.cache._tell

    def fail(_: set[str]) -> None:
        watching.cache._tell = tell  # type: ignore[method-assign]
        raise ValueError("a bug")

    watching.cache._tell = fail  # type: ignore[method-assign, assignment]


def break_reflector(watching: Watching) -> None:
    """What reads the watch fails at the next event."""

    def fail(_: object) -> None:
        raise ValueError("a bug")

    watching.cache.jobs.reflector._apply = fail  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("break_it", [break_reader, break_reflector])
async def test_watch_begins_again_and_is_not_believed_before_when_its_task_dies(
    watching: Watching, break_it: Callable[[Watching], None]
) -> None:
    cache, lists = watching.cache, watching.cache.jobs.reflector.counters.lists
    break_it(watching)
    watching.transport.show("u1")
    await watching.wait(lambda: not cache.is_current)
    synced = asyncio.create_task(cache.wait_synced(10))
    # What was known counts meanwhile: a run without its objects would look ended.
    while not cache.is_current:
        assert cache.find("u0") is not None
        await asyncio.sleep(0.001)
    assert await synced
    await watching.wait(lambda: {"u0", "u1"} <= set(watching.told))
    assert (cache.epoch, cache.jobs.reflector.counters.lists) == (0, lists + 1)
    await watching.wait(lambda: bool(watching.transport._watches))
    await see(watching, "u2")
