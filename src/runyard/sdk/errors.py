"""Every error that the SDK raises.

RunyardError
├── ConfigurationError    no usable credentials or endpoint
├── ArgumentError         an argument of a call is unknown or wrong; also a TypeError
├── ServerUnreachable     no connection, or it broke too often; also a ConnectionError
│   └── CertificateError  the server's certificate is not trusted
├── UnexpectedResponse    the response is not from a Runyard server, or is too large
├── ApiError              the server refused a request: `status`, `code`, `message`, `problems`, `request_id`
│   ├── Refused           400: the request is wrong; `problems` has every problem
│   │   └── AlreadyExists     the id is taken by another request
│   ├── NotSignedIn       401
│   ├── Forbidden         403
│   ├── NotFound          404
│   ├── Conflict          409, 412: it has changed since it was read
│   ├── TooManyRequests   429
│   ├── NotSupported      501: this server or its engine cannot do it
│   └── ServerFailed      any other 5xx
├── RunFailed             the run that was waited for did not complete; `run` is the run
├── WaitTimeout           the time to wait is over; also a TimeoutError
├── SessionFailed         a command or a connection in a container failed or was cut
└── TransferFailed        a file arrived incomplete or changed
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_MESSAGE = 2000
"""Characters of a response that a message shows."""
_DUPLICATE = "duplicate"


class RunyardError(Exception):
    """The base of all errors of the SDK."""


class ConfigurationError(RunyardError):
    """The credentials or the endpoint cannot be used."""


class ArgumentError(RunyardError, TypeError):
    """An argument of a call is unknown or wrong."""


class ServerUnreachable(RunyardError, ConnectionError):
    """There is no connection to the server, or it broke too often."""


class CertificateError(ServerUnreachable):
    """The server's certificate is not trusted."""


class UnexpectedResponse(RunyardError):
    """The response is not from a Runyard server, or is too large."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class WaitTimeout(RunyardError, TimeoutError):
    """The time to wait is over. The run goes on."""


class SessionFailed(RunyardError):
    """A command could not be executed in a container, or a session there was cut."""


class TransferFailed(RunyardError):
    """A file arrived incomplete or changed."""


class RunFailed(RunyardError):
    """The run that was waited for did not complete."""

    def __init__(self, message: str, run: Any) -> None:
        super().__init__(message)
        self.run = run


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a request, or a warning, as the server reports it."""

    code: str
    path: str
    message: str
    value: Any = None
    allowed: str | None = None
    suggestion: str | None = None

    def __str__(self) -> str:
        parts = [f"{self.path}: {self.message}" if self.path else self.message]
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.suggestion:
            parts.append(f"did you mean: {self.suggestion}")
        return "; ".join(parts)


class ApiError(RunyardError):
    """The server refused a request."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str = "",
        problems: tuple[Problem, ...] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.problems = problems
        self.request_id = request_id


class Refused(ApiError):
    """The request is wrong; `problems` has every problem."""


class AlreadyExists(Refused):
    """The id is taken by another request."""


class NotSignedIn(ApiError):
    """The server does not accept the credentials."""


class Forbidden(ApiError):
    """The user may not do this."""


class NotFound(ApiError):
    """There is no such entity, or it is not visible to the user."""


class Conflict(ApiError):
    """It has changed since it was read."""


class TooManyRequests(ApiError):
    """The server limits requests."""


class NotSupported(ApiError):
    """This server or its engine cannot do it."""


class ServerFailed(ApiError):
    """The server failed."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: Refused,
    401: NotSignedIn,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    429: TooManyRequests,
    501: NotSupported,
}


def read_problem(given: Any) -> Problem:
    """A problem from JSON; unknown parts are ignored, so that newer servers can be understood."""
    found = given if isinstance(given, Mapping) else {"message": str(given)}
    return Problem(
        code=str(found.get("code", "")),
        path=str(found.get("path", "")),
        message=str(found.get("message", "")),
        value=found.get("value"),
        allowed=_read_text(found.get("allowed")),
        suggestion=_read_text(found.get("suggestion")),
    )


def read_problems(given: Any) -> tuple[Problem, ...]:
    """Problems from JSON."""
    return tuple(map(read_problem, given)) if isinstance(given, list) else ()


def make_api_error(status: int, answer: Any, *, text: str = "") -> RunyardError:
    """The error of a response. `answer` is its JSON, or None; `text` is its body."""
    if not isinstance(answer, Mapping) or "message" not in answer:
        shown = " ".join(text.split())[:200] or "no text"
        words = f"HTTP {status}, and the response is not from a Runyard server: {shown}"
        return UnexpectedResponse(words, status=status)
    kind = _BY_STATUS.get(status, ServerFailed if status >= 500 else Refused)
    code = str(answer.get("errorCode", ""))
    if kind is Refused and code == _DUPLICATE:
        kind = AlreadyExists
    request_id = _read_text(answer.get("request_id"))
    message = str(answer["message"])[:MOST_MESSAGE]
    if status >= 500 and status != 501 and request_id:
        message = f"{message} (request {request_id})"
    problems = read_problems(answer.get("errors"))
    return kind(message, status=status, code=code, problems=problems, request_id=request_id)


def _read_text(given: Any) -> str | None:
    return given if isinstance(given, str) and given else None
