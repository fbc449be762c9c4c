"""The states of a run, and which may follow which. Pure; `app` is the only one that acts on it."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """States as the wire knows them; there are no others."""

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
"""Where a run's work has ended; what is left is to resume a service, or to delete."""
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
    """Whether a run in one state may come to be in the other. Nothing goes back, and what is final stays."""
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
