"""A listening socket that can refuse for a while without losing its port."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

from testbed.faults.guarded_wait import unless

BACKLOG = 512


class Listener:
    """Accepts connections on a port of its own until it is closed; to be made inside a running loop."""

    def __init__(self, host: str, *, accepted: Callable[[socket.socket], None]) -> None:
        self._host, self._accepted = host, accepted
        self._loop = asyncio.get_running_loop()
        self._is_pausing, self._is_closed = asyncio.Event(), asyncio.Event()
        self._paused_until = 0.0

    async def __aenter__(self) -> Self:
        with ExitStack() as stack:
            # Bound but not listening, it keeps the port ours, and refusing, while the other one is closed.
            holder = stack.enter_context(_bind(self._host, 0))
            self.port: int = holder.getsockname()[1]
            first = stack.enter_context(_bind(self._host, self.port))
            first.listen(BACKLOG)
            self._serving = asyncio.create_task(self._serve(first))
            self._sockets = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._serving.cancel()
        await asyncio.wait({self._serving})
        self._sockets.close()
        if not self._serving.cancelled():
            self._serving.result()  # it can only have failed

    async def pause(self, seconds: float) -> None:
        """Refuse connections for so long, waiting ones included; returns when the first would be refused."""
        self._paused_until = max(self._paused_until, self._loop.time() + seconds)
        if not self._is_closed.is_set():
            self._is_pausing.set()
        await self._is_closed.wait()

    async def _serve(self, listening: socket.socket) -> None:
        while True:
            with listening:
                await unless(self._accept(listening), self._is_pausing.wait())
            self._is_pausing.clear()
            self._is_closed.set()
            while (rest := self._paused_until - self._loop.time()) > 0:  # noqa: ASYNC110 - it may be prolonged
                await asyncio.sleep(rest)
            self._is_closed.clear()
            listening = _bind(self._host, self.port)
            listening.listen(BACKLOG)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            connection, _ = await self._loop.sock_accept(listening)
            self._accepted(connection)


def _bind(host: str, port: int) -> socket.socket:
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.setblocking(False)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
