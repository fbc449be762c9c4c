"""Times as Kubernetes writes them."""

from datetime import UTC, datetime


def write_time(at: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_now() -> str:
    """The time now."""
    return write_time(datetime.now(UTC))
