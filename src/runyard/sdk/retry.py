"""When a call is sent again. Pure: it is told the time and gives back pauses.

A call is repeated if it certainly did not arrive, or if repeating it is safe: by its method, or because it carries an
id that the client chose. Errors that a repetition cannot cure (an unknown host, an untrusted certificate) are not
retried.
"""

import random
from collections.abc import Mapping

from runyard.sdk.calls import Call
from runyard.sdk.errors import CertificateError, RunyardError, ServerUnreachable

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
LONGEST_RETRY_AFTER_SECONDS = 60.0
_NOT_REACHED = frozenset({429, 503})
"""The server says that it did not begin with the request."""
_PASSING = frozenset({429, 502, 503, 504})


class Attempts:
    """The attempts of one call. A pause of None means: give up."""

    def __init__(self, seconds: float, *, now: float) -> None:
        self._deadline = now + seconds
        self._seconds = seconds
        self._count = 0

    def reset(self, *, now: float) -> None:
        """Begin again: there was progress."""
        self._deadline = now + self._seconds
        self._count = 0

    def find_pause(self, *, now: float, at_least: float = 0.0) -> float | None:
        """How long to wait before the next attempt; None if the time is over."""
        steps = min(self._count, 20)
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0**steps) * random.uniform(0.5, 1.0)  # noqa: S311
        self._count += 1
        left = self._deadline - now
        if left <= 0 or at_least > left:
            return None
        return max(at_least, min(pause, left))

    def find_pause_after_answer(
        self, call: Call, status: int, headers: Mapping[str, str], *, now: float
    ) -> float | None:
        """How long to wait before the call is repeated; None if the answer is final."""
        if status not in _PASSING or not (call.may_repeat or status in _NOT_REACHED):
            return None
        return self.find_pause(now=now, at_least=_read_retry_after(headers.get("retry-after")))


def is_passing(error: RunyardError) -> bool:
    """Whether the same call may succeed later: the server is away, or it or a proxy says that it is busy."""
    if isinstance(error, ServerUnreachable):
        return not isinstance(error, CertificateError)
    return getattr(error, "status", None) in _PASSING


def _read_retry_after(given: str | None) -> float:
    is_number = given is not None and given.isascii() and given.isdigit()
    return min(float(given[:6]), LONGEST_RETRY_AFTER_SECONDS) if is_number and given else 0.0
