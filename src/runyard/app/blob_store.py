"""The port of blob storage: the bytes of files, each written once under a random name."""

from collections.abc import AsyncIterator
from typing import Protocol

from runyard.app.ports import Unavailable


class BlobsUnavailable(Unavailable):
    """The storage of files does not respond, or refuses; nothing that was written is visible."""

    shown = "the file storage is unavailable; try again later"


class StorageFull(Exception):
    """The storage of files has no room for the bytes; nothing of them is left."""


class BlobMissing(Exception):
    """The storage has no such blob, or not all of it."""


class BlobStore(Protocol):
    """Storage of bytes. Names of blobs are made by the server, of letters and digits; users never choose one.

    Several servers may share one. A blob is written by one `write`, or by many `append` and a `finish`; then it never
    changes: it is read, and deleted.
    """

    async def check(self) -> None:
        """Raises `BlobsUnavailable` if the storage cannot be used."""

    async def write(self, blob: str, chunks: AsyncIterator[bytes], *, size: int) -> str:
        """Write a blob of that size; returns its SHA-256 in hexadecimal. Once this returns, it survives a crash.

        Takes one chunk at a time. Nothing is visible before the last. If anything fails, the iterator included, what
        was written is removed and the error raised: `StorageFull`, `BlobsUnavailable`, or the iterator's own;
        `ValueError` if the chunks have another size.
        """

    async def append(self, blob: str, chunks: AsyncIterator[bytes], *, offset: int, size: int) -> int:
        """Add to an unfinished blob that will have that size; returns how many bytes of it are stored then.

        `offset` must be what `measure_unfinished` returns, else `BlobMissing` is raised. One caller at a time. Takes
        one chunk at a time. If anything fails, what came before is kept as far as possible, and the error raised:
        `StorageFull`, `BlobsUnavailable`, the iterator's own, or `ValueError` if there are more bytes than `size`.
        """

    async def measure_unfinished(self, blob: str) -> int:
        """How many bytes were appended and will survive a crash; all of a finished blob. Raises `BlobsUnavailable`."""

    async def finish(self, blob: str, *, size: int) -> str:
        """Make an unfinished blob of that size readable; returns its SHA-256 in hexadecimal. Idempotent.

        Raises `ValueError` if another number of bytes is stored, and `BlobsUnavailable`.
        """

    async def measure(self, blob: str) -> int:
        """Its size. Raises `BlobMissing` and `BlobsUnavailable`."""

    def read(self, blob: str, *, start: int = 0, size: int) -> AsyncIterator[bytes]:
        """So many bytes from there on, in chunks. Raises `BlobMissing` if they end earlier, and `BlobsUnavailable`.

        A blob that is deleted meanwhile may be read to its end.
        """

    async def delete(self, blob: str) -> None:
        """Delete it, finished or not, and what a crash left of it. Idempotent. Raises `BlobsUnavailable`."""

    async def close(self) -> None:
        """Release threads and connections. Idempotent."""
