"""The work queue in the table of runs: claims, leases and due times, all by the database's clock.

A claim does not change when a run is due; the holder of the lease does, when it ends the lease. `is_woken` says that
somebody has made the run due since it was last claimed. Nothing postpones such a wake-up, only a claim answers it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from secrets import token_hex
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    Executable,
    RowMapping,
    Update,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    true,
    union_all,
    update,
)

from runyard.app.model import Lease
from runyard.app.ports import OVERDUE
from runyard.domain.outcomes import Lane
from runyard.domain.reasons import Reason
from runyard.store import tables
from runyard.store.clock import DatabaseNow, DatabaseTimeIn
from runyard.store.columns import Name, UtcTime
from runyard.store.expressions import is_one_of
from runyard.store.session import Session

_runs, _replicas = tables.runs.c, tables.replicas.c
_NO_LEASE = {"lease_owner": null(), "lease_token": null(), "lease_until": null()}
_PLACED = (int(Lane.WATCH), int(Lane.CREATE))
_WAITING = (int(Lane.STOP), int(Lane.CREATE), int(Lane.SETTLE))
_READ_CLOCK = select(DatabaseNow())


async def claim_due(
    session: Session,
    *,
    owner: str,
    limits: Mapping[Lane, int],
    lease_for: timedelta,
    place: str | None,
    shard: tuple[int, int],
    columns: Sequence[ColumnElement[Any]],
) -> list[tuple[RowMapping, Lease]]:
    """`app.ports.Runs.claim_due`. Reads first (SKIP LOCKED): an idle queue costs no write."""
    lanes = tuple(sorted(lane for lane, limit in limits.items() if limit > 0))
    if not lanes:
        return []
    now = await read_clock(session)
    index, count = shard
    # The time is bound as a value: an index cannot be searched with a volatile function.
    # It is slightly old; a lease that expires meanwhile is left to the next call.
    due = await session.fetch_all(
        _make_find_due(lanes, place is not None, count > 1),
        {
            **{f"limit_{lane:d}": limits[lane] for lane in lanes},
            "now": now,
            "overdue": now - OVERDUE,
            "place": place,
            "index": index,
            "count": count,
        },
    )
    if not due:
        return []
    token, until = token_hex(16), now + lease_for
    rows = await session.write_returning(
        _make_claim(tuple(columns), place is not None, session.is_sqlite),
        {
            "owner": owner,
            "token": token,
            "until": until,
            "claimed": [row["uid"] for row in due],
            **({} if place is None else {"own_place": place}),
        },
    )
    ranks = {row["uid"]: tuple(row.values()) for row in due}
    claimed = sorted(rows, key=lambda row: ranks[row["uid"]])
    return [(row, Lease(run_uid=row["uid"], token=token, until=until)) for row in claimed]


_FIND_NEXT_DUE = union_all(
    *(
        select(
            select(_runs.due_at)
            .where(_runs.lane == literal(int(lane)), _runs.due_at > bindparam("now", type_=UtcTime()))
            .order_by(_runs.due_at)
            .limit(1)
            .subquery()
        )
        for lane in Lane
    )
)
"""One lookup in the index of due runs per lane."""


async def find_next_due(session: Session) -> timedelta | None:
    """`app.ports.Runs.find_next_due`."""
    now = await read_clock(session)
    found = await session.fetch_all(_FIND_NEXT_DUE, {"now": now})
    return min((row["due_at"] - now for row in found), default=None)


@cache
def _make_find_due(lanes: tuple[Lane, ...], has_place: bool, is_sharded: bool) -> Executable:  # noqa: FBT001 - the key of the cache
    """The oldest of each lane."""
    now, overdue = bindparam("now", type_=UtcTime()), bindparam("overdue", type_=UtcTime())
    is_late = _runs.due_at <= overdue
    live = exists().where(_replicas.until > now)
    if has_place:
        # Of another place: only if no live replica serves it, which may just have much to do.
        is_served = live.where(_replicas.place == _runs.place)
        own = [_runs.place.is_(None), _runs.place == bindparam("place", type_=Name()), and_(is_late, not_(is_served))]
    else:
        is_served = live.where(
            _replicas.place.is_not(None), func.coalesce(_runs.place, _replicas.place) == _replicas.place
        )
        own = [and_(or_(_runs.place.is_(None), is_late), not_(is_served))]
    conditions = [
        _runs.due_at.is_not(None),
        _runs.due_at <= now,
        or_(_runs.lease_until.is_(None), _runs.lease_until <= now),
        or_(*own),
        *([or_(_runs.shard_key % bindparam("count") == bindparam("index"), is_late)] if is_sharded else []),
    ]
    parts = [
        select(_runs.lane, _runs.due_at, _runs.uid)
        .where(_runs.lane == literal(int(lane)), *conditions)
        .order_by(_runs.due_at, _runs.uid)
        .limit(bindparam(f"limit_{lane:d}"))
        .with_for_update(skip_locked=True, key_share=True)
        .subquery()
        for lane in lanes
    ]
    return union_all(*(select(part) for part in parts))


@cache
def _make_claim(columns: tuple[ColumnElement[Any], ...], has_place: bool, is_sqlite: bool) -> Any:  # noqa: FBT001 - the key of the cache
    values: dict[str, Any] = {
        "lease_owner": bindparam("owner"),
        "lease_token": bindparam("token"),
        "lease_until": bindparam("until", type_=UtcTime()),
        "is_woken": False,
    }
    if has_place:
        gets_place = and_(_runs.place.is_(None), _runs.lane.in_(_PLACED), not_(_runs.is_local))
        values["place"] = case((gets_place, bindparam("own_place", type_=Name())), else_=_runs.place)
        values["revision"] = case((gets_place, _runs.revision + 1), else_=_runs.revision)
    claimed = is_one_of(_runs.uid, "claimed", is_sqlite=is_sqlite)
    return update(tables.runs).where(claimed).values(**values).returning(*columns)


async def release(session: Session, lease: Lease, *, due_in: timedelta | None) -> None:
    """End a lease; the run is due then, or earlier if it was woken meanwhile."""
    parameters = name_lease(lease)
    if due_in is None:
        await session.write(_RELEASE, parameters)
    else:
        await session.write(_RELEASE_UNTIL_DUE, {**parameters, "due_seconds": due_in.total_seconds()})


async def renew_leases(session: Session, owner: str, *, lease_for: timedelta) -> int:
    """`app.ports.Runs.renew_leases`."""
    return await session.write(_RENEW_ALL, {"owner": owner, "lease_seconds": lease_for.total_seconds()})


async def end_leases(session: Session, owner: str | None) -> int:
    """`app.ports.Runs.end_leases`."""
    if owner is None:
        return await session.write(_END_ALL)
    return await session.write(_END_OWN, {"owner": owner})


async def wake(session: Session, run_uids: Sequence[str]) -> list[str]:
    """Make runs due now; the holder of a lease cannot postpone that. Rows that others have locked are left out."""
    if not run_uids:
        return []
    rows = await session.write_returning(_make_wake(session.is_sqlite), {"woken": sorted(run_uids)})
    return _note_woken(session, rows)


async def wake_waiting(session: Session, place: str) -> int:
    """`app.ports.Runs.wake_waiting`."""
    return len(_note_woken(session, await session.write_returning(_WAKE_WAITING, {"own_place": place})))


async def wake_misplaced(session: Session, place: str | None, *, limit: int) -> int:
    """`app.ports.Runs.wake_misplaced`."""
    now = await read_clock(session)
    parameters = {"now": now, "overdue": now - OVERDUE, "own_place": place or "", "limit": limit}
    return len(_note_woken(session, await session.write_returning(_WAKE_MISPLACED, parameters)))


def _note_woken(session: Session, rows: Sequence[RowMapping]) -> list[str]:
    woken = [row["uid"] for row in rows]
    session.note_changed_runs(woken)
    return woken


def make_due_values(due_in: timedelta | None, *, has_lease: bool) -> dict[str, Any]:
    """The columns of a write that says when the run is due. Binds `due_seconds` unless that is None.

    A wake-up stays. A write without a lease is itself one if it makes the run due now, or if another holds the lease.
    """
    if due_in is None:
        return {"due_at": case((_runs.is_woken, _runs.due_at), else_=null())}
    wished = DatabaseTimeIn(bindparam("due_seconds", type_=Double()))
    if has_lease:
        is_kept = _runs.is_woken & (_runs.due_at < wished)
        return {"due_at": case((is_kept, _runs.due_at), else_=wished)}
    if due_in <= timedelta(0):
        return {"due_at": case((_runs.due_at < wished, _runs.due_at), else_=wished), "is_woken": True}
    is_kept = _runs.is_woken & (_runs.due_at < wished)
    return {
        "due_at": case((is_kept, _runs.due_at), else_=wished),
        "is_woken": or_(_runs.is_woken, _runs.lease_token.is_not(None)),
    }


def hold_lease() -> list[ColumnElement[bool]]:
    """Condition: the lease is the row's and has not expired when the database evaluates it. Binds `name_lease`."""
    return [
        _runs.uid == bindparam("leased_uid", type_=Name()),
        _runs.lease_token == bindparam("lease_token_held", type_=Name()),
        _runs.lease_until > DatabaseNow(),
    ]


def name_lease(lease: Lease) -> dict[str, Any]:
    """The parameters of `hold_lease`."""
    return {"leased_uid": lease.run_uid, "lease_token_held": lease.token}


async def read_clock(session: Session) -> datetime:
    """The database's clock."""
    now: datetime = await session.fetch_value(_READ_CLOCK)
    return now


def _lock_free(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """The rows that nobody else has locked, as a condition of an update that does not wait."""
    free = select(_runs.uid).where(*conditions).with_for_update(skip_locked=True, key_share=True)
    return _runs.uid.in_(free)


@cache
def _make_wake(is_sqlite: bool) -> Any:  # noqa: FBT001 - the key of the cache
    return (
        update(tables.runs)
        .where(_lock_free(is_one_of(_runs.uid, "woken", is_sqlite=is_sqlite)))
        .values(**_DUE_NOW)
        .returning(_runs.uid)
    )


_DUE_NOW = {
    # An overdue run keeps its turn.
    "due_at": case((_runs.due_at < DatabaseNow(), _runs.due_at), else_=DatabaseNow()),
    "is_woken": True,
}
_RELEASE = update(tables.runs).where(*hold_lease()).values(**make_due_values(None, has_lease=True), **_NO_LEASE)
_RELEASE_UNTIL_DUE = (
    update(tables.runs).where(*hold_lease()).values(**make_due_values(timedelta(0), has_lease=True), **_NO_LEASE)
)
_RENEW_ALL: Update = (
    update(tables.runs)
    .where(_lock_free(_runs.lease_owner == bindparam("owner", type_=Name()), _runs.lease_until > DatabaseNow()))
    .values(lease_until=DatabaseTimeIn(bindparam("lease_seconds", type_=Double())))
)
_END_OWN = (
    update(tables.runs).where(_lock_free(_runs.lease_owner == bindparam("owner", type_=Name()))).values(**_NO_LEASE)
)
_END_ALL = update(tables.runs).where(_lock_free(_runs.lease_owner.is_not(None))).values(**_NO_LEASE)
_MISPLACED = (
    select(_runs.uid)
    .where(
        _runs.settled_at.is_(None),
        _runs.place.is_not(None),
        _runs.place != bindparam("own_place", type_=Name()),
        _runs.lane == literal(int(Lane.WATCH)),
        _runs.reason.is_distinct_from(Reason.PLACE_OTHER.value),
        or_(_runs.due_at.is_(None), _runs.due_at > bindparam("now", type_=UtcTime())),
        not_(exists().where(_replicas.until > bindparam("now", type_=UtcTime()), _replicas.place == _runs.place)),
    )
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True, key_share=True)
)
_WAKE_MISPLACED = (
    update(tables.runs)
    .where(_runs.uid.in_(_MISPLACED))
    # Overdue, so that any replica claims it.
    .values(due_at=bindparam("overdue", type_=UtcTime()), is_woken=True)
    .returning(_runs.uid)
)
_WAKE_WAITING = (
    update(tables.runs)
    .where(
        _lock_free(
            or_(_runs.place.is_(None), _runs.place == bindparam("own_place", type_=Name())),
            _runs.settled_at.is_(None),
            _runs.lane.in_(_WAITING),
            or_(_runs.due_at.is_(None), _runs.due_at > DatabaseNow()),
            _runs.is_local != true(),
        )
    )
    .values(**_DUE_NOW)
    .returning(_runs.uid)
)
