"""From an answer to a typed error, whatever the answer looks like."""

import copy
import json
import pickle
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from runyard.kube import errors
from runyard.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    DeadlineExceeded,
    Disconnected,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    NotServed,
    ServerError,
    Stalled,
    Throttled,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unreachable,
    UnsupportedMediaType,
    error_from_status,
    error_from_status_object,
)


def status_body(code: int, reason: str, **fields: Any) -> bytes:
    return json.dumps({"kind": "Status", "status": "Failure", "code": code, "reason": reason, **fields}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", MethodNotAllowed),
        (406, "NotAcceptable", NotAcceptable),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (413, "RequestEntityTooLarge", TooLarge),
        (415, "UnsupportedMediaType", UnsupportedMediaType),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Throttled),
        (500, "InternalError", ServerError),
        (500, "ServerTimeout", Unavailable),
        (501, "", ServerError),
        (502, "", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
        (302, "", ApiError),
        (418, "", ApiError),
        (599, "", ServerError),
    ],
)
def test_error_is_of_its_type_when_the_server_refuses(code: int, reason: str, expected: type[KubeError]) -> None:
    error = error_from_status(code, status_body(code, reason, message="no"), headers={})
    assert type(error) is expected
    assert error.status == code
    assert error.reason == reason
    assert str(code) in str(error)


def test_already_exists_is_no_conflict_when_caught_by_type() -> None:
    assert not issubclass(AlreadyExists, Conflict)


@pytest.mark.parametrize("kind", [Unreachable, Disconnected, DeadlineExceeded, Stalled])
def test_failures_below_http_are_unavailable_when_caught_by_type(kind: type[Unavailable]) -> None:
    error = kind("gone")
    assert isinstance(error, Unavailable)
    assert error.status is None


def test_causes_name_fields_when_an_object_is_invalid() -> None:
    causes = [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers[0].image"}]
    error = error_from_status(422, status_body(422, "Invalid", details={"causes": causes}), headers={})
    assert isinstance(error, Invalid)
    assert error.causes == (
        Cause(field="spec.containers[0].image", reason="FieldValueRequired", message="Required value"),
    )


def test_object_is_left_out_when_strict_validation_refuses_a_patch() -> None:
    quoted = (
        'Invalid value: "{\\"data\\":{\\"password\\":\\"aHVudGVyMg==\\"}}": strict decoding error: unknown field "dta"'
    )
    causes = [{"reason": "FieldValueInvalid", "message": quoted, "field": "patch"}]
    body = status_body(422, "Invalid", message=f' "" is invalid: patch: {quoted}', details={"causes": causes})
    error = error_from_status(422, body, headers={})
    assert str(error) == '422 Invalid: patch: strict decoding error: unknown field "dta"'
    assert "aHVudGVyMg" not in repr(vars(error))


def test_mistake_is_the_callers_when_apply_meets_an_unknown_field() -> None:
    message = "failed to create typed patch object (n/a; /v1, Kind=ConfigMap): .dta: field not declared in schema"
    error = error_from_status(500, json.dumps({"kind": "Status", "message": message}).encode(), headers={})
    assert type(error) is BadRequest
    assert error.status == 500


def test_message_is_cut_when_it_is_long() -> None:
    error = error_from_status(400, status_body(400, "BadRequest", message="x" * 10_000), headers={})
    assert len(error.message) == errors.MESSAGE_CHARACTERS
    assert error.server_message == "x" * errors.SERVER_MESSAGE_CHARACTERS


@pytest.mark.parametrize("code", [400, 403, 404, 413, 422, 500, 503])
def test_error_says_whether_a_status_came_when_a_gateway_may_have_answered(code: int) -> None:
    assert error_from_status(code, status_body(code, ""), headers={}).is_status
    assert error_from_status_object({"kind": "Status", "code": code}).is_status
    assert not error_from_status(code, b"<html>no</html>", headers={}).is_status
    assert not error_from_status(code, b'{"error": "no"}', headers={}).is_status


def test_object_is_not_called_absent_when_a_404_has_no_status() -> None:
    error = error_from_status(404, b"404 page not found", headers={})
    assert type(error) is NotServed
    assert not isinstance(error, NotFound)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html>\n<body>  Bad   gateway</body></html>", "502 Bad Gateway: <html> <body> Bad gateway</body></html>"),
        (b"", "502 Bad Gateway: no message"),
        (b"\xff\xfe\x00", "502 Bad Gateway: \ufffd\ufffd\x00"),
        (b"[1, 2]", "502 Bad Gateway: [1, 2]"),
        (b'{"error": "upstream"}', '502 Bad Gateway: {"error": "upstream"}'),
        (b"[" * 100_000, None),
    ],
)
def test_body_is_taken_as_text_when_it_is_no_status(body: bytes, expected: str | None) -> None:
    error = error_from_status(502, body, headers={})
    assert type(error) is Unavailable
    assert expected is None or str(error) == expected
    assert len(error.message) <= errors.MESSAGE_CHARACTERS


@pytest.mark.parametrize(
    "fields",
    [
        {"message": 7, "details": "text"},
        {"details": {"causes": "none", "retryAfterSeconds": "soon"}},
        {"details": {"causes": [None, {"field": 3}]}},
        {"message": None, "details": None},
    ],
)
def test_error_is_built_when_a_status_has_the_wrong_types(fields: dict[str, Any]) -> None:
    error = error_from_status(409, status_body(409, "Conflict", **fields), headers={})
    assert type(error) is Conflict
    assert error.retry_after_seconds is None
    assert all(isinstance(cause.field, str) for cause in error.causes)


def test_status_is_recognised_when_it_says_no_kind() -> None:
    body = b'{"metadata":{},"status":"Failure","message":"too slow","reason":"Timeout","details":{},"code":504}'
    error = error_from_status(504, body, headers={})
    assert type(error) is Unavailable
    assert str(error) == "504 Timeout: too slow"


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        ({"Retry-After": "7"}, None, 7.0),
        ({"Retry-After": "7"}, {"retryAfterSeconds": 3}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({}, {"retryAfterSeconds": 0}, None),
        ({}, None, None),
        ({"Retry-After": "soon"}, {"retryAfterSeconds": 3}, 3.0),
        ({"Retry-After": "-1"}, None, None),
        ({"Retry-After": "1e9"}, None, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, None, 0.0),
    ],
)
def test_retry_after_is_read_when_the_server_says_it(
    headers: dict[str, str], details: object, expected: float | None
) -> None:
    error = error_from_status(429, status_body(429, "TooManyRequests", details=details), headers=headers)
    assert isinstance(error, Throttled)
    assert error.retry_after_seconds == expected


def test_retry_after_is_a_delay_when_the_server_says_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    error = error_from_status(503, b"", headers={"Retry-After": later})
    assert error.retry_after_seconds is not None
    assert 50 < error.retry_after_seconds <= 60


def test_watch_error_is_typed_when_it_comes_as_an_object() -> None:
    event = {"kind": "Status", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410}
    assert type(error_from_status_object(event)) is Gone
    assert type(error_from_status_object({"kind": "Status", "message": "no code"})) is ServerError


def test_request_is_named_when_the_error_is_printed() -> None:
    error = NotFound("404 NotFound: gone", status=404)
    error.request = "GET /api/v1/pods"
    assert str(error) == "404 NotFound: gone [GET /api/v1/pods]"


def test_error_survives_when_it_is_pickled_or_copied() -> None:
    error = error_from_status(429, status_body(429, "TooManyRequests", message="slow"), headers={"Retry-After": "2"})
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is Throttled
        assert str(twin) == str(error)
        assert twin.retry_after_seconds == 2.0
        assert twin.status == 429
