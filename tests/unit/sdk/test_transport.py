"""Retries, sign-in and refresh over scripted answers: `transport=` is the seam."""

import asyncio
import base64
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

import runyard as ry
from runyard.sdk.contexts import FILE_VARIABLE

PROJECT = {"id": "demo", "name": "demo", "kind": "project", "key": "store://demo"}
Answer = httpx2.Response | Exception


class Script:
    """Answers requests in order; the last answer stays."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)


def ok(content: Any = PROJECT) -> httpx2.Response:
    return httpx2.Response(200, json=content)


def refuse(status: int, code: str = "refused", **headers: str) -> httpx2.Response:
    return httpx2.Response(status, json={"message": "no", "errorCode": code}, headers=headers)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("runyard.sdk.retry.FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "contexts.json"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RUNYARD_ENDPOINT", "RUNYARD_CONTEXT", "DHCORE_ENDPOINT", "DH_CONFIG", "DH_NAME"):
        monkeypatch.delenv(name, raising=False)


def connect(script: Callable[[httpx2.Request], httpx2.Response], **more: Any) -> ry.Client:
    return ry.Client("http://server", transport=httpx2.MockTransport(script), **more)


def make_error(cause: Exception) -> httpx2.ConnectError:
    error = httpx2.ConnectError(str(cause))
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "passing",
    [
        httpx2.ConnectError("refused"),
        httpx2.ReadError("broken"),
        refuse(503, "unavailable"),
        refuse(429, "too_many"),
        refuse(502, "gateway"),
    ],
)
def test_read_is_repeated_when_the_failure_passes(passing: Answer) -> None:
    script = Script(passing, passing, ok())
    with connect(script) as client:
        assert client.get_project("demo").name == "demo"
    assert len(script.requests) == 3


@pytest.mark.parametrize(
    ("failure", "count"),
    [(httpx2.ReadError("broken"), 1), (refuse(502, "x"), 1), (httpx2.ConnectError("no"), 2), (refuse(503), 2)],
)
def test_write_without_an_id_is_repeated_only_when_it_did_not_arrive(failure: Answer, count: int) -> None:
    script = Script(failure, ok())
    with connect(script) as client:
        try:
            client.new_project("demo")
        except ry.RunyardError:
            assert count == 1
    assert len(script.requests) == count


def test_submit_is_repeated_with_the_same_id_when_its_answer_was_lost() -> None:
    function = {"id": "f1", "name": "f", "kind": "container", "project": "demo"}
    run = {"id": "r", "kind": "container+job:run", "project": "demo", "status": {"state": "READY"}}
    script = Script(ok(), ok(function), ok({"content": [{"id": "t1"}]}), httpx2.ReadError("lost"), ok(run))
    with connect(script) as client:
        made = client.get_project("demo").new_function("f", "container", image="busybox").run()
    first, second = (json.loads(request.content) for request in script.requests[-2:])
    assert first == second
    assert first["id"]
    assert first["spec"] == {"task": "container+job://demo/t1", "function": "container://demo/f:f1"}
    assert (made.id, made.state) == ("r", "READY")


def test_function_is_found_when_a_repeated_request_had_created_it() -> None:
    function = {"id": "f1", "name": "f", "kind": "container", "project": "demo"}
    script = Script(ok(), httpx2.ReadError("lost"), refuse(400, "duplicate"), ok(function))
    with connect(script) as client:
        assert client.get_project("demo").new_function("f", "container", image="busybox").id == "f1"
    sent = json.loads(script.requests[1].content)
    assert script.requests[-1].url.path == f"/api/v1/-/demo/functions/{sent['id']}"


def test_giving_up_says_why_when_the_server_stays_away() -> None:
    script = Script(make_error(ConnectionRefusedError("x")))
    with connect(script, retry_seconds=0) as client, pytest.raises(ry.ServerUnreachable, match="is the server running"):
        client.whoami()
    with connect(Script(refuse(503, "unavailable")), retry_seconds=0) as client, pytest.raises(ry.ServerFailed):
        client.whoami()


def test_pause_of_the_server_is_respected_when_it_is_longer_than_the_time_left() -> None:
    script = Script(refuse(429, "too_many", **{"Retry-After": "50"}), ok())
    with connect(script) as client, pytest.raises(ry.TooManyRequests):
        client.whoami()
    assert len(script.requests) == 1


def test_certificate_is_named_once_when_it_is_not_trusted() -> None:
    script = Script(make_error(ssl.SSLCertVerificationError(1, "certificate has expired")))
    with connect(script) as client, pytest.raises(ry.CertificateError, match=r"SSL_CERT_FILE.*clock") as raised:
        client.whoami()
    assert len(script.requests) == 1
    assert "\n" not in str(raised.value)


def test_token_is_refreshed_once_for_all_when_it_has_expired(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ini = tmp_path / ".dhcore.ini"
    ini.write_text("[lab]\ndhcore_endpoint=http://server\ndhcore_access_token=old\ndhcore_refresh_token=r1\n")
    monkeypatch.setenv("DH_NAME", "lab")
    refreshed = 0

    def answer(request: httpx2.Request) -> httpx2.Response:
        nonlocal refreshed
        if request.url.path == "/auth/token":
            refreshed += 1
            assert b"refresh_token=r1" in request.content
            return ok({"access_token": "new", "refresh_token": "r2"})
        signed = request.headers["Authorization"]
        return ok() if signed == "Bearer new" else refuse(401, "unauthenticated")

    async def work() -> None:
        async with ry.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
            await asyncio.gather(*(client.get_project("demo") for _ in range(5)))

    asyncio.run(work())
    assert refreshed == 1
    assert "dhcore_refresh_token = r2" in ini.read_text()


def test_one_line_says_so_when_the_connection_breaks_while_the_token_is_refreshed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ini = tmp_path / ".dhcore.ini"
    ini.write_text("[lab]\ndhcore_endpoint=http://server\ndhcore_access_token=old\ndhcore_refresh_token=r1\n")
    monkeypatch.setenv("DH_NAME", "lab")

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/auth/token":
            raise httpx2.ReadError("the connection was cut", request=request)
        return refuse(401, "unauthenticated")

    transport = httpx2.MockTransport(answer)
    with ry.Client(transport=transport) as client, pytest.raises(ry.ServerUnreachable, match="connection was cut"):
        client.whoami()


def test_way_to_sign_in_is_named_when_credentials_are_not_accepted() -> None:
    words = r"not accepted \(arguments\).*runyard login"
    script = Script(refuse(401, "unauthenticated"))
    with connect(script, token="t") as client, pytest.raises(ry.NotSignedIn, match=words):
        client.whoami()
    with (
        connect(Script(refuse(401, "unauthenticated"))) as client,
        pytest.raises(ry.NotSignedIn, match="no credentials"),
    ):
        client.whoami()


def test_password_is_sent_as_basic_when_it_is_given() -> None:
    script = Script(ok({"username": "ada"}))
    with connect(script, user="ada", password="pw") as client:
        assert client.whoami().username == "ada"
    assert script.requests[0].headers["Authorization"] == "Basic " + base64.b64encode(b"ada:pw").decode()


def test_address_is_named_when_the_server_redirects() -> None:
    script = Script(httpx2.Response(308, headers={"Location": "https://server/"}))
    with connect(script) as client, pytest.raises(ry.UnexpectedResponse, match="redirects to https://server/"):
        client.whoami()


def test_answer_is_refused_when_it_is_too_large_or_not_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.sdk.sync.transport.MOST_ANSWER_BYTES", 10)
    with connect(Script(ok({"username": "ada" * 100}))) as client, pytest.raises(ry.UnexpectedResponse, match="larger"):
        client.whoami()
    with (
        connect(Script(httpx2.Response(200, text="hello"))) as client,
        pytest.raises(ry.UnexpectedResponse, match="JSON"),
    ):
        client.whoami()


def test_nearest_name_is_given_when_a_function_is_unknown() -> None:
    script = Script(ok(), ok({"content": []}), ok({"content": [{"name": "train"}], "totalPages": 1}))
    with connect(script) as client, pytest.raises(ry.NotFound, match="no function trian; did you mean train"):
        client.get_project("demo").get_function("trian")
