"""What can go wrong with the log store."""


class LogsUnavailable(Exception):  # noqa: N818 - it is the logs that are unavailable
    """The log store does not answer, is full or is damaged; what was asked for may not have been done."""
