"""Which route a request is for, without an application around it."""

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from runyard.api.dispatcher import Dispatcher
from runyard.api.routing import Endpoint, Route
from runyard.domain.access import Permission

PATHS = (
    "GET /runs",
    "POST /runs",
    "POST /runs/explain",
    "GET /runs/{id}",
    "DELETE /runs/{id}",
    "GET /runs/{id}/logs",
    "GET /{project}/things/{id}",
    "GET /runs/things/{name}",
    "POST /jobs",
)


def make_endpoint(name: str) -> Endpoint:
    async def endpoint(request: Request, **named: str) -> Response:
        assert request.path_params == named
        return JSONResponse({"route": name, **named}, headers={"X-Route": name})

    return endpoint


def make_routes(*paths: str) -> list[Route]:
    return [
        Route(method=method, path=path, permission=Permission.PUBLIC, endpoint=make_endpoint(f"{method} {path}"))
        for method, path in (one.split() for one in paths)
    ]


async def elsewhere(scope: Scope, receive: Receive, send: Send) -> None:
    raise LookupError(scope["type"])


async def ask(method: str, path: str) -> httpx2.Response:
    async def explain(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({}, error.status_code, headers=error.headers)

    app = Starlette(exception_handlers={HTTPException: explain})
    app.router.default = Dispatcher(make_routes(*PATHS), otherwise=elsewhere)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
        return await client.request(method, path)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("GET /runs", {"route": "GET /runs"}),
        ("GET /runs/r1", {"route": "GET /runs/{id}", "id": "r1"}),
        ("POST /runs/explain", {"route": "POST /runs/explain"}),
        ("GET /runs/explain", {"route": "GET /runs/{id}", "id": "explain"}),
        ("GET /runs/r1/logs", {"route": "GET /runs/{id}/logs", "id": "r1"}),
        ("GET /runs/things/x", {"route": "GET /runs/things/{name}", "name": "x"}),
        ("GET /other/things/x", {"route": "GET /{project}/things/{id}", "project": "other", "id": "x"}),
        ("GET /runs/a%20b%C3%BC.%7Bid%7D", {"route": "GET /runs/{id}", "id": "a bü.{id}"}),
        ("GET /runs/{id}", {"route": "GET /runs/{id}", "id": "{id}"}),
    ],
)
async def test_route_is_the_most_particular_that_takes_the_method_when_asked(asked: str, found: dict[str, Any]) -> None:
    answer = await ask(*asked.split(maxsplit=1))
    assert answer.json() == found


@pytest.mark.parametrize("path", ["/runs/r1", "/runs/explain"])
async def test_head_goes_to_the_route_of_get_when_asked(path: str) -> None:
    answer = await ask("HEAD", path)
    assert (answer.status_code, answer.headers["X-Route"]) == (200, "GET /runs/{id}")


@pytest.mark.parametrize(
    "path", ["/", "/run", "/runs/", "/runs//logs", "//runs", "/runs/a%2Fb", "/RUNS", "/runs/r1/logs/x", "/things/x"]
)
async def test_nothing_is_found_when_no_path_is_like_that(path: str) -> None:
    assert (await ask("GET", path)).status_code == 404


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        ("PUT /runs", "GET, HEAD, POST"),
        ("OPTIONS /runs/explain", "DELETE, GET, HEAD, POST"),
        ("POST /runs/r1/logs", "GET, HEAD"),
        ("HEAD /jobs", "POST"),
    ],
)
async def test_every_method_that_is_taken_is_told_when_another_is_asked_for(asked: str, allowed: str) -> None:
    answer = await ask(*asked.split())
    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)


def test_mistake_is_told_when_two_routes_are_the_same() -> None:
    with pytest.raises(ValueError, match=r"two routes for GET /a/\{name\}"):
        Dispatcher(make_routes("GET /a/{id}", "GET /a/{name}"), otherwise=elsewhere)


async def test_request_goes_elsewhere_when_it_is_neither_http_nor_a_websocket() -> None:
    async def nothing(*_: Any) -> Any:
        return None

    with pytest.raises(LookupError, match="lifespan"):
        await Dispatcher([], otherwise=elsewhere)({"type": "lifespan"}, nothing, nothing)
