"""Names of log events: dotted and stable, so that they can be searched and counted."""

REQUEST_DONE = "request.done"
REQUEST_FAILED = "request.failed"
REQUEST_ABANDONED = "request.abandoned"
"""The client disconnected before a response started."""
