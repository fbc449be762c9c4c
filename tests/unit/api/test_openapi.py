"""The published description: complete, resolvable, and the same as what routes do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator

from runyard.api.application import ALL_ROUTES
from tests.http_servers import serve

NAMES = {one.name for routes in ALL_ROUTES for route in routes.declared for one in route.parameters}
METHODS = ("get", "post", "put", "delete", "patch")


@pytest.fixture
async def document(client: httpx2.AsyncClient) -> dict[str, Any]:
    answer = await client.get("/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def iter_operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield f"{method.upper()} {path}", operation


def iter_nodes(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, value
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from iter_nodes(inner, f"{path}/{key}")


async def test_every_operation_says_what_it_does_when_it_is_described(document: dict[str, Any]) -> None:
    names = []
    for name, operation in iter_operations(document):
        assert operation.get("summary"), name
        assert operation.get("description"), name
        assert operation.get("tags"), name
        assert operation["operationId"], name
        names.append(operation["operationId"])
    assert len(set(names)) == len(names)


async def test_every_answer_and_error_is_described_when_an_operation_is(document: dict[str, Any]) -> None:
    for name, operation in iter_operations(document):
        responses = operation["responses"]
        assert "200" in responses, name
        assert "422" not in responses, name
        for status in ("400", "401", "403", "404", "408", "412", "413", "415", "429", "503"):
            schema = responses[status]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorResponse"}, (name, status)


async def test_every_reference_resolves_when_it_is_followed(document: dict[str, Any]) -> None:
    references = {node["$ref"] for _, node in iter_nodes(document) if isinstance(node, dict) and "$ref" in node}
    assert references
    for reference in references:
        node: Any = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        assert node


async def test_every_field_has_a_description_and_an_example_when_a_model_is_published(document: dict[str, Any]) -> None:
    missing = []
    for name, schema in document["components"]["schemas"].items():
        if not schema.get("description"):
            missing.append(name)
        for field, described in schema.get("properties", {}).items():
            is_composed = "$ref" in str(described)
            if not described.get("description") or not (is_composed or described.get("examples")):
                missing.append(f"{name}.{field}")
    assert missing == []


async def test_every_example_is_valid_when_it_is_held_against_its_schema(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        for field, described in schema.get("properties", {}).items():
            resolvable = {**described, "components": document["components"]}
            for example in described.get("examples", ()):
                errors = list(Draft202012Validator(resolvable).iter_errors(example))
                assert not errors, (name, field, example)
        if "example" in schema:
            resolvable = {**schema, "components": document["components"]}
            assert not list(Draft202012Validator(resolvable).iter_errors(schema["example"])), name


async def test_every_parameter_is_described_when_an_operation_takes_it(document: dict[str, Any]) -> None:
    for name, operation in iter_operations(document):
        parameters = operation.get("parameters", [])
        for parameter in parameters:
            assert parameter["in"] in ("path", "query"), name
            assert parameter["in"] == "path" or parameter["description"], (name, parameter["name"])
        named = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
        assert named == {part[1:-1] for part in name.split("/") if part.startswith("{")}, name


# What stands in an address is answered differently where it is not there; nothing is found out about parameters then.
PLACES = {"project": "demo", "id": "f1", "name": "n", "entity": "function", "kind": "python", "revision": "1"}


async def test_exactly_the_described_parameters_are_taken_when_a_route_is_called(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, server.client() as client:
        document = (await client.get("/openapi.json")).json()
        await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
        wrong = []
        for name, operation in iter_operations(document):
            if operation["x-needs"] == "public":
                continue
            described = {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}
            taken = await find_taken(client, name)
            if taken != described:
                wrong.append((name, sorted(taken - described), sorted(described - taken)))
    assert wrong == []


async def find_taken(client: httpx2.AsyncClient, name: str) -> set[str]:
    method, path = name.split(" ")
    for place, value in PLACES.items():
        path = path.replace(f"{{{place}}}", value)
    # One that no route knows: the request goes no further than its parameters.
    params = {"unheard_of": "1", **dict.fromkeys(NAMES, "1")}
    answer = await client.request(method, path, params=params, json={"kind": "project"})
    assert answer.status_code == 400, (name, answer.text)
    unknown = {
        each["path"].partition(".")[2] for each in answer.json()["errors"] if each["code"] == "parameter.unknown"
    }
    assert "unheard_of" in unknown, name
    return set(NAMES) - unknown


async def test_every_request_that_changes_something_describes_its_body_when_it_has_one(
    document: dict[str, Any],
) -> None:
    without = {
        name
        for name, operation in iter_operations(document)
        if name.startswith(("POST", "PUT")) and "requestBody" not in operation
    }
    assert without == {
        "POST /api/auth",
        "POST /api/v1/projects/{project}/share",
        "POST /api/v1/-/{project}/runs/{id}/stop",
        "POST /api/v1/-/{project}/runs/{id}/resume",
        *(name for name in without if name.startswith("POST /api/v1/-/{project}/triggers/{id}/")),
    }
