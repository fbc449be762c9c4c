"""The reflector against a scripted server: every way a list or a watch can go wrong, and how it goes on."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import web

from runyard.kube.client import Client
from runyard.kube.errors import Forbidden, KubeError, Throttled, Unreachable
from runyard.kube.reflector import Reflector, Timing
from runyard.kube.resources import CONFIG_MAPS
from runyard.kube.subscription import ReflectorStopped, Subscription
from runyard.kube.views import Key, View
from tests.unit.kube.scripted_watch import (
    ScriptedApi,
    Stream,
    bookmark,
    config_map,
    connect,
    event,
    page,
    refusal,
    serve,
)

FAST = Timing(backoff_seconds=(0.002, 0.02), denied_backoff_seconds=(30.0, 300.0), read_deadline_seconds=30.0)
STATUS_410 = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}


class DataView(View, frozen=True):
    data: dict[str, str]


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi()


@pytest.fixture
async def client(api: ScriptedApi) -> AsyncIterator[Client]:
    async with serve(api) as port, connect(port) as client:
        yield client


def reflect(client: Client, **options: Any) -> Reflector[dict[str, Any]]:
    return Reflector(client, CONFIG_MAPS, namespace="n", **{"timing": FAST, **options})


async def eventually(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)


def held(reflector: Reflector[Any]) -> dict[str, str | None]:
    return {key.name: reflector.store.version(key) for key in reflector.store}


async def test_store_holds_the_list_when_it_came_in_pages(api: ScriptedApi, client: Client) -> None:
    api.lists += [
        page(config_map("a", 1), config_map("b", 2), version=10, token="p2"),
        page(config_map("c", 3), version=10, token="p3"),
        page(config_map("d", 4), version=10),
    ]
    reflector = reflect(client, label_selector="x=y", field_selector="metadata.name!=z")
    assert not reflector.has_synced
    async with reflector:
        await reflector.wait_synced()
        await eventually(lambda: bool(api.watch_requests))

        assert held(reflector) == {"a": "1", "b": "2", "c": "3", "d": "4"}
        assert reflector.store.find(("n", "a")) == {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "n", "uid": "uid-a", "resourceVersion": "1"},
            "data": {},
        }
    selectors = {"labelSelector": "x=y", "fieldSelector": "metadata.name!=z"}
    first = {**selectors, "limit": "500"}
    assert api.list_requests == [first, {**first, "continue": "p2"}, {**first, "continue": "p3"}]
    [watch] = api.watch_requests
    assert 300 <= int(watch.pop("timeoutSeconds")) <= 600
    assert watch == {**selectors, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "10"}


async def test_nothing_is_visible_when_the_list_is_not_complete(api: ScriptedApi, client: Client) -> None:
    api.lists += [page(config_map("a", 1), version=10, token="p2"), refusal(503)]
    async with reflect(client) as reflector:
        with reflector.subscribe() as changes:
            await eventually(lambda: len(api.list_requests) > 4)

            assert not reflector.has_synced
            assert len(reflector.store) == 0
            assert changes.pending == 0
    with pytest.raises(ReflectorStopped):
        await reflector.wait_synced()


async def test_list_begins_again_when_a_page_has_expired(api: ScriptedApi, client: Client) -> None:
    api.lists += [
        page(config_map("deleted-meanwhile", 1), version=10, token="p2"),
        refusal(410, reason="Expired"),
        page(config_map("a", 11), version=20),
    ]
    async with reflect(client) as reflector:
        await reflector.wait_synced()

        assert held(reflector) == {"a": "11"}
        assert reflector.resource_version == "20"
    assert [request.get("continue") for request in api.list_requests] == [None, "p2", None]


async def test_list_is_taken_whole_when_it_expires_between_pages_again_and_again(
    api: ScriptedApi, client: Client
) -> None:
    api.lists += [
        *(page(config_map("a", 1), version=10, token="p2"), refusal(410, reason="Expired")),
        *(page(config_map("a", 1), version=11, token="p2"), refusal(410, reason="Expired")),
        page(config_map("a", 1), config_map("b", 2), version=12),
    ]
    async with reflect(client) as reflector:
        await reflector.wait_synced()
        assert held(reflector) == {"a": "1", "b": "2"}
    assert ["limit" in request for request in api.list_requests] == [True, True, True, True, False]


async def test_page_is_repeated_when_it_failed_in_passing(api: ScriptedApi, client: Client) -> None:
    api.lists += [
        refusal(500),
        page(config_map("a", 1), version=10, token="p2"),
        refusal(503),
        refusal(429, retry_after="0"),
        page(config_map("b", 2), version=10),
    ]
    async with reflect(client) as reflector:
        await reflector.wait_synced()

        assert held(reflector) == {"a": "1", "b": "2"}
    assert [request.get("continue") for request in api.list_requests] == [None, None, "p2", "p2", "p2"]


async def test_watch_begins_at_the_first_page_when_later_pages_say_otherwise(api: ScriptedApi, client: Client) -> None:
    api.lists += [page(config_map("a", 1), version=10, token="p2"), page(config_map("b", 12), version=15)]
    async with reflect(client):
        await eventually(lambda: bool(api.versions))
    assert api.versions == ["10"]


async def test_events_are_applied_when_they_come(api: ScriptedApi, client: Client) -> None:
    async def watch(stream: Stream) -> None:
        await stream.send(event("ADDED", config_map("c", 11)), event("MODIFIED", config_map("a", 12, k="new")))
        await stream.send(event("DELETED", config_map("b", 13)))
        await stream.hang()

    api.lists.append(page(config_map("a", 1), config_map("b", 2), version=10))
    api.watches.append(watch)
    async with reflect(client) as reflector:
        await eventually(lambda: reflector.resource_version == "13")

        assert held(reflector) == {"a": "12", "c": "11"}
        changed = reflector.store.find(("n", "a"))
        assert changed is not None
        assert changed["data"] == {"k": "new"}
        assert "managedFields" not in changed["metadata"]


async def test_watch_resumes_at_the_last_version_when_the_server_ends_it(api: ScriptedApi, client: Client) -> None:
    async def one_event(stream: Stream) -> None:
        await stream.send(event("MODIFIED", config_map("a", 11)))

    async def one_bookmark(stream: Stream) -> None:
        await stream.send(bookmark(99))

    async def nothing(_: Stream) -> None: ...

    api.lists.append(page(config_map("a", 1), version=10))
    api.watches += [nothing, one_event, one_bookmark, nothing]
    async with reflect(client) as reflector:
        await eventually(lambda: len(api.versions) == 5)

        assert reflector.last_error is None
        assert held(reflector) == {"a": "11"}
    assert api.versions == ["10", "10", "11", "99", "99"]
    assert len(api.list_requests) == 1


async def test_reflector_knows_when_the_server_was_last_heard_when_it_falls_silent(
    api: ScriptedApi, client: Client
) -> None:
    go_on = asyncio.Event()

    async def speak(stream: Stream) -> None:
        await go_on.wait()
        await stream.send(event("MODIFIED", config_map("a", 11)))

    api.lists.append(page(config_map("a", 1), version=10))
    api.watches.append(speak)
    assert reflect(client).heard_at is None
    async with reflect(client) as reflector:
        await reflector.wait_synced()
        listed_at = reflector.heard_at
        assert listed_at is not None
        await eventually(lambda: reflector.heard_at != listed_at)  # the watch is open
        opened_at = reflector.heard_at
        await asyncio.sleep(0.05)
        assert reflector.heard_at == opened_at
        go_on.set()
        await eventually(lambda: held(reflector) == {"a": "11"})
        assert reflector.heard_at is not None
        assert opened_at is not None
        assert listed_at < opened_at < reflector.heard_at


async def test_everything_is_listed_anew_when_the_server_was_restored(api: ScriptedApi, client: Client) -> None:
    async def end(stream: Stream) -> None:
        await stream.send(event("MODIFIED", config_map("a", 11, k="lost")))
        api.revision = 9

    # The same object has the same version in both histories, and is another.
    api.lists += [page(config_map("a", 1), config_map("b", 2), version=10), page(config_map("a", 11), version=9)]
    api.watches.append(end)
    async with reflect(client) as reflector:
        await eventually(lambda: reflector.counters.lists == 2 and reflector.last_error is None)

        assert held(reflector) == {"a": "11"}
        found = reflector.store.find(("n", "a"))
        assert found is not None
        assert found["data"] == {}
    assert api.versions == ["10", "9"]


async def test_everything_is_listed_anew_when_that_is_asked_for(api: ScriptedApi, client: Client) -> None:
    api.lists += [page(config_map("a", 1), version=10), page(config_map("b", 2), version=9)]
    async with reflect(client) as reflector:
        await eventually(lambda: len(api.versions) == 1)
        reflector.relist()
        await eventually(lambda: len(api.versions) == 2)
        assert held(reflector) == {"b": "2"}
    assert api.versions == ["10", "9"]


async def test_list_is_taken_once_when_it_is_asked_for_twice(api: ScriptedApi, client: Client) -> None:
    api.lists += [page(config_map("a", 1), version=10), page(config_map("b", 2), version=9)]
    async with reflect(client) as reflector:
        await eventually(lambda: len(api.versions) == 1)
        reflector.relist()
        reflector.relist()
        await asyncio.sleep(0)
        reflector.relist()
        await eventually(lambda: len(api.versions) == 2)
        assert held(reflector) == {"b": "2"}


async def test_list_can_be_asked_for_when_the_watch_has_just_failed(api: ScriptedApi, client: Client) -> None:
    async def expire(stream: Stream) -> None:
        await stream.send(event("ERROR", STATUS_410))

    api.lists += [page(config_map("a", 1), version=10), page(config_map("b", 2), version=11)]
    api.watches.append(expire)
    async with reflect(client) as reflector:
        pause = reflector._backoff.pause

        async def relist_and_pause(error: KubeError | None = None) -> None:
            reflector.relist()
            await pause(error)

        reflector._backoff.pause = relist_and_pause  # type: ignore[method-assign]
        await eventually(lambda: held(reflector) == {"b": "2"})


async def test_watch_resumes_at_the_last_known_version_when_an_event_has_none(api: ScriptedApi, client: Client) -> None:
    """An aggregated server may leave it out; a watch without a version would begin anywhere."""

    async def versionless(stream: Stream) -> None:
        await stream.send(event("MODIFIED", config_map("a", 11)), event("ADDED", config_map("b", "")), bookmark(""))

    api.lists.append(page(config_map("a", 1), version=10))
    api.watches.append(versionless)
    async with reflect(client) as reflector:
        await eventually(lambda: len(api.versions) == 2)
        assert held(reflector) == {"a": "11", "b": ""}
    assert api.versions == ["10", "11"]


async def test_requests_are_few_when_every_watch_ends_at_once(api: ScriptedApi, client: Client) -> None:
    async def one_event(stream: Stream) -> None:
        await stream.send(bookmark(11))

    api.lists.append(page(version=10))
    api.watches += [one_event] * 1000
    began_at = time.monotonic()
    async with reflect(client, timing=Timing(backoff_seconds=(0.2, 1.0))):
        await eventually(lambda: len(api.watch_requests) >= 4)

    # Three delays lie between four requests, each at least half of the shortest.
    assert time.monotonic() - began_at >= 3 * 0.1


async def test_delays_do_not_grow_when_every_watch_brings_something(api: ScriptedApi, client: Client) -> None:
    versions = iter(range(11, 100))

    async def one_event(stream: Stream) -> None:
        await stream.send(event("MODIFIED", config_map("a", next(versions))))

    api.lists.append(page(version=10))
    api.watches += [one_event] * 14
    # Were it to grow, the last delay would be minutes.
    async with reflect(client, timing=Timing(backoff_seconds=(0.02, 600.0))):
        await eventually(lambda: len(api.versions) == 15)
    assert api.versions == [str(version) for version in range(10, 25)]


async def test_lists_are_few_when_every_watch_fails_after_some_progress(api: ScriptedApi, client: Client) -> None:
    async def progress_and_fail(stream: Stream) -> None:
        await stream.send(bookmark(11), event("ERROR", STATUS_410))
        await stream.hang()

    api.lists.append(page(version=10))
    api.watches += [progress_and_fail] * 1000
    began_at = time.monotonic()
    async with reflect(client, timing=Timing(backoff_seconds=(0.1, 10.0))):
        await eventually(lambda: len(api.list_requests) >= 5)

    # The four delays between five lists double, progress or not; each is at least half of its ceiling.
    assert time.monotonic() - began_at >= (0.1 + 0.2 + 0.4 + 0.8) / 2


@pytest.mark.parametrize("how", ["answer", "event"])
async def test_list_is_taken_anew_when_the_version_is_too_old(api: ScriptedApi, client: Client, how: str) -> None:
    async def expired(stream: Stream) -> None:
        await stream.send(event("MODIFIED", config_map("a", 11)), event("ERROR", STATUS_410))
        await stream.hang()

    api.lists += [
        page(config_map("a", 1), config_map("missed", 2), version=10),
        page(config_map("a", 30), config_map("b", 31), version=40),
    ]
    api.watches.append(refusal(410, reason="Expired") if how == "answer" else expired)
    async with reflect(client) as reflector:
        with reflector.subscribe() as changes:
            await eventually(lambda: api.versions == ["10", "40"])

            assert held(reflector) == {"a": "30", "b": "31"}
            assert reflector.counters.lists == 2
            assert {key.name for key in await anext(changes)} == {"a", "b", "missed"}


async def test_list_is_taken_anew_when_an_error_event_of_any_kind_comes(api: ScriptedApi, client: Client) -> None:
    async def fail(stream: Stream) -> None:
        status = {"kind": "Status", "status": "Failure", "code": 500, "message": "lost a revision"}
        await stream.send(event("ERROR", status))
        await stream.hang()

    api.lists += [page(config_map("a", 1), version=10), page(config_map("b", 11), version=12)]
    api.watches.append(fail)
    async with reflect(client) as reflector:
        await eventually(lambda: api.versions == ["10", "12"])

        assert held(reflector) == {"b": "11"}


@pytest.mark.parametrize("garbage", [b"<html>\n", b'{"type":"ADDED","object":{}}\n', b"\xff\xff\n"])
async def test_list_is_taken_anew_when_a_line_is_garbage(api: ScriptedApi, client: Client, garbage: bytes) -> None:
    async def garble(stream: Stream) -> None:
        await stream.send(event("ADDED", config_map("b", 11)), garbage, event("ADDED", config_map("c", 13)))
        await stream.hang()

    api.lists += [
        page(config_map("a", 1), version=10),
        page(*(config_map(name, version) for name, version in (("a", 1), ("b", 11), ("c", 13))), version=13),
    ]
    api.watches.append(garble)
    async with reflect(client) as reflector:
        with reflector.subscribe() as changes:
            await eventually(lambda: api.versions == ["10", "13"])

            assert held(reflector) == {"a": "1", "b": "11", "c": "13"}
            assert sorted(key.name for key in await anext(changes)) == ["a", "b", "c"]


@pytest.mark.parametrize("end", ["reset", "end of body"])
async def test_watch_resumes_before_the_cut_line_when_it_is_cut(api: ScriptedApi, client: Client, end: str) -> None:
    cut = event("MODIFIED", config_map("a", 12))

    async def cut_mid_line(stream: Stream) -> None:
        await stream.send(event("MODIFIED", config_map("a", 11)), cut[: len(cut) // 2])
        await asyncio.sleep(0.02)
        if end == "reset":
            stream.reset()

    async def again(stream: Stream) -> None:
        await stream.send(cut)
        await stream.hang()

    api.lists.append(page(config_map("a", 1), version=10))
    api.watches += [cut_mid_line, again]
    async with reflect(client) as reflector:
        await eventually(lambda: held(reflector) == {"a": "12"})
    assert api.versions == ["10", "11"]
    assert len(api.list_requests) == 1


async def test_watch_is_opened_anew_when_it_stalls(api: ScriptedApi, client: Client) -> None:
    async def stall(stream: Stream) -> None:
        await stream.send(event("MODIFIED", config_map("a", 11)))
        await stream.hang()

    api.lists.append(page(config_map("a", 1), version=10))
    api.watches += [stall]
    timing = Timing(backoff_seconds=(0.002, 0.02), read_deadline_seconds=0.5)
    async with reflect(client, timing=timing) as reflector:
        await eventually(lambda: len(api.versions) >= 3)

        assert reflector.last_error is None
    assert api.versions[:3] == ["10", "11", "11"]
    assert len(api.list_requests) == 1


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
async def test_watch_resumes_without_a_list_when_it_is_refused_in_passing(
    api: ScriptedApi, client: Client, code: int
) -> None:
    api.lists.append(page(config_map("a", 1), version=10))
    api.watches += [refusal(code), refusal(code, retry_after="0")]
    async with reflect(client) as reflector:
        await eventually(lambda: len(api.versions) == 3 and reflector.last_error is None)
    assert api.versions == ["10"] * 3
    assert len(api.list_requests) == 1


async def test_server_is_left_alone_when_it_says_for_how_long(api: ScriptedApi, client: Client) -> None:
    api.lists.append(page(version=10))
    api.watches.append(refusal(429, retry_after="3600"))
    async with reflect(client) as reflector:
        await eventually(lambda: reflector.last_error is not None)
        await asyncio.sleep(0.3)

        assert isinstance(reflector.last_error, Throttled)
        assert len(api.watch_requests) == 1


async def test_store_catches_up_when_the_server_was_away() -> None:
    before, after = ScriptedApi(), ScriptedApi()
    before.lists.append(page(config_map("a", 1), version=10))
    after.lists.append(page(config_map("b", 20), version=20))
    after.watches.append(refusal(410, reason="Expired"))
    first = AsyncExitStack()
    port = await first.enter_async_context(serve(before))
    async with connect(port) as client, reflect(client) as reflector:
        await eventually(lambda: before.open_watches == 1)
        await first.aclose()
        await eventually(lambda: isinstance(reflector.last_error, Unreachable))
        assert held(reflector) == {"a": "1"}

        async with serve(after, port=port):
            await eventually(lambda: after.versions == ["10", "20"] and reflector.last_error is None)

            assert held(reflector) == {"b": "20"}


async def test_denial_is_not_hammered_when_it_lasts(
    api: ScriptedApi, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="runyard.kube")
    api.lists.append(refusal(403, reason="Forbidden"))
    timing = Timing(backoff_seconds=(0.001, 0.001), denied_backoff_seconds=(0.2, 30.0))
    began_at = time.monotonic()
    async with reflect(client, timing=timing) as reflector:
        await eventually(lambda: len(api.list_requests) >= 3)

        assert isinstance(reflector.last_error, Forbidden)
        assert not reflector.has_synced
    # Two delays lie between three requests, at least half of 0.2 s and of its double.
    assert time.monotonic() - began_at >= 0.1 + 0.2
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "/api/v1/namespaces/n/configmaps: 403 Forbidden" in caplog.text


async def test_watch_goes_on_within_seconds_when_a_server_that_just_started_denies_it(
    api: ScriptedApi, client: Client
) -> None:
    """An apiserver that knows no RBAC rules yet answers everything with 403, for some seconds."""
    api.lists += [page(config_map("a", 1), version=10), page(config_map("b", 2), version=20)]
    api.watches.append(refusal(403, reason="Forbidden"))
    timing = Timing(backoff_seconds=(0.001, 0.001))
    async with asyncio.timeout(15), reflect(client, timing=timing) as reflector:
        await eventually(lambda: reflector.last_error is None and held(reflector) == {"b": "2"})


async def test_store_is_complete_and_the_denial_visible_when_only_watching_is_denied(
    api: ScriptedApi, client: Client
) -> None:
    api.lists.append(page(config_map("a", 1), version=10))
    api.watches.append(refusal(403, reason="Forbidden"))
    async with reflect(client) as reflector:
        await eventually(lambda: isinstance(reflector.last_error, Forbidden))

        assert reflector.has_synced
        assert held(reflector) == {"a": "1"}


async def test_failure_is_said_once_when_it_repeats(
    api: ScriptedApi, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="runyard.kube")
    api.lists.append(page(version=10))
    api.watches += [refusal(503)] * 5 + [refusal(500)] * 5
    async with reflect(client):
        await eventually(lambda: any("recovered" in record.getMessage() for record in caplog.records))

    levels = [(record.levelname, record.getMessage().split("; retrying in")[0]) for record in caplog.records]
    path = "/api/v1/namespaces/n/configmaps"
    assert levels == [
        ("WARNING", f"{path}: 503 Service Unavailable: scripted [GET {path}]"),
        ("WARNING", f"{path}: 500 Internal Server Error: scripted [GET {path}]"),
        ("INFO", f"{path}: recovered"),
    ]


async def test_key_changes_once_when_an_object_is_replaced_under_its_name(api: ScriptedApi, client: Client) -> None:
    async def replace(stream: Stream) -> None:
        deleted, added = config_map("a", 11, uid="first"), config_map("a", 12, uid="second")
        await stream.send(event("DELETED", deleted), event("ADDED", added))
        await stream.hang()

    api.lists.append(page(config_map("a", 1, uid="first"), version=10))
    api.watches.append(replace)
    async with reflect(client) as reflector:
        with reflector.subscribe() as changes:
            await eventually(lambda: held(reflector) == {"a": "12"})

            assert await anext(changes) == [("n", "a")]
            assert changes.pending == 0
            assert reflector.store.find(("n", "a"), uid="first") is None
            assert reflector.store.find(("n", "a"), uid="second") is not None


async def test_store_does_not_go_back_when_the_server_replays_the_past(api: ScriptedApi, client: Client) -> None:
    async def replay(stream: Stream) -> None:
        await stream.send(*(event("MODIFIED", config_map("a", version)) for version in (12, 11, 9)))
        await stream.send(event("DELETED", config_map("a", 8, uid="ancestor")), bookmark(12))
        await stream.hang()

    api.lists.append(page(config_map("a", 10), version=10))
    api.watches.append(replay)
    async with reflect(client) as reflector:
        await eventually(lambda: reflector.counters.bookmarks == 1)

        assert held(reflector) == {"a": "12"}
        assert reflector.resource_version == "12"


async def test_others_are_held_when_one_object_does_not_fit_the_view(
    api: ScriptedApi, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def break_data(name: str, version: int) -> dict[str, Any]:
        return {**config_map(name, version), "data": {"k": None}}

    async def change(stream: Stream) -> None:
        await stream.send(event("MODIFIED", break_data("b", 11)), event("ADDED", config_map("c", 12)))

    api.lists += [
        page(break_data("a", 1), config_map("b", 2), version=10),
        page(break_data("b", 11), config_map("c", 12), version=20),
    ]
    api.watches += [change, refusal(410, reason="Expired")]
    reflector = Reflector(client, CONFIG_MAPS, view=DataView, timing=FAST)
    async with reflector:
        await reflector.wait_synced()
        await eventually(lambda: api.versions[-1:] == ["20"] and reflector.last_error is None)

        assert held(reflector) == {"b": "2", "c": "12"}
        assert api.versions == ["10", "12", "20"]
        assert reflector.counters.unreadable == 3
        assert "cannot read n/a: Expected `str`, got `null`" in caplog.text


async def test_store_is_kept_when_a_proxy_answers_a_list_with_its_own_page(api: ScriptedApi, client: Client) -> None:
    api.lists += [
        page(config_map("a", 1), version=10),
        web.Response(text="<html>please log in</html>", content_type="text/html"),
        web.json_response({"kind": "Status", "metadata": {}, "status": "Success"}),
        page(config_map("a", 1), version=20),
    ]
    api.watches.append(refusal(410, reason="Expired"))
    async with reflect(client) as reflector:
        with reflector.subscribe() as changes:
            await anext(changes)
            await eventually(lambda: api.versions == ["10", "20"])

            assert held(reflector) == {"a": "1"}
            assert changes.pending == 0


async def test_views_are_typed_and_indexed_when_asked_for(api: ScriptedApi, client: Client) -> None:
    async def repaint(stream: Stream) -> None:
        await stream.send(event("MODIFIED", config_map("a", 11, colour="blue")))
        await stream.hang()

    api.lists.append(page(config_map("a", 1, colour="red"), config_map("b", 2, colour="red"), version=10))
    api.watches.append(repaint)
    colours = {"colour": lambda view: [view.data["colour"]]}
    async with Reflector(client, CONFIG_MAPS, view=DataView, indexes=colours, timing=FAST) as reflector:
        await eventually(lambda: reflector.resource_version == "11")

        assert [view.metadata.name for view in reflector.store.find_by_index("colour", "red")] == ["b"]
        assert reflector.store.find_keys_by_index("colour", "blue") == [("n", "a")]


async def test_events_are_whole_when_chunks_cut_them_at_random(api: ScriptedApi, client: Client) -> None:
    seed = random.Random(11)
    sizes = {"small": 1, "page": 70_000, "huge": 2_000_000}
    events = [event("ADDED", config_map(name, 11 + i, k="ä" * size)) for i, (name, size) in enumerate(sizes.items())]
    text = b"".join(events)

    async def dribble(stream: Stream) -> None:
        position = 0
        while position < len(text):
            size = seed.choice((1, 7, 1000, 9000, 100_000))
            await stream.send(text[position : position + size])
            position += size
            await asyncio.sleep(0)
        await stream.hang()

    api.lists.append(page(version=10))
    api.watches.append(dribble)
    async with Reflector(client, CONFIG_MAPS, view=DataView, timing=FAST) as reflector:
        await eventually(lambda: len(reflector.store) == 3)

        lengths = {view.metadata.name: len(view.data["k"]) for view in reflector.store.views()}
        assert lengths == sizes
    assert len(api.watch_requests) == 1


async def test_every_subscriber_ends_with_the_same_state_when_many_follow(api: ScriptedApi, client: Client) -> None:
    seed = random.Random(17)
    versions = iter(range(11, 1011))

    async def storm(stream: Stream) -> None:
        for version in versions:
            kind = seed.choice(("MODIFIED", "MODIFIED", "DELETED"))
            await stream.send(event(kind, config_map(f"x{seed.randrange(50)}", version)))
            if seed.random() < 0.02:
                return  # the next watch goes on with the next version
        await stream.send(event("ADDED", config_map("last", 5000)))
        await stream.hang()

    api.lists.append(page(*(config_map(f"x{i}", 1) for i in range(50)), version=10))
    api.watches += [storm] * 200
    async with reflect(client) as reflector:
        mirrors: list[dict[str, str | None]] = [{} for _ in range(20)]

        async def follow(mirror: dict[str, str | None], pause_seconds: float) -> None:
            async for batch in reflector.subscribe(max_pending=3):
                for key in batch:
                    mirror[key.name] = reflector.store.version(key)
                if mirror.get("last"):
                    return
                await asyncio.sleep(pause_seconds)

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for index, mirror in enumerate(mirrors):
                group.create_task(follow(mirror, index / 10_000))

        for mirror in mirrors:
            assert {name: version for name, version in mirror.items() if version} == held(reflector)


async def test_watch_is_not_read_on_when_a_subscriber_is_behind(api: ScriptedApi, client: Client) -> None:
    payload = "x" * 10_000

    async def flood(stream: Stream) -> None:
        for version in range(11, 3011):
            await stream.send(event("ADDED", config_map(f"x{version}", version, k=payload)))
        await stream.hang()

    api.lists.append(page(version=10))
    api.watches.append(flood)
    async with reflect(client) as reflector:
        await reflector.wait_synced()
        slow = reflector.subscribe(max_pending=100)
        await eventually(lambda: slow.pending > 100)
        await asyncio.sleep(0.2)

        held_up_at = len(reflector.store)
        assert held_up_at == slow.pending
        assert held_up_at < 1000
        await asyncio.sleep(0.2)
        assert len(reflector.store) == held_up_at

        seen = {key.name async for key in _take(slow, 3000)}
        assert len(seen) == len(reflector.store) == 3000


async def _take(subscription: Subscription[dict[str, Any]], count: int) -> AsyncIterator[Key]:
    async for batch in subscription:
        for key in batch:
            yield key
        count -= len(batch)
        if count <= 0:
            return


@pytest.mark.parametrize("how", ["close", "drop"])
async def test_reflector_goes_on_when_the_subscriber_it_waits_for_leaves(
    api: ScriptedApi, client: Client, how: str
) -> None:
    async def two(stream: Stream) -> None:
        await stream.send(event("ADDED", config_map("b", 11)))
        await stream.hang()

    api.lists.append(page(config_map("a", 1), config_map("c", 1), version=10))
    api.watches.append(two)
    async with reflect(client) as reflector:
        slow: Subscription[dict[str, Any]] | None = reflector.subscribe(max_pending=1)
        await reflector.wait_synced()
        await asyncio.sleep(0.05)
        assert not api.watch_requests

        assert slow is not None
        if how == "close":
            slow.close()
        else:
            slow = None

        await eventually(lambda: "b" in held(reflector))


async def test_bug_is_not_hidden_when_an_index_function_raises(api: ScriptedApi, client: Client) -> None:
    def broken(view: dict[str, Any]) -> list[str]:
        raise ZeroDivisionError

    api.lists.append(page(config_map("a", 1), version=10))
    reflector = reflect(client, indexes={"broken": broken})
    changes = reflector.subscribe()
    with pytest.raises(ZeroDivisionError):
        await reflector.run()

    with pytest.raises(ReflectorStopped) as failure:
        await reflector.wait_synced()
    assert isinstance(failure.value.__cause__, ZeroDivisionError)
    with pytest.raises(ReflectorStopped):
        await anext(changes)
    with pytest.raises(RuntimeError, match="runs once"):
        await reflector.run()


async def test_bug_surfaces_at_the_end_of_the_block_when_run_failed(api: ScriptedApi, client: Client) -> None:
    async def use() -> None:
        async with reflect(client, indexes={"broken": lambda view: [view["nope"]]}) as reflector:
            with pytest.raises(ReflectorStopped):
                await reflector.wait_synced()

    api.lists.append(page(config_map("a", 1), version=10))
    with pytest.raises(KeyError, match="nope"):
        await use()


async def test_nothing_is_left_when_cancelled_at_any_point() -> None:
    async def chatter(stream: Stream) -> None:
        for version in range(11, 20):
            await stream.send(event("MODIFIED", config_map("a", version)))
            await asyncio.sleep(0)
        stream.reset()

    reached = set()
    for steps in range(0, 250, 3):
        api = ScriptedApi()
        api.lists += [
            refusal(503),
            page(config_map("a", 1), version=10, token="p2"),
            page(config_map("b", 2), version=10),
        ]
        api.watches += [refusal(500), chatter, refusal(410, reason="Expired"), chatter]
        async with serve(api) as port, connect(port) as client:
            before = asyncio.all_tasks()
            timing = Timing(backoff_seconds=(0.0001, 0.0001))
            async with reflect(client, timing=timing) as reflector:
                subscription = reflector.subscribe(max_pending=1 if steps % 2 else None)
                for step in range(steps):
                    await asyncio.sleep(0 if step % 8 else 0.0005)
                reached |= {("lists", reflector.counters.lists), ("open", api.open_watches)}
            assert [batch async for batch in subscription][1:] == []
            left = {task for task in asyncio.all_tasks() - before if "reflector" in task.get_name()}
            assert not left
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert {("lists", 0), ("lists", 1), ("lists", 2), ("open", 0), ("open", 1)} <= reached


async def test_connection_is_closed_when_the_block_is_left(api: ScriptedApi, client: Client) -> None:
    api.lists.append(page(version=10))
    async with reflect(client):
        await eventually(lambda: api.open_watches == 1)

    await eventually(lambda: api.open_watches == 0)
    assert len(api.watch_requests) == 1


async def test_final_state_is_handed_out_when_an_object_is_deleted(api: ScriptedApi, client: Client) -> None:
    api.lists.append(page(config_map("a", 1, exit="unknown"), version=10))
    deleting = asyncio.Event()

    async def watch(stream: Stream) -> None:
        await deleting.wait()
        await stream.send(
            event("MODIFIED", config_map("a", 11, exit="soon")), event("DELETED", config_map("a", 12, exit="3"))
        )
        await stream.hang()

    api.watches.append(watch)
    async with reflect(client) as reflector:
        await reflector.wait_synced()
        with reflector.subscribe() as changes:
            key = Key("n", "a")
            assert await anext(changes) == [key]
            deleting.set()
            assert await anext(changes) == [key]
            assert reflector.store.find(key) is None
            [tombstone] = changes.deleted(key)
            assert tombstone.is_final
            assert tombstone.view["data"] == {"exit": "3"}
            assert tombstone.view["metadata"]["resourceVersion"] == "12"


async def test_last_known_state_is_handed_out_when_a_new_list_misses_an_object(
    api: ScriptedApi, client: Client
) -> None:
    api.lists += [
        page(config_map("a", 1, seen="last"), config_map("b", 2, uid="old", seen="before"), version=10),
        page(config_map("b", 15, uid="new"), version=20),
    ]
    deleting = asyncio.Event()

    async def watch(stream: Stream) -> None:
        await deleting.wait()
        await stream.send(event("ERROR", STATUS_410))

    api.watches.append(watch)
    async with reflect(client) as reflector:
        with reflector.subscribe() as changes:
            a, b = Key("n", "a"), Key("n", "b")
            assert await anext(changes) == [a, b]
            deleting.set()
            assert sorted(await anext(changes)) == [a, b]
            last = {key: [(each.view["data"], each.is_final) for each in changes.deleted(key)] for key in (a, b)}
            assert last == {a: [({"seen": "last"}, False)], b: [({"seen": "before"}, False)]}
            assert reflector.store.find(b, uid="new") is not None
