"""Times for people: `3 min ago`, and the times that they give."""

from datetime import UTC, datetime, timedelta

import click

from runyard.spec.duration import DurationError, parse_duration

_ALLOWED = "ISO 8601, such as 2026-11-15T12:00:00Z, or how long ago, such as 2h or 7d"
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def format_age(text: str, *, now: datetime) -> str:
    """How long ago a time in ISO 8601 was, by its largest unit; the text itself if it is not a time."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    seconds = int((now - at).total_seconds())
    if seconds < 1:
        return "now"
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= size)
    return f"{seconds // size} {unit} ago"


def add_age(text: str) -> str:
    """A time in ISO 8601 with its age: `2026-11-15T12:00:00Z (3 min ago)`; the text itself if it is not a time."""
    age = format_age(text, now=datetime.now(UTC))
    return text if age == text else f"{text} ({age})"


def read_time_option(option: str, given: str | None) -> str | None:
    """Return a time of an option as ISO 8601 with its offset; a time without one is local. Raises `UsageError`."""
    if given is None:
        return None
    try:
        return datetime.fromisoformat(given).astimezone().isoformat()
    except ValueError:
        pass
    suggestion = f"{given}d" if given.isdecimal() else None
    try:
        if suggestion is None:
            return (datetime.now(UTC) - timedelta(seconds=parse_duration(given))).isoformat()
    except DurationError as error:
        suggestion = error.suggestion
    meant = f"; did you mean {suggestion}?" if suggestion else ""
    raise click.UsageError(f"{option}: `{given}` is not a time; allowed: {_ALLOWED}{meant}")
