"""Whether the provider counts as reachable: with hysteresis, so that one lost request is not an outage."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from runyard.node.providers.provider import Link


@dataclass(frozen=True, slots=True)
class LinkProblem:
    """Why the link does not work."""

    message: str
    reason: str = "LinkDown"
    is_certain: bool = False
    """Whether the provider said so itself: then there is nothing to wait for."""


class LinkMonitor:
    """Judges what is observed of a link. Down until something works, and after `down_after_seconds` of failures."""

    def __init__(self, *, now: datetime, down_after_seconds: float) -> None:
        self._down_after = timedelta(seconds=down_after_seconds)
        self._failing_since: datetime | None = None
        self._link = Link(is_up=False, has_listed=False, since=now, message="nothing was heard of the provider yet")

    @property
    def link(self) -> Link:
        """The judgement."""
        return self._link

    def note_listed(self) -> None:
        """All pods have been listed."""
        self._link = replace(self._link, has_listed=True)

    def observe(self, problem: LinkProblem | None, *, now: datetime) -> bool:
        """Take in what was last observed, None when it works; says whether the link changed."""
        before = self._link
        if problem is None:
            self._failing_since = None
            if not before.is_up:
                self._link = replace(before, is_up=True, since=now, message="", reason="LinkDown")
            return not before.is_up
        self._failing_since = self._failing_since or now
        is_patient = not problem.is_certain and now - self._failing_since < self._down_after
        if before.is_up and is_patient:
            return False
        since = now if before.is_up else before.since
        self._link = replace(before, is_up=False, since=since, message=problem.message, reason=problem.reason)
        return before.is_up or before.reason != problem.reason
