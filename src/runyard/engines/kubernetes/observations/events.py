"""The events of a run: when they happened last, how often, and the latest of a kind."""

from collections.abc import Collection, Sequence

from runyard.engines.kubernetes.views import EventView


def find_time(event: EventView) -> str:
    """When an event happened last."""
    return (event.series.last_at if event.series else None) or event.last_at or event.at or event.first_at or ""


def count_repeats(event: EventView) -> int:
    """How often an event happened."""
    return event.series.count if event.series else event.count or 1


def find_latest(events: Sequence[EventView], reasons: Collection[str], *, uid: str) -> EventView | None:
    """The newest event about one object with one of these reasons."""
    found = [event for event in events if event.reason in reasons and event.involved.uid == uid]
    return max(found, key=find_time, default=None)
