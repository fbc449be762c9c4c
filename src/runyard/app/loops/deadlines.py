"""How long a run may wait, and how long a job may take. Timers only ask for an action; states come from observation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from runyard.app.model import Run, Transition
from runyard.app.runs import find_action
from runyard.domain.lifecycle import State
from runyard.domain.reasons import Reason
from runyard.spec.duration import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """When a run is to be stopped, and why."""

    at: datetime
    reason: str
    message: str


def has_timers(run: Run) -> bool:
    """Whether the run may come to be overdue at all."""
    return any(_read_seconds(run, name) for name in ("pending_timeout", "timeout"))


def find_deadline(run: Run, transitions: Sequence[Transition]) -> Deadline | None:
    """The first deadline of a run that is waiting or at work; both count from its release, the last one's."""
    released = [transition.at for transition in transitions if transition.state is State.PENDING]
    if not released:
        return None
    found = []
    seconds = _read_seconds(run, "pending_timeout")
    if seconds and run.state == State.PENDING:
        message = f"it waited for its place longer than pending_timeout: {format_duration(seconds)}"
        found.append(Deadline(at=_after(released[-1], seconds), reason=Reason.TIMEOUT_PENDING, message=message))
    seconds = _read_seconds(run, "timeout")
    if seconds and find_action(run) == "job":
        message = f"it took longer than timeout: {format_duration(seconds)}"
        found.append(Deadline(at=_after(released[-1], seconds), reason=Reason.TIMEOUT_RUN, message=message))
    return min(found, key=lambda deadline: deadline.at, default=None)


def _after(start: datetime, seconds: int) -> datetime:
    return start + timedelta(seconds=seconds)


def _read_seconds(run: Run, name: str) -> int | None:
    value = (run.effective or {}).get(name)
    return value if isinstance(value, int) else None
