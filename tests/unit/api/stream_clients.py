"""Reads streaming responses while they are open; httpx2's ASGI transport waits for their end."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

SECONDS = 60.0


class OpenStream:
    """One request to an ASGI application, and what has come of its answer."""

    def __init__(self, *, is_reading: bool) -> None:
        self._is_reading = is_reading
        self.status = 0
        self.headers: dict[str, str] = {}
        self.content = b""
        self.chunks: list[bytes] = []
        self._changed = asyncio.Event()
        self._gone = asyncio.Event()
        self._is_asked = False
        self.task: asyncio.Task[None] | None = None

    async def receive(self) -> dict[str, Any]:
        if not self._is_asked:
            self._is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if not self._is_reading and message["type"] == "http.response.body":
            await asyncio.Event().wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message.get("body"):
            self.chunks.append(message["body"])
            self.content += message["body"]
        self._changed.set()

    async def wait_for(self, text: bytes) -> None:
        """Until that text has come."""
        async with asyncio.timeout(SECONDS):
            while text not in self.content:
                self._changed.clear()
                await self._changed.wait()

    async def wait_for_end(self) -> str:
        """The whole answer, once it has ended by itself."""
        assert self.task is not None
        async with asyncio.timeout(SECONDS):
            await self.task
        return self.content.decode()

    async def leave(self) -> None:
        """As a client that goes away."""
        self._gone.set()
        await self.wait_for_end()


@asynccontextmanager
async def open_stream(
    app: Any,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    is_reading: bool = True,
    method: str = "GET",
) -> AsyncIterator[OpenStream]:
    """Ask, and read on while the block lasts; or take nothing of the body."""
    path, _, query = path.partition("?")
    given = {"host": "localhost:8080", **(headers or {})}
    stream = OpenStream(is_reading=is_reading)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 5555),
        "server": ("localhost", 8080),
    }
    stream.task = asyncio.ensure_future(app(scope, stream.receive, stream.send))
    try:
        yield stream
    finally:
        stream.task.cancel()
        await asyncio.gather(stream.task, return_exceptions=True)
