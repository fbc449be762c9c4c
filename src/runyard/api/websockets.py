"""Relays a session between a WebSocket and a container: exec, attach, port-forward.

Messages are framed as in Kubernetes' `v5.channel.k8s.io`: the first byte is the channel (`app.engine.ChannelId`), the
rest the content. Each direction waits for its reader (back-pressure), so that a session holds a few messages in memory.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from runyard.api.credentials import BEARER_SUBPROTOCOL
from runyard.api.routing import get_principal
from runyard.api.streams import SEND_SECONDS, StreamGuard
from runyard.api.throttle import get_throttle, throttle_key
from runyard.app.engine import LARGEST_MESSAGE_BYTES, ChannelId, EngineError
from runyard.app.sessions import ContainerSession
from runyard.domain.access import Permission

SUBPROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""The subprotocols that the server speaks, the preferred one first. They differ only in `ChannelId.CLOSE`."""
IDLE_SECONDS = 3600.0
"""Idle timeout: how long a session may pass no message in either direction."""
WATCH_SECONDS = 1.0
"""How often a session looks whether it must end."""
LARGEST_RESIZE_BYTES = 1024
"""How large a message with the size of the terminal may be."""
MOST_CELLS = 65535
"""How many columns and rows a terminal may have."""
MOST_REASON_BYTES = 123
"""How long the reason in a close frame may be, by RFC 6455."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a session ends: the close code of RFC 6455 (`GONE` is never sent), and words for people."""

    code: int
    why: str


NORMAL, UNSUPPORTED, GONE, INVALID, POLICY, FAILED, RESTARTING = 1000, 1003, 1006, 1007, 1008, 1011, 1012
_STOPS = {
    "draining": Ending(RESTARTING, "the server shuts down"),
    "access": Ending(POLICY, "your access to this session has ended"),
}


async def serve_session(
    socket: WebSocket,
    open_session: Callable[[], Awaitable[ContainerSession]],
    *,
    inputs: Iterable[ChannelId],
    has_status: bool = True,
) -> None:
    """Open a session, accept the WebSocket, and relay until either side ends.

    `inputs` are the channels that the client may write to; `has_status`: the container says at last how it ended. An
    error before the WebSocket is accepted is its response.
    """
    subprotocol = choose_subprotocol(socket)
    with get_throttle(socket).hold_stream(throttle_key(socket, get_principal(socket))):
        session = await open_session()
        ending = Ending(FAILED, "the server failed")
        try:
            await socket.accept(subprotocol=subprotocol)
            ending = await Relay(socket, session, inputs=inputs, has_status=has_status).run()
        except (WebSocketDisconnect, OSError):
            ending = Ending(GONE, "the client is gone")
        except asyncio.CancelledError:
            ending = _STOPS["draining"]
            raise
        finally:
            await session.close(ending.why)
        await _close(socket, ending)


def choose_subprotocol(socket: WebSocket) -> str | None:
    """The subprotocol to speak; None if the client asks for none. Raises an error if it asks only for unknown ones."""
    offered = [name for name in socket.scope.get("subprotocols", ()) if not name.startswith(BEARER_SUBPROTOCOL)]
    chosen = next((name for name in SUBPROTOCOLS if name in offered), None)
    if offered and chosen is None:
        raise HTTPException(400, f"the server speaks none of the subprotocols; offer {' or '.join(SUBPROTOCOLS)}")
    return chosen


class Relay:
    """One session."""

    def __init__(
        self, socket: WebSocket, session: ContainerSession, *, inputs: Iterable[ChannelId], has_status: bool
    ) -> None:
        self._socket = socket
        self._session = session
        self._inputs = frozenset({*inputs, ChannelId.CLOSE})
        self._has_status = has_status
        self._is_input_closed = False
        self._moved_at = time.monotonic()
        self._guard = StreamGuard(socket, project=socket.path_params["project"], permission=Permission.INTERACT)

    async def run(self) -> Ending:
        """Relay until the container, the client, or the server ends the session."""
        tasks = [asyncio.ensure_future(one) for one in (self._relay_output(), self._relay_input(), self._watch())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # In this order: what the container said at last counts, even if the client is gone by then.
            return next(task.result() for task in tasks if task.done())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _relay_output(self) -> Ending:
        has_status = False
        try:
            async for channel, content in self._session.receive():
                has_status = has_status or channel is ChannelId.ERROR
                if channel is ChannelId.ERROR and len(content) > LARGEST_MESSAGE_BYTES:
                    content = write_failure("the status of the session is too large")  # noqa: PLW2901 - replaced
                for start in range(0, len(content), LARGEST_MESSAGE_BYTES):
                    await self._send(channel, content[start : start + LARGEST_MESSAGE_BYTES])
            if self._has_status and not has_status:
                return Ending(FAILED, "the session ended without a status")
        except EngineError as error:
            return Ending(FAILED, str(error))
        except TimeoutError:
            return Ending(GONE, f"the client read nothing for {SEND_SECONDS:g} s")
        return Ending(NORMAL, "the container ended the session")

    async def _send(self, channel: ChannelId, content: bytes) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await self._socket.send_bytes(bytes([channel]) + content)
        self._moved_at = time.monotonic()

    async def _relay_input(self) -> Ending:
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            self._moved_at = time.monotonic()
            if (ending := await self._take(_read_message(message))) is not None:
                return ending
            # Also after the wait for the container.
            self._moved_at = time.monotonic()
        if message.get("code") == RESTARTING:
            return _STOPS["draining"]
        return Ending(GONE, "the client ended the session")

    async def _take(self, message: bytes) -> Ending | None:
        """Pass a message on to the container; returns how the session ends if it is not allowed."""
        if not message:
            return None
        number, content = message[0], message[1:]
        if number not in self._inputs:
            allowed = ", ".join(str(int(channel)) for channel in sorted(self._inputs))
            return Ending(UNSUPPORTED, f"channel {number} takes no input in this session; allowed: {allowed}")
        channel = ChannelId(number)
        if channel is ChannelId.RESIZE:
            if (size := read_size(content)) is None:
                return Ending(INVALID, 'the size of a terminal is {"Width": 1 to 65535, "Height": 1 to 65535}')
            content = size
        elif channel is ChannelId.CLOSE and (content != b"\0" or ChannelId.STDIN not in self._inputs):
            return Ending(UNSUPPORTED, "only channel 0 can be closed, if the session has it")
        elif self._is_input_closed:
            return None
        self._is_input_closed = self._is_input_closed or channel is ChannelId.CLOSE
        try:
            await self._session.send(channel, content)
        except EngineError as error:
            return Ending(FAILED, str(error))
        return None

    async def _watch(self) -> Ending:
        """Wait until the session must end: the client is gone, nothing moves, access is lost, the server drains."""
        lost: asyncio.Event = getattr(self._socket.state, "lost", None) or asyncio.Event()
        while True:
            try:
                async with asyncio.timeout(WATCH_SECONDS):
                    await lost.wait()
            except TimeoutError:
                pass
            else:
                return Ending(GONE, "the client is gone")
            if time.monotonic() - self._moved_at >= IDLE_SECONDS:
                return Ending(POLICY, f"the session was idle for {IDLE_SECONDS:g} s")
            if (stop := await self._guard.stop_reason()) is not None:
                return _STOPS[stop]


def read_size(content: bytes) -> bytes | None:
    """The size of a terminal, written anew; None if it is not one."""
    if len(content) > LARGEST_RESIZE_BYTES:
        return None
    try:
        size = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(size, dict):
        return None
    width, height = size.get("Width"), size.get("Height")
    if not all(type(cells) is int and 1 <= cells <= MOST_CELLS for cells in (width, height)):
        return None
    return json.dumps({"Width": width, "Height": height}).encode()


def write_failure(message: str) -> bytes:
    """A status that says that the session failed, as Kubernetes writes it."""
    return json.dumps({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": message}).encode()


def _read_message(message: Any) -> bytes:
    """The content of a message. Text is taken as its UTF-8: some clients of Kubernetes send it."""
    content: bytes | None = message.get("bytes")
    return (message.get("text") or "").encode() if content is None else content


async def _close(socket: WebSocket, ending: Ending) -> None:
    if WebSocketState.DISCONNECTED in (socket.client_state, socket.application_state) or ending.code == GONE:
        return
    reason = ending.why.encode()[:MOST_REASON_BYTES].decode(errors="ignore")
    try:
        async with asyncio.timeout(SEND_SECONDS):
            if ending.code == FAILED:
                await socket.send_bytes(bytes([ChannelId.ERROR]) + write_failure(ending.why))
            await socket.close(ending.code, reason)
    except (OSError, RuntimeError, TimeoutError, WebSocketDisconnect):
        # The client disconnected meanwhile, or does not read.
        return
