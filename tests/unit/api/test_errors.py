"""Every error says what went wrong: to people, to the SDK, to programs. None says what is inside."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.app.errors import Conflict, Stale, TooMany
from runyard.app.ports import Unavailable
from tests.http_servers import Server, serve

FUNCTION: dict[str, Any] = {"kind": "dbt", "name": "f", "id": "f"}
FUNCTIONS = "/api/v1/-/demo/functions"


def check(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["status"], body["errorCode"]) == (status, status, code)
    assert isinstance(body["message"], str)
    assert isinstance(body["errors"], list)
    assert body["request_id"]
    return body


async def test_error_has_all_parts_when_anything_goes_wrong(demo: httpx2.AsyncClient) -> None:
    json_type = {"Content-Type": "application/json"}
    await demo.post(FUNCTIONS, json=FUNCTION)
    check(await demo.get(f"{FUNCTIONS}/none"), 404, "missing")
    check(await demo.get("/api/v1/-/none/functions"), 404, "missing")
    check(await demo.post(FUNCTIONS, json=FUNCTION), 400, "duplicate")
    check(await demo.post(FUNCTIONS, json={}), 400, "refused")
    check(await demo.post(FUNCTIONS, content=b"{", headers=json_type), 400, "refused")
    check(await demo.post(FUNCTIONS, content=b"{}"), 415, "http.415")
    check(await demo.post(FUNCTIONS, content=b"x" * ((4 << 20) + 1), headers=json_type), 413, "http.413")
    check(await demo.put(f"{FUNCTIONS}/f", json=FUNCTION, headers={"If-Match": '"9"'}), 412, "conflict")
    check(await demo.delete("/api/v1/projects/demo"), 400, "project.not_empty")
    check(await demo.get("/nothing"), 404, "http.404")
    check(await demo.patch(FUNCTIONS, json={}), 405, "http.405")
    check(await demo.get(FUNCTIONS, params={"page": "x"}), 400, "refused")


async def test_words_that_the_sdk_looks_for_are_there_when_it_needs_them(demo: httpx2.AsyncClient) -> None:
    await demo.post(FUNCTIONS, json=FUNCTION)
    assert "Duplicated entity function:f." in (await demo.post(FUNCTIONS, json=FUNCTION)).text
    assert "No such EntityName" in (await demo.get(f"{FUNCTIONS}/none")).text
    assert "No such EntityName" in (await demo.get("/api/v1/projects/none")).text
    assert "No such EntityName" in (await demo.put(f"{FUNCTIONS}/none", json=FUNCTION)).text
    assert "missing spec" in (await demo.get("/api/v1/schemas/function/nothing")).text
    assert "missing spec" in (await demo.post(FUNCTIONS, json={"name": "g"})).text
    assert (
        "missing spec"
        in (
            await demo.post("/api/v1/-/demo/artifacts", json={"kind": "artifact", "name": "a", "spec": {"path": 5}})
        ).text
    )
    # Nothing is at an address: no entity is missing, and the SDK must not create one.
    assert "No such EntityName" not in (await demo.get("/api/v1/-/demo/functons/f")).text


async def test_every_problem_is_named_when_an_entity_has_several(demo: httpx2.AsyncClient) -> None:
    body = {
        "kind": "bad kind",
        "id": "no/slash",
        "name": 5,
        "projct": "demo",
        "metadata": [],
        "status": {"state": "RUNING"},
        "extensions": {},
    }
    errors = (await demo.post(FUNCTIONS, json=body)).json()["errors"]
    assert {problem["path"] for problem in errors} == {
        *("kind", "id", "name", "projct", "metadata", "status.state", "extensions"),
    }
    suggestions = {problem["path"]: problem.get("suggestion") for problem in errors}
    assert (suggestions["projct"], suggestions["status.state"]) == ("project", "RUNNING")


async def test_answer_is_bounded_when_what_was_sent_is_not(demo: httpx2.AsyncClient) -> None:
    body = {"kind": "dbt", "name": "f", **{"x" * 10_000 + str(number): 1 for number in range(200)}}
    answer = await demo.post(FUNCTIONS, json=body)
    assert answer.status_code == 400
    assert len(answer.json()["message"]) <= 1 << 16


class Broken:
    """A store that fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def begin(self, **_options: Any) -> Any:
        raise self.error


@pytest.fixture
async def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    async with serve(tmp_path) as server, server.client() as client:

        def break_with(error: Exception) -> httpx2.AsyncClient:
            replace_store(monkeypatch, server, Broken(error))
            return client

        yield break_with


def replace_store(monkeypatch: pytest.MonkeyPatch, server: Server, store: Any) -> None:
    monkeypatch.setattr(type(server.core), "store", store)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RuntimeError("password=hunter2 in /var/lib/secret.py"), 500, "internal"),
        (Unavailable("no answer from postgresql://ada:hunter2@db"), 503, "unavailable"),
        (Stale("changed"), 412, "conflict"),
        (Conflict("changed"), 412, "conflict"),
    ],
)
async def test_nothing_of_the_inside_is_told_when_the_server_fails(
    broken: Any, error: Exception, status: int, code: str
) -> None:
    answer = await broken(error).get("/api/v1/projects")
    check(answer, status, code)
    for word in ("hunter2", "Traceback", "RuntimeError", "KeyError", "secret.py"):
        assert word not in answer.text


@pytest.mark.parametrize(("seconds", "told"), [(0.001, "1"), (1.0, "1"), (1.2, "2")])
async def test_retry_after_is_rounded_up_when_the_wait_is_a_fraction(broken: Any, seconds: float, told: str) -> None:
    answer = await broken(TooMany("too fast", retry_after=seconds)).get("/api/v1/projects")
    check(answer, 429, "too_many")
    assert answer.headers["Retry-After"] == told
