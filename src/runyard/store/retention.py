"""Retention in the database: expired runs, and logs to sweep after deleted runs.

`app.retention` calls it in small transactions, and deletes the logs in between: never inside a transaction.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import case, insert, not_, null, or_, select, update

from runyard.app.model import RunKey
from runyard.domain.lifecycle import FINAL, State
from runyard.domain.outcomes import choose_lane
from runyard.domain.reasons import Reason
from runyard.store import tables
from runyard.store.clock import DatabaseNow
from runyard.store.session import Session

_ENDED = sorted(state.value for state in FINAL | {State.DELETED})
_runs, _tombstones = tables.runs.c, tables.tombstones.c
_KEY = (_runs.uid, _runs.project, _runs.id, _runs.place)


async def expire_runs(session: Session, *, ended_before: datetime, at: datetime, limit: int) -> list[RunKey]:
    """`app.ports.Runs.expire`."""
    found = await session.fetch_all(
        select(*_KEY)
        .where(
            _runs.state.in_(_ENDED),
            _runs.updated_at < ended_before,
            # A run that is still due is left to the loop, unless it has been due all that time.
            or_(_runs.due_at.is_(None), _runs.due_at < ended_before),
            or_(_runs.lease_until.is_(None), _runs.lease_until < DatabaseNow()),
        )
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    uids = sorted(row["uid"] for row in found)
    if not uids:
        return []
    marked = await session.write_returning(
        update(tables.runs)
        .where(session.is_one_of(_runs.uid, uids))
        .values(
            state=State.DELETING.value,
            lane=int(choose_lane(State.DELETING, desired="delete", has_anchor=True)),
            last_sequence=_runs.last_sequence + 1,
            desired="delete",
            desired_generation=_runs.desired_generation + 1,
            reason=Reason.RETENTION_EXPIRED.value,
            message=null(),
            due_at=case((_runs.place.is_(None), null()), else_=DatabaseNow()),
            updated_at=at,
            updated_by="system",
            revision=_runs.revision + 1,
            is_woken=True,
        )
        .returning(_runs.uid, _runs.last_sequence)
    )
    session.note_changed_runs(uids)
    added = {"state": State.DELETING.value, "at": at, "actor": "system", "reason": Reason.RETENTION_EXPIRED.value}
    await session.write_all(
        insert(tables.transitions),
        ({"run_uid": row["uid"], "sequence": row["last_sequence"], "message": None, **added} for row in marked),
    )
    return sorted((RunKey(**row) for row in found), key=lambda run: run.uid)


async def list_expired(session: Session, *, limit: int) -> list[RunKey]:
    """`app.ports.Runs.list_expired`."""
    is_expired = (
        _runs.state == State.DELETING.value,
        _runs.reason == Reason.RETENTION_EXPIRED.value,
        _runs.place.is_(None),
    )
    rows = await session.fetch_all(select(*_KEY).where(*is_expired).order_by(_runs.updated_at).limit(limit))
    return [RunKey(**row) for row in rows]


async def list_unswept(session: Session, *, deleted_before: datetime, limit: int) -> list[str]:
    """`app.ports.Runs.list_unswept`."""
    rows = await session.fetch_all(
        select(_tombstones.run_uid)
        .where(not_(_tombstones.is_swept), _tombstones.at < deleted_before)
        .order_by(_tombstones.at, _tombstones.run_uid)
        .limit(limit)
    )
    return [row["run_uid"] for row in rows]


async def mark_swept(session: Session, uids: Sequence[str]) -> None:
    """`app.ports.Runs.mark_swept`."""
    is_named = session.is_one_of(_tombstones.run_uid, uids)
    await session.write(update(tables.tombstones).where(is_named).values(is_swept=True))
