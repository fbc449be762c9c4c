"""Proof: the store equals what kubectl prints, with ten thousand objects, on an idle watch, and after each upset."""

import asyncio
import dataclasses
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path

import pytest

from runyard.kube.client import Client
from runyard.kube.config import load_kubeconfig
from runyard.kube.errors import Forbidden
from runyard.kube.objects import Object
from runyard.kube.reflector import Reflector, Timing
from runyard.kube.resources import CONFIG_MAPS, NAMESPACES, RUNTIME_CLASSES
from runyard.kube.views import Key, View
from testbed.cluster import Cluster
from testbed.faults import FaultPlan, FaultProxy
from tests.cluster.kube.identities import config_of, create_account

OBJECTS = 10_000
WRITERS = 32
PROMPT = Timing(backoff_seconds=(0.1, 1.0))

Versions = dict[Key, tuple[str, str]]


class NarrowView(View, frozen=True):
    """Nothing but the metadata."""


@pytest.fixture
async def place(plane_client: Client) -> str:
    """A namespace of the test's own on the module's control plane, with the ConfigMap that each one gets."""
    name = f"place-{secrets.token_hex(4)}"
    await plane_client.create(NAMESPACES, {"metadata": {"name": name}})
    async with Reflector(plane_client, CONFIG_MAPS, namespace=name) as reflector:
        await eventually(lambda: (name, "kube-root-ca.crt") in reflector.store)
    return name


async def in_parallel(act: Callable[[str], Awaitable[object]], names: Iterable[str]) -> None:
    """Call `act` for every name, a few at a time."""
    left = iter(names)

    async def work() -> None:
        for name in left:
            await act(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(work())


async def eventually(is_true: Callable[[], bool], *, within_seconds: float = 60.0) -> None:
    async with asyncio.timeout(within_seconds):
        while not is_true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.1)


async def read_by_kubectl(plane: Cluster, namespace: str) -> Versions:
    template = r'{range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.resourceVersion}{"\n"}{end}'
    text = await asyncio.to_thread(plane.kubectl, "get", "configmaps", "-n", namespace, "-o", f"jsonpath={template}")
    rows = (line.split() for line in text.splitlines())
    return {Key(namespace, name): (uid, version) for name, uid, version in rows}


def held_whole(reflector: Reflector[Object]) -> Versions:
    metadata = ((key, view["metadata"]) for key, view in reflector.store.items())
    return {key: (fields["uid"], fields["resourceVersion"]) for key, fields in metadata}


def held_narrow(reflector: Reflector[NarrowView]) -> Versions:
    return {key: (view.metadata.uid, view.metadata.resource_version) for key, view in reflector.store.items()}


class IdleWatch:
    """A reflector with its default timing, in a thread of its own, of a resource that nobody touches."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._stop = threading.Event()
        self.reflector: Reflector[Object] | None = None

    def __enter__(self) -> "IdleWatch":
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="idle watch")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        config = load_kubeconfig(self._kubeconfig)
        async with Client.connect(config) as client, Reflector(client, RUNTIME_CLASSES) as self.reflector:
            await asyncio.to_thread(self._stop.wait)


@pytest.fixture(scope="module")
def idle_watch(control_plane: Cluster) -> Iterator[IdleWatch]:
    """Begins with the module's first test, so that the minute until its first bookmark passes meanwhile."""
    with IdleWatch(control_plane.kubeconfig) as watch:
        yield watch


@pytest.mark.usefixtures("idle_watch")
async def test_store_equals_kubectl_when_there_are_ten_thousand_objects(
    control_plane: Cluster, plane_client: Client, place: str
) -> None:
    names = [f"object-{number:05d}" for number in range(OBJECTS)]

    async def create(name: str) -> None:
        await plane_client.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"k": name}}, namespace=place)

    async def change(name: str) -> None:
        await plane_client.patch(CONFIG_MAPS, name, {"data": {"k": "changed"}}, namespace=place)

    async def delete(name: str) -> None:
        await plane_client.delete(CONFIG_MAPS, name, namespace=place)

    async with Reflector(plane_client, CONFIG_MAPS, namespace=place) as watching:
        await watching.wait_synced()
        notified: set[Key] = set()

        async def follow() -> None:
            async for batch in watching.subscribe(max_pending=500):
                notified.update(batch)

        following = asyncio.create_task(follow())
        await in_parallel(create, names)
        await in_parallel(change, names[:300])
        await in_parallel(delete, names[300:600])
        expected = await read_by_kubectl(control_plane, place)
        assert len(expected) == OBJECTS - 300 + 1  # and the root certificates that every namespace gets
        await eventually(lambda: held_whole(watching) == expected)
        assert {Key(place, name) for name in names} <= notified
        assert watching.counters.lists == 1
        following.cancel()

    async with Reflector(plane_client, CONFIG_MAPS, namespace=place, view=NarrowView) as cold:
        await cold.wait_synced()
        assert held_narrow(cold) == expected
        assert cold.counters.events == 0


async def test_watch_lives_on_bookmarks_when_nothing_happens(plane_client: Client, idle_watch: IdleWatch) -> None:
    # A consistent list makes the server look at etcd's revision; 1.34 sends no bookmark before it has moved.
    await plane_client.list(RUNTIME_CLASSES)
    await eventually(
        lambda: idle_watch.reflector is not None and idle_watch.reflector.counters.bookmarks > 0,
        within_seconds=200,
    )

    assert idle_watch.reflector is not None
    counters = idle_watch.reflector.counters
    assert (counters.lists, counters.events) == (1, 0)
    assert idle_watch.reflector.last_error is None


@pytest.fixture
async def cuttable(control_plane: Cluster) -> AsyncIterator[tuple[FaultProxy, Client]]:
    """A client whose way to the apiserver is cut while the proxy's faults are enabled."""
    proxy = FaultProxy(
        control_plane.server,
        plan=FaultPlan(rates={"answer-503": 1.0}),
        certificate=control_plane.certificate("fault-proxy", hosts=["127.0.0.1"]),
        upstream_ca=control_plane.ca_file,
    )
    proxy.enabled = False
    config = load_kubeconfig(control_plane.kubeconfig)
    async with proxy, Client.connect(dataclasses.replace(config, server=proxy.url)) as client:
        yield proxy, client


async def test_difference_is_found_by_a_new_list_when_history_was_compacted_meanwhile(
    control_plane: Cluster, plane_client: Client, place: str, cuttable: tuple[FaultProxy, Client]
) -> None:
    proxy, client = cuttable
    for name in ("kept", "changed", "deleted", "replaced"):
        await plane_client.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace=place)
    async with Reflector(client, CONFIG_MAPS, namespace=place, timing=PROMPT) as reflector:
        changes = reflector.subscribe()
        before = {key.name for key in await anext(changes)}
        replaced = reflector.store.find((place, "replaced"))
        assert {"kept", "changed", "deleted", "replaced"} <= before

        proxy.enabled = True
        await asyncio.to_thread(proxy.sever)
        await plane_client.patch(CONFIG_MAPS, "changed", {"data": {"k": "v"}}, namespace=place)
        await plane_client.delete(CONFIG_MAPS, "deleted", namespace=place)
        await plane_client.delete(CONFIG_MAPS, "replaced", namespace=place)
        await plane_client.create(CONFIG_MAPS, {"metadata": {"name": "replaced"}}, namespace=place)
        await plane_client.create(CONFIG_MAPS, {"metadata": {"name": "added"}}, namespace=place)
        await asyncio.to_thread(control_plane.compact_etcd)
        await restart_apiserver(control_plane)  # or its own memory of recent events would do
        expected = await read_by_kubectl(control_plane, place)
        assert held_whole(reflector) != expected
        proxy.enabled = False
        await eventually(lambda: held_whole(reflector) == expected)
        assert reflector.counters.lists == 2
        changed = {key.name for key in await anext(changes)}
        assert changed == {"changed", "deleted", "replaced", "added"}
        buried = {name: changes.deleted(Key(place, name)) for name in changed}
        assert {name: len(each) for name, each in buried.items()} == {
            "added": 0,
            "changed": 0,
            "deleted": 1,
            "replaced": 1,
        }
        assert not any(each.is_final for each in (*buried["deleted"], *buried["replaced"]))
        assert buried["replaced"][0].view == replaced


async def restart_apiserver(plane: Cluster) -> None:
    await asyncio.to_thread(plane.kill, "kube-apiserver")
    await asyncio.to_thread(plane.start, "kube-apiserver")
    await asyncio.to_thread(plane.wait_ready)


async def test_store_catches_up_when_the_apiserver_was_killed(
    control_plane: Cluster, plane_client: Client, place: str
) -> None:
    await plane_client.create(CONFIG_MAPS, {"metadata": {"name": "before"}}, namespace=place)
    async with Reflector(plane_client, CONFIG_MAPS, namespace=place, timing=PROMPT) as reflector:
        await reflector.wait_synced()
        await restart_apiserver(control_plane)
        await plane_client.create(CONFIG_MAPS, {"metadata": {"name": "after"}}, namespace=place)
        await plane_client.delete(CONFIG_MAPS, "before", namespace=place)
        expected = await read_by_kubectl(control_plane, place)

        # A list makes them equal before the next watch is open.
        await eventually(lambda: held_whole(reflector) == expected and reflector.last_error is None)
        assert Key(place, "after") in reflector.store
        assert Key(place, "before") not in reflector.store


async def test_missing_right_is_named_when_listing_is_forbidden(
    control_plane: Cluster, plane_client: Client, place: str, tmp_path: Path
) -> None:
    token = await create_account(plane_client, "nobody", namespace=place)
    config = config_of(control_plane, {"token": token}, folder=tmp_path)
    async with Client.connect(config) as client, Reflector(client, CONFIG_MAPS, namespace=place) as reflector:
        await eventually(lambda: reflector.last_error is not None)

        assert isinstance(reflector.last_error, Forbidden)
        assert 'cannot list resource "configmaps" in API group ""' in str(reflector.last_error)
        assert not reflector.has_synced
