"""What surrounds the bytes of a file: the checks before the first one, and the transaction after the last one."""

from dataclasses import dataclass
from datetime import datetime

from runyard.app.audit import audit
from runyard.app.blob_store import BlobStore
from runyard.app.core import Core
from runyard.app.entities import MOST_FILES, check_own_entity, enter_project, lock_entity
from runyard.app.errors import Conflict, Missing, NotPossible, TooLarge
from runyard.app.model import Entity, FileUsage, Principal, StoredFile, Upload
from runyard.app.ports import Stale, UnitOfWork
from runyard.app.unused_blobs import try_remove_unused
from runyard.spec.figures import format_bytes
from runyard.spec.problem_codes import Code

SLOWEST_BYTES_PER_SECOND = 1 << 14
"""Room is reserved for as long as the bytes take at this rate, and some time more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What must hold of the stored file (`If-Match`, `If-None-Match`)."""

    is_new: bool = False
    """There is none yet."""
    sha256: str | None = None
    """It has this digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUpload:
    """What a client announces."""

    path: str
    size: int
    content_type: str
    sha256: str | None = None
    """The digest that the bytes must have."""
    condition: Condition = Condition()


def check_size(core: Core, size: int) -> None:
    """Raises `TooLarge` if no file may have that size."""
    if size > core.options.max_file_bytes:
        allowed = format_bytes(core.options.max_file_bytes)
        raise TooLarge(Code.FILE_TOO_LARGE, f"the file has {format_bytes(size)}; the server allows {allowed} per file")


async def find_replaced(unit: UnitOfWork, entity: Entity, upload: FileUpload) -> StoredFile | None:
    """The file that would be replaced; raises `Conflict` if the condition does not hold."""
    known = await unit.files.find(entity.type, entity.id, upload.path, project=entity.project)
    condition = upload.condition
    if condition.is_new and known is not None:
        raise Conflict(f"{entity.type} {entity.id} already has a file {upload.path}")
    if condition.sha256 is not None and (known is None or known.sha256 != condition.sha256):
        raise Conflict(f"file {upload.path} of {entity.type} {entity.id} was changed since you read it: read it again")
    return known


async def check_room(core: Core, unit: UnitOfWork, entity: Entity, *, size: int, known: StoredFile | None) -> None:
    """Raises `NotPossible` if the entity or the project would have too many files or bytes."""
    options, replaced = core.options, 0 if known is None else known.size
    own = await unit.files.measure(entity.project, entity=(entity.type, entity.id))
    if known is None and own.number >= MOST_FILES:
        message = f"{entity.type} {entity.id} has {own.number} files; at most {MOST_FILES} are allowed"
        raise NotPossible(Code.FILE_QUOTA, message)
    whole = await unit.files.measure(entity.project)
    for what, used, most in (
        (f"{entity.type} {entity.id}", own, options.max_entity_bytes),
        (f"project {entity.project}", whole, options.max_project_bytes),
    ):
        if used.bytes - replaced + size > most:
            raise NotPossible(Code.FILE_QUOTA, _describe_quota(what, used, size=size, most=most))


def check_digest(digest: str, expected: str | None) -> None:
    """Raises `NotPossible` if the bytes have another digest than the client states."""
    if expected not in (None, digest):
        message = f"the bytes have the SHA-256 digest {digest}, and the request states {expected}"
        raise NotPossible(Code.FILE_CHECKSUM, f"{message}; nothing was stored")


async def commit_file(
    core: Core, who: Principal, reserved: Upload, upload: FileUpload, *, sha256: str, created_at: datetime
) -> StoredFile:
    """Make a whole blob the content of the file, if the entity is still the one that was created then.

    Raises `Missing`, `Forbidden` and `Conflict`. The same bytes change nothing.
    """
    async with core.store.begin() as unit:
        await enter_project(unit, reserved.project)
        entity = await lock_entity(unit, reserved.type, reserved.project, reserved.id)
        if entity.created_at != created_at:
            # Deleted meanwhile, and another one was created under its id.
            raise Missing(reserved.type, reserved.id)
        check_own_entity(who, entity)
        known = await find_replaced(unit, entity, upload)
        if known is not None and (known.sha256, known.content_type) == (sha256, upload.content_type):
            await unit.files.release(reserved.blob)
            await unit.commit()
            stored = known
        else:
            stored = _make_file(core, who, reserved, upload, sha256=sha256)
            await _put(core, unit, who, entity, stored)
            await unit.commit()
    if known is not None:
        await try_remove_unused(core.store, core.blobs)
    return stored


async def release_blob(core: Core, blobs: BlobStore, blob: str) -> None:
    """Delete what was written, unless a file has it: an error does not prove that nothing was committed."""
    async with core.store.begin() as unit:
        was_reserved = await unit.files.release(blob)
        await unit.commit()
    if not was_reserved:
        return
    await blobs.delete(blob)
    async with core.store.begin() as unit:
        await unit.files.forget_unused([blob])
        await unit.commit()


async def _put(core: Core, unit: UnitOfWork, who: Principal, entity: Entity, file: StoredFile) -> None:
    try:
        await unit.files.put(file)
    except Stale:
        raise Conflict("the upload took too long, and its room was given to others: upload the file again") from None
    details = {"path": file.path, "size": file.size, "sha256": file.sha256}
    await audit(core, unit, who, f"{entity.type}.put_file", entity, details=details)


def _make_file(core: Core, who: Principal, reserved: Upload, upload: FileUpload, *, sha256: str) -> StoredFile:
    return StoredFile(
        type=reserved.type,
        project=reserved.project,
        id=reserved.id,
        path=upload.path,
        blob=reserved.blob,
        size=upload.size,
        sha256=sha256,
        content_type=upload.content_type,
        at=core.clock.now(),
        user=who.name,
    )


def _describe_quota(what: str, used: FileUsage, *, size: int, most: int) -> str:
    return (
        f"{what} has no room for {format_bytes(size)}: its files and uploads in progress take "
        f"{format_bytes(used.bytes)}, and {format_bytes(most)} are allowed; delete some, or ask the operator for more"
    )
