"""Blobs in a directory: whole or not there, never through a link, and never more than the disk has."""

import asyncio
import errno
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runyard.app.blob_store import BlobMissing, BlobsUnavailable, StorageFull
from runyard.files import FolderBlobs
from runyard.files.folder import READ_BYTES, WRITTEN_BYTES

BLOB = "0123456789abcdef"


@pytest.fixture
async def blobs(tmp_path: Path) -> AsyncIterator[FolderBlobs]:
    opened = FolderBlobs(tmp_path / "files")
    yield opened
    await opened.close()


async def iterate(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def read(blobs: FolderBlobs, *, start: int = 0, size: int) -> bytes:
    return b"".join([chunk async for chunk in blobs.read(BLOB, start=start, size=size)])


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if not path.is_dir())


async def test_blob_is_read_as_it_was_written_in_any_part(blobs: FolderBlobs, tmp_path: Path) -> None:
    content = os.urandom(2 * max(READ_BYTES, WRITTEN_BYTES) + 17)
    pieces = [content[start : start + 50_000] for start in range(0, len(content), 50_000)]
    assert await blobs.write(BLOB, iterate(*pieces), size=len(content)) == hashlib.sha256(content).hexdigest()
    assert await blobs.measure(BLOB) == len(content)
    assert await read(blobs, size=len(content)) == content
    assert await read(blobs, start=READ_BYTES - 3, size=7) == content[READ_BYTES - 3 : READ_BYTES + 4]
    [path] = [path for path in (tmp_path / "files").rglob("*") if path.is_file()]
    assert (path.name, path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (BLOB, 0o600, 0o700)


async def test_empty_blob_is_one_when_it_is_written(blobs: FolderBlobs) -> None:
    assert await blobs.write(BLOB, iterate(), size=0) == hashlib.sha256().hexdigest()
    assert (await blobs.measure(BLOB), await read(blobs, size=0)) == (0, b"")


async def test_nothing_is_left_when_the_chunks_fail(blobs: FolderBlobs, tmp_path: Path) -> None:
    async def fail() -> AsyncIterator[bytes]:
        yield b"x" * (WRITTEN_BYTES + 1)
        assert list_names(tmp_path) == [f"{BLOB}.part"]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await blobs.write(BLOB, fail(), size=1 << 20)
    assert list_names(tmp_path) == []
    with pytest.raises(BlobMissing):
        await blobs.measure(BLOB)


async def test_nothing_is_left_when_the_writer_is_cancelled(blobs: FolderBlobs, tmp_path: Path) -> None:
    has_begun = asyncio.Event()

    async def wait() -> AsyncIterator[bytes]:
        yield b"x" * (WRITTEN_BYTES + 1)
        has_begun.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(blobs.write(BLOB, wait(), size=1 << 20))
    await has_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list_names(tmp_path) == []


@pytest.mark.parametrize("size", [4, 6, 0])
async def test_nothing_is_left_when_the_size_differs(blobs: FolderBlobs, tmp_path: Path, size: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        await blobs.write(BLOB, iterate(b"hello"), size=size)
    assert list_names(tmp_path) == []


async def test_write_is_refused_before_the_first_byte_when_the_disk_has_no_room(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    blobs = FolderBlobs(tmp_path / "files", least_free_bytes=disk.f_bavail * disk.f_frsize * 2)

    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""  # type: ignore[unreachable] # makes it a generator

    with pytest.raises(StorageFull, match="no room for 5 bytes"):
        await blobs.write(BLOB, never(), size=5)
    assert list_names(tmp_path) == []
    await blobs.close()


async def test_nothing_is_left_when_the_disk_becomes_full(
    blobs: FolderBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("runyard.files.folder.os.fsync", fail)
    with pytest.raises(StorageFull, match="full"):
        await blobs.write(BLOB, iterate(b"hello"), size=5)
    assert list_names(tmp_path) == []


async def test_links_are_not_followed_when_they_are_in_the_place_of_a_blob(blobs: FolderBlobs, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"secret")
    place = tmp_path / "files" / BLOB[:2]
    place.mkdir(parents=True)
    (place / BLOB).symlink_to(target)
    (place / f"{BLOB}.part").symlink_to(target)
    with pytest.raises(BlobsUnavailable):
        await blobs.measure(BLOB)
    with pytest.raises(BlobsUnavailable):
        await read(blobs, size=6)
    with pytest.raises(BlobsUnavailable):
        await blobs.write(BLOB, iterate(b"hello"), size=5)
    await blobs.delete(BLOB)
    assert (target.read_bytes(), list_names(tmp_path)) == (b"secret", ["target"])


async def test_missing_is_said_when_a_blob_is_shorter_than_expected(blobs: FolderBlobs) -> None:
    await blobs.write(BLOB, iterate(b"hello"), size=5)
    with pytest.raises(BlobMissing, match="ends after 5 bytes"):
        await read(blobs, size=6)


async def test_blob_is_read_to_its_end_when_it_is_deleted_meanwhile(blobs: FolderBlobs) -> None:
    content = os.urandom(3 * READ_BYTES)
    await blobs.write(BLOB, iterate(content), size=len(content))
    got = b""
    async for chunk in blobs.read(BLOB, size=len(content)):
        got += chunk
        await blobs.delete(BLOB)
    assert got == content
    await blobs.delete(BLOB)


async def test_what_a_crash_left_is_gone_when_the_blob_is_deleted(blobs: FolderBlobs, tmp_path: Path) -> None:
    place = tmp_path / "files" / BLOB[:2]
    place.mkdir(parents=True)
    (place / f"{BLOB}.part").write_bytes(b"half")
    await blobs.delete(BLOB)
    assert list_names(tmp_path) == []


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "a/b", "ABCDEFGH", "x" * 65, "abcdefg\n", "abcdefgh\0"])
async def test_name_is_refused_when_it_is_not_one_of_ours(blobs: FolderBlobs, name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a blob"):
        await blobs.delete(name)


async def test_storage_is_unavailable_when_its_folder_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "files").write_bytes(b"")
    blobs = FolderBlobs(tmp_path / "files")
    with pytest.raises(BlobsUnavailable, match="cannot be used"):
        await blobs.check()
    with pytest.raises(BlobsUnavailable):
        await blobs.write(BLOB, iterate(b"x"), size=1)
    await blobs.close()
    with pytest.raises(BlobsUnavailable, match="closed"):
        await blobs.check()


async def test_descriptors_are_closed_when_readers_and_writers_end(blobs: FolderBlobs) -> None:
    await blobs.write(BLOB, iterate(b"x" * 2 * READ_BYTES), size=2 * READ_BYTES)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names of descriptors
    for _ in range(20):
        reader = blobs.read(BLOB, size=2 * READ_BYTES)
        await anext(reader)
        await reader.aclose()  # type: ignore[attr-defined] # a generator
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - names of descriptors
