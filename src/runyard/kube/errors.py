"""Every refusal and failure of `runyard.kube`, as one tree.

KubeError
├── ConfigError                kubeconfig, in-cluster files, credentials: nothing was sent
├── Malformed                  the answer says success, and is not what was asked for
├── ApiError                   the apiserver answered, and it was not success
│   ├── BadRequest             400: malformed, unknown field (which server-side apply answers with 500)
│   ├── Unauthorized           401: it does not know who we are
│   ├── Forbidden              403: it knows, and refuses
│   ├── NotFound               404: the apiserver says that the object does not exist
│   ├── NotServed              404 without a Status: no such API, or a proxy answered; says nothing about the object
│   ├── MethodNotAllowed       405
│   ├── NotAcceptable          406
│   ├── Conflict               409: stale resourceVersion, failed precondition, a field of another manager
│   ├── AlreadyExists          409 with that reason
│   ├── Gone                   410, reasons Expired and Gone: list again
│   ├── TooLarge               413
│   ├── UnsupportedMediaType   415
│   ├── Invalid                422: `causes` names each field
│   ├── Throttled              429: refused before it was processed
│   └── ServerError            5xx that is not below
└── Unavailable                no usable answer, and whether the request was carried out is unknown: 502, 503,
    │                          504, and the reasons ServiceUnavailable, ServerTimeout, Timeout
    ├── Unreachable            no connection was made (refused, DNS, TLS): nothing was sent
    │   └── Untrusted          the server's certificate is not trusted: a repeat cannot succeed
    ├── Disconnected           cut after the request was sent, wholly or in part
    ├── DeadlineExceeded       our own deadline passed
    └── Stalled                a stream gave no byte within its read deadline
"""

import email.utils
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import msgspec

MESSAGE_CHARACTERS = 256
SERVER_MESSAGE_CHARACTERS = 8192


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of a Status' `details.causes`: which field was refused, and why."""

    field: str
    reason: str
    message: str


class KubeError(Exception):
    """The base class of this package's errors. Invalid arguments raise ValueError instead."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.request: str | None = None
        """Method and path of the request that failed; never its query, which may carry a command line."""

    def __str__(self) -> str:
        return f"{self.message} [{self.request}]" if self.request else self.message


class ConfigError(KubeError):
    """Kubeconfig, in-cluster files or credentials cannot be used; the message names file and field."""


class Malformed(KubeError):
    """The server answered with success but an unexpected body, such as a proxy's login page."""


class _Answered(KubeError):
    """The fields of a Status object; shared by ApiError and Unavailable."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
        server_message: str | None = None,
        is_status: bool = False,
    ) -> None:
        super().__init__(_shorten(message))
        self.server_message = (server_message or message)[:SERVER_MESSAGE_CHARACTERS]
        """What the server said, for those who read figures out of it; `message` is cut for people."""
        self.is_status = is_status
        """Whether the answer was a Status. Without one, a proxy, firewall or gateway may have given it."""
        self.reason = reason
        self.details: dict[str, Any] = dict(details or {})
        self.causes = _causes(self.details)
        self.retry_after_seconds = retry_after_seconds
        self._status = status


class ApiError(_Answered):
    """The apiserver answered with an error."""

    @property
    def status(self) -> int:
        """The HTTP status, or the code of a Status inside a watch."""
        return self._status or 0


class BadRequest(ApiError):
    """400: the server cannot read the request, or met an unknown field."""


class Unauthorized(ApiError):
    """401: the credentials are missing, expired or unknown."""


class Forbidden(ApiError):
    """403: authenticated, but refused by authorization, admission or quota."""


class NotFound(ApiError):
    """404 with a Status: the object does not exist."""


class NotServed(ApiError):
    """404 without a Status: the path is not served. Whether the object exists is unknown."""


class MethodNotAllowed(ApiError):
    """405: the resource does not support this verb."""


class NotAcceptable(ApiError):
    """406: the server cannot answer in the form asked for."""


class Conflict(ApiError):
    """409: stale resourceVersion, failed precondition, or a field owned by another manager (see `causes`)."""


class AlreadyExists(ApiError):
    """409 with reason AlreadyExists. Not a Conflict, which a caller solves by reading again."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old; list again."""


class TooLarge(ApiError):
    """413: the body is larger than the server or etcd takes."""


class UnsupportedMediaType(ApiError):
    """415: the content type is not one the server takes for this verb."""


class Invalid(ApiError):
    """422: understood but invalid; `causes` names each field."""


class Throttled(ApiError):
    """429: refused before it was processed; `retry_after_seconds` when the server said so."""

    @property
    def is_decision(self) -> bool:
        """Whether a disruption budget refused an eviction: a decision, not a sign of load."""
        return any(cause.reason == "DisruptionBudget" for cause in self.causes)


class ServerError(ApiError):
    """5xx: the server failed; whether the request was carried out is unknown."""


class Unavailable(_Answered):
    """No usable answer: whether the request was carried out is unknown, unless it is Unreachable."""

    @property
    def status(self) -> int | None:
        """The HTTP status when there was an answer at all."""
        return self._status


class Unreachable(Unavailable):
    """No connection was made (refused, DNS, TLS, proxy): nothing was sent."""


class Untrusted(Unreachable):
    """The server's certificate is not trusted: a repeat cannot succeed."""


class Disconnected(Unavailable):
    """The connection was cut after the request was sent, wholly or in part."""


class DeadlineExceeded(Unavailable):
    """Our own deadline passed."""


class Stalled(Unavailable):
    """A stream delivered no byte within its read deadline (idle timeout)."""


_BY_STATUS: dict[int, type[ApiError] | type[Unavailable]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: Throttled,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}

# Where the reason says more than the code: etcd out of reach is a 500 ServerTimeout, an existing name a 409.
_BY_REASON: dict[str, type[ApiError] | type[Unavailable]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
    "Gone": Gone,
    "ServerTimeout": Unavailable,
    "ServiceUnavailable": Unavailable,
    "Timeout": Unavailable,
    "TooManyRequests": Throttled,
}

# What server-side apply answers to a field that the schema does not have, as a 500 without a reason.
_UNKNOWN_FIELD_IN_APPLY = "failed to create typed patch object"


def error_from_status(status: int, body: bytes, *, headers: Mapping[str, str]) -> ApiError | Unavailable:
    """The typed error for an error response; accepts any body, including a proxy's HTML."""
    answer = _decode_status(body)
    is_status = answer is not None
    if answer is None:
        answer = {"message": " ".join(body[: 8 * MESSAGE_CHARACTERS].decode(errors="replace").split())}
    return _build(answer, code=status, retry_after_seconds=_retry_after(headers), is_status=is_status)


def error_from_status_object(answer: Mapping[str, Any]) -> ApiError | Unavailable:
    """The typed error for a Status that came inside a 200: a watch's ERROR event, a delete's answer."""
    code = answer.get("code")
    return _build(answer, code=code if isinstance(code, int) else 500, retry_after_seconds=None, is_status=True)


def _build(
    answer: Mapping[str, Any], *, code: int, retry_after_seconds: float | None, is_status: bool
) -> ApiError | Unavailable:
    reason = _text(answer.get("reason"))
    details = answer.get("details")
    details = details if isinstance(details, dict) else {}
    message = _text(answer.get("message"))
    if refused_patch := _find_refused_patch(details):
        details, message = {**details, "causes": [refused_patch]}, f"patch: {refused_patch['message']}"
    if retry_after_seconds is None:
        seconds = details.get("retryAfterSeconds")
        retry_after_seconds = float(seconds) if isinstance(seconds, int) and seconds > 0 else None
    error_type = _BY_REASON.get(reason) or _BY_STATUS.get(code, ServerError if code >= 500 else ApiError)
    if error_type is ServerError and message.startswith(_UNKNOWN_FIELD_IN_APPLY):
        error_type = BadRequest
    if error_type is NotFound and not is_status:
        error_type = NotServed
    return error_type(
        f"{code} {reason or _phrase(code)}: {message or 'no message'}",
        status=code,
        reason=reason,
        details=details,
        retry_after_seconds=retry_after_seconds,
        server_message=message,
        is_status=is_status,
    )


def _find_refused_patch(details: Mapping[str, Any]) -> dict[str, str] | None:
    """The cause of a patch that strict validation refused, without the object that the server quotes in it.

    The quotation is the whole object, a Secret's data too, and hides which field was unknown.
    """
    causes = _causes(details)
    if len(causes) != 1 or causes[0].field != "patch":
        return None
    quoted = re.fullmatch(r'Invalid value: ".*": (.*)', causes[0].message, flags=re.DOTALL)
    return {"reason": causes[0].reason, "message": quoted[1], "field": "patch"} if quoted else None


def _decode_status(body: bytes) -> dict[str, Any] | None:
    try:
        answer = msgspec.json.decode(body)
    except (ValueError, RecursionError):  # ValueError: not JSON, not UTF-8
        return None
    # The apiserver's own request timeout answers with a Status that says neither kind nor apiVersion.
    is_status = isinstance(answer, dict) and (answer.get("kind") == "Status" or answer.get("status") == "Failure")
    return answer if is_status else None


def _causes(details: Mapping[str, Any]) -> tuple[Cause, ...]:
    causes = details.get("causes")
    return tuple(
        Cause(
            field=_text(cause.get("field")),
            reason=_text(cause.get("reason")),
            message=_text(cause.get("message")),
        )
        for cause in (causes if isinstance(causes, list) else ())
        if isinstance(cause, dict)
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds, from either of its two forms; None for anything else."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        at = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return "unknown status"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _shorten(message: str) -> str:
    return message if len(message) <= MESSAGE_CHARACTERS else f"{message[: MESSAGE_CHARACTERS - 1]}…"
