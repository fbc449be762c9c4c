"""Resumable uploads: their rows, each beside the row that reserves room for its blob."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Double, delete, func, insert, literal, or_, select, update

from runyard.app.model import ResumableUpload
from runyard.app.ports import Stale
from runyard.store import tables
from runyard.store.clock import DatabaseNow, DatabaseTimeIn
from runyard.store.session import Session

WRITER_MARGIN = timedelta(hours=1)
"""How long after the end of its entity the blob of an upload is unused. No request writes so long without a lease."""
_uploads, _unused = tables.uploads.c, tables.unused_blobs.c
_COLUMNS = tuple(column for column in tables.uploads.c if not column.name.startswith("lease_"))


async def add_upload(session: Session, upload: ResumableUpload, *, lasting: timedelta) -> ResumableUpload:
    """Insert the row; returns it with the time of the database."""
    given = {column.name: getattr(upload, column.name) for column in _COLUMNS}
    values = {**given, "expires_at": make_time_in(lasting)}
    await session.write(insert(tables.uploads).values(**values))
    added = await find_upload(session, upload.blob, project=upload.project)
    if added is None:
        raise Stale(f"upload {upload.blob} has expired already")
    return added


async def find_upload(session: Session, blob: str, *, project: str) -> ResumableUpload | None:
    """One that has not expired."""
    is_it = _uploads.blob == blob, _uploads.project == project, _uploads.expires_at > DatabaseNow()
    row = await session.fetch_one(select(*_COLUMNS).where(*is_it))
    return None if row is None else ResumableUpload(**row)


async def list_uploads(
    session: Session, entity_type: str, entity_id: str, *, project: str
) -> Sequence[ResumableUpload]:
    """Those of an entity that have not expired, by path."""
    is_its = _uploads.project == project, _uploads.type == entity_type, _uploads.id == entity_id
    chosen = select(*_COLUMNS).where(*is_its, _uploads.expires_at > DatabaseNow())
    rows = await session.fetch_all(chosen.order_by(_uploads.path, _uploads.blob))
    return [ResumableUpload(**row) for row in rows]


async def count_uploads(session: Session, project: str) -> int:
    """All of a project."""
    counted = select(func.count()).select_from(tables.uploads).where(_uploads.project == project)
    return int(await session.fetch_value(counted))


async def hold_upload(session: Session, blob: str, *, holder: str, lasting: timedelta) -> bool:
    """Take or renew the lease."""
    is_free = or_(_uploads.lease_owner.is_(None), _uploads.lease_owner == holder, _uploads.lease_until < DatabaseNow())
    taken = (
        update(tables.uploads)
        .where(_uploads.blob == blob, _uploads.expires_at > DatabaseNow(), is_free)
        .values(lease_owner=holder, lease_until=make_time_in(lasting))
    )
    return bool(await session.write(taken))


async def free_upload(session: Session, blob: str, *, holder: str) -> None:
    """End the lease."""
    is_its = _uploads.blob == blob, _uploads.lease_owner == holder
    await session.write(update(tables.uploads).where(*is_its).values(lease_owner=None, lease_until=None))


async def forget_uploads(session: Session, blobs: Sequence[str]) -> None:
    """Delete the rows of these uploads; the rows of their blobs are somebody else's to write."""
    await session.write(delete(tables.uploads).where(session.is_one_of(_uploads.blob, blobs)))


async def end_uploads(session: Session, *, project: str, of: tuple[str, Sequence[str]] | None = None) -> None:
    """End the uploads of deleted entities, given by type and ids, or of a whole project.

    Their room is free at once. Their blobs are unused when no request can be writing to them anymore.
    """
    conditions = [_uploads.project == project]
    if of is not None:
        conditions += [_uploads.type == of[0], session.is_one_of(_uploads.id, of[1])]
    ended = await session.write_returning(delete(tables.uploads).where(*conditions).returning(_uploads.blob))
    if blobs := [row["blob"] for row in ended]:
        freed = update(tables.unused_blobs).where(session.is_one_of(_unused.blob, blobs))
        await session.write(freed.values(reserved=0, due_at=make_time_in(WRITER_MARGIN)))


def make_time_in(span: timedelta) -> DatabaseTimeIn:
    """That time from now, by the clock of the database."""
    return DatabaseTimeIn(literal(span.total_seconds(), Double[float]()))
