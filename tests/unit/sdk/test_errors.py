import pytest

import runyard as ry
from runyard.sdk.errors import make_api_error


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "refused", ry.Refused),
        (400, "duplicate", ry.AlreadyExists),
        (401, "unauthenticated", ry.NotSignedIn),
        (403, "forbidden", ry.Forbidden),
        (404, "missing", ry.NotFound),
        (409, "unknown_schema", ry.Conflict),
        (412, "conflict", ry.Conflict),
        (413, "too_large", ry.Refused),
        (429, "too_many", ry.TooManyRequests),
        (500, "internal", ry.ServerFailed),
        (501, "engine.cannot", ry.NotSupported),
        (507, "files.full", ry.ServerFailed),
    ],
)
def test_class_says_what_happened_when_a_request_is_refused(status: int, code: str, kind: type[ry.ApiError]) -> None:
    problem = {"code": "quantity.invalid", "path": "spec.mem", "message": "wrong", "suggestion": "6Gi", "new": 1}
    error = make_api_error(status, {"message": "no", "errorCode": code, "errors": [problem], "request_id": "r-1"})
    assert type(error) is kind
    assert isinstance(error, ry.ApiError)
    assert (error.status, error.code, error.request_id) == (status, code, "r-1")
    assert str(error.problems[0]) == "spec.mem: wrong; did you mean: 6Gi"


def test_request_is_named_when_the_server_failed() -> None:
    assert str(make_api_error(500, {"message": "internal", "request_id": "r-1"})) == "internal (request r-1)"


def test_page_of_a_proxy_is_told_apart_when_it_answers_instead_of_the_server() -> None:
    error = make_api_error(502, None, text="<html>\n<h1>Bad gateway</h1>" + "x" * 5000)
    assert isinstance(error, ry.UnexpectedResponse)
    assert "HTTP 502" in str(error)
    assert len(str(error)) < 400


def test_every_error_is_a_runyard_error_when_it_is_caught_by_its_usual_class() -> None:
    for kind, usual in [
        (ry.ArgumentError, TypeError),
        (ry.ServerUnreachable, ConnectionError),
        (ry.WaitTimeout, TimeoutError),
    ]:
        assert issubclass(kind, ry.RunyardError)
        assert issubclass(kind, usual)
