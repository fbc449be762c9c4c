"""Decides the next step for a run, and the state that follows from an observation. Pure; `app` acts and writes.

This is where a run becomes RUNNING: `judge` turns `Seen.RUNNING` into that state. Level-based reconciliation: only the
desired and the observed state count, never the events between them, so every step can be repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Literal

from runyard.domain.lifecycle import FINAL, GONE, State, can_follow
from runyard.domain.reasons import Reason

Desired = Literal["run", "stop", "delete"]


class Seen(StrEnum):
    """What an engine sees of a run's anchor."""

    HELD = "held"
    """It exists and was not released."""
    PENDING = "pending"
    """It was released and does not run yet, or is being restarted."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """It exists, was told to stop, and nothing of it runs."""
    ABSENT = "absent"
    """It does not exist; the engine asked the cluster itself, not its cache."""


ENDED = frozenset({Seen.SUCCEEDED, Seen.FAILED, Seen.STOPPED, Seen.ABSENT})
"""Nothing of the run is running."""


class Step(StrEnum):
    """What the loop does next."""

    NOTHING = "nothing"
    MAKE_READY = "make_ready"
    ANCHOR = "anchor"
    RELEASE = "release"
    WATCH = "watch"
    STOP = "stop"
    SETTLE = "settle"
    """The run has ended: store its log, then clean up."""
    REMOVE = "remove"


class Lane(IntEnum):
    """The part of the work queue that a run is in. Each lane has slots of its own, so that none waits for another."""

    STOP = 0
    """To be stopped or deleted."""
    WATCH = 1
    """In an engine: deadlines, and single observations."""
    CREATE = 2
    """Nothing was handed to an engine yet, or it is to be started again."""
    SETTLE = 3
    """Ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The next state of a run, and why."""

    state: State
    reason: str | None = None
    message: str | None = None


def choose_lane(state: State, *, desired: Desired, has_anchor: bool) -> Lane:
    """The lane of a run. One that is PENDING without an anchor waits for room, and its anchor is to be created."""
    if state in FINAL:
        return Lane.SETTLE
    if state in GONE or desired != "run":
        return Lane.STOP
    is_watched = state is State.RUNNING or (state is State.PENDING and has_anchor)
    return Lane.WATCH if is_watched else Lane.CREATE


def choose_step(state: State, *, desired: Desired, has_anchor: bool, is_settled: bool) -> Step:
    """The next step. Once a run has an anchor, no other is created."""
    if state is State.DELETING or desired == "delete":
        return Step.REMOVE
    if state in FINAL:
        return Step.NOTHING if is_settled else Step.SETTLE
    if state in GONE:
        return Step.NOTHING
    if desired == "stop":
        return Step.STOP
    if state in (State.CREATED, State.BUILT):
        return Step.MAKE_READY
    if state in (State.READY, State.RESUME):
        return Step.RELEASE if has_anchor else Step.ANCHOR
    if state is State.PENDING and not has_anchor:
        return Step.ANCHOR
    return Step.WATCH


def judge(state: State, seen: Seen, *, desired: Desired, reason: str | None, message: str | None) -> Outcome | None:
    """The outcome of an observation; None if the state stays. A run never goes back, and a final state stays.

    `reason` and `message` are the engine's. A stop requested by a deadline (the state is not STOP) ends in ERROR, as in
    Kubernetes: the run did not finish in time. The caller says which deadline.
    """
    if state is State.STOP:
        return Outcome(state=State.STOPPED, reason=reason, message=message) if seen in ENDED else None
    outcome = _OVERDUE.get(seen) if desired == "stop" else _WANTED[seen]
    if outcome is None or not can_follow(state, outcome.state):
        return None
    return Outcome(state=outcome.state, reason=reason or outcome.reason, message=message or outcome.message)


_LOST = Outcome(
    state=State.ERROR,
    reason=Reason.RUN_LOST,
    message="the object that executed the run is gone, and Runyard did not remove it",
)
_WANTED: Mapping[Seen, Outcome] = MappingProxyType(
    {
        Seen.HELD: Outcome(state=State.PENDING),
        Seen.PENDING: Outcome(state=State.PENDING),
        Seen.RUNNING: Outcome(state=State.RUNNING),
        Seen.SUCCEEDED: Outcome(state=State.COMPLETED),
        Seen.FAILED: Outcome(state=State.ERROR, reason=Reason.RUN_FAILED),
        Seen.STOPPED: Outcome(
            state=State.ERROR, reason=Reason.RUN_STOPPED_OUTSIDE, message="the run was stopped, but not through Runyard"
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
