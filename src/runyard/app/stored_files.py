"""The port of the rows of stored files: which entity has which file, and which blob holds its bytes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from runyard.app.model import FileUsage, ResumableUpload, StoredFile, Upload


class Files(Protocol):
    """The rows of stored files. Their bytes are blobs in the `BlobStore`, which no transaction covers.

    Every blob that may have bytes has a row: of a file, or of an unused blob. So nothing is lost track of by a crash.
    Deleting an entity makes the blobs of its files unused in the same transaction.
    """

    async def find(self, entity_type: str, entity_id: str, path: str, *, project: str) -> StoredFile | None:
        """By its path."""

    async def list_files(self, entity_type: str, entity_id: str, *, project: str) -> Sequence[StoredFile]:
        """The files of an entity, by path."""

    async def measure(self, project: str, *, entity: tuple[str, str] | None = None) -> FileUsage:
        """The files of a project, or of one entity of it (type and id). Takes as long for many files as for few."""

    async def reserve(self, upload: Upload, *, lasting: timedelta) -> None:
        """Note that the blob is being written. It becomes unused by itself a day after that time."""

    async def add_upload(self, upload: ResumableUpload, *, lasting: timedelta) -> ResumableUpload:
        """Reserve room for a resumable upload, which expires after that time; returns it with the time when."""

    async def find_upload(self, blob: str, *, project: str) -> ResumableUpload | None:
        """A resumable upload that has not expired."""

    async def list_uploads(self, entity_type: str, entity_id: str, *, project: str) -> Sequence[ResumableUpload]:
        """The resumable uploads of an entity that have not expired, by path."""

    async def count_uploads(self, project: str) -> int:
        """How many resumable uploads of a project there are, expired ones included."""

    async def hold_upload(self, blob: str, *, holder: str, lasting: timedelta) -> bool:
        """Take or renew the lease of a resumable upload. Returns whether nobody else has it, and it is not expired."""

    async def free_upload(self, blob: str, *, holder: str) -> None:
        """End a lease. Idempotent."""

    async def put(self, file: StoredFile) -> None:
        """Create or replace a file; its blob is no longer reserved, the replaced one is unused. Ends its upload.

        Raises `Stale` if the blob is not reserved anymore.
        """

    async def delete(self, entity_type: str, entity_id: str, path: str, *, project: str) -> bool:
        """Returns whether there was one. Its blob is unused."""

    async def release(self, blob: str) -> bool:
        """End a reservation or upload without a file: the blob is unused. Returns whether there was one."""

    async def list_unused(self, *, after: str = "", limit: int) -> Sequence[str]:
        """Blobs whose bytes are to be deleted now, by name; `after` is the last one before."""

    async def forget_unused(self, blobs: Sequence[str]) -> None:
        """Note that their bytes are deleted. Idempotent."""
