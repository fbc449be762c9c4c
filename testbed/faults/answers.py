"""Responses that the proxy sends instead of the apiserver: errors (Status or HTML page), the end of a watch."""

import json
from http import HTTPStatus
from typing import Any

from testbed.faults.plan import Answer

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def render_answer(answer: Answer, *, message: str = "told by the fault proxy", closes: bool) -> bytes:
    """The answer with its Status body or page, as bytes for the wire."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Unknown"
    if answer.is_page:
        body = f"<html><head><title>{phrase}</title></head><body><h1>{phrase}</h1>{message}</body></html>".encode()
    else:
        body = json.dumps(_render_status(answer, message=message)).encode()
    lines = [
        f"HTTP/1.1 {answer.status} {phrase}",
        f"Content-Type: {'text/html' if answer.is_page else 'application/json'}",
        f"Content-Length: {len(body)}",
    ]
    if answer.retry_after_seconds is not None:
        lines.append(f"Retry-After: {answer.retry_after_seconds}")
    if closes:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + body


def render_expired_event() -> bytes:
    """The line with which the apiserver ends a watch whose resourceVersion it no longer has."""
    status = _render_status(Answer(410), message="too old resource version: told by the fault proxy")
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


def _render_status(answer: Answer, *, message: str) -> dict[str, Any]:
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": answer.reason or _REASONS.get(answer.status, "Unknown"),
        "code": answer.status,
    }
    if answer.retry_after_seconds is not None:
        status["details"] = {"retryAfterSeconds": answer.retry_after_seconds}
    return status
