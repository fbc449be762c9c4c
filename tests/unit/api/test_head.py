"""HEAD answers wherever GET does: the same status and headers, no body, and no stream begins."""

from collections.abc import Iterator
from dataclasses import replace

import httpx2
import pytest

from runyard.api.application import ALL_ROUTES, add_middleware, make_app
from runyard.api.context import Limits
from tests.http_servers import Server
from tests.unit.api.stream_clients import open_stream

RUN = "/api/v1/-/demo/runs/r1"
PLACES = {"project": "demo", "id": "f1", "name": "box", "entity": "function", "kind": "container", "revision": "1"}
VARYING = {"x-request-id", "x-log-marker"}
"""Another text in every response, of the same length."""


def iter_get_paths() -> Iterator[str]:
    yield "/openapi.json"
    for route in (route for routes in ALL_ROUTES for route in routes.declared if route.method == "GET"):
        path = route.path.replace("/runs/{id}", "/runs/r1").replace("/tasks/{id}", "/tasks/t1")
        for name, value in PLACES.items():
            path = path.replace(f"{{{name}}}", value)
        yield path


@pytest.fixture
async def running(demo: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The client, with a run `r1` that has not ended, a profile `box` and a policy."""
    run = {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://demo/t1"}}
    made = [
        await demo.post("/api/v1/-/demo/runs", json=run),
        await demo.put("/api/v1/profiles/box", json={"resources": {"cpu": "1"}}),
        await demo.put("/api/v1/policy", json={}),
    ]
    assert [answer.status_code for answer in made] == [200] * 3, [answer.text for answer in made]
    return demo


async def ask(server: Server, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    async with open_stream(server.app, path, method=method) as stream:
        await stream.wait_for_end()
    ignored = VARYING | ({"content-length"} if path == "/metrics" else set())
    headers = {name: value for name, value in stream.headers.items() if name not in ignored}
    return stream.status, headers, stream.content


@pytest.mark.usefixtures("running")
async def test_head_answers_as_get_without_a_body_when_any_get_route_is_called(server: Server) -> None:
    statuses = {}
    for path in iter_get_paths():
        status, headers, content = await ask(server, "GET", path)
        assert await ask(server, "HEAD", path) == (status, headers, b""), path
        # A log that is empty has no body either.
        assert content or path.endswith("/log"), path
        statuses[path] = status
    found = [path for path, status in statuses.items() if status == 200]
    assert len(found) > len(statuses) / 2


@pytest.mark.parametrize("path", ["/nothing", "/api/v1/projects?foo=1", "/api/v1/projects/missing"])
async def test_head_has_no_body_when_get_is_an_error(server: Server, path: str) -> None:
    status, headers, content = await ask(server, "GET", path)
    head = await ask(server, "HEAD", path)
    assert (head[0], head[2]) == (status, b"")
    assert status >= 400
    assert content
    assert headers["content-type"] == head[1]["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "accept"), [(f"{RUN}/events", "text/event-stream"), (f"{RUN}/log?follow=true", "text/plain")]
)
@pytest.mark.usefixtures("running")
async def test_no_stream_begins_when_it_is_asked_for_by_head(server: Server, path: str, accept: str) -> None:
    # No stream may be open at all: one that began would be refused.
    app = add_middleware(make_app(replace(server.context, limits=Limits(streams=0))))
    async with open_stream(app, path, headers={"accept": accept}) as got:
        await got.wait_for_end()
    assert got.status == 429
    async with open_stream(app, path, headers={"accept": accept}, method="HEAD") as asked:
        assert await asked.wait_for_end() == ""
    assert (asked.status, asked.headers["content-type"].partition(";")[0]) == (200, accept)
    assert "content-length" not in asked.headers
