"""The thinnest client of the apiserver: what Runyard is compared with, and how the bench looks at the cluster."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

WAIT_SECONDS = 60.0
POLL_SECONDS = 0.05
READ_BUFFER_BYTES = 1 << 20


class _Metadata(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion")


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    object: _Object


_EVENTS = msgspec.json.Decoder(_Event)


class RawApi:
    """JSON over kept connections, no retries, no limits. An async context manager."""

    def __init__(self, server: str, *, token: str, context: ssl.SSLContext, agent: str) -> None:
        self._server = server
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": agent, "Accept-Encoding": "identity"}
        self._context = context
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._context),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=READ_BUFFER_BYTES,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(
        self, method: str, path: str, body: bytes | None = None, *, content_type: str = "application/json"
    ) -> bytes:
        """One request; raises `RuntimeError` with the answer if it is refused."""
        session = self._get_session()
        headers = {"Content-Type": content_type}
        async with session.request(method, self._server + path, data=body, headers=headers) as answer:
            content = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {content[:500].decode(errors='replace')}")
            return content

    async def get(self, path: str) -> Any:
        """The object or list there."""
        return json.loads(await self.send("GET", path))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Create an object."""
        return json.loads(await self.send("POST", path, json.dumps(body).encode()))

    async def merge(self, path: str, patch: Mapping[str, Any]) -> None:
        """Send a merge patch."""
        await self.send("PATCH", path, json.dumps(patch).encode(), content_type="application/merge-patch+json")

    async def wait_found(self, path: str) -> None:
        """Wait until there is something."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                try:
                    await self.send("GET", path)
                except RuntimeError:
                    await asyncio.sleep(POLL_SECONDS)
                else:
                    return

    async def watch(self, path: str, *, on_open: Callable[[], None]) -> AsyncIterator[bytes]:
        """Watch events, one JSON document each, of what changes after `on_open` was called.

        The apiserver ends a watch whose client is slow; then it is resumed.
        """
        version = (await self.get(f"{path}?limit=1"))["metadata"]["resourceVersion"]
        while True:
            async with self._get_session().get(f"{self._server}{path}?watch=true&resourceVersion={version}") as answer:
                answer.raise_for_status()
                on_open()
                pending = b""
                while chunk := await answer.content.readany():
                    *lines, pending = (pending + chunk).split(b"\n")
                    for line in lines:
                        version = _EVENTS.decode(line).object.metadata.version
                        yield line

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """The bytes of an answer as they come, such as a followed log."""
        async with self._get_session().get(self._server + path) as answer:
            answer.raise_for_status()
            async for chunk in answer.content.iter_any():
                yield chunk

    def _get_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("not open")
        return self._session
