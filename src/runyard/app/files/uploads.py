"""Store a file: reserve room, write the bytes as a blob, then make the blob the content of the file.

The last step is one transaction: it checks that the entity is still the same, and replaces the row. Before it nothing
is visible. A crash or an error at any point leaves at most an unused blob, which `app.unused_blobs` deletes.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from secrets import token_hex

from runyard.app.audit import audit
from runyard.app.blob_store import BlobStore
from runyard.app.core import Core
from runyard.app.entities import MOST_FILES, check_own_entity, enter_project, lock_entity, require_entity
from runyard.app.errors import Conflict, Missing, NotPossible, TooLarge
from runyard.app.files.file_storage import require_blobs
from runyard.app.locks import lock_of_files
from runyard.app.model import Entity, FileUsage, Principal, StoredFile, Upload
from runyard.app.ports import Stale, Unavailable, UnitOfWork
from runyard.app.unused_blobs import try_remove_unused
from runyard.spec.figures import format_bytes
from runyard.spec.problem_codes import Code

SLOWEST_BYTES_PER_SECOND = 1 << 14
"""Room is reserved for as long as the bytes take at this rate, and an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What must hold of the stored file (`If-Match`, `If-None-Match`)."""

    is_new: bool = False
    """There is none yet."""
    sha256: str | None = None
    """It has this digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUpload:
    """What a client sends."""

    path: str
    size: int
    chunks: AsyncIterator[bytes]
    content_type: str
    sha256: str | None = None
    """The digest that the bytes must have."""
    condition: Condition = Condition()


async def upload_file(
    core: Core, who: Principal, type_name: str, project: str, entity_id: str, upload: FileUpload
) -> StoredFile:
    """Store a file under its path, and replace one that is there. Idempotent: the same bytes change nothing.

    Raises `Missing`, `Forbidden`, `Conflict`, `TooLarge` and `NotPossible` before the first byte is read, where they
    are known; `NotPossible` for wrong bytes, `StorageFull`, `Unavailable`, and what the chunks raise.
    """
    blobs = require_blobs(core)
    if upload.size > core.options.max_file_bytes:
        allowed = format_bytes(core.options.max_file_bytes)
        raise TooLarge(
            Code.FILE_TOO_LARGE, f"the file has {format_bytes(upload.size)}; the server allows {allowed} per file"
        )
    reserved = Upload(type=type_name, project=project, id=entity_id, blob=token_hex(16), size=upload.size)
    created_at = await _reserve(core, who, reserved, upload)
    try:
        return await _store(core, who, blobs, reserved, upload, created_at=created_at)
    except BaseException:
        # Also if the client has gone and this task is cancelled. What fails here is left to the retention loop.
        with suppress(Unavailable):
            await _release(core, blobs, reserved.blob)
        raise


async def delete_file(core: Core, who: Principal, type_name: str, project: str, entity_id: str, path: str) -> None:
    """Delete a file and its bytes. Raises `Missing`."""
    require_blobs(core)
    async with core.store.begin() as unit:
        await enter_project(unit, project)
        entity = await lock_entity(unit, type_name, project, entity_id)
        check_own_entity(who, entity)
        if not await unit.files.delete(type_name, entity_id, path, project=project):
            raise Missing("file", f"{path} of {type_name} {entity_id}")
        await audit(core, unit, who, f"{type_name}.delete_file", entity, details={"path": path})
        await unit.commit()
    await try_remove_unused(core.store, core.blobs)


async def _reserve(core: Core, who: Principal, reserved: Upload, upload: FileUpload) -> datetime:
    """Check what can be checked before the bytes, and reserve room; returns when the entity was created."""
    lasting = timedelta(hours=1, seconds=upload.size / SLOWEST_BYTES_PER_SECOND)
    async with core.store.begin() as unit:
        await enter_project(unit, reserved.project)
        entity = await require_entity(unit, reserved.type, reserved.project, reserved.id)
        check_own_entity(who, entity)
        await unit.lock(lock_of_files(reserved.project))
        known = await _find(unit, entity, upload)
        await _check_room(core, unit, entity, size=upload.size, known=known)
        await unit.files.reserve(reserved, lasting=lasting)
        await unit.commit()
    return entity.created_at


async def _store(
    core: Core, who: Principal, blobs: BlobStore, reserved: Upload, upload: FileUpload, *, created_at: datetime
) -> StoredFile:
    digest = await blobs.write(reserved.blob, upload.chunks, size=upload.size)
    if upload.sha256 not in (None, digest):
        message = f"the bytes have the SHA-256 digest {digest}, and the request states {upload.sha256}"
        raise NotPossible(Code.FILE_CHECKSUM, f"{message}; nothing was stored")
    async with core.store.begin() as unit:
        await enter_project(unit, reserved.project)
        entity = await lock_entity(unit, reserved.type, reserved.project, reserved.id)
        if entity.created_at != created_at:
            # Deleted meanwhile, and another one was created under its id.
            raise Missing(reserved.type, reserved.id)
        check_own_entity(who, entity)
        known = await _find(unit, entity, upload)
        if known is not None and (known.sha256, known.content_type) == (digest, upload.content_type):
            await unit.files.release(reserved.blob)
            await unit.commit()
            stored = known
        else:
            stored = _make_file(core, who, reserved, upload, sha256=digest)
            await _put(core, unit, who, entity, stored)
            await unit.commit()
    if known is not None:
        await try_remove_unused(core.store, core.blobs)
    return stored


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


async def _find(unit: UnitOfWork, entity: Entity, upload: FileUpload) -> StoredFile | None:
    """The file that would be replaced; raises `Conflict` if the condition does not hold."""
    known = await unit.files.find(entity.type, entity.id, upload.path, project=entity.project)
    condition = upload.condition
    if condition.is_new and known is not None:
        raise Conflict(f"{entity.type} {entity.id} already has a file {upload.path}")
    if condition.sha256 is not None and (known is None or known.sha256 != condition.sha256):
        raise Conflict(f"file {upload.path} of {entity.type} {entity.id} was changed since you read it: read it again")
    return known


async def _check_room(core: Core, unit: UnitOfWork, entity: Entity, *, size: int, known: StoredFile | None) -> None:
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


def _describe_quota(what: str, used: FileUsage, *, size: int, most: int) -> str:
    return (
        f"{what} has no room for {format_bytes(size)}: its files and uploads in progress take "
        f"{format_bytes(used.bytes)}, and {format_bytes(most)} are allowed; delete some, or ask the operator for more"
    )


async def _release(core: Core, blobs: BlobStore, blob: str) -> None:
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
