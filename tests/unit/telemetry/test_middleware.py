import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from runyard.app.model import Principal
from runyard.telemetry import Metrics, Observer, find_request_id
from tests.unit.telemetry.conftest import LogLines

Get = Callable[..., Awaitable[httpx2.Response]]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


async def healthz(_request: Request) -> Response:
    return Response("ok")


async def read_run(request: Request) -> Response:
    request.state.who = Principal(name="ada")
    return JSONResponse({"request_id": find_request_id()})


async def fail(_request: Request) -> Response:
    raise RuntimeError("Bearer abcdefghijk")


async def stream(_request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 100

    return StreamingResponse(pieces())


@pytest.fixture
def app() -> Starlette:
    endpoints = {"/healthz": healthz, "/runs/{run_id}": read_run, "/fails": fail, "/stream": stream}
    return Starlette(routes=[Route(path, endpoint) for path, endpoint in endpoints.items()])


@pytest.fixture
async def get(app: Starlette, metrics: Metrics, written: LogLines) -> AsyncIterator[Get]:
    transport = httpx2.ASGITransport(Observer(app, metrics=metrics), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:

        async def get_path(path: str, **headers: str) -> httpx2.Response:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.get(path, headers=named)

        yield get_path


async def test_request_has_one_id_everywhere_when_answered(get: Get, written: LogLines) -> None:
    answer = await get("/runs/r-1", x_request_id="client-1.x_2")
    assert answer.headers["x-request-id"] == "client-1.x_2"
    assert answer.json() == {"request_id": "client-1.x_2"}
    (line,) = written.lines
    assert (line["event"], line["request_id"], line["status"]) == ("request.done", "client-1.x_2", 200)
    assert (line["method"], line["path"], line["user"]) == ("GET", "/runs/r-1", "ada")
    assert line["sent_bytes"] == len(answer.content)
    assert find_request_id() is None


@pytest.mark.parametrize("sent", ["", "x" * 65, "a b", "a\tb", "<script>", "-x"])
async def test_id_is_ours_when_the_clients_is_not_clean(get: Get, sent: str) -> None:
    answer = await get("/runs/r-1", x_request_id=sent)
    assert answer.headers["x-request-id"] != sent
    assert len(answer.headers["x-request-id"]) == 16


async def test_ids_differ_when_many_ask_at_once(get: Get) -> None:
    answers = await asyncio.gather(*(get("/runs/r-1") for _ in range(20)))
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert len(ids) == 20
    assert {answer.json()["request_id"] for answer in answers} == ids


async def test_labels_are_templates_when_requests_are_counted(get: Get, metrics: Metrics) -> None:
    for path in ("/runs/r-1", "/runs/r-2", "/nowhere/r-3", "/runs/r-4?user=ada"):
        await get(path)
    text = metrics.render().decode()
    assert 'http_request_seconds_count{method="GET",route="/runs/{run_id}",status="2xx"} 3.0' in text
    assert 'http_request_seconds_count{method="GET",route="none",status="4xx"} 1.0' in text
    for word in ("r-1", "r-2", "r-3", "ada", "nowhere"):
        assert word not in text


async def test_query_is_not_logged_when_there_is_one(get: Get, written: LogLines) -> None:
    await get("/runs/r-1?token=hunter2&code=abc")
    assert "hunter2" not in written.stream.getvalue()
    assert "code=abc" not in written.stream.getvalue()


async def test_failure_is_logged_and_counted_when_a_route_raises(get: Get, metrics: Metrics, written: LogLines) -> None:
    assert (await get("/fails")).status_code == 500
    failed, done = written.lines
    assert (failed["event"], failed["level"]) == ("request.failed", "error")
    assert "RuntimeError" in failed["exception"]
    assert "abcdefghijk" not in written.stream.getvalue()
    assert done["status"] == 500
    assert 'route="/fails",status="5xx"} 1.0' in metrics.render().decode()


async def test_routine_is_quiet_when_health_is_asked(get: Get, written: LogLines) -> None:
    await get("/healthz")
    assert [line["level"] for line in written.lines] == ["debug"]


async def test_stream_is_counted_when_it_has_ended(get: Get, metrics: Metrics, written: LogLines) -> None:
    answer = await get("/stream")
    assert len(answer.content) == 300
    assert written.lines[0]["sent_bytes"] == 300
    text = metrics.render().decode()
    assert "runyard_http_sent_bytes_total 300.0" in text
    assert "runyard_http_requests_in_flight 0.0" in text


async def test_client_that_went_away_is_told_apart_when_there_was_no_answer(
    metrics: Metrics, written: LogLines
) -> None:
    began = asyncio.Event()

    async def wait_for_ever(_scope: Any, _receive: Any, _send: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "BREW", "path": "/x", "headers": []}
    task = asyncio.create_task(Observer(wait_for_ever, metrics=metrics)(scope, None, None))  # type: ignore[arg-type]
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert written.lines[0]["event"] == "request.abandoned"
    assert 'method="other",route="none",status="none"} 1.0' in metrics.render().decode()


async def test_other_scopes_pass_when_they_are_no_requests(metrics: Metrics) -> None:
    seen: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["type"])

    await Observer(app, metrics=metrics)({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan"]
