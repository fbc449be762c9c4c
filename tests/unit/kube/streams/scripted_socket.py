"""The server's side of a stream, spoken by the test."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import WSCloseCode, WSMsgType, web

from runyard.kube.client import Client
from tests.unit.kube.scripted_apiserver import ScriptedServer, Step, serve

SUCCESS = {"metadata": {}, "status": "Success"}
STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)


def failure(code: str) -> object:
    """The Status of a command that ended with an exit code, as the kubelet of 1.36 words it."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": code}]},
    }


class Side:
    """One accepted WebSocket."""

    def __init__(self, socket: web.WebSocketResponse, request: web.BaseRequest) -> None:
        self.socket = socket
        self._request = request

    async def send(self, channel: int, data: bytes | object) -> None:
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        await self.socket.send_bytes(bytes([channel]) + raw)

    async def receive(self) -> bytes:
        message = await self.socket.receive()
        assert message.type is WSMsgType.BINARY, message
        assert isinstance(message.data, bytes)
        return message.data

    def cut(self) -> None:
        """End the connection without a close message."""
        assert self._request.transport is not None
        self._request.transport.close()

    def reset(self) -> None:
        assert self._request.transport is not None
        self._request.transport.abort()


def talk(script: Callable[[Side], Awaitable[None]], *protocols: str, close: int = WSCloseCode.OK) -> Step:
    """Accept with the first of `protocols` that the client offers, follow the script, then close."""

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(
            protocols=protocols or ("v5.channel.k8s.io", "v4.channel.k8s.io"), max_msg_size=0
        )
        await socket.prepare(request)
        await script(Side(socket, request))
        await socket.close(code=close)
        return socket

    return respond


async def pause() -> None:
    """Long enough for bytes to fill every buffer on their way."""
    await asyncio.sleep(0.3)


@asynccontextmanager
async def connected(*steps: Step) -> AsyncIterator[tuple[Client, ScriptedServer]]:
    async with serve(*steps) as server, Client.connect(server.config()) as client:
        yield client, server
