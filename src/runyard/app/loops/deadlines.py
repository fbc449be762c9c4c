"""Deadlines of a run: how long it may wait, and how long a job may take.

A deadline only requests a stop. The state still comes from observation. Both count from the run's last release; their
times are kept in the notes of the run, so that an observation needs no other document to know the next one.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from runyard.app.model import Json, Run
from runyard.domain.lifecycle import State
from runyard.domain.reasons import Reason
from runyard.spec.figures import format_seconds

PENDING_NOTE, RUN_NOTE = "pending_until", "run_until"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """Why a run is to be stopped."""

    reason: Reason
    message: str


def note_deadlines(run: Run, *, released_at: datetime) -> Json:
    """The notes of a run that is released now. A note that is None does not apply."""
    effective = run.find_effective()
    if effective is None:
        return {PENDING_NOTE: None, RUN_NOTE: None}
    seconds = effective.timeout_seconds if effective.action == "job" else None
    return {
        PENDING_NOTE: _after(released_at, effective.pending_timeout_seconds),
        RUN_NOTE: _after(released_at, seconds),
    }


def find_due(notes: Json, state: State) -> datetime | None:
    """The earliest deadline of a run that is in that state."""
    applying = (PENDING_NOTE, RUN_NOTE) if state is State.PENDING else (RUN_NOTE,)
    return min((datetime.fromisoformat(notes[name]) for name in applying if name in notes), default=None)


def find_passed(run: Run, notes: Json, *, now: datetime) -> Deadline | None:
    """The deadline that has passed, if any."""
    due_at, effective = find_due(notes, State(run.state)), run.find_effective()
    if due_at is None or due_at > now or effective is None:
        return None
    is_pending = run.state == State.PENDING and notes.get(PENDING_NOTE) == due_at.isoformat()
    if is_pending:
        waited = format_seconds(effective.pending_timeout_seconds or 0)
        message = f"the run waited for its resources longer than pending_timeout: {waited}"
        return Deadline(reason=Reason.TIMEOUT_PENDING, message=message)
    message = f"the job took longer than timeout: {format_seconds(effective.timeout_seconds or 0)}"
    if run.state == State.PENDING:
        message += "; it had not started, and the time it waits counts"
    return Deadline(reason=Reason.TIMEOUT_RUN, message=message)


def _after(start: datetime, seconds: int | None) -> str | None:
    return (start + timedelta(seconds=seconds)).isoformat() if seconds else None
