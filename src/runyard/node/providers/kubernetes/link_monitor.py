"""Whether the provider counts as reachable: with hysteresis, so that one lost request is not an outage."""

from dataclasses import replace
from datetime import datetime, timedelta

from runyard.node.providers.provider import Link


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

    def observe(self, problem: str | None, *, now: datetime) -> bool:
        """Take in what was last observed, None when it works; says whether the link went up or down."""
        was_up = self._link.is_up
        if problem is None:
            self._failing_since = None
            is_up = True
        else:
            self._failing_since = self._failing_since or now
            is_up = was_up and now - self._failing_since < self._down_after
        if is_up == was_up:
            if not is_up and problem is not None:
                self._link = replace(self._link, message=problem)
            return False
        self._link = replace(self._link, is_up=is_up, since=now, message="" if is_up else problem or "")
        return True
