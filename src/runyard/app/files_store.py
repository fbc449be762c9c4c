"""The port of the files store: a bucket where clients store files by themselves, as DigitalHub's SDK does."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A file in the files store. Clients may replace it at any time; its tag changes then."""

    key: str
    path: str = ""
    """Within its entity."""
    size: int
    content_type: str
    at: datetime
    tag: str
    """The ETag, with its quotes. Not a SHA-256."""


class FilesStore(Protocol):
    """The files store. Keys are those of the bucket; whoever calls has checked that the key is the project's.

    All methods raise `BlobsUnavailable` if the storage does not respond or refuses.
    """

    @property
    def place(self) -> str:
        """Its address: `s3://bucket` or `s3://bucket/prefix`."""

    async def find(self, key: str) -> ClientFile | None:
        """By its key."""

    async def list_files(self, prefix: str, *, most: int) -> Sequence[ClientFile]:
        """The files whose keys begin so, in order of their keys; at most so many."""

    def read(self, file: ClientFile, *, start: int, size: int) -> AsyncIterator[bytes]:
        """So many bytes from there on. Raises `BlobMissing` if they end earlier, or the file was replaced."""

    async def write(
        self, key: str, chunks: AsyncIterator[bytes], *, size: int, content_type: str, check: Callable[[str], None]
    ) -> None:
        """Store a file of that size. Nothing is visible before `check`, which gets its SHA-256, has returned."""

    async def delete(self, key: str) -> None:
        """Delete it. Idempotent."""

    async def close(self) -> None:
        """Release connections. Idempotent."""
