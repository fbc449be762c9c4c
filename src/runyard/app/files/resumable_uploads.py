"""Store a file by several requests: begin, append as often as needed, complete.

What was appended survives a lost connection and a restart of the server. A request that appends or completes holds a
lease, so that no other one writes to the same blob. The reservation of the blob ends an upload that nobody completes.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from secrets import token_hex

from runyard.app.blob_store import BlobMissing
from runyard.app.core import Core
from runyard.app.entities import check_own_entity, enter_project, require_entity
from runyard.app.errors import Missing, NotPossible, UploadConflict
from runyard.app.files.client_files import find_client_place
from runyard.app.files.file_commits import (
    SLOWEST_BYTES_PER_SECOND,
    Condition,
    FileUpload,
    check_digest,
    check_room,
    check_size,
    commit_file,
    find_replaced,
    release_blob,
)
from runyard.app.files.file_storage import require_blobs
from runyard.app.locks import lock_of_files
from runyard.app.model import Entity, Json, Principal, ResumableUpload, StoredFile, Upload
from runyard.app.ports import Unavailable, UnitOfWork
from runyard.spec.problem_codes import Code
from runyard.spec.readers import refuse

MOST_ENTITY_UPLOADS = 100
"""Unfinished resumable uploads of one entity."""
MOST_PROJECT_UPLOADS = 1000
"""Unfinished resumable uploads of a project."""
UPLOAD_LIFE = timedelta(days=1)
"""How long an upload may take, besides the time of its bytes at the slowest rate."""
LEASE_SECONDS = 30.0
"""After a server was killed, its upload can be continued when the lease has ended."""
RENEWAL_SECONDS = 8.0
BUSY_SECONDS = 5.0
"""When to try again, if another request has the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPlace:
    """Which upload of which entity."""

    type: str
    project: str
    id: str
    upload: str


async def begin_upload(
    core: Core, who: Principal, type_name: str, project: str, entity_id: str, upload: FileUpload
) -> ResumableUpload:
    """Reserve room for a file. Raises `Missing`, `Forbidden`, `Conflict`, `TooLarge` and `NotPossible`."""
    require_blobs(core)
    check_size(core, upload.size)
    lasting = UPLOAD_LIFE + timedelta(seconds=upload.size / SLOWEST_BYTES_PER_SECOND)
    async with core.store.begin() as unit:
        await enter_project(unit, project)
        entity = await require_entity(unit, type_name, project, entity_id)
        check_own_entity(who, entity)
        place = find_client_place(core, entity)
        if place is not None and place.is_own:
            message = f"the files of {type_name} {entity_id} are in the files store, as its `spec.path` says"
            raise NotPossible(Code.FILES_ELSEWHERE, f"{message}: store them there, or upload by PUT files/content")
        await unit.lock(lock_of_files(project))
        await _check_number(unit, entity)
        known = await find_replaced(unit, entity, upload)
        await check_room(core, unit, entity, size=upload.size, known=known)
        begun = await unit.files.add_upload(_make_upload(core, who, entity, upload), lasting=lasting)
        await unit.commit()
    return begun


async def get_upload(core: Core, place: UploadPlace) -> tuple[ResumableUpload, int]:
    """An upload, and how many of its bytes are stored. Raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        upload, _ = await _require(unit, place)
    return upload, await require_blobs(core).measure_unfinished(upload.blob)


async def list_uploads(
    core: Core, type_name: str, project: str, entity_id: str
) -> Sequence[tuple[ResumableUpload, int]]:
    """The unfinished uploads of an entity, each with the number of its stored bytes. Raises `Missing`."""
    blobs = require_blobs(core)
    async with core.store.begin(is_read_only=True) as unit:
        entity = await require_entity(unit, type_name, project, entity_id)
        found = await unit.files.list_uploads(type_name, entity_id, project=project)
    own = [upload for upload in found if upload.entity_created_at == entity.created_at]
    return [(upload, await blobs.measure_unfinished(upload.blob)) for upload in own]


async def append_to_upload(
    core: Core, who: Principal, place: UploadPlace, chunks: AsyncIterator[bytes], *, offset: int, size: int
) -> tuple[ResumableUpload, int]:
    """Append `size` bytes behind the first `offset`; returns the upload, and how many bytes are stored then.

    Raises `UploadConflict` if another number is stored or another request writes, `Missing`, `Forbidden`, and what
    `BlobStore.append` raises. What came before an error is kept.
    """
    blobs = require_blobs(core)
    upload = await _require_writable(core, who, place)
    if offset + size > upload.size:
        message = f"{offset} bytes and {size} more are more than the {upload.size} bytes of the upload"
        raise refuse(Code.HEADER_OFFSET, message, path=("header", "Upload-Offset"))
    async with _hold(core, upload) as lease:
        stored = await blobs.measure_unfinished(upload.blob)
        _check_offset(upload, stored=stored, offset=offset)
        try:
            stored = await blobs.append(upload.blob, lease.guard(chunks), offset=offset, size=upload.size)
        except BlobMissing:
            raise _be_busy(upload) from None
    return upload, stored


async def complete_upload(core: Core, who: Principal, place: UploadPlace, *, sha256: str | None) -> StoredFile:
    """Make the file visible. Wrong bytes end the upload.

    Raises `UploadConflict` if bytes are missing, and `NotPossible` if they have another digest; else as `upload_file`.
    """
    blobs = require_blobs(core)
    upload = await _require_writable(core, who, place)
    expected = sha256 or upload.sha256
    if expected is None:
        raise refuse(Code.FIELD_MISSING, "the SHA-256 digest of the file is required", path=("sha256",))
    if upload.sha256 not in (None, expected):
        raise NotPossible(Code.FILE_CHECKSUM, f"the upload was begun with the SHA-256 digest {upload.sha256}")
    async with _hold(core, upload):
        stored = await blobs.measure_unfinished(upload.blob)
        _check_offset(upload, stored=stored, offset=upload.size)
        digest = await blobs.finish(upload.blob, size=upload.size)
        try:
            check_digest(digest, expected)
        except NotPossible:
            with suppress(Unavailable):
                await release_blob(core, blobs, upload.blob)
            raise
        reserved = Upload(type=upload.type, project=upload.project, id=upload.id, blob=upload.blob, size=upload.size)
        file = FileUpload(
            path=upload.path,
            size=upload.size,
            content_type=upload.content_type,
            condition=Condition(is_new=upload.is_new, sha256=upload.replaces),
        )
        return await commit_file(core, who, reserved, file, sha256=digest, created_at=upload.entity_created_at)


async def delete_upload(core: Core, who: Principal, place: UploadPlace) -> None:
    """Give up an upload; its bytes are deleted. Raises `Missing`, `Forbidden`, and `UploadConflict` if it is in use."""
    blobs = require_blobs(core)
    upload = await _require_writable(core, who, place)
    async with _hold(core, upload):
        await release_blob(core, blobs, upload.blob)


def upload_to_json(upload: ResumableUpload, offset: int) -> Json:
    """An upload as clients see it."""
    shown = {
        "id": upload.blob,
        "path": upload.path,
        "size": upload.size,
        "offset": offset,
        "content_type": upload.content_type,
        "expires_at": upload.expires_at.isoformat(),
    }
    return shown if upload.sha256 is None else {**shown, "sha256": upload.sha256}


class _Lease:
    """The right to write to an upload, for as long as it is renewed."""

    def __init__(self, core: Core, upload: ResumableUpload) -> None:
        self._core, self._upload = core, upload
        self._holder = token_hex(8)
        self._renewed_at = 0.0

    async def renew(self) -> None:
        """Take or renew it; raises `UploadConflict` if somebody else has it or the upload is gone."""
        async with self._core.store.begin() as unit:
            lasting = timedelta(seconds=LEASE_SECONDS)
            is_held = await unit.files.hold_upload(self._upload.blob, holder=self._holder, lasting=lasting)
            await unit.commit()
        if not is_held:
            raise _be_busy(self._upload)
        self._renewed_at = time.monotonic()

    async def end(self) -> None:
        """Free it."""
        async with self._core.store.begin() as unit:
            await unit.files.free_upload(self._upload.blob, holder=self._holder)
            await unit.commit()

    async def guard(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The chunks, each only while the lease is held."""
        async for chunk in chunks:
            if time.monotonic() - self._renewed_at > RENEWAL_SECONDS:
                await self.renew()
            yield chunk


@asynccontextmanager
async def _hold(core: Core, upload: ResumableUpload) -> AsyncIterator[_Lease]:
    lease = _Lease(core, upload)
    await lease.renew()
    try:
        yield lease
    finally:
        with suppress(Unavailable):  # it ends by itself
            await lease.end()


async def _require(unit: UnitOfWork, place: UploadPlace) -> tuple[ResumableUpload, Entity]:
    entity = await require_entity(unit, place.type, place.project, place.id)
    upload = await unit.files.find_upload(place.upload, project=place.project)
    expected = (place.type, place.id, entity.created_at)
    if upload is None or (upload.type, upload.id, upload.entity_created_at) != expected:
        raise Missing("upload", f"{place.upload} of {place.type} {place.id}")
    return upload, entity


async def _require_writable(core: Core, who: Principal, place: UploadPlace) -> ResumableUpload:
    async with core.store.begin(is_read_only=True) as unit:
        upload, entity = await _require(unit, place)
        check_own_entity(who, entity)
    return upload


async def _check_number(unit: UnitOfWork, entity: Entity) -> None:
    own = len(await unit.files.list_uploads(entity.type, entity.id, project=entity.project))
    for what, number, most in (
        (f"{entity.type} {entity.id}", own, MOST_ENTITY_UPLOADS),
        (f"project {entity.project}", await unit.files.count_uploads(entity.project), MOST_PROJECT_UPLOADS),
    ):
        if number >= most:
            message = f"{what} has {number} unfinished uploads; at most {most} are allowed: complete or delete some"
            raise NotPossible(Code.UPLOAD_TOO_MANY, message)


def _make_upload(core: Core, who: Principal, entity: Entity, upload: FileUpload) -> ResumableUpload:
    return ResumableUpload(
        type=entity.type,
        project=entity.project,
        id=entity.id,
        blob=token_hex(16),
        entity_created_at=entity.created_at,
        path=upload.path,
        size=upload.size,
        sha256=upload.sha256,
        content_type=upload.content_type,
        is_new=upload.condition.is_new,
        replaces=upload.condition.sha256,
        user=who.name,
        expires_at=core.clock.now(),
    )


def _check_offset(upload: ResumableUpload, *, stored: int, offset: int) -> None:
    if stored != offset:
        message = f"the upload has {stored} of {upload.size} bytes, not {offset}: go on from there"
        raise UploadConflict(Code.UPLOAD_OFFSET, message, offset=stored)


def _be_busy(upload: ResumableUpload) -> UploadConflict:
    message = f"another request writes to the upload of {upload.path}; try again in {BUSY_SECONDS:g} seconds"
    return UploadConflict(Code.UPLOAD_BUSY, message, retry_after=BUSY_SECONDS)
