"""JSON Schemas of what we run, in DigitalHub's envelope."""

import httpx2
import pytest
from jsonschema import Draft202012Validator

TYPES = ("project", "function", "task", "run", "secret")


async def test_every_schema_is_one_when_all_are_listed(client: httpx2.AsyncClient) -> None:
    for entity in TYPES:
        page = (await client.get(f"/api/v1/schemas/{entity}")).json()
        assert page["totalElements"] == len(page["content"]) > 0
        for one in page["content"]:
            assert set(one) == {"id", "kind", "entity", "runtime", "schema"}
            assert one["entity"] == entity
            assert one["schema"]["$schema"].endswith("2020-12/schema")
            Draft202012Validator.check_schema(one["schema"])
            assert (await client.get(f"/api/v1/schemas/{entity}/{one['kind']}")).json() == one


async def test_schemas_are_of_one_runtime_when_it_is_asked_for(client: httpx2.AsyncClient) -> None:
    page = (await client.get("/api/v1/schemas/task", params={"runtime": "python"})).json()
    assert {one["runtime"] for one in page["content"]} == {"python"}
    assert (await client.get("/api/v1/schemas/task", params={"runtime": "dbt"})).json()["content"] == []


async def test_schemas_are_paged_when_a_page_is_asked_for(client: httpx2.AsyncClient) -> None:
    pages = [(await client.get("/api/v1/schemas/task", params={"page": page, "size": 3})).json() for page in range(4)]
    kinds = [one["kind"] for page in pages for one in page["content"]]
    assert len(set(kinds)) == len(kinds) == pages[0]["totalElements"]


@pytest.mark.parametrize(
    ("path", "suggestion"),
    [("functon", "function"), ("artifact", None), ("function/pyton", "python"), ("task/python+deploy", "python+serve")],
)
async def test_near_names_are_told_when_there_is_no_such_schema(
    client: httpx2.AsyncClient, path: str, suggestion: str | None
) -> None:
    answer = await client.get(f"/api/v1/schemas/{path}")
    assert answer.status_code == 400
    assert "missing spec" in answer.json()["message"]
    if suggestion is not None and "deploy" not in path:
        assert answer.json()["errors"][0]["suggestion"] == suggestion


async def test_spec_is_valid_by_its_schema_when_the_server_took_it(demo: httpx2.AsyncClient) -> None:
    function = (await demo.get("/api/v1/-/demo/functions/f1")).json()
    schema = (await demo.get("/api/v1/schemas/function/container")).json()["schema"]
    assert function["spec"]["image"] == "busybox:1.36"
    assert list(Draft202012Validator(schema).iter_errors(function["spec"])) == []
