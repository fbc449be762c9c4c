"""Pages of lists, as the SDKs walk them."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.api.context import Limits
from runyard.app.engine import LONGEST_MESSAGE_BYTES
from runyard.app.list_query import LISTED_MESSAGE_CHARACTERS
from runyard.app.model import Transition
from runyard.domain.lifecycle import State
from tests.http_servers import Server, serve

FUNCTIONS = "/api/v1/-/demo/functions"


async def add_many(client: httpx2.AsyncClient, count: int) -> None:
    for number in range(count):
        body = {"kind": "dbt", "name": f"f-{number:02}", "id": f"id-{number:02}"}
        assert (await client.post(FUNCTIONS, json=body)).status_code == 200


async def walk(client: httpx2.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    """As the SDK does: until a page is empty, or the last."""
    found: list[dict[str, Any]] = []
    page = 0
    while True:
        answer = (await client.get(FUNCTIONS, params={**params, "page": page})).json()
        found += answer["content"]
        if not answer["content"] or page >= answer["totalPages"] - 1:
            return found
        page += 1


async def test_every_function_is_found_once_when_45_are_walked(demo: httpx2.AsyncClient) -> None:
    await add_many(demo, 44)
    found = await walk(demo)
    assert len({one["id"] for one in found}) == len(found) == 45
    created = [one["metadata"]["created"] for one in found]
    assert created == sorted(created, reverse=True)


async def test_envelope_is_that_of_digitalhub_when_a_page_is_in_the_middle(demo: httpx2.AsyncClient) -> None:
    await add_many(demo, 4)
    answer = (await demo.get(FUNCTIONS, params={"page": 1, "size": 2, "sort": "id,asc"})).json()
    assert [one["id"] for one in answer.pop("content")] == ["id-01", "id-02"]
    order = {"sorted": True, "unsorted": False, "empty": False}
    assert answer == {
        "totalElements": 5,
        "totalPages": 3,
        "number": 1,
        "size": 2,
        "numberOfElements": 2,
        "first": False,
        "last": False,
        "empty": False,
        "sort": order,
        "pageable": {"pageNumber": 1, "pageSize": 2, "offset": 2, "paged": True, "unpaged": False, "sort": order},
    }


PAGES: list[Any] = [1, 2, 1000, 2**31]


async def test_page_is_empty_when_it_is_past_the_end(demo: httpx2.AsyncClient) -> None:
    for page in PAGES:
        answer = (await demo.get(FUNCTIONS, params={"page": page})).json()
        assert (answer["content"], answer["empty"], answer["last"], answer["totalPages"]) == ([], True, True, 1)


async def test_there_is_no_page_when_there_is_nothing(demo: httpx2.AsyncClient) -> None:
    answer = (await demo.get("/api/v1/-/demo/models")).json()
    assert (answer["content"], answer["totalPages"], answer["first"], answer["last"]) == ([], 0, True, True)


async def test_newest_version_of_each_name_is_listed_when_versions_are_not_asked_for(demo: httpx2.AsyncClient) -> None:
    for number in range(3):
        body = {"kind": "container", "name": "box", "id": f"v{number}", "spec": {"image": f"box:{number}"}}
        await demo.post(FUNCTIONS, json=body)
    assert [one["id"] for one in await walk(demo, name="box")] == ["v2"]
    assert [one["id"] for one in await walk(demo, name="box", versions="all")] == ["v2", "v1", "v0", "f1"]
    await demo.delete(f"{FUNCTIONS}/v2")
    assert [one["id"] for one in await walk(demo)] == ["v1"]


@pytest.mark.parametrize("plural", ["projects", "secrets"])
async def test_list_is_by_name_when_no_order_is_asked_for(demo: httpx2.AsyncClient, plural: str) -> None:
    path = "/api/v1/projects" if plural == "projects" else "/api/v1/-/demo/secrets"
    kind = plural.removesuffix("s")
    for name in ("bb", "aa", "cc"):
        assert (await demo.post(path, json={"kind": kind, "name": name})).status_code == 200
    names = [one["name"] for one in (await demo.get(path)).json()["content"]]
    assert names == sorted(names)


async def test_list_is_refused_when_the_project_is_not_there(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/api/v1/-/nowhere/functions")
    assert answer.status_code == 404
    assert "No such EntityName" in answer.json()["message"]


async def test_page_is_bounded_by_the_servers_limit_when_it_is_small(tmp_path: Path) -> None:
    async with serve(tmp_path, limits=Limits(list_size=2)) as server, server.client() as client:
        for name in ("first", "second", "third"):
            assert (await client.post("/api/v1/projects", json={"kind": "project", "name": name})).is_success
        shown = (await client.get("/api/v1/projects")).json()
        assert (shown["size"], shown["numberOfElements"], shown["totalElements"]) == (2, 2, 3)
        assert (await client.get("/api/v1/projects?size=2")).status_code == 200
        assert (await client.get("/api/v1/projects?size=3")).status_code == 400


BUDGET = 64 << 10


async def test_every_function_is_found_once_when_pages_are_short_because_functions_are_large(tmp_path: Path) -> None:
    async with serve(tmp_path, limits=Limits(page_bytes=BUDGET)) as server, server.client() as client:
        await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
        await add_many(client, 10)
        body = {"kind": "dbt", "name": "large", "id": "large", "spec": {"code": "a" * 20_000}}
        assert (await client.post(FUNCTIONS, json=body)).status_code == 200
        for params in ({}, {"size": 100}):
            found = await walk(client, **params)
            assert sorted(one["id"] for one in found) == [*(f"id-{number:02}" for number in range(10)), "large"]
        answer = (await client.get(FUNCTIONS, params={"size": 100, "page": 1})).json()
        assert (answer["size"], answer["totalPages"], answer["totalElements"]) == (3, 4, 11)
        assert (answer["pageable"]["offset"], answer["numberOfElements"], answer["last"]) == (3, 3, False)


async def test_pages_stay_as_short_when_the_large_function_is_deleted_between_two(tmp_path: Path) -> None:
    async with serve(tmp_path, limits=Limits(page_bytes=BUDGET)) as server, server.client() as client:
        await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
        await add_many(client, 10)
        body = {"kind": "dbt", "name": "large", "id": "large", "spec": {"code": "a" * 20_000}}
        await client.post(FUNCTIONS, json=body)
        first = (await client.get(FUNCTIONS, params={"sort": "id,asc", "page": 0})).json()
        assert (await client.delete(f"{FUNCTIONS}/large")).status_code == 200
        second = (await client.get(FUNCTIONS, params={"sort": "id,asc", "page": 1})).json()
        assert [one["id"] for one in first["content"] + second["content"]] == [f"id-{number:02}" for number in range(6)]


async def test_page_has_one_entity_when_that_is_larger_than_a_page_may_be(tmp_path: Path) -> None:
    async with serve(tmp_path, limits=Limits(page_bytes=1024)) as server, server.client() as client:
        await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
        await add_many(client, 2)
        answer = (await client.get(FUNCTIONS)).json()
        assert (answer["size"], answer["numberOfElements"], answer["totalPages"]) == (1, 1, 2)


async def test_openapi_shows_the_servers_limit_when_it_is_not_the_default(tmp_path: Path) -> None:
    for most, default in ((5000, 25), (10, 10)):
        async with serve(tmp_path, limits=Limits(list_size=most)) as server, server.client() as client:
            document = (await client.get("/openapi.json")).json()
        parameters = document["paths"]["/api/v1/-/{project}/runs"]["get"]["parameters"]
        (size,) = [one["schema"] for one in parameters if one["name"] == "size"]
        assert size == {"type": "integer", "minimum": 1, "maximum": most, "default": default}


async def test_page_of_runs_is_bounded_when_their_messages_are_large(demo: httpx2.AsyncClient) -> None:
    runs, text = "/api/v1/-/demo/runs", "x" * 1_000_000
    spec = {"task": "container+job://demo/t1", "local_execution": True}
    body = {"kind": "container+job:run", "id": "r1", "spec": spec}
    assert (await demo.post(runs, json=body)).status_code == 200
    for state in ("BUILT", "READY", "PENDING", "RUNNING"):
        answer = await demo.put(f"{runs}/r1", json={**body, "status": {"state": state, "message": text}})
        assert answer.json()["status"]["state"] == state
    done = await demo.put(f"{runs}/r1", json={**body, "status": {"state": "COMPLETED", "message": "done"}})
    messages = [each.get("message") for each in done.json()["status"]["transitions"]]
    assert messages == ["done", *4 * [text[:LONGEST_MESSAGE_BYTES]], None]
    listed = await demo.get(runs, params={"size": 1000})
    messages = [each.get("message") for each in listed.json()["content"][0]["status"]["transitions"]]
    assert messages == ["done", *4 * [text[:LISTED_MESSAGE_CHARACTERS]], None]


async def test_newest_transitions_are_shown_when_there_are_many(demo: httpx2.AsyncClient, server: Server) -> None:
    body = {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://demo/t1"}}
    assert (await demo.post("/api/v1/-/demo/runs", json=body)).status_code == 200
    run = await server.find_run("demo", "r1")
    more = [
        Transition(sequence=number, state=State.STOPPED, at=run.created_at, actor="ada") for number in range(3, 151)
    ]
    async with server.core.store.begin() as unit:
        await unit.runs.update(run, run, transitions=more)
        await unit.commit()
    shown = (await demo.get("/api/v1/-/demo/runs/r1")).json()["status"]["transitions"]
    assert [each["sequence"] for each in shown] == list(range(150, 50, -1))
    (listed,) = (await demo.get("/api/v1/-/demo/runs")).json()["content"]
    assert [each["sequence"] for each in listed["status"]["transitions"]] == list(range(150, 140, -1))
