"""What can go wrong with the log store."""

from runyard.app.ports import Unavailable


class LogsUnavailable(Unavailable):
    """The log store does not answer, is full or is damaged; what was asked for may not have been done."""
