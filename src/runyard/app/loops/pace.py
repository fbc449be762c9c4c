"""Intervals and limits of the reconcile loop."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from runyard.app.engine_calls import CALL_SECONDS
from runyard.domain.outcomes import Lane

SLOTS: Mapping[Lane, int] = {Lane.STOP: 16, Lane.WATCH: 16, Lane.CREATE: 32, Lane.SETTLE: 64}
"""How many runs of each lane are processed at the same time. Settling mostly waits for logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The heartbeat renews leases several times before they could expire."""

    slots: Mapping[Lane, int] = field(default_factory=lambda: SLOTS)
    writes: int = 4
    """How many steps write at the same time. The store serves writers in order (FIFO): observations and requests of
    users wait behind so many steps at most, not behind all slots.
    """
    lease: timedelta = timedelta(seconds=15)
    heartbeat_seconds: float = 5.0
    call_seconds: float = CALL_SECONDS
    """The timeout of one call to an engine."""
    resync_seconds: float = 60.0
    """How often all anchors are compared with what is stored, although changes are reported."""
    detail_seconds: float = 1.0
    """How long a report waits that changes no state: the next one often follows, and both are one write."""
    release_check: timedelta = timedelta(seconds=30)
    """When a run is observed that was released and of which nothing was reported since."""
    stop_retry: timedelta = timedelta(seconds=30)
    """When a stop or removal is repeated whose effect was not reported."""
    drain_seconds: float = 60.0
    """How long one attempt to settle waits for the log."""
    settle_retry: timedelta = timedelta(seconds=5)
    """When settling goes on that the engine or the log did not finish."""
    misplaced: timedelta = timedelta(minutes=5)
    """How often a run of another place is looked at."""
    min_backoff: timedelta = timedelta(seconds=1)
    max_backoff: timedelta = timedelta(minutes=1)
    poll_seconds: float = 10.0
    """How often the queue is read at least: other replicas may have made a run due without telling."""
