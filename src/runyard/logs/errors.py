"""Errors of the log store."""

from runyard.app.ports import Unavailable


class LogsUnavailable(Unavailable):
    """The log store does not respond, is full or is damaged; the operation may or may not have been done."""
