"""Intervals and limits of the reconcile loop."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The defaults let two calls to an engine time out before a lease expires."""

    concurrency: int = 32
    """How many runs are processed at the same time."""
    shard: tuple[int, int] = (0, 1)
    """Which part of the queue this replica processes: index and count."""
    lease: timedelta = timedelta(seconds=90)
    call_seconds: float = 30.0
    """The timeout of one call to an engine."""
    resync: timedelta = timedelta(minutes=5)
    """How often a run is observed although no change was reported."""
    stop_poll: timedelta = timedelta(seconds=2)
    """How often a run that is being stopped or removed is observed."""
    min_backoff: timedelta = timedelta(seconds=1)
    max_backoff: timedelta = timedelta(minutes=1)
    poll_seconds: float = 2.0
    """How often the queue is read although no run was reported due."""
    idle_poll_seconds: float = 30.0
    """The same without an engine."""
