"""A server that answers each request with the next step of a script, and remembers what it was asked."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from runyard.kube.config import ClusterConfig
from runyard.kube.credentials import Credentials, StaticCredentials

Step = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ScriptedServer:
    """Its address, and everything it was asked so far."""

    server: str = ""
    requests: list[Received] = field(default_factory=list)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)

    def config(self, credentials: Credentials | None = None, **fields: Any) -> ClusterConfig:
        return ClusterConfig(server=self.server, credentials=credentials or StaticCredentials(), **fields)


def answer(body: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Step:
    """JSON, or bytes and text as they are."""
    raw = body.encode() if isinstance(body, str) else body
    raw = raw if isinstance(raw, bytes) else json.dumps(body).encode()

    async def respond(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=raw, status=status, headers=headers)

    return respond


def refuse(code: int, reason: str, *, details: object = None, headers: Mapping[str, str] | None = None) -> Step:
    """A Status, as the apiserver refuses."""
    status = {"kind": "Status", "status": "Failure", "message": "scripted", "reason": reason, "code": code}
    return answer({**status, "details": details}, status=code, headers=headers)


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    """Reset the connection instead of an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut_in_body(request: web.BaseRequest) -> web.StreamResponse:
    """Promise ten bytes, send five, and reset."""
    response = web.StreamResponse(headers={"Content-Length": "10"})
    await response.prepare(request)
    await response.write(b'{"a":')
    assert request.transport is not None
    request.transport.close()
    return response


async def hang(request: web.BaseRequest) -> web.StreamResponse:
    """Never answer."""
    await asyncio.sleep(3600)
    return web.Response()


@asynccontextmanager
async def serve(*steps: Step, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """Answer with `steps` in turn; the last one stays."""
    script = ScriptedServer()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        received = Received(request.method, request.raw_path, dict(request.headers), await request.read())
        script.requests.append(received)
        script.was_asked.set()
        return await steps[min(len(script.requests), len(steps)) - 1](request)

    server = web.Server(handle)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, ssl=tls)
    host, port = listener.sockets[0].getsockname()
    script.server = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield script
    finally:
        listener.close()
        await server.shutdown(0.1)
        await listener.wait_closed()
