"""Reads lists page by page."""

from typing import Any

from runyard.sdk.aio.transport import AsyncTransport
from runyard.sdk.calls import Json, get

PAGE_SIZE = 100


async def read_pages(transport: AsyncTransport, *path: str, limit: int, **filters: Any) -> list[Json]:
    """The first `limit` entries of a list."""
    found: list[Json] = []
    number = 0
    while len(found) < limit:
        size = min(PAGE_SIZE, limit)
        page = await transport.fetch(get(*path, page=number, size=size, **filters))
        content = page.get("content") or []
        found += content
        number += 1
        if not content or number >= int(page.get("totalPages") or 0):
            break
    return found[:limit]
