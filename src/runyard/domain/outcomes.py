"""What is to be done next about a run, and what an observation makes of it. Pure; `app` acts and writes.

Level-based: only what is wanted and what is seen count, never how it came about, so that any step can be repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from runyard.domain.lifecycle import FINAL, GONE, State, can_follow
from runyard.domain.reasons import Reason

Desired = Literal["run", "stop", "delete"]


class Seen(StrEnum):
    """What an engine sees of a run's anchor."""

    PENDING = "pending"
    """It exists and is not at work yet, or no longer and will be again."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """It exists, was told to stop, and nothing of it is at work."""
    ABSENT = "absent"
    """It does not exist: the engine has looked at the place itself, not at what it remembers."""


ENDED = frozenset({Seen.SUCCEEDED, Seen.FAILED, Seen.STOPPED, Seen.ABSENT})
"""Nothing of it is at work."""


class Step(StrEnum):
    """What the loop does next."""

    NOTHING = "nothing"
    MAKE_READY = "make_ready"
    ANCHOR = "anchor"
    RELEASE = "release"
    WATCH = "watch"
    STOP = "stop"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The state that a run comes to be in, and why."""

    state: State
    reason: str | None = None
    message: str | None = None


def choose_step(state: State, *, desired: Desired, has_anchor: bool) -> Step:
    """The one thing to do. Once there is an anchor, none is made again."""
    if state is State.DELETING or desired == "delete":
        return Step.REMOVE
    if state in FINAL or state in GONE:
        return Step.NOTHING
    if desired == "stop":
        return Step.STOP
    if state in (State.CREATED, State.BUILT):
        return Step.MAKE_READY
    if state in (State.READY, State.RESUME):
        return Step.RELEASE if has_anchor else Step.ANCHOR
    return Step.WATCH


def judge(state: State, seen: Seen, *, desired: Desired, reason: str | None, message: str | None) -> Outcome | None:
    """What an observation makes of a run; None where its state stays. Nothing goes back, and what is final stays.

    `reason` and `message` are the engine's. A stop that a timer asked for (the state is not STOP) ends in ERROR: the
    run did not do its work in time, as Kubernetes sees it too; the caller says which timer.
    """
    if state is State.STOP:
        return Outcome(state=State.STOPPED, reason=reason, message=message) if seen in ENDED else None
    outcome = _OVERDUE.get(seen) if desired == "stop" else _WANTED[seen]
    if outcome is None or not can_follow(state, outcome.state):
        return None
    return Outcome(state=outcome.state, reason=reason or outcome.reason, message=message or outcome.message)


_LOST = Outcome(
    state=State.ERROR, reason=Reason.RUN_LOST, message="what was running it is gone, and was not removed by Runyard"
)
_WANTED: Mapping[Seen, Outcome] = MappingProxyType(
    {
        Seen.PENDING: Outcome(state=State.PENDING),
        Seen.RUNNING: Outcome(state=State.RUNNING),
        Seen.SUCCEEDED: Outcome(state=State.COMPLETED),
        Seen.FAILED: Outcome(state=State.ERROR, reason=Reason.RUN_FAILED),
        Seen.STOPPED: Outcome(
            state=State.ERROR, reason=Reason.RUN_STOPPED_OUTSIDE, message="it was stopped, but not through Runyard"
        ),
        Seen.ABSENT: _LOST,
    }
)
_OVERDUE: Mapping[Seen, Outcome] = MappingProxyType(
    {
        Seen.SUCCEEDED: Outcome(state=State.COMPLETED),
        Seen.FAILED: Outcome(state=State.ERROR),
        Seen.STOPPED: Outcome(state=State.ERROR),
        Seen.ABSENT: Outcome(state=State.ERROR),
    }
)
