"""Streaming responses: limited per principal, ended when the client disconnects, stalls or loses access."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from runyard.api.context import get_address, get_context
from runyard.api.credentials import read_authorization
from runyard.api.throttle import get_throttle, throttle_key
from runyard.app.errors import Forbidden, Missing, TooMany, Unauthenticated
from runyard.app.identity import authorize
from runyard.app.model import Principal
from runyard.app.ports import Unavailable
from runyard.domain.access import Permission

RECHECK_SECONDS = 15.0
"""How often access is checked again while a stream is open."""
SEND_SECONDS = 60.0
"""Send timeout: how long a client may take to accept the next chunk (back-pressure)."""


class LimitedStreamingResponse(Response):
    """A streaming response that counts against the open streams of its principal; raises `TooMany` before it starts."""

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        *,
        request: Request,
        who: Principal,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        status: int = 200,
        length: int | None = None,
    ) -> None:
        super().__init__(status_code=status, media_type=media_type, headers=headers)
        if length is None:
            del self.headers["content-length"]
        else:
            self.headers["content-length"] = str(length)
        # A proxy that buffers chunks would make the stream look dead.
        self.headers["X-Accel-Buffering"] = "no"
        self._chunks = chunks
        self._throttle = get_throttle(request)
        self._key = throttle_key(request, who)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the chunks end or the client disconnects; for HEAD, only the headers."""
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        with self._throttle.hold_stream(self._key):
            tasks = [asyncio.ensure_future(self._send(send)), asyncio.ensure_future(_wait_until_gone(receive))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if tasks[0].done():
                    tasks[0].result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for chunk in self._chunks:
                async with asyncio.timeout(SEND_SECONDS):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (OSError, TimeoutError):
            # The client disconnected or does not read: nobody is left to report to.
            return


class StreamGuard:
    """Decides whether an open stream must end. Cheap to ask: it checks access only every `RECHECK_SECONDS`."""

    def __init__(self, connection: HTTPConnection, *, project: str, permission: Permission = Permission.READ) -> None:
        self._connection = connection
        self._permission = permission
        self._project = project
        self._checked_at = time.monotonic()

    @property
    def seconds_left(self) -> float:
        """When to ask again at the latest."""
        return max(0.001, self._checked_at + RECHECK_SECONDS - time.monotonic())

    async def stop_reason(self) -> str | None:
        """Why the stream must end: `draining` (shutdown), `access` (lost), or None."""
        if getattr(self._connection.app.state, "is_draining", False):
            return "draining"
        if time.monotonic() - self._checked_at < RECHECK_SECONDS:
            return None
        self._checked_at = time.monotonic()
        return None if await self._may_see() else "access"

    async def _may_see(self) -> bool:
        context = get_context(self._connection)
        try:
            header = read_authorization(self._connection)
            who = await context.authenticator.authenticate(header, address=get_address(self._connection))
            async with context.core.store.begin(is_read_only=True) as unit:
                await authorize(unit, who, self._permission, project=self._project)
        except (Unauthenticated, Forbidden, Missing):
            return False
        except (TooMany, Unavailable):
            # Unknown at the moment: checked again later.
            return True
        return True


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
