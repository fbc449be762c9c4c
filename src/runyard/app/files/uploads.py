"""Store a file: reserve room, write the bytes as a blob, then make the blob the content of the file.

The last step is one transaction: it checks that the entity is still the same, and replaces the row. Before it nothing
is visible. A crash or an error at any point leaves at most an unused blob, which `app.unused_blobs` deletes.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta
from secrets import token_hex

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.entities import check_own_entity, enter_project, lock_entity, require_entity
from runyard.app.errors import Missing
from runyard.app.files.client_files import delete_client_file, find_writable_place, upload_client_file
from runyard.app.files.file_commits import (
    SLOWEST_BYTES_PER_SECOND,
    FileUpload,
    check_digest,
    check_room,
    check_size,
    commit_file,
    find_replaced,
    release_blob,
)
from runyard.app.files.file_storage import require_blobs
from runyard.app.files_store import ClientFile
from runyard.app.locks import lock_of_files
from runyard.app.model import Principal, StoredFile, Upload
from runyard.app.ports import Unavailable
from runyard.app.unused_blobs import try_remove_unused


async def upload_file(
    core: Core,
    who: Principal,
    type_name: str,
    project: str,
    entity_id: str,
    upload: FileUpload,
    chunks: AsyncIterator[bytes],
) -> StoredFile | ClientFile:
    """Store a file under its path, and replace one that is there. Idempotent: the same bytes change nothing.

    Raises `Missing`, `Forbidden`, `Conflict`, `TooLarge` and `NotPossible` before the first byte is read, where they
    are known; `NotPossible` for wrong bytes, `StorageFull`, `Unavailable`, and what the chunks raise.
    """
    check_size(core, upload.size)
    if (found := await find_writable_place(core, who, type_name, project, entity_id)) is not None:
        return await upload_client_file(core, who, found, upload, chunks)
    blobs = require_blobs(core)
    reserved = Upload(type=type_name, project=project, id=entity_id, blob=token_hex(16), size=upload.size)
    created_at = await _reserve(core, who, reserved, upload)
    try:
        digest = await blobs.write(reserved.blob, chunks, size=upload.size)
        check_digest(digest, upload.sha256)
        return await commit_file(core, who, reserved, upload, sha256=digest, created_at=created_at)
    except BaseException:
        # Also if the client has gone and this task is cancelled. What fails here is left to the retention loop.
        with suppress(Unavailable):
            await release_blob(core, blobs, reserved.blob)
        raise


async def delete_file(core: Core, who: Principal, type_name: str, project: str, entity_id: str, path: str) -> None:
    """Delete a file and its bytes. Raises `Missing`."""
    found = await find_writable_place(core, who, type_name, project, entity_id)
    if found is not None and not await _is_stored(core, type_name, project, entity_id, path):
        await delete_client_file(core, who, found, path)
        return
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


async def _is_stored(core: Core, type_name: str, project: str, entity_id: str, path: str) -> bool:
    """Whether the server itself has the file: it was uploaded before `spec.path` said otherwise."""
    async with core.store.begin(is_read_only=True) as unit:
        return await unit.files.find(type_name, entity_id, path, project=project) is not None


async def _reserve(core: Core, who: Principal, reserved: Upload, upload: FileUpload) -> datetime:
    """Check what can be checked before the bytes, and reserve room; returns when the entity was created."""
    lasting = timedelta(hours=1, seconds=upload.size / SLOWEST_BYTES_PER_SECOND)
    async with core.store.begin() as unit:
        await enter_project(unit, reserved.project)
        entity = await require_entity(unit, reserved.type, reserved.project, reserved.id)
        check_own_entity(who, entity)
        await unit.lock(lock_of_files(reserved.project))
        known = await find_replaced(unit, entity, upload)
        await check_room(core, unit, entity, size=upload.size, known=known)
        await unit.files.reserve(reserved, lasting=lasting)
        await unit.commit()
    return entity.created_at
