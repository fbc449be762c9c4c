"""The states of a run, and which may follow which (the state machine). Pure; only `app` changes states."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """The states, as the API shows them."""

    CREATED = "CREATED"
    BUILT = "BUILT"
    READY = "READY"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    STOP = "STOP"
    STOPPED = "STOPPED"
    RESUME = "RESUME"
    DELETING = "DELETING"
    DELETED = "DELETED"


FINAL = frozenset({State.COMPLETED, State.ERROR, State.STOPPED})
"""The work of the run has ended; a service can be resumed, and every run can be deleted."""
GONE = frozenset({State.DELETING, State.DELETED})

_FORWARD: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.CREATED: frozenset({State.BUILT, State.READY, State.RUNNING, State.COMPLETED, State.ERROR}),
        State.BUILT: frozenset({State.READY, State.RUNNING, State.COMPLETED, State.ERROR}),
        State.READY: frozenset({State.PENDING, State.RUNNING, State.COMPLETED, State.ERROR}),
        State.PENDING: frozenset({State.RUNNING, State.COMPLETED, State.ERROR}),
        State.RUNNING: frozenset({State.COMPLETED, State.ERROR}),
        State.RESUME: frozenset({State.PENDING, State.RUNNING, State.ERROR}),
        State.STOP: frozenset({State.STOPPED}),
        State.COMPLETED: frozenset(),
        State.ERROR: frozenset(),
        State.STOPPED: frozenset(),
        State.DELETING: frozenset({State.DELETED}),
        State.DELETED: frozenset(),
    }
)


def can_follow(before: State, after: State, *, can_resume: bool = False) -> bool:
    """Whether a run may change from one state to the other. A run never goes back, and a final state stays."""
    if after is State.DELETING:
        return before not in GONE
    if after is State.STOP:
        return before not in FINAL and before not in GONE and before is not State.STOP
    if after is State.RESUME:
        return can_resume and before is State.STOPPED
    return after in _FORWARD[before]


def is_final(state: State) -> bool:
    """Whether the run's work has ended."""
    return state in FINAL or state in GONE
