"""Runs that may still mount claims: found by the text of their effective spec, so that no other spec is parsed."""

from datetime import datetime

from sqlalchemy import Text, or_, select, type_coerce

from runyard.app.ports import MountingRun
from runyard.domain.lifecycle import State, is_final
from runyard.store import tables
from runyard.store.expressions import contains
from runyard.store.session import Session

_columns = tables.runs.c
_STATES = sorted(state.value for state in State if state is State.STOPPED or not is_final(state))
_WORDS = ('"claim_name"', '"lifetime"')
"""Every volume with a claim has one of these keys. A text that only contains one of them does no harm."""


async def list_mounting_runs(
    session: Session, *, project: str, since: datetime | None, after: str, limit: int
) -> list[MountingRun]:
    """`app.ports.Runs.list_mounting`."""
    text = type_coerce(_columns.effective, Text)
    conditions = [
        _columns.project == project,
        _columns.state.in_(_STATES),
        _columns.uid > after,
        or_(*(contains(text, word, is_sqlite=session.is_sqlite) for word in _WORDS)),
    ]
    if since is not None:
        conditions.append(_columns.updated_at >= since)
    statement = (
        select(_columns.uid, _columns.id, _columns.state, _columns.effective)
        .where(*conditions)
        .order_by(_columns.uid)
        .limit(limit)
    )
    return [MountingRun(**row) for row in await session.fetch_all(statement)]
