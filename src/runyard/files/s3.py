"""Blobs in S3-compatible storage: `prefix/ab/abcdef…`, an object for each. Several servers may share the bucket.

A blob is one PUT, or an upload in parts, which S3 shows when it is complete. An unfinished one is an upload in parts;
its last bytes, too few for a part, are an object `….tail` that says after how many bytes it goes on.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from runyard.app.blob_store import BlobMissing, BlobsUnavailable, StorageFull
from runyard.files.running_digests import Digest, RunningDigests
from runyard.s3.aws_signature import Signer
from runyard.s3.bucket import Bucket
from runyard.s3.errors import ObjectMissing, S3Error
from runyard.s3.multipart import (
    Part,
    abort_upload,
    abort_uploads,
    begin_upload,
    choose_part_bytes,
    complete_upload,
    list_parts,
    list_uploads,
    put_part,
)

MOST_WRITERS = 32
"""Uploads at a time: each has up to two parts in memory. The others wait in the sockets."""
WAIT_SECONDS = 20.0
"""How long an upload waits for its turn."""
_NAME = re.compile(r"[0-9a-z]{8,64}", re.ASCII)


class WriterTurns:
    """Bounds how many uploads are written at a time."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST_WRITERS)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn; raises `BlobsUnavailable` if that takes too long."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise BlobsUnavailable(f"{MOST_WRITERS} uploads are in progress") from None
        try:
            yield
        finally:
            self._free.release()


async def write_object(
    bucket: Bucket,
    key: str,
    chunks: AsyncIterator[bytes],
    *,
    size: int,
    content_type: str = "",
    check: Callable[[str], None] | None = None,
) -> str:
    """Store an object of that size; returns its SHA-256. It is visible when `check` has accepted the digest."""
    growing = _Growing(bucket, key, _Unfinished(), tail=b"", size=size, content_type=content_type)
    digest = hashlib.sha256()
    try:
        async for chunk in chunks:
            await growing.add(chunk)
            await _update(digest, chunk)
        growing.check_whole()
        if check is not None:
            check(digest.hexdigest())
        await growing.finish()
    except BaseException:
        await try_to_end(growing.abort())
        raise
    return digest.hexdigest()


def open_s3_blobs(place: str, *, endpoint: str | None, region: str, access_key: str, secret_key: str) -> "S3Blobs":
    """The store for `bucket/prefix`. Sends nothing yet."""
    name, _, prefix = place.partition("/")
    signer = Signer(access_key=access_key, secret_key=secret_key, region=region)
    return S3Blobs(Bucket(name, endpoint=endpoint, signer=signer, make_error=make_error), prefix=prefix.strip("/"))


class S3Blobs:
    """`app.blob_store.BlobStore` in a bucket. Made by `open_s3_blobs`; belongs to one event loop."""

    def __init__(self, bucket: Bucket, *, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._digests = RunningDigests()
        self._turns = WriterTurns()

    async def check(self) -> None:
        """See `BlobStore`."""
        await self._bucket.list_objects(self._prefix, most=1)

    async def write(self, blob: str, chunks: AsyncIterator[bytes], *, size: int) -> str:
        """See `BlobStore`."""
        key = self._locate(blob)
        async with self._turns.take():
            try:
                return await write_object(self._bucket, key, chunks, size=size)
            except BaseException:
                # Also what this task left when it was cancelled. What fails here is left to whoever deletes the blob.
                await try_to_end(self._abort(key))
                raise

    async def append(self, blob: str, chunks: AsyncIterator[bytes], *, offset: int, size: int) -> int:
        """See `BlobStore`."""
        key = self._locate(blob)
        async with self._turns.take():
            found = await self._look(key)
            if found.stored != offset:
                raise BlobMissing(f"unfinished blob {blob} has {found.stored} bytes, not {offset}")
            digest = self._digests.resume(blob, offset=offset)
            growing = _Growing(self._bucket, key, found, tail=await self._read_tail(key, found), size=size)
            try:
                async for chunk in chunks:
                    await growing.add(chunk)
                    await _update(digest, chunk)
            except BaseException:
                await try_to_end(growing.put_tail())
                raise
            await growing.put_tail()
            self._digests.keep(blob, offset=growing.stored, digest=digest)
            return growing.stored

    async def measure_unfinished(self, blob: str) -> int:
        """See `BlobStore`."""
        key = self._locate(blob)
        whole = await self._bucket.find_info(key)
        return (await self._look(key)).stored if whole is None else whole.size

    async def finish(self, blob: str, *, size: int) -> str:
        """See `BlobStore`."""
        key, known = self._locate(blob), self._digests.find(blob, size=size)
        whole = await self._bucket.find_info(key)
        if whole is None:
            await self._finish(key, size=size)
        elif whole.size != size:
            raise ValueError(f"{whole.size} bytes instead of {size}")
        return known or await self._hash(blob, size=size)

    async def measure(self, blob: str) -> int:
        """See `BlobStore`."""
        found = await self._bucket.find_info(self._locate(blob))
        if found is None:
            raise BlobMissing(f"no blob {blob}")
        return found.size

    async def read(self, blob: str, *, start: int = 0, size: int) -> AsyncIterator[bytes]:
        """See `BlobStore`."""
        try:
            async for chunk in self._bucket.iter_bytes(self._locate(blob), start=start, size=size):
                yield chunk
        except ObjectMissing as error:
            raise BlobMissing(f"blob {blob} is missing, or has fewer than {start + size} bytes") from error

    async def delete(self, blob: str) -> None:
        """See `BlobStore`."""
        key = self._locate(blob)
        self._digests.discard(blob)
        await abort_uploads(self._bucket, key)
        await self._bucket.delete((key, _name_tail(key)))

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._bucket.close()

    def _locate(self, blob: str) -> str:
        if not _NAME.fullmatch(blob):
            raise ValueError("not the name of a blob")
        return f"{self._prefix}{blob[:2]}/{blob}"

    async def _abort(self, key: str) -> None:
        await abort_uploads(self._bucket, key)
        await self._bucket.delete((key,))

    async def _look(self, key: str) -> "_Unfinished":
        """What is stored of an unfinished blob. After a lost response there may be a second, empty upload."""
        found = _Unfinished()
        for upload in await list_uploads(self._bucket, key):
            parts = _cut_gap(await list_parts(self._bucket, key, upload))
            if not found.upload or len(parts) > len(found.parts):
                found = _Unfinished(upload=upload, parts=parts)
        tail = await self._bucket.find_info(_name_tail(key))
        # An older tail went into a part, and was not deleted.
        is_next = tail is not None and tail.note == _make_note(found.stored)
        return replace(found, tail_bytes=tail.size) if tail is not None and is_next else found

    async def _read_tail(self, key: str, found: "_Unfinished") -> bytes:
        tail = await self._bucket.find(_name_tail(key)) if found.tail_bytes else b""
        if tail is None or len(tail) != found.tail_bytes:
            raise BlobsUnavailable("an unfinished blob was changed by another writer")
        return tail

    async def _finish(self, key: str, *, size: int) -> None:
        found = await self._look(key)
        if found.stored != size:
            raise ValueError(f"{found.stored} bytes instead of {size}")
        tail = await self._read_tail(key, found)
        await _Growing(self._bucket, key, found, tail=tail, size=size).finish()
        await self._bucket.delete((_name_tail(key),))

    async def _hash(self, blob: str, *, size: int) -> str:
        digest = hashlib.sha256()
        async for chunk in self.read(blob, size=size):
            await asyncio.to_thread(digest.update, chunk)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unfinished:
    """What S3 has of an unfinished blob."""

    upload: str = ""
    parts: tuple[Part, ...] = ()
    tail_bytes: int = 0

    @property
    def stored(self) -> int:
        return sum(part.size for part in self.parts) + self.tail_bytes


class _Growing:
    """Adds to an unfinished blob: has less than a part in memory."""

    def __init__(
        self, bucket: Bucket, key: str, found: _Unfinished, *, tail: bytes, size: int, content_type: str = ""
    ) -> None:
        self._bucket, self._key, self._content_type = bucket, key, content_type
        self._upload, self._parts = found.upload, list(found.parts)
        self._pending = bytearray(tail)
        self._tail_bytes = len(tail)
        self._size = size
        self._part_bytes = choose_part_bytes(size)
        self._in_parts = sum(part.size for part in found.parts)

    @property
    def received(self) -> int:
        """Bytes in parts and in memory."""
        return self._in_parts + len(self._pending)

    @property
    def stored(self) -> int:
        """Bytes in parts and in the tail."""
        return self._in_parts + self._tail_bytes

    async def add(self, chunk: bytes) -> None:
        """Take a chunk, and store a part when it is full. The last part of a blob waits for `finish`."""
        if self.received + len(chunk) > self._size:
            raise ValueError(f"more than {self._size} bytes")
        self._pending += chunk
        while len(self._pending) >= self._part_bytes and self._size > self._part_bytes:
            await self._put_part(bytes(self._pending[: self._part_bytes]))

    def check_whole(self) -> None:
        """Raises `ValueError` if bytes are missing."""
        if self.received != self._size:
            raise ValueError(f"{self.received} bytes instead of {self._size}")

    async def put_tail(self) -> None:
        """Store what is left in memory, unless it is stored already."""
        if self._pending and len(self._pending) != self._tail_bytes:
            content = bytes(self._pending)
            await self._bucket.put(_name_tail(self._key), content, note=_make_note(self._in_parts))
            self._tail_bytes = len(content)

    async def finish(self) -> None:
        """Make it an object."""
        if not self._upload:
            await self._bucket.put(self._key, bytes(self._pending), content_type=self._content_type)
            return
        if self._pending:
            await self._put_part(bytes(self._pending))
        await complete_upload(self._bucket, self._key, self._upload, self._parts)

    async def abort(self) -> None:
        """Delete the parts. Not what a lost response may have begun."""
        if self._upload:
            await abort_upload(self._bucket, self._key, self._upload)

    async def _put_part(self, content: bytes) -> None:
        if not self._upload:
            self._upload = await begin_upload(self._bucket, self._key, content_type=self._content_type)
        number = len(self._parts) + 1
        self._parts.append(await put_part(self._bucket, self._key, self._upload, number=number, content=content))
        self._in_parts += len(content)
        self._tail_bytes = 0
        del self._pending[: len(content)]


def _cut_gap(parts: list[Part]) -> tuple[Part, ...]:
    """The parts up to the first that is missing."""
    return tuple(part for number, part in enumerate(parts, start=1) if part.number == number)


async def _update(digest: Digest | None, chunk: bytes) -> None:
    if digest is not None:
        await asyncio.to_thread(digest.update, chunk) if len(chunk) > 1 << 16 else digest.update(chunk)


async def try_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, even if this task is cancelled meanwhile. What fails is not raised over the first error."""
    with suppress(BlobsUnavailable, StorageFull):
        await asyncio.shield(asyncio.create_task(work))


def _name_tail(key: str) -> str:
    return f"{key}.tail"


def _make_note(offset: int) -> bytes:
    """On a tail: after how many bytes it goes on."""
    return str(offset).encode()


def make_error(error: S3Error) -> Exception:
    """What the ports raise."""
    if error.is_full:
        return StorageFull("the file storage is full; nothing was stored")
    return BlobsUnavailable(str(error))
