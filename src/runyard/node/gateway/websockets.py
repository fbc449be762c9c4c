"""A WebSocket through the gateway, message by message, both ways until either side closes."""

import asyncio
from collections.abc import Sequence

from aiohttp import ClientSession, ClientWebSocketResponse, ClientWSTimeout, WSMsgType, web
from yarl import URL

MESSAGE_BYTES = 4 * 1024 * 1024
_CLOSE_SECONDS = 5.0
_HEARTBEAT_SECONDS = 30.0
_PROTOCOL = "sec-websocket-protocol"
_HANDSHAKE = frozenset({"sec-websocket-extensions", "sec-websocket-key", "sec-websocket-version", _PROTOCOL})

_Socket = web.WebSocketResponse | ClientWebSocketResponse


def is_websocket(request: web.BaseRequest) -> bool:
    """Whether the client asks for a WebSocket."""
    return request.method == "GET" and request.headers.get("Upgrade", "").lower() == "websocket"


async def relay_websocket(
    request: web.BaseRequest, url: URL, *, session: ClientSession, headers: Sequence[tuple[str, str]]
) -> web.StreamResponse:
    """Open the pod's end first: only then is it known whether, and by which protocol, it speaks."""
    offered = ",".join(value for name, value in headers if name.lower() == _PROTOCOL)
    protocols = [name.strip() for name in offered.split(",") if name.strip()]
    async with session.ws_connect(
        url,
        protocols=protocols,
        headers=[(name, value) for name, value in headers if name.lower() not in _HANDSHAKE],
        heartbeat=_HEARTBEAT_SECONDS,
        max_msg_size=MESSAGE_BYTES,
        timeout=ClientWSTimeout(ws_close=_CLOSE_SECONDS),
    ) as pod:
        client = web.WebSocketResponse(
            protocols=[pod.protocol] if pod.protocol else (),
            max_msg_size=MESSAGE_BYTES,
            compress=False,
            heartbeat=_HEARTBEAT_SECONDS,
            timeout=_CLOSE_SECONDS,
        )
        await client.prepare(request)
        directions = [asyncio.create_task(_copy(client, pod)), asyncio.create_task(_copy(pod, client))]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
        await pod.close(code=client.close_code or 1000)
        await client.close(code=pod.close_code or 1011)
        return client


async def _copy(source: _Socket, target: _Socket) -> None:
    async for message in source:
        if message.type is WSMsgType.TEXT:
            await target.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await target.send_bytes(message.data)
