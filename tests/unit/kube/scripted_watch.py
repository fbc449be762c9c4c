"""A server that answers lists and watches as a test wrote them down, one after another, and remembers the requests."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from runyard.kube.client import Client
from runyard.kube.config import ClusterConfig

Object = dict[str, Any]


def config_map(name: str, version: int | str, *, uid: str | None = None, **data: str) -> Object:
    return {
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "managedFields": [{"manager": "test"}],
        },
        "data": data,
    }


def page(*items: Object, version: int | str, token: str = "") -> web.Response:
    return web.json_response({"metadata": {"resourceVersion": str(version), "continue": token}, "items": list(items)})


def refusal(code: int, *, reason: str = "", retry_after: str | None = None) -> web.Response:
    status = {"kind": "Status", "status": "Failure", "message": "scripted", "reason": reason, "code": code}
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return web.json_response(status, status=code, headers=headers)


def event(kind: str, body: Object) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def bookmark(version: int | str) -> bytes:
    return event("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": str(version)}, "data": None})


class Stream:
    """The server's end of one watch."""

    def __init__(self, request: web.Request, response: web.StreamResponse) -> None:
        self._request = request
        self._response = response

    async def send(self, *lines: bytes) -> None:
        await self._response.write(b"".join(lines))

    async def hang(self) -> None:
        """Say nothing until the client goes away."""
        await asyncio.Event().wait()

    def reset(self) -> None:
        """Cut the connection in the middle of the body."""
        assert self._request.transport is not None
        self._request.transport.abort()


Watch = Callable[[Stream], Awaitable[None]]


class ScriptedApi:
    """Lists and watches are answered from the two scripts; the last list is repeated, a watch beyond them hangs."""

    def __init__(self) -> None:
        self.lists: deque[web.Response] = deque()
        self.watches: deque[Watch | web.Response] = deque()
        self.list_requests: list[dict[str, str]] = []
        self.watch_requests: list[dict[str, str]] = []
        self.open_watches = 0
        self.revision: int = 1 << 40
        """What the server says when it is asked how far it is, by a list of one object."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        if query.get("limit") == "1":
            return page(version=self.revision)
        if query.get("watch") != "true":
            self.list_requests.append(query)
            return _copy(self.lists.popleft() if len(self.lists) > 1 else self.lists[0])
        self.watch_requests.append(query)
        script = self.watches.popleft() if self.watches else Stream.hang
        return _copy(script) if isinstance(script, web.Response) else await self._stream(request, script)

    async def _stream(self, request: web.Request, script: Watch) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.open_watches += 1
        try:
            await script(Stream(request, response))
        finally:
            self.open_watches -= 1
        return response

    @property
    def versions(self) -> list[str]:
        """From where each watch began."""
        return [query["resourceVersion"] for query in self.watch_requests]


def _copy(response: web.Response) -> web.Response:
    """The same answer; aiohttp sends each object once."""
    assert isinstance(response.body, bytes)
    headers = {name: value for name, value in response.headers.items() if name == "Retry-After"}
    return web.Response(body=response.body, status=response.status, headers=headers, content_type=response.content_type)


@asynccontextmanager
async def serve(api: ScriptedApi, *, port: int = 0) -> AsyncIterator[int]:
    """The port on which `api` answers."""
    app = web.Application()
    app.router.add_get("/{path:.*}", api.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, reuse_address=True)
    await site.start()
    try:
        [socket_name] = runner.addresses
        yield socket_name[1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connect(port: int) -> AsyncIterator[Client]:
    async with Client.connect(ClusterConfig(server=f"http://127.0.0.1:{port}")) as client:
        yield client
