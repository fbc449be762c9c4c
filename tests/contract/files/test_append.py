"""Unfinished blobs: they grow over several calls, processes and failures, and are whole when they are finished."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from runyard.app.blob_store import BlobMissing, BlobStore
from tests.contract.files.builders import BLOB, LARGE, PART, fail_after, iterate, iterate_in, read, sha256
from tests.contract.files.conftest import OpenBlobs

SIZE = len(LARGE)


async def test_blob_is_whole_when_it_was_appended_in_pieces_of_any_size(blobs: BlobStore) -> None:
    assert await blobs.measure_unfinished(BLOB) == 0
    offset = 0
    for end in (0, 10, 100_000, PART - 1, PART + 1, 2 * PART, SIZE):
        assert await blobs.append(BLOB, iterate_in(LARGE[offset:end]), offset=offset, size=SIZE) == end
        assert await blobs.measure_unfinished(BLOB) == end
        with pytest.raises(BlobMissing):
            await blobs.measure(BLOB)
        offset = end
    assert await blobs.finish(BLOB, size=SIZE) == sha256(LARGE)
    assert await read(blobs, size=SIZE) == LARGE
    # Idempotent: the response may have been lost.
    assert await blobs.finish(BLOB, size=SIZE) == sha256(LARGE)
    assert await blobs.measure_unfinished(BLOB) == SIZE


async def test_another_process_goes_on_when_the_first_is_gone(open_store: OpenBlobs) -> None:
    first, second, third = open_store(), open_store(), open_store()
    end = PART + 70_000
    assert await first.append(BLOB, iterate_in(LARGE[:end]), offset=0, size=SIZE) == end
    assert await second.append(BLOB, iterate_in(LARGE[end:]), offset=end, size=SIZE) == SIZE
    assert await third.finish(BLOB, size=SIZE) == sha256(LARGE)
    # The first would have another digest in mind.
    assert await first.finish(BLOB, size=SIZE) == sha256(LARGE)
    assert await read(first, size=SIZE) == LARGE


async def test_what_came_is_kept_when_the_chunks_fail(blobs: BlobStore) -> None:
    sent = PART + 123_456
    with pytest.raises(ZeroDivisionError):
        await blobs.append(BLOB, fail_after(LARGE[:sent]), offset=0, size=SIZE)
    assert await blobs.measure_unfinished(BLOB) == sent
    assert await blobs.append(BLOB, iterate_in(LARGE[sent:]), offset=sent, size=SIZE) == SIZE
    assert await blobs.finish(BLOB, size=SIZE) == sha256(LARGE)


async def test_what_came_is_kept_when_the_writer_is_cancelled(blobs: BlobStore) -> None:
    has_begun = asyncio.Event()

    async def wait() -> AsyncIterator[bytes]:
        yield LARGE[: PART + 1]
        has_begun.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(blobs.append(BLOB, wait(), offset=0, size=SIZE))
    await has_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await blobs.measure_unfinished(BLOB) == PART + 1
    await blobs.append(BLOB, iterate_in(LARGE[PART + 1 :]), offset=PART + 1, size=SIZE)
    assert await blobs.finish(BLOB, size=SIZE) == sha256(LARGE)


async def test_nothing_is_added_when_the_offset_is_wrong(blobs: BlobStore) -> None:
    await blobs.append(BLOB, iterate(b"hello"), offset=0, size=10)
    for offset in (0, 4, 6):
        with pytest.raises(BlobMissing):
            await blobs.append(BLOB, iterate(b"x"), offset=offset, size=10)
    assert await blobs.measure_unfinished(BLOB) == 5


async def test_more_than_the_size_is_refused_when_it_comes(blobs: BlobStore) -> None:
    with pytest.raises(ValueError, match="more than 10 bytes"):
        await blobs.append(BLOB, iterate(b"hello", b"hello!"), offset=0, size=10)
    assert await blobs.measure_unfinished(BLOB) <= 10


@pytest.mark.parametrize("stored", [b"", b"hell"])
async def test_blob_is_not_finished_when_bytes_are_missing(blobs: BlobStore, stored: bytes) -> None:
    await blobs.append(BLOB, iterate(stored), offset=0, size=5)
    with pytest.raises(ValueError, match=f"{len(stored)} bytes instead of 5"):
        await blobs.finish(BLOB, size=5)
    with pytest.raises(BlobMissing):
        await blobs.measure(BLOB)


async def test_empty_blob_is_one_when_it_is_finished(blobs: BlobStore) -> None:
    assert await blobs.finish(BLOB, size=0) == sha256(b"")
    assert (await blobs.measure(BLOB), await read(blobs, size=0)) == (0, b"")


@pytest.mark.parametrize("stored", [100, PART + 100])
async def test_nothing_is_left_when_an_unfinished_blob_is_deleted(blobs: BlobStore, stored: int) -> None:
    await blobs.append(BLOB, iterate_in(LARGE[:stored]), offset=0, size=SIZE)
    await blobs.delete(BLOB)
    assert await blobs.measure_unfinished(BLOB) == 0
    assert await blobs.append(BLOB, iterate(b"hello"), offset=0, size=5) == 5
    assert await blobs.finish(BLOB, size=5) == sha256(b"hello")
