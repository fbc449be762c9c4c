"""Deadlines of a run: how long it may wait, and how long a job may take.

A deadline only requests a stop. The state still comes from observation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from runyard.app.model import Run, Transition
from runyard.domain.lifecycle import State
from runyard.domain.reasons import Reason
from runyard.spec.figures import format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """When a run is to be stopped, and why."""

    at: datetime
    reason: Reason
    message: str


def has_timeouts(run: Run) -> bool:
    """Whether the run can become overdue at all."""
    effective = run.find_effective()
    return effective is not None and bool(effective.pending_timeout_seconds or effective.timeout_seconds)


def find_deadline(run: Run, transitions: Sequence[Transition]) -> Deadline | None:
    """The earliest deadline of a run that is waiting or running; both count from its last release."""
    released = [transition.at for transition in transitions if transition.state is State.PENDING]
    effective = run.find_effective()
    if not released or effective is None:
        return None
    found = []
    seconds = effective.pending_timeout_seconds
    if seconds and run.state == State.PENDING:
        message = f"the run waited for its resources longer than pending_timeout: {format_seconds(seconds)}"
        found.append(Deadline(at=_after(released[-1], seconds), reason=Reason.TIMEOUT_PENDING, message=message))
    seconds = effective.timeout_seconds
    if seconds and effective.action == "job":
        message = f"the job took longer than timeout: {format_seconds(seconds)}"
        found.append(Deadline(at=_after(released[-1], seconds), reason=Reason.TIMEOUT_RUN, message=message))
    return min(found, key=lambda deadline: deadline.at, default=None)


def _after(start: datetime, seconds: int) -> datetime:
    return start + timedelta(seconds=seconds)
