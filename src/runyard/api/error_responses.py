"""Error responses. DigitalHub's SDK searches their text for known phrases; other programs read `errors`."""

import math
from collections.abc import Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response

from runyard.api.responses import json_response
from runyard.api.routing import WEBSOCKET
from runyard.app.blob_store import StorageFull
from runyard.app.engine import EngineRefusal, EngineUnavailable
from runyard.app.errors import (
    Conflict,
    Duplicate,
    Forbidden,
    Gone,
    Missing,
    NotPossible,
    NotSupported,
    Stale,
    TooLarge,
    TooMany,
    Unauthenticated,
    UploadConflict,
)
from runyard.app.identity import GrantRefused
from runyard.app.ports import Unavailable, Unstorable
from runyard.domain.effective_document import UnknownSchema
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused, cap_problems, format_problems
from runyard.telemetry import find_request_id

MOST_TEXT = 1 << 16
"""Longest message: a request is not echoed back at full length."""


def add_exception_handlers(app: Starlette) -> None:
    """Map every exception of the use cases to a response; any other exception is a 500 without details."""
    app.add_exception_handler(Refused, _respond_to_refused)
    app.add_exception_handler(GrantRefused, _respond_to_refused_grant)
    app.add_exception_handler(HTTPException, _respond_to_http_exception)
    app.add_exception_handler(Exception, _respond_to_unexpected)
    for kind in _STATUSES:
        app.add_exception_handler(kind, _respond_to_known)


_STATUSES: dict[type[Exception], tuple[int, str]] = {
    Missing: (404, "missing"),
    Duplicate: (400, "duplicate"),
    NotPossible: (400, "not_possible"),
    Unstorable: (400, "unstorable"),
    UnknownSchema: (409, "unknown_schema"),
    Unauthenticated: (401, "unauthenticated"),
    Forbidden: (403, "forbidden"),
    Conflict: (412, "conflict"),
    Stale: (412, "conflict"),
    Gone: (410, "gone"),
    TooLarge: (413, "too_large"),
    StorageFull: (507, Code.FILES_FULL.value),
    TooMany: (429, "too_many"),
    UploadConflict: (409, "upload"),
    Unavailable: (503, "unavailable"),
    NotSupported: (501, "not_supported"),
    EngineRefusal: (400, "engine"),
    EngineUnavailable: (503, "engine"),
}


def error_response(
    status: int,
    message: str,
    *,
    code: str,
    problems: Iterable[Problem] = (),
    headers: dict[str, str] | None = None,
    more: dict[str, Any] | None = None,
) -> Response:
    """An error in JSON; `more` adds fields that a protocol requires (OAuth)."""
    content: dict[str, Any] = {"status": status, "message": message[:MOST_TEXT], "errorCode": code, **(more or {})}
    content["errors"] = [problem.to_dict() for problem in problems]
    if (request_id := find_request_id()) is not None:
        content["request_id"] = request_id
    return json_response(content, status=status, headers=headers)


async def _respond_to_refused(_request: HTTPConnection, error: Exception) -> Response:
    problems = cap_problems(error.problems) if isinstance(error, Refused) else ()
    return error_response(400, format_problems(problems), code="refused", problems=problems)


async def _respond_to_known(request: HTTPConnection, error: Exception) -> Response:
    status, code = next(known for kind, known in _STATUSES.items() if isinstance(error, kind))
    message, headers = str(error), dict[str, str]()
    if isinstance(error, Missing):
        message = f"No such EntityName: {error.type} {error.id}"
    elif isinstance(error, Unavailable):
        # The address of the database and the cause belong into the log, not into the response.
        request.state.failure, message = message, error.shown
    elif isinstance(error, NotPossible | NotSupported | Gone | TooLarge | EngineRefusal | EngineUnavailable):
        code = error.code
    elif isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="runyard"'
    elif isinstance(error, UploadConflict):
        code = error.code
        headers |= {} if error.offset is None else {"Upload-Offset": str(error.offset)}
        headers |= {} if error.retry_after is None else {"Retry-After": str(math.ceil(error.retry_after))}
    elif isinstance(error, TooMany):
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    return error_response(status, message, code=code, headers=headers)


async def _respond_to_refused_grant(_request: HTTPConnection, error: Exception) -> Response:
    assert isinstance(error, GrantRefused)  # noqa: S101 - registered for it alone
    headers = {"Cache-Control": "no-store"}
    return error_response(400, str(error), code=error.error, headers=headers, more=error.to_dict())


async def _respond_to_http_exception(request: HTTPConnection, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it alone
    message, method = error.detail, request.scope.get("method", WEBSOCKET)
    if error.status_code == 404:
        message = f"no route for {method} {request.url.path}"
    elif error.status_code == 405:
        message = f"method {method} is not allowed for {request.url.path}"
    return error_response(
        error.status_code, message, code=f"http.{error.status_code}", headers=dict(error.headers or {})
    )


async def _respond_to_unexpected(_request: HTTPConnection, _error: Exception) -> Response:
    # Starlette re-raises it after this response, and the telemetry middleware logs it.
    return error_response(500, "internal server error; see the server's log for this request id", code="internal")
