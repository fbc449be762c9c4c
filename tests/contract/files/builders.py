"""What the tests of file storages write and read."""

import hashlib
from collections.abc import AsyncIterator

from runyard.app.blob_store import BlobStore

BLOB = "0123456789abcdef"
PART = 5 << 20
"""The size of parts in these tests."""
LARGE = bytes(range(256)) * ((2 * PART + 300_000) // 256)
"""Two parts and a bit."""


async def iterate(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def iterate_in(content: bytes, size: int = 1 << 20) -> AsyncIterator[bytes]:
    """The content in chunks of that size."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def read(blobs: BlobStore, *, start: int = 0, size: int) -> bytes:
    return b"".join([chunk async for chunk in blobs.read(BLOB, start=start, size=size)])


async def fail_after(content: bytes) -> AsyncIterator[bytes]:
    """The content, then an error, as of a client that went away."""
    async for chunk in iterate_in(content):
        yield chunk
    raise ZeroDivisionError


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
