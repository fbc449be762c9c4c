"""Which failed requests are retried: those where a retry is safe and can succeed.

| failure                                                    | idempotent   | other |
|------------------------------------------------------------|--------------|-------|
| Throttled: refused before it was processed                 | yes          | yes   |
| Throttled by a disruption budget: a decision, not load     | no           | no    |
| Unreachable: nothing was sent                              | yes          | yes   |
| Untrusted: the certificate will be the same                | no           | no    |
| Disconnected; Unavailable (502, 503, 504, reasons Timeout, |              |       |
| ServerTimeout, ServiceUnavailable): it may have been done  | yes          | no    |
| ServerError (500): it may have been done, or be permanent  | two repeats  | no    |
| DeadlineExceeded: it is the deadline of the whole call     | no           | no    |
| every other refusal (400 … 422), ConfigError, Malformed    | no           | no    |

Idempotent are reads, dry runs, server-side apply, and merge patches, replaces and deletes that carry a uid or
resourceVersion precondition. A repeat may be answered with what its own first attempt brought about: NotFound to
a delete, Conflict to a patch that carries a resourceVersion.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from runyard.kube.backoff import Backoff
from runyard.kube.errors import (
    DeadlineExceeded,
    KubeError,
    ServerError,
    Stalled,
    Throttled,
    Unavailable,
    Unreachable,
    Untrusted,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

_INITIAL_SECONDS = 0.1
_MAXIMUM_SECONDS = 5.0
_SERVER_ERROR_REPEATS = 2


async def send_with_retry(
    attempt: Callable[[float], Awaitable[T]], *, is_idempotent: bool, deadline_seconds: float
) -> T:
    """Call `attempt(seconds left)` until it succeeds, fails for good, or the next attempt would miss the deadline.

    Uses exponential backoff with jitter and honours the server's Retry-After.
    """
    clock = asyncio.get_running_loop().time
    ends_at = clock() + deadline_seconds
    backoff = Backoff(initial_seconds=_INITIAL_SECONDS, maximum_seconds=_MAXIMUM_SECONDS)
    earlier: list[KubeError] = []
    while True:
        try:
            return await attempt(ends_at - clock())
        except DeadlineExceeded as error:
            raise error from (earlier[-1] if earlier else error.__cause__)
        except (Throttled, ServerError, Unavailable) as error:
            if not is_retryable(error, is_idempotent=is_idempotent, earlier=earlier):
                raise
            delay_seconds = (error.retry_after_seconds or 0.0) + backoff.next_seconds()
            if clock() + delay_seconds >= ends_at:
                raise
            earlier.append(error)
            # Warn once, so that a call which uses its whole deadline does not look like a hang.
            level = logging.INFO if len(earlier) > 1 else logging.WARNING
            logger.log(level, "retrying for up to %.0f s: %s", deadline_seconds, error)
        await asyncio.sleep(delay_seconds)


def is_retryable(error: KubeError, *, is_idempotent: bool, earlier: list[KubeError]) -> bool:
    """Whether a failed request may be sent again, by the table above."""
    match error:
        case Throttled():
            return not error.is_decision
        case Untrusted() | DeadlineExceeded() | Stalled():
            return False
        case Unreachable():
            return True
        case ServerError():
            repeats = sum(isinstance(failure, ServerError) for failure in earlier)
            return is_idempotent and repeats < _SERVER_ERROR_REPEATS
        case Unavailable():
            return is_idempotent
        case _:
            return False
