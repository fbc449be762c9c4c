"""The bytes of files as they come and go; a transfer ends when the caller loses access."""

from collections.abc import AsyncIterator

from starlette.exceptions import HTTPException
from starlette.requests import Request

from runyard.api.request_bodies import iter_chunks
from runyard.api.streams import StreamGuard
from runyard.app.errors import Forbidden
from runyard.domain.access import Permission


async def iter_upload(request: Request, *, project: str, size: int) -> AsyncIterator[bytes]:
    """The body. Raises 400 if it has another size, and `Forbidden` if the access is lost meanwhile."""
    guard = StreamGuard(request, project=project, permission=Permission.PRODUCE)
    received = 0
    async for chunk in iter_chunks(request):
        received += len(chunk)
        yield chunk
        await check_transfer(guard)
    if received != size:
        raise HTTPException(400, f"the body has {received} bytes, and `Content-Length` states {size}")


async def check_transfer(guard: StreamGuard) -> None:
    """Raises `Forbidden` if the access is lost."""
    if await guard.stop_reason() == "access":
        raise Forbidden("access was lost during the transfer")
