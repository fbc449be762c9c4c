"""The file of an unfinished blob, `….part`: it grows, and is renamed when it is whole."""

import errno
import hashlib
import os
import stat
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from runyard.app.blob_store import BlobMissing, StorageFull
from runyard.files.running_digests import Digest
from runyard.spec.figures import format_bytes

_HASHED_BYTES = 1 << 20


class PartFile:
    """Appends to an unfinished blob. Its methods block.

    If the task is cancelled, `close` may be called while a thread is still in another method: hence the lock.
    """

    def __init__(self, path: Path, *, offset: int, size: int, digest: Digest | None) -> None:
        self._path, self._part = path, make_part(path)
        self._size = size
        self.stored = offset
        self.digest = digest
        """Of the stored bytes; None if it is not known."""
        self._file: BinaryIO | None = None
        self._is_closed = False
        self._lock = Lock()

    def open(self, *, least_free_bytes: int) -> None:
        """Open the file; raises `StorageFull` without room for the rest, `BlobMissing` if it has another size."""
        with self._lock:
            if self._is_closed:
                return
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            disk = os.statvfs(self._path.parent)
            rest = self._size - self.stored
            if disk.f_bavail * disk.f_frsize < rest + least_free_bytes:
                raise StorageFull(f"the file storage has no room for {format_bytes(rest)}; nothing was stored")
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if self.stored else os.O_CREAT)
            try:
                descriptor = os.open(self._part, flags, 0o600)
            except FileNotFoundError:
                raise BlobMissing(f"no unfinished blob {self._path.name}") from None
            self._file = os.fdopen(descriptor, "ab", buffering=0)
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(self._part))
            if found.st_size != self.stored:
                raise BlobMissing(f"unfinished blob {self._path.name} has {found.st_size} bytes, not {self.stored}")

    def write(self, content: bytes) -> None:
        """Append bytes; raises `ValueError` if the blob would be larger than it may be."""
        with self._lock:
            self._write(content)

    def close(self, content: bytes) -> None:
        """Append the last bytes, and synchronize the file to the disk."""
        with self._lock:
            self._is_closed = True
            if self._file is None:
                return
            try:
                self._write(content)
            finally:
                os.fsync(self._file.fileno())
                self._file.close()
                self._file = None

    def _write(self, content: bytes) -> None:
        if self._file is None:
            return
        if self.stored + len(content) > self._size:
            raise ValueError(f"more than {self._size} bytes")
        left = memoryview(content)
        while left:
            count = self._file.write(left)
            if self.digest is not None:
                self.digest.update(left[:count].tobytes() if count < len(content) else content)
            self.stored += count
            left = left[count:]


def finish_part(path: Path, *, size: int, digest: str | None) -> str:
    """Rename a whole part to its place; returns its digest, given or computed. Raises `ValueError`. Blocks."""
    place = path if os.path.lexists(path) else make_part(path)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if size or place == path else os.O_CREAT)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(place, flags, 0o600)
    except FileNotFoundError:
        raise ValueError(f"0 bytes instead of {size}") from None
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if (found := os.fstat(descriptor).st_size) != size:
            raise ValueError(f"{found} bytes instead of {size}")
        if digest is None:
            digest = _hash(file)
        os.fsync(descriptor)
    if place != path:
        place.rename(path)
        synchronize(path.parent)
    return digest


def make_part(path: Path) -> Path:
    """Where the blob of that place is, as long as it is unfinished."""
    return path.with_name(f"{path.name}.part")


def synchronize(folder: Path) -> None:
    """Write the directory to the disk, so that a new name survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _hash(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while content := file.read(_HASHED_BYTES):
        digest.update(content)
    return digest.hexdigest()
