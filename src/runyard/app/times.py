"""The system clock, and the times that clients send: ISO 8601, with an offset or in UTC."""

from datetime import UTC, datetime
from typing import Any

from runyard.spec.problem_codes import Code
from runyard.spec.readers import expect_text, refuse

MOST_CHARACTERS = 64
_ALLOWED = "ISO 8601, such as 2026-11-15T12:00:00Z"


class SystemClock:
    """`app.ports.Clock` of this machine."""

    def now(self) -> datetime:
        """The current time, aware and in UTC."""
        return datetime.now(UTC)


def read_time(given: Any) -> datetime:
    """Read a time; the result is aware and in UTC. Raises `Refused`."""
    text = expect_text(given, what="a time", most=MOST_CHARACTERS).strip()
    # An unencoded plus sign in a query string has become a space.
    text = text.replace(" ", "+") if text.count("T") == 1 else text
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise refuse(Code.TIME_INVALID, "not a time", value=given, allowed=_ALLOWED) from None
