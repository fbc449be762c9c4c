"""Files that the server stores: their rows, their totals, and the blobs that are reserved or to be deleted."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import ColumnElement, delete, func, insert, literal, select, update

from runyard.app.model import TYPES_WITH_BYTES, FileUsage, ResumableUpload, StoredFile, Upload
from runyard.app.ports import Stale
from runyard.store import tables, uploads
from runyard.store.clock import DatabaseNow
from runyard.store.session import Session
from runyard.store.uploads import make_time_in

MARGIN = timedelta(days=1)
"""How long after its reservation ends a blob is unused. No transaction that ends the reservation lasts so long."""
_files, _totals, _unused = tables.files.c, tables.file_totals.c, tables.unused_blobs.c
_COLUMNS = tuple(tables.files.c)
_UNUSED_COLUMNS = ("blob", "project", "type", "id", "reserved", "due_at")
_WHOLE_PROJECT = ("", "")
"""Type and id in the row of a project's total."""


class SqlFiles:
    """`app.stored_files.Files`. Totals are counted as files come and go."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def find(self, entity_type: str, entity_id: str, path: str, *, project: str) -> StoredFile | None:
        """By its path."""
        conditions = _identify(entity_type, entity_id, path, project=project)
        row = await self._session.fetch_one(select(*_COLUMNS).where(*conditions))
        return None if row is None else StoredFile(**row)

    async def list_files(self, entity_type: str, entity_id: str, *, project: str) -> Sequence[StoredFile]:
        """The files of an entity, by path."""
        is_its = _files.project == project, _files.type == entity_type, _files.id == entity_id
        rows = await self._session.fetch_all(select(*_COLUMNS).where(*is_its).order_by(_files.path), is_long=True)
        return [StoredFile(**row) for row in rows]

    async def measure(self, project: str, *, entity: tuple[str, str] | None = None) -> FileUsage:
        """The files of a project or of one entity; uploads in progress are few, and added up."""
        of_type, of_id = entity or _WHOLE_PROJECT
        total = await self._session.fetch_one(
            select(_totals.number, _totals.bytes).where(
                _totals.project == project, _totals.type == of_type, _totals.id == of_id
            )
        )
        conditions = [_unused.reserved > 0, _unused.project == project]
        if entity is not None:
            conditions += [_unused.type == of_type, _unused.id == of_id]
        size = func.coalesce(func.sum(_unused.reserved), 0)
        reserved = await self._session.fetch_one(
            select(func.count().label("number"), size.label("size")).where(*conditions)
        )
        number, stored = (0, 0) if total is None else (total["number"], total["bytes"])
        more, room = (0, 0) if reserved is None else (reserved["number"], int(reserved["size"]))
        return FileUsage(number=number + more, bytes=stored + room)

    async def reserve(self, upload: Upload, *, lasting: timedelta) -> None:
        """Note that the blob is being written."""
        await self._session.write(
            insert(tables.unused_blobs).values(
                blob=upload.blob,
                project=upload.project,
                type=upload.type,
                id=upload.id,
                reserved=max(upload.size, 1),  # an empty file counts, too
                due_at=make_time_in(lasting + MARGIN),
            )
        )

    async def add_upload(self, upload: ResumableUpload, *, lasting: timedelta) -> ResumableUpload:
        """Reserve room for a resumable upload."""
        reserved = Upload(type=upload.type, project=upload.project, id=upload.id, blob=upload.blob, size=upload.size)
        await self.reserve(reserved, lasting=lasting)
        return await uploads.add_upload(self._session, upload, lasting=lasting)

    async def find_upload(self, blob: str, *, project: str) -> ResumableUpload | None:
        """A resumable upload."""
        return await uploads.find_upload(self._session, blob, project=project)

    async def list_uploads(self, entity_type: str, entity_id: str, *, project: str) -> Sequence[ResumableUpload]:
        """The resumable uploads of an entity."""
        return await uploads.list_uploads(self._session, entity_type, entity_id, project=project)

    async def count_uploads(self, project: str) -> int:
        """How many resumable uploads a project has."""
        return await uploads.count_uploads(self._session, project)

    async def hold_upload(self, blob: str, *, holder: str, lasting: timedelta) -> bool:
        """Take or renew the lease of a resumable upload."""
        return await uploads.hold_upload(self._session, blob, holder=holder, lasting=lasting)

    async def free_upload(self, blob: str, *, holder: str) -> None:
        """End a lease."""
        await uploads.free_upload(self._session, blob, holder=holder)

    async def put(self, file: StoredFile) -> None:
        """Create or replace a file. Raises `Stale` if its blob is not reserved anymore."""
        is_reserved = (
            _unused.blob == file.blob,
            _unused.due_at > make_time_in(MARGIN),
        )
        reserved = await self._session.write_returning(
            delete(tables.unused_blobs).where(*is_reserved).returning(_unused.blob)
        )
        if not reserved:
            raise Stale(f"the room for blob {file.blob} is not reserved anymore")
        await uploads.forget_uploads(self._session, [file.blob])
        replaced = await self.find(file.type, file.id, file.path, project=file.project)
        values = {column.name: getattr(file, column.name) for column in _COLUMNS}
        added = self._session.insert_into(tables.files).values(**values)
        await self._session.write(
            added.on_conflict_do_update(
                index_elements=["project", "type", "id", "path"],
                set_={name: value for name, value in values.items() if name not in ("project", "type", "id", "path")},
            )
        )
        if replaced is not None:
            await self._mark_unused(replaced)
        await self._count(file, number=int(replaced is None), size=file.size - (replaced.size if replaced else 0))

    async def delete(self, entity_type: str, entity_id: str, path: str, *, project: str) -> bool:
        """Returns whether there was one."""
        file = await self.find(entity_type, entity_id, path, project=project)
        if file is None:
            return False
        await self._session.write(delete(tables.files).where(*_identify(entity_type, entity_id, path, project=project)))
        await self._mark_unused(file)
        await self._count(file, number=-1, size=-file.size)
        return True

    async def release(self, blob: str) -> bool:
        """End a reservation or upload without a file. Returns whether there was one."""
        await uploads.forget_uploads(self._session, [blob])
        ended = update(tables.unused_blobs).where(_unused.blob == blob).values(reserved=0, due_at=DatabaseNow())
        return bool(await self._session.write(ended))

    async def list_unused(self, *, after: str = "", limit: int) -> Sequence[str]:
        """Blobs whose bytes are to be deleted now."""
        is_due = _unused.due_at <= DatabaseNow(), _unused.blob > after
        rows = await self._session.fetch_all(select(_unused.blob).where(*is_due).order_by(_unused.blob).limit(limit))
        return [row["blob"] for row in rows]

    async def forget_unused(self, blobs: Sequence[str]) -> None:
        """Note that their bytes are deleted."""
        if blobs:
            await self._session.write(delete(tables.unused_blobs).where(self._session.is_one_of(_unused.blob, blobs)))
            await uploads.forget_uploads(self._session, blobs)

    async def _mark_unused(self, file: StoredFile) -> None:
        await self._session.write(
            insert(tables.unused_blobs).values(
                blob=file.blob, project=file.project, type=file.type, id=file.id, reserved=0, due_at=DatabaseNow()
            )
        )

    async def _count(self, file: StoredFile, *, number: int, size: int) -> None:
        """Add to the totals of the project and of the entity."""
        for of_type, of_id in (_WHOLE_PROJECT, (file.type, file.id)):
            added = self._session.insert_into(tables.file_totals).values(
                project=file.project, type=of_type, id=of_id, number=number, bytes=size
            )
            counted = {"number": _totals.number + added.excluded.number, "bytes": _totals.bytes + added.excluded.bytes}
            await self._session.write(
                added.on_conflict_do_update(index_elements=["project", "type", "id"], set_=counted)
            )


async def drop_files(session: Session, entity_type: str, *, project: str, ids: Sequence[str]) -> None:
    """Delete the rows of the files of deleted entities; their blobs are unused from now on."""
    if entity_type not in TYPES_WITH_BYTES:
        return
    await uploads.end_uploads(session, project=project, of=(entity_type, ids))
    is_total = _totals.project == project, _totals.type == entity_type, session.is_one_of(_totals.id, ids)
    totals = await session.write_returning(
        delete(tables.file_totals).where(*is_total).returning(_totals.number, _totals.bytes)
    )
    if not totals:
        return
    await _move(session, _files.project == project, _files.type == entity_type, session.is_one_of(_files.id, ids))
    number, size = sum(row["number"] for row in totals), sum(row["bytes"] for row in totals)
    whole = _totals.project == project, _totals.type == "", _totals.id == ""
    less = {"number": _totals.number - number, "bytes": _totals.bytes - size}
    await session.write(update(tables.file_totals).where(*whole).values(**less))


async def drop_project_files(session: Session, project: str) -> int:
    """Delete the rows of the files of one entity of a project that is being deleted; returns how many."""
    found = await session.fetch_one(select(_files.type, _files.id).where(_files.project == project).limit(1))
    if found is None:
        return 0
    return await _move(session, _files.project == project, _files.type == found["type"], _files.id == found["id"])


async def _move(session: Session, *conditions: ColumnElement[bool]) -> int:
    """Delete rows of files and list their blobs as unused; returns how many."""
    chosen = select(_files.blob, _files.project, _files.type, _files.id, literal(0), DatabaseNow()).where(*conditions)
    await session.write(insert(tables.unused_blobs).from_select(_UNUSED_COLUMNS, chosen))
    return await session.write(delete(tables.files).where(*conditions))


def _identify(entity_type: str, entity_id: str, path: str, *, project: str) -> list[ColumnElement[bool]]:
    return [_files.project == project, _files.type == entity_type, _files.id == entity_id, _files.path == path]
