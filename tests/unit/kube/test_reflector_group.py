"""Reflectors that come and go at run time, and look like one to their subscribers."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from runyard.kube import reflector_group
from runyard.kube.client import Client
from runyard.kube.errors import Forbidden
from runyard.kube.reflector import Timing
from runyard.kube.reflector_group import ReflectorGroup
from runyard.kube.resources import CONFIG_MAPS, NODES
from runyard.kube.subscription import ReflectorStopped
from runyard.kube.views import Key, View
from tests.unit.kube.scripted_watch import Object, ScriptedApi, Stream, connect, event, page, refusal, serve

FAST = Timing(backoff_seconds=(0.002, 0.02), denied_backoff_seconds=(30.0, 300.0), read_deadline_seconds=30.0)
STATUS_410 = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}


class Namespaces(ScriptedApi):
    """A script for each namespace."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: defaultdict[str, ScriptedApi] = defaultdict(ScriptedApi)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await self.scripts[request.path.split("/")[4]].handle(request)

    def __getitem__(self, namespace: str) -> ScriptedApi:
        return self.scripts[namespace]

    @property
    def watching(self) -> list[str]:
        """The namespaces that are watched now."""
        return sorted(name for name, script in self.scripts.items() if script.open_watches)


def config_map(namespace: str, name: str, version: int, **data: str) -> Object:
    identity = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": str(version)}
    return {"metadata": identity, "data": data}


@pytest.fixture
def api() -> Namespaces:
    return Namespaces()


@pytest.fixture
async def client(api: Namespaces) -> AsyncIterator[Client]:
    async with serve(api) as port, connect(port) as client:
        yield client


def build(client: Client, **options: Any) -> ReflectorGroup[Object]:
    return ReflectorGroup(client, CONFIG_MAPS, **{"timing": FAST, **options})


async def eventually(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)


async def test_one_store_holds_every_namespace_when_they_are_added_one_by_one(api: Namespaces, client: Client) -> None:
    for name in "ab":
        api[name].lists.append(page(config_map(name, "x", 1, color=name), config_map(name, "y", 2), version=10))
    by_color = {"color": lambda view: list(view["data"].values())}
    async with build(client, label_selector="l=1", indexes=by_color) as group:
        assert [group.has_synced] == [True]
        with group.subscribe() as changes:
            group.add("a")
            group.add("a")
            assert not group.has_synced
            await group.wait_synced("a")
            assert (group.is_synced("a"), group.is_synced("b")) == (True, False)
            assert set(await anext(changes)) == {Key("a", "x"), Key("a", "y")}
            group.add("b")
            await group.wait_synced()
            assert set(await anext(changes)) == {Key("b", "x"), Key("b", "y")}
        assert len(group.store) == 4
        assert group.namespaces == ("a", "b")
        assert [view["metadata"]["namespace"] for view in group.store.find_by_index("color", "b")] == ["b"]
        assert group.counters.lists == 2
        await eventually(lambda: api.watching == ["a", "b"])
        assert api["a"].list_requests == [{"labelSelector": "l=1", "limit": "500"}]
    await eventually(lambda: api.watching == [])


async def test_only_its_own_objects_go_when_a_namespace_is_listed_again(api: Namespaces, client: Client) -> None:
    api["a"].lists += [page(config_map("a", "x", 1, v="1"), version=10), page(version=20)]
    api["b"].lists.append(page(config_map("b", "x", 1), version=10))
    expired = asyncio.Event()

    async def watch(stream: Stream) -> None:
        await expired.wait()
        await stream.send(event("ERROR", STATUS_410))

    api["a"].watches.append(watch)
    async with build(client) as group:
        group.add("a")
        group.add("b")
        await group.wait_synced()
        with group.subscribe() as changes:
            assert set(await anext(changes)) == {Key("a", "x"), Key("b", "x")}
            expired.set()
            assert await anext(changes) == [Key("a", "x")]
            [tombstone] = changes.deleted(Key("a", "x"))
            assert (tombstone.view["data"], tombstone.is_final) == ({"v": "1"}, False)
        assert list(group.store) == [Key("b", "x")]


async def test_its_objects_leave_without_last_states_when_a_namespace_is_removed(
    api: Namespaces, client: Client
) -> None:
    for name in "ab":
        api[name].lists.append(page(config_map(name, "x", 1), version=10))
    async with build(client) as group:
        group.add("a")
        group.add("b")
        await group.wait_synced()
        with group.subscribe() as changes:
            await anext(changes)
            await group.remove("a")
            assert await anext(changes) == [Key("a", "x")]
            assert changes.deleted(Key("a", "x")) == ()
            await group.remove("a")
            await group.remove("never added")
        assert (list(group.store), group.namespaces) == ([Key("b", "x")], ("b",))
        await eventually(lambda: api.watching == ["b"])
        with pytest.raises(ReflectorStopped, match="not in the group"):
            await group.wait_synced("a")

        group.add("a")
        await group.wait_synced("a")
        assert set(group.store) == {Key("a", "x"), Key("b", "x")}


async def test_waiting_ends_when_a_namespace_is_removed_before_its_reflector_ran(client: Client) -> None:
    async with build(client) as group:
        group.add("a")
        waiting = asyncio.create_task(group.wait_synced("a"))
        await group.remove("a")
        with pytest.raises(ReflectorStopped):
            await waiting


async def test_others_go_on_when_one_namespace_is_forbidden(api: Namespaces, client: Client) -> None:
    api["a"].lists.append(refusal(403, reason="Forbidden"))
    api["b"].lists.append(page(config_map("b", "x", 1), version=10))
    async with build(client) as group:
        group.add("a")
        group.add("b")
        await group.wait_synced("b")
        await eventually(lambda: bool(group.last_errors))
        assert {name: type(error) for name, error in group.last_errors.items()} == {"a": Forbidden}
        assert not group.has_synced


async def test_the_group_ends_with_the_cause_when_an_index_function_fails(api: Namespaces, client: Client) -> None:
    def fail(view: Object) -> list[str]:
        if view["metadata"]["namespace"] == "b":
            raise LookupError("a bug")
        return []

    for name in "ab":
        api[name].lists.append(page(config_map(name, "x", 1), version=10))
    group = build(client, indexes={"broken": fail})
    await group.__aenter__()
    group.add("a")
    await group.wait_synced("a")
    changes = group.subscribe()
    await anext(changes)
    group.add("b")
    with pytest.raises(ReflectorStopped):
        await anext(changes)
    with pytest.raises(RuntimeError, match="not open"):
        group.add("c")
    with pytest.raises(LookupError):
        await group.__aexit__(None, None, None)
    await eventually(lambda: api.watching == [])


async def test_a_namespace_is_refused_when_it_cannot_be_watched(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector_group, "MOST_NAMESPACES", 1)
    group = build(client)
    with pytest.raises(RuntimeError, match="not open"):
        group.add("a")
    async with group:
        with pytest.raises(ValueError, match="DNS label"):
            group.add("../b")
        group.add("a")
        with pytest.raises(ValueError, match="1 namespaces are watched already"):
            group.add("b")
    with pytest.raises(ValueError, match="not namespaced"):
        ReflectorGroup(client, NODES)


async def test_no_task_is_left_when_a_group_was_closed(api: Namespaces, client: Client) -> None:
    before = asyncio.all_tasks()
    async with ReflectorGroup(client, CONFIG_MAPS, view=View, timing=FAST) as group:
        changes = group.subscribe()
        for number in range(20):
            api[f"n{number}"].lists.append(page(version=10))
            group.add(f"n{number}")
        await group.wait_synced()
    assert [task for task in asyncio.all_tasks() - before if "reflector" in task.get_name()] == []
    with pytest.raises(StopAsyncIteration):
        await anext(changes)
