"""The work queue in the table of runs: claims, leases and due times, all by the database's clock."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, case, literal, null, or_, select, update

from runyard.app.model import Lease
from runyard.app.ports import Stale
from runyard.store import tables
from runyard.store.clock import DatabaseNow
from runyard.store.columns import UtcTime
from runyard.store.session import Session

_runs = tables.runs.c


async def claim_due(
    session: Session,
    *,
    owner: str,
    limit: int,
    lease_for: timedelta,
    shard: tuple[int, int],
    columns: Sequence[ColumnElement[Any]],
) -> list[tuple[RowMapping, Lease]]:
    """Lease due runs to the caller, oldest first (SKIP LOCKED)."""
    now = await read_clock(session)
    token, until = token_hex(16), now + lease_for
    index, count = shard
    # The time is bound as a value: an index cannot be searched with a volatile function.
    # It is slightly old; a lease that expires meanwhile is left to the next call.
    due = (
        select(_runs.uid)
        .where(
            _runs.due_at.is_not(None),
            _runs.due_at <= now,
            or_(_runs.lease_until.is_(None), _runs.lease_until <= now),
            *([_runs.shard_key % count == index] if count > 1 else []),
        )
        .order_by(_runs.due_at, _runs.uid)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    rows = await session.write_returning(
        update(tables.runs)
        .where(_runs.uid.in_(due))
        .values(lease_owner=owner, lease_token=token, lease_until=until, is_nudged=False)
        .returning(*columns)
    )
    oldest_first = sorted(rows, key=lambda row: (row["due_at"], row["uid"]))
    return [(row, Lease(run_uid=row["uid"], token=token, until=until)) for row in oldest_first]


async def renew(session: Session, lease: Lease, *, lease_for: timedelta) -> Lease:
    """Extend a lease. Raises `Stale` if it has expired or changed hands."""
    until = await read_clock(session) + lease_for
    renewed = await session.write(
        update(tables.runs).where(_runs.uid == lease.run_uid, *hold_lease(lease)).values(lease_until=until)
    )
    if not renewed:
        raise Stale(f"the lease of run {lease.run_uid} has expired or changed hands")
    return Lease(run_uid=lease.run_uid, token=lease.token, until=until)


async def release(session: Session, lease: Lease, *, due_at: datetime | None) -> None:
    """Release a lease; the run is due at that time, or earlier if it was nudged meanwhile."""
    wished = literal(due_at, UtcTime())
    is_sooner = _runs.due_at < wished if due_at is not None else _runs.due_at.is_not(None)
    await session.write(
        update(tables.runs)
        .where(_runs.uid == lease.run_uid, *hold_lease(lease))
        .values(
            due_at=case((_runs.is_nudged & is_sooner, _runs.due_at), else_=wished),
            lease_owner=null(),
            lease_token=null(),
            lease_until=null(),
        )
    )


async def nudge(session: Session, run_uids: Sequence[str]) -> None:
    """Make runs due now; the holder of a lease cannot postpone that on release."""
    now = await read_clock(session)
    await session.write(
        update(tables.runs)
        .where(session.is_one_of(_runs.uid, run_uids))
        .values(due_at=case((_runs.due_at < now, _runs.due_at), else_=literal(now, UtcTime())), is_nudged=True)
    )


def hold_lease(lease: Lease) -> list[ColumnElement[bool]]:
    """Condition: the lease is the row's and has not expired when the database evaluates it."""
    return [_runs.lease_token == lease.token, _runs.lease_until > DatabaseNow()]


async def read_clock(session: Session) -> datetime:
    """The database's clock."""
    now: datetime = await session.fetch_value(select(DatabaseNow()))
    return now
