"""How fast the reconcile loop goes."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Two calls of an engine end before the lease does, and nobody is asked more often than is useful."""

    at_once: int = 32
    """Runs that are worked on at the same time."""
    shard: tuple[int, int] = (0, 1)
    lease: timedelta = timedelta(seconds=90)
    call_seconds: float = 30.0
    """How long one call of an engine may take."""
    resync: timedelta = timedelta(minutes=5)
    """How often a run is looked at although nobody said that something happened."""
    ending: timedelta = timedelta(seconds=2)
    """How soon one that is to end is looked at again."""
    first_retry: timedelta = timedelta(seconds=1)
    last_retry: timedelta = timedelta(minutes=1)
    poll_seconds: float = 2.0
    """How often the queue is looked at although nobody said that something is due."""
    idle_poll_seconds: float = 30.0
    """The same without an engine."""
