"""A server without accounts, and a client."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.http_servers import Server, serve


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serve(tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    async with server.client() as client:
        yield client


@pytest.fixture
async def demo(client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The client, with a project `demo` that has a container function `box` (f1) and its tasks t1 (job), t2 (serve)."""
    made = [
        await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"}),
        await client.post(
            "/api/v1/-/demo/functions",
            json={"kind": "container", "name": "box", "id": "f1", "spec": {"image": "busybox:1.36"}},
        ),
        await client.post(
            "/api/v1/-/demo/tasks",
            json={"kind": "container+job", "id": "t1", "spec": {"function": "container://demo/box:f1"}},
        ),
        await client.post(
            "/api/v1/-/demo/tasks",
            json={"kind": "container+serve", "id": "t2", "spec": {"function": "container://demo/box:f1"}},
        ),
    ]
    assert [answer.status_code for answer in made] == [200] * 4, [answer.text for answer in made]
    return client
