"""Entities and runs as JSON."""

import asyncio
import gc
import json
import threading
import weakref
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from runyard.api import responses
from runyard.api.responses import LargeJsonResponse, entity_response, json_response
from runyard.app.projects import projects
from runyard.spec.digitalhub.original_fields import show_spec
from runyard.store import columns
from tests.http_servers import Server

BASE = "/api/v1/-/demo"
TASK = "container+job://demo/t1"


async def test_keys_are_those_the_sdk_makes_when_entities_are_answered(demo: httpx2.AsyncClient) -> None:
    await demo.post(f"{BASE}/runs", json={"kind": "container+job:run", "id": "r1", "spec": {"task": TASK}})
    keys = {
        path: (await demo.get(path)).json()["key"]
        for path in ("/api/v1/projects/demo", f"{BASE}/functions/f1", f"{BASE}/tasks/t1", f"{BASE}/runs/r1")
    }
    assert list(keys.values()) == [
        "store://demo",
        "store://demo/function/container/box:f1",
        "store://demo/task/container+job/t1",
        "store://demo/run/container+job:run/r1",
    ]


async def test_nothing_is_null_when_a_client_wrote_nulls(demo: httpx2.AsyncClient) -> None:
    run = {
        "kind": "container+job:run",
        "id": "r1",
        "metadata": {"description": None, "relationships": None, "labels": None},
        "spec": {"task": TASK, "local_execution": None, "envs": None, "parameters": {"x": None}},
        "status": None,
    }
    made = await demo.post(f"{BASE}/runs", json=run)
    assert made.status_code == 200, made.text
    answer = (await demo.get(f"{BASE}/runs/r1")).json()
    assert answer["spec"].pop("parameters") == {"x": None}
    assert list(iter_nulls(answer)) == []


def iter_nulls(value: Any, path: str = "") -> Any:
    if value is None:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from iter_nulls(inner, f"{path}.{key}")


async def test_times_are_in_utc_and_of_the_server_when_an_entity_is_answered(demo: httpx2.AsyncClient) -> None:
    metadata = (await demo.get(f"{BASE}/functions/f1")).json()["metadata"]
    assert metadata["created"].endswith("Z")
    assert metadata["created"] == metadata["updated"]
    assert metadata["created_by"] == metadata["updated_by"]


async def test_list_and_entity_say_the_same_when_both_are_read(demo: httpx2.AsyncClient) -> None:
    spec = {"task": TASK, "resources": {"cpu": {"requests": 0.5, "limits": 1}}, "envs": {"A": 1}, "command": ["a", "b"]}
    made = await demo.post(f"{BASE}/runs", json={"kind": "container+job:run", "id": "r1", "spec": spec})
    assert made.status_code == 200, made.text
    assert made.json()["spec"] == {
        "task": TASK,
        "resources": {"cpu": "0.5"},
        "envs": [{"name": "A", "value": "1"}],
        "command": "a b",
        "original": {"resources": spec["resources"], "command": ["a", "b"]},
    }
    for plural, one in (("runs", "r1"), ("functions", "f1"), ("tasks", "t1")):
        listed = {each["id"]: each for each in (await demo.get(f"{BASE}/{plural}")).json()["content"]}
        assert listed[one] == (await demo.get(f"{BASE}/{plural}/{one}")).json()
    effective = (await demo.get(f"{BASE}/runs/r1/effective")).json()
    assert effective["effective"]["resources"] == {"cpu": {"requests": "500m", "limits": "1"}}
    assert "schema_version" not in effective["effective"]
    assert effective["request"]["spec"] == spec


async def test_run_is_refused_in_words_when_a_newer_release_stored_its_spec(
    server: Server, demo: httpx2.AsyncClient
) -> None:
    await demo.post(f"{BASE}/runs", json={"kind": "container+job:run", "id": "r1", "spec": {"task": TASK}})
    async with server.context.core.store.begin() as unit:
        run = await unit.runs.find("r1", project="demo")
        assert run is not None
        await unit.runs.update(run, replace(run, effective={**(run.effective or {}), "schema_version": 99}))
        await unit.commit()
    answer = await demo.get(f"{BASE}/runs/r1/effective")
    assert (answer.status_code, answer.json()["errorCode"]) == (409, "unknown_schema")
    assert answer.json()["message"].startswith("the stored effective spec has schema version 99")


async def test_function_is_in_full_when_it_is_embedded_and_in_short_when_not(demo: httpx2.AsyncClient) -> None:
    body = {"kind": "dbt", "name": "e", "id": "e1", "spec": {"a": 1}, "metadata": {"embedded": True}}
    await demo.post(f"{BASE}/functions", json=body)
    listed = (await demo.get("/api/v1/projects/demo")).json()["spec"]["functions"]
    by_id = {one["id"]: one for one in listed}
    assert by_id["e1"]["spec"] == {"a": 1}
    assert set(by_id["f1"]) == {"id", "key", "kind", "metadata", "name", "project", "user"}


@pytest.mark.parametrize("plural", ["artifacts", "dataitems", "models"])
async def test_files_are_a_list_or_a_page_when_asked_for_one(demo: httpx2.AsyncClient, plural: str) -> None:
    kind = plural.removesuffix("s")
    await demo.post(f"{BASE}/{plural}", json={"kind": kind, "name": "a", "id": "a1", "spec": {"path": "s3://a"}})
    path = f"{BASE}/{plural}/a1/files/info"
    assert (await demo.get(path)).json() == []
    files = [{"path": f"{number}"} for number in range(30)]
    assert (await demo.put(path, json=files)).status_code == 200
    assert (await demo.get(path)).json() == files
    page = (await demo.get(path, params={"page": 1})).json()
    assert (page["content"], page["totalPages"], page["totalElements"]) == (files[25:], 2, 30)
    assert (await demo.get(path, params={"size": 2})).json()["content"] == files[:2]


async def test_metrics_are_numbers_and_series_by_name_when_read(demo: httpx2.AsyncClient) -> None:
    path = f"{BASE}/functions/f1/metrics"
    assert (await demo.get(path)).json() == {}
    for name, value in (("acc", [0.5, 0.6]), ("loss", 0.1), ("n", 3)):
        assert (await demo.put(f"{path}/{name}", json=value)).status_code == 200
    assert (await demo.get(path)).json() == {"acc": [0.5, 0.6], "loss": 0.1, "n": 3}
    assert (await demo.get(f"{path}/acc")).json() == {"acc": [0.5, 0.6]}
    assert (await demo.get(f"{path}/none")).json() == {"none": []}
    refused = await demo.put(f"{path}/acc", content=b"1" + b"0" * 400, headers={"Content-Type": "application/json"})
    assert refused.json()["message"] == "the body is not JSON: a number has 401 digits"


LARGE: list[Any] = [
    {"content": [{"a": ["b" * 70_000, 1, None]}, {"c": {"é": [0.5] * 6000}}], "total": 2, "empty": {}},
    [number / 7 for number in range(12_001)],
    ["a", [], {}, [[1, [2]]], *range(600)],
    {"loss": [0.5] * 12_000, "": [], "1": ()},
]


@pytest.mark.parametrize("content", LARGE)
async def test_answer_is_the_same_json_when_it_is_written_in_parts(content: Any) -> None:
    response = json_response(content, status=201, headers={"ETag": '"1"'})
    assert isinstance(response, LargeJsonResponse)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=response), base_url="http://test") as client:
        for _ in range(2):
            answer = await client.get("/")
            assert answer.content == json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
            assert (answer.status_code, answer.headers["etag"]) == (201, '"1"')
            assert answer.headers["content-length"] == str(len(answer.content))
            assert answer.headers["content-type"] == "application/json"


async def test_specs_are_shaped_off_the_event_loop_when_a_page_has_many_runs(
    demo: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"task": TASK, "resources": {"cpu": {"requests": 0.5, "limits": 1}}, "envs": {"A": 1}, "command": ["a", "b"]}
    for number in range(60):
        body = {"kind": "container+job:run", "id": f"r{number}", "spec": spec}
        assert (await demo.post(f"{BASE}/runs", json=body)).status_code == 200
    threads = set()

    def note_thread(*given: Any) -> Any:
        threads.add(threading.current_thread())
        return show_spec(*given)

    monkeypatch.setattr(responses, "show_spec", note_thread)
    page = (await demo.get(f"{BASE}/runs", params={"size": 60})).json()
    assert (page["numberOfElements"], page["content"][0]["spec"]["resources"]) == (60, {"cpu": "0.5"})
    assert threads
    assert threading.main_thread() not in threads


async def test_project_lists_embedded_functions_in_short_when_they_are_too_large(
    demo: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        spec, metadata = {"code": "a" * 20_000}, {"embedded": True}
        body = {"kind": "dbt", "name": f"e{number}", "id": f"e{number}", "spec": spec, "metadata": metadata}
        assert (await demo.post(f"{BASE}/functions", json=body)).status_code == 200
    monkeypatch.setattr(projects, "MOST_EMBEDDED_BYTES", 45_000)
    listed = (await demo.get("/api/v1/projects/demo")).json()["spec"]["functions"]
    assert [(one["id"], "spec" in one) for one in listed[:3]] == [("e2", True), ("e1", True), ("e0", False)]


async def test_project_says_what_it_lists_when_that_is_not_everything(
    demo: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"kind": "dbt", "name": "e", "id": "e1"}
    assert (await demo.post(f"{BASE}/functions", json=body)).status_code == 200
    assert "X-Project-Bounded" not in (await demo.get("/api/v1/projects/demo")).headers
    monkeypatch.setattr(projects, "MOST_LISTED", 1)
    answer = await demo.get("/api/v1/projects/demo")
    assert [one["id"] for one in answer.json()["spec"]["functions"]] == ["e1"]
    assert answer.headers["X-Project-Bounded"] == "the newest 1 of 2 functions are listed"


async def test_project_stays_as_it_is_when_it_is_answered_with_its_entities(
    demo: httpx2.AsyncClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "shape_spec", lambda entity: entity.spec)  # what is shown may be what is stored
    view = await projects.get_project(server.core, "demo", most_bytes=1 << 20)
    entity, before = view.entity, dict(view.entity.spec)
    answer = entity_response(entity, lists=view.lists)
    assert [one["id"] for one in json.loads(bytes(answer.body))["spec"]["functions"]] == ["f1"]
    assert entity.spec == before


async def _receive_nothing() -> Any:
    await asyncio.Event().wait()


class _Document(dict[str, Any]):
    """A mapping that can be referred to weakly."""


def _answer_document() -> tuple[LargeJsonResponse, "weakref.ref[_Document]"]:
    document = _Document({f"k{number}": number for number in range(1000)})
    response = json_response(document)
    assert isinstance(response, LargeJsonResponse)
    return response, weakref.ref(document)


async def test_only_the_written_bytes_stay_in_memory_when_a_client_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    response, document = _answer_document()
    monkeypatch.setattr(responses, "SEND_SECONDS", 0.05)
    seen: list[object] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            gc.collect()
            seen.append(document())
            await asyncio.Event().wait()

    await asyncio.wait_for(response({"type": "http", "method": "GET"}, _receive_nothing, send), timeout=60)
    assert seen == [None]


async def test_one_entity_at_a_time_is_objects_when_a_page_has_many_values(
    demo: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of few bytes may have millions of values: as objects at once, they hold the event loop for long."""
    for number in range(20):
        body: dict[str, Any] = {"kind": "artifact", "name": f"n{number}", "id": f"n{number}"}
        body |= {"spec": {"path": "s3://a"}, "metadata": {"x": [[]] * 900}}
        assert (await demo.post(f"{BASE}/artifacts", json=body)).status_code == 200
    alive, most, parse = weakref.WeakSet[_Tracked](), list[int](), columns.JsonText.parse

    def track(column: columns.JsonText, text: str | None) -> Any:
        parsed = parse(column, text)
        if not isinstance(parsed, dict) or "x" not in parsed:
            return parsed
        alive.add(tracked := _Tracked(parsed))
        most.append(len(alive))
        return tracked

    monkeypatch.setattr(columns.JsonText, "parse", track)
    for path in (f"{BASE}/artifacts", f"{BASE}/solr/search/item"):
        assert len((await demo.get(path, params={"size": 100})).json()["content"]) >= 20
    assert len((await demo.get("/api/v1/projects/demo")).json()["spec"]["artifacts"]) == 20
    assert len(most) >= 60
    assert max(most) <= 2


class _Tracked(dict[str, Any]):
    """A document that can be referred to weakly."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__  # type: ignore[assignment]


async def test_content_is_freed_on_the_thread_when_it_was_written_there() -> None:
    threads = list[threading.Thread]()
    response = json_response(_FreedOn(threads))
    assert isinstance(response, LargeJsonResponse)
    await response.write()
    gc.collect()
    assert len(threads) == 1
    assert threading.main_thread() not in threads


class _FreedOn(dict[str, Any]):
    """A large document that tells which thread freed it."""

    def __init__(self, threads: list[threading.Thread]) -> None:
        super().__init__(x=[0] * 1000)
        self._threads = threads

    def __del__(self) -> None:
        self._threads.append(threading.current_thread())
