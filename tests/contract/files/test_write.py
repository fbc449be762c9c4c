"""Blobs that are written at once: whole or not there."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from runyard.app.blob_store import BlobMissing, BlobStore
from tests.contract.files.builders import BLOB, LARGE, PART, fail_after, iterate, iterate_in, read, sha256


async def is_gone(blobs: BlobStore) -> bool:
    """Whether nothing is left, neither of a blob nor of an unfinished one."""
    with pytest.raises(BlobMissing):
        await blobs.measure(BLOB)
    return await blobs.measure_unfinished(BLOB) == 0


@pytest.mark.parametrize("size", [0, 1, 300_000, len(LARGE)])
async def test_blob_is_read_as_it_was_written_in_any_part(blobs: BlobStore, size: int) -> None:
    content = LARGE[:size]
    await blobs.check()
    assert await blobs.write(BLOB, iterate_in(content), size=size) == sha256(content)
    assert await blobs.measure(BLOB) == size
    assert await read(blobs, size=size) == content
    start = max(0, size - 200_001)
    assert await read(blobs, start=start, size=size - start) == content[start:]
    assert await read(blobs, start=size // 2, size=min(7, size)) == content[size // 2 : size // 2 + min(7, size)]


async def test_parts_are_whole_when_their_size_divides_the_blob(blobs: BlobStore) -> None:
    content = LARGE[: 2 * PART]
    assert await blobs.write(BLOB, iterate(content), size=len(content)) == sha256(content)
    assert await read(blobs, size=len(content)) == content


@pytest.mark.parametrize("written", [1000, PART + 1000])
async def test_nothing_is_left_when_the_chunks_fail(blobs: BlobStore, written: int) -> None:
    with pytest.raises(ZeroDivisionError):
        await blobs.write(BLOB, fail_after(LARGE[:written]), size=len(LARGE))
    assert await is_gone(blobs)


async def test_nothing_is_left_when_the_writer_is_cancelled(blobs: BlobStore) -> None:
    has_begun = asyncio.Event()

    async def wait() -> AsyncIterator[bytes]:
        yield LARGE[: PART + 1]
        has_begun.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(blobs.write(BLOB, wait(), size=len(LARGE)))
    await has_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await is_gone(blobs)


@pytest.mark.parametrize("size", [4, 6, 0])
async def test_nothing_is_left_when_the_size_differs(blobs: BlobStore, size: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        await blobs.write(BLOB, iterate(b"hello"), size=size)
    assert await is_gone(blobs)


async def test_missing_is_said_when_a_blob_is_shorter_or_deleted(blobs: BlobStore) -> None:
    await blobs.write(BLOB, iterate(b"hello"), size=5)
    with pytest.raises(BlobMissing):
        await read(blobs, size=6)
    with pytest.raises(BlobMissing):
        await read(blobs, start=5, size=1)
    await blobs.delete(BLOB)
    await blobs.delete(BLOB)
    with pytest.raises(BlobMissing):
        await read(blobs, size=5)
    assert await is_gone(blobs)


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "a/b", "ABCDEFGH", "x" * 65, "abcdefg\n", "abcdefgh\0"])
async def test_name_is_refused_when_it_is_not_one_of_ours(blobs: BlobStore, name: str) -> None:
    for work in (blobs.delete(name), blobs.measure(name), blobs.finish(name, size=0)):
        with pytest.raises(ValueError, match="not the name of a blob"):
            await work
