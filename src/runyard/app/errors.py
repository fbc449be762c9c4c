"""What a use case may answer instead of a result. Adapters turn each into their own words (HTTP: status and body).

What is wrong with a request itself is `spec.problems.Refused`: every problem at once.
"""

from runyard.app.ports import Duplicate, Stale
from runyard.spec.problem_codes import Code

__all__ = ["Conflict", "Duplicate", "Forbidden", "Missing", "NotPossible", "Stale", "TooMany", "Unauthenticated"]


class Missing(Exception):
    """There is no such entity, or not in that project."""

    def __init__(self, entity_type: str, entity_id: str) -> None:
        super().__init__(f"{entity_type} {entity_id}")
        self.type, self.id = entity_type, entity_id


class Unauthenticated(Exception):
    """Nobody, or somebody whose credentials are wrong or have ended."""


class Forbidden(Exception):
    """Known, but may not do that; the message says what is needed."""


class Conflict(Exception):
    """The writer looked at another revision than the stored one (`If-Match`)."""


class NotPossible(Exception):
    """Rightly written and allowed, but not in this state or not for this kind; the message says why.

    `code` is dotted and stable, as that of a `Problem`.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class TooMany(Exception):
    """Ask again later."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after
