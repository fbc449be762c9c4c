"""Every route of the router, every role, against the written table."""

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.api.application import ALL_ROUTES
from tests.http_servers import Server, serve
from tests.unit.api.access_table import ADMIN, EVERY_ROLE, NOBODY, RUN, WHO, make_table

MEMBERS = {"viewer": "viewer", "editor": "editor"}
_BUILT_IN = {"GET /openapi.json"}


def iter_routes() -> Iterator[str]:
    for routes in ALL_ROUTES:
        for route in routes.declared:
            yield f"{route.method} {route.path}"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serve(tmp_path, is_open=False) as server:
        for name in ("stranger", "viewer", "editor", "owner"):
            await server.add_user(name)
        await server.add_user(ADMIN, is_admin=True)
        async with server.client("owner") as owner:
            assert (await owner.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).is_success
            function = {"kind": "container", "name": "box", "id": "f1", "spec": {"image": "busybox:1.36"}}
            assert (await owner.post("/api/v1/-/demo/functions", json=function)).is_success
            task = {"kind": "container+job", "id": "t1", "spec": {"function": "container://demo/box:f1"}}
            assert (await owner.post("/api/v1/-/demo/tasks", json=task)).is_success
            run = {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://demo/t1"}}
            assert (await owner.post("/api/v1/-/demo/runs", json=run)).is_success
            for user, role in MEMBERS.items():
                shared = await owner.post("/api/v1/projects/demo/share", params={"user": user, "role": role})
                assert shared.is_success, shared.text
        yield server


def test_table_and_router_have_the_same_routes_when_compared() -> None:
    routes, table = set(iter_routes()) | _BUILT_IN, set(make_table())
    assert routes - table == set(), "routes without a row in access_table.py"
    assert table - routes == set(), "rows without a route"


@pytest.mark.parametrize("role", EVERY_ROLE)
async def test_only_those_in_the_table_get_in_when_every_route_is_called(role: str, server: Server) -> None:
    headers = {}
    if role == RUN:
        headers = {"Authorization": f"Bearer {await server.issue_run_token('demo', 'r1')}"}
    async with server.client(None if role in (NOBODY, RUN) else role, headers=headers) as client:
        rows = make_table()
        # HEAD answers wherever GET does, to the same callers.
        rows |= {row.replace("GET", "HEAD", 1): who for row, who in rows.items() if row.startswith("GET")}
        wrong = [row for row, who in sorted(rows.items()) if await find_wrong(server, client, role, row, who)]
    assert wrong == []


async def find_wrong(server: Server, client: httpx2.AsyncClient, role: str, row: str, who: str) -> bool:
    method, path = row.split(" ")
    # What does not exist, but for the project and the run of the token: nothing is changed on the way.
    address = path.replace("{project}", "demo").replace("{id}", "r1" if "/runs/" in path else "nothing")
    for name in ("name", "entity", "kind", "revision", "path:path"):
        address = address.replace(f"{{{name}}}", "1")
    if method == "WEBSOCKET":
        signed = next(client.auth.sync_auth_flow(client.build_request("GET", address))) if client.auth else None
        headers = client.headers if signed is None else signed.headers
        status = await refuse_websocket(server.app, address, headers=headers)
    else:
        status = (await client.request(method, address)).status_code
    # 501: a server without an engine, which answers after it has checked the permission.
    assert status < 500 or status == 501, row
    if role in WHO[who]:
        return status in (401, 403)
    return status != (401 if role == NOBODY else 403)


async def refuse_websocket(app: Any, path: str, *, headers: Mapping[str, str]) -> int:
    """The status with which a WebSocket is refused: there is no engine."""
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        messages.append(message)

    scope = {
        "type": "websocket",
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"command=sh&port=1"[: 0 if path.endswith("attach") else None],
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "subprotocols": [],
        "client": ("127.0.0.1", 5),
        "extensions": {"websocket.http.response": {}},
    }
    # Each route takes one of the two parameters, and refuses the other after it has checked the permission.
    await app(scope, receive, send)
    assert messages[0]["type"] == "websocket.http.response.start"
    status: int = messages[0]["status"]
    return status
