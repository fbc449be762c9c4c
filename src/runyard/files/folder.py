"""Blobs in a directory: `ab/abcdef…`, a file for each. Several servers may share it.

A blob is written beside its place as `….part`, synchronized to the disk, and renamed; an unfinished one stays there.
Names are random and made by the server, so that no text of a user is ever part of a path. Symbolic links are not
followed.
"""

import asyncio
import errno
import hashlib
import os
import re
import stat
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeVar

from runyard.app.blob_store import BlobMissing, BlobsUnavailable, StorageFull
from runyard.files.part_files import PartFile, finish_part, make_part, synchronize
from runyard.files.running_digests import RunningDigests
from runyard.spec.figures import format_bytes

T = TypeVar("T")
THREADS = 8
WRITTEN_BYTES = 1 << 18
"""Chunks are collected up to this size before they are written: small ones would cost a thread switch each."""
READ_BYTES = 1 << 18
LEAST_FREE_BYTES = 1 << 28
"""What uploads leave free on the disk, for the database and the logs."""
_NAME = re.compile(r"[0-9a-z]{8,64}", re.ASCII)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FolderBlobs:
    """`app.blob_store.BlobStore` in a directory, which is created on the first use."""

    def __init__(self, path: Path, *, least_free_bytes: int = LEAST_FREE_BYTES) -> None:
        self._path = path
        self._least_free_bytes = least_free_bytes
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
        self._digests = RunningDigests()

    async def check(self) -> None:
        """See `BlobStore`."""
        await self._do(self._check)

    async def write(self, blob: str, chunks: AsyncIterator[bytes], *, size: int) -> str:
        """See `BlobStore`."""
        writer = _Writer(self._locate(blob), size=size, least_free_bytes=self._least_free_bytes)
        try:
            await self._do(writer.open)
            pending = bytearray()
            async for chunk in chunks:
                pending += chunk
                if len(pending) >= WRITTEN_BYTES:
                    await self._do(partial(writer.write, bytes(pending)))
                    pending.clear()
            await self._do(partial(writer.write, bytes(pending)))
            return await self._do(writer.finish)
        finally:
            await self._end(writer.close)

    async def append(self, blob: str, chunks: AsyncIterator[bytes], *, offset: int, size: int) -> int:
        """See `BlobStore`."""
        path = self._locate(blob)
        part = PartFile(path, offset=offset, size=size, digest=self._digests.resume(blob, offset=offset))
        pending = bytearray()
        try:
            await self._do(partial(part.open, least_free_bytes=self._least_free_bytes))
            async for chunk in chunks:
                pending += chunk
                if len(pending) >= WRITTEN_BYTES:
                    # Taken before the thread has it: if this task is cancelled, it must not be written twice.
                    taken, pending = bytes(pending), bytearray()
                    await self._do(partial(part.write, taken))
        finally:
            await self._end(partial(part.close, bytes(pending)))
            self._digests.keep(blob, offset=part.stored, digest=part.digest)
        return part.stored

    async def measure_unfinished(self, blob: str) -> int:
        """See `BlobStore`."""
        path = self._locate(blob)

        def measure() -> int:
            for name in (path, make_part(path)):
                with suppress(FileNotFoundError):
                    return name.lstat().st_size
            return 0

        return await self._do(measure)

    async def finish(self, blob: str, *, size: int) -> str:
        """See `BlobStore`."""
        path, known = self._locate(blob), self._digests.find(blob, size=size)
        return await self._do(lambda: finish_part(path, size=size, digest=known))

    async def measure(self, blob: str) -> int:
        """See `BlobStore`."""
        reader = _Reader(self._locate(blob))
        try:
            return await self._do(reader.open)
        finally:
            await self._end(reader.close)

    async def read(self, blob: str, *, start: int = 0, size: int) -> AsyncIterator[bytes]:
        """See `BlobStore`."""
        reader, end = _Reader(self._locate(blob)), start + size
        try:
            await self._do(reader.open)
            while start < end:
                chunk = await self._do(partial(reader.read, start, min(READ_BYTES, end - start)))
                if not chunk:
                    raise BlobMissing(f"blob {blob} ends after {start} bytes")
                yield chunk
                start += len(chunk)
        finally:
            await self._end(reader.close)

    async def delete(self, blob: str) -> None:
        """See `BlobStore`."""
        path = self._locate(blob)

        def delete() -> None:
            for name in (path, make_part(path)):
                name.unlink(missing_ok=True)

        self._digests.discard(blob)
        await self._do(delete)

    async def close(self) -> None:
        """Wait for running operations. Idempotent."""
        self._threads.shutdown()

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except OSError as error:
            if error.errno in _FULL:
                raise StorageFull("the file storage is full; nothing was stored") from error
            raise BlobsUnavailable(f"the folder of files {self._path} cannot be used: {error}") from error
        except RuntimeError as error:
            raise BlobsUnavailable("the file storage is closed") from error

    async def _end(self, close: Callable[[], None]) -> None:
        """Close a reader or writer, even if this task is cancelled again."""
        await asyncio.shield(self._do(close))

    def _check(self) -> None:
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self._path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "this user may not write there", str(self._path))

    def _locate(self, blob: str) -> Path:
        if not _NAME.fullmatch(blob):
            raise ValueError("not the name of a blob")
        return self._path / blob[:2] / blob


class _Writer:
    """Writes one blob. Its methods block.

    If the task is cancelled, `close` may be called while a thread is still in another method: hence the lock, without
    which the descriptor could already belong to another file.
    """

    def __init__(self, path: Path, *, size: int, least_free_bytes: int) -> None:
        self._path, self._part = path, make_part(path)
        self._size = size
        self._least_free_bytes = least_free_bytes
        self._written = 0
        self._digest = hashlib.sha256()
        self._file: BinaryIO | None = None
        self._is_closed = False
        self._lock = Lock()

    def open(self) -> None:
        """Create the file; raises `StorageFull` if the disk has no room for all of it."""
        with self._lock:
            if self._is_closed:
                return
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < self._size + self._least_free_bytes:
                raise StorageFull(f"the file storage has no room for {format_bytes(self._size)}; nothing was stored")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.fdopen(os.open(self._part, flags, 0o600), "wb", buffering=0)

    def write(self, content: bytes) -> None:
        """Append bytes."""
        with self._lock:
            if self._file is None:
                return
            self._written += len(content)
            if self._written > self._size:
                raise ValueError(f"more than {self._size} bytes")
            left = memoryview(content)
            while left:
                left = left[self._file.write(left) :]
            self._digest.update(content)

    def finish(self) -> str:
        """Make the blob visible and durable; returns its digest."""
        with self._lock:
            if self._file is None or self._written != self._size:
                raise ValueError(f"{self._written} bytes instead of {self._size}")
            os.fsync(self._file.fileno())
            self._file.close()
            self._part.rename(self._path)
            self._file = None
            synchronize(self._path.parent)
            return self._digest.hexdigest()

    def close(self) -> None:
        """Remove what was written, unless it is finished."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()
                self._file = None
                self._part.unlink(missing_ok=True)


class _Reader:
    """Reads one blob. Its methods block; the lock is there as in `_Writer`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._is_closed = False
        self._lock = Lock()

    def open(self) -> int:
        """Open the file; returns its size. Raises `BlobMissing`."""
        with self._lock:
            if self._is_closed:
                return 0
            try:
                descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                raise BlobMissing(f"no blob {self._path.name}") from None
            self._file = os.fdopen(descriptor, "rb", buffering=0)
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(self._path))
            return found.st_size

    def read(self, start: int, size: int) -> bytes:
        """At most so many bytes from there on."""
        with self._lock:
            return b"" if self._file is None else os.pread(self._file.fileno(), size, start)

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()
                self._file = None
