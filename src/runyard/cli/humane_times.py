"""Times for people: `3 min ago`."""

from datetime import UTC, datetime

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
