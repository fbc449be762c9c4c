"""Errors of use cases. Adapters translate them, for example into an HTTP status and body.

An invalid request raises `spec.problems.Refused` instead, with all its problems.
"""

from runyard.app.ports import Duplicate, Stale
from runyard.spec.problem_codes import Code

__all__ = [
    "Conflict",
    "Duplicate",
    "Forbidden",
    "Gone",
    "Missing",
    "NotPossible",
    "NotSupported",
    "Stale",
    "TooLarge",
    "TooMany",
    "Unauthenticated",
    "UploadConflict",
]


class Missing(Exception):
    """The entity does not exist, or not in that project."""

    def __init__(self, entity_type: str, entity_id: str) -> None:
        super().__init__(f"{entity_type} {entity_id}")
        self.type, self.id = entity_type, entity_id


class Unauthenticated(Exception):
    """Credentials are missing, wrong or expired."""


class Forbidden(Exception):
    """The principal is known but lacks the right; the message says what is needed."""


class Conflict(Exception):
    """The writer expected another revision than the stored one (`If-Match`)."""


class NotPossible(Exception):
    """Valid and allowed, but not possible in this state or for this kind; the message says why.

    `code` is dotted and stable, like the code of a `Problem`.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotSupported(Exception):
    """This server cannot do it at all: it has no engine, or one without that capability."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class Gone(Exception):
    """It existed and cannot be had anymore: its bytes are lost."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class TooLarge(Exception):
    """It exceeds a limit of size."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class TooMany(Exception):
    """A rate limit was exceeded; try again later."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UploadConflict(Exception):
    """A resumable upload is not where the client believes, or another request writes to it.

    `offset` is how many bytes are stored; `retry_after` says in how many seconds to try again.
    """

    def __init__(
        self, code: Code, message: str, *, offset: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.offset, self.retry_after = code, offset, retry_after
