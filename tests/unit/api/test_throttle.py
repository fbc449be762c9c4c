"""Rate limiting: token buckets and open streams."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import HTTPConnection

from runyard.api import dispatcher
from runyard.api.application import make_app
from runyard.api.context import Limits
from runyard.api.request_bodies import hold_body
from runyard.api.routes import runs as run_routes
from runyard.api.throttle import (
    BODIES_EACH,
    MOST_ANONYMOUS_BODIES,
    MOST_KNOWN,
    PAGES_EACH,
    WRITES_EACH,
    Throttle,
    throttle_key,
)
from runyard.app.errors import TooMany
from runyard.app.identity.personal_tokens import create_personal_token
from runyard.app.identity.sign_in import EXCHANGE_GRANT, PERSONAL_TYPE, REFRESH_GRANT
from runyard.app.model import Principal
from runyard.app.runs import explain_run, list_runs
from tests.http_servers import serve

RUN = {"kind": "container+job:run", "spec": {"task": "container+job://demo/t1"}}


def make_throttle() -> Throttle:
    return Throttle(per_second=10, streams=3, streams_each=2)


def take_all(throttle: Throttle, name: str, *, now: float) -> int:
    taken = 0
    while True:
        try:
            throttle.take(name, now=now)
        except TooMany:
            return taken
        taken += 1


def test_twice_the_rate_is_taken_at_once_when_somebody_was_quiet() -> None:
    throttle = make_throttle()
    assert take_all(throttle, "ada", now=0) == 20
    assert take_all(throttle, "ada", now=0) == 0


def test_rate_is_kept_when_somebody_goes_on() -> None:
    throttle = make_throttle()
    take_all(throttle, "ada", now=0)
    assert take_all(throttle, "ada", now=0.5) == 5
    assert take_all(throttle, "ada", now=1_000_000) == 20


def test_others_are_served_when_one_asks_too_much() -> None:
    throttle = make_throttle()
    take_all(throttle, "ada", now=0)
    assert take_all(throttle, "bob", now=0) == 20


def test_wait_that_is_told_is_enough_when_it_is_kept() -> None:
    throttle = make_throttle()
    take_all(throttle, "ada", now=0)
    with pytest.raises(TooMany) as caught:
        throttle.take("ada", now=0)
    throttle.take("ada", now=caught.value.retry_after + 1e-9)


def test_memory_is_bounded_when_very_many_ask() -> None:
    throttle = make_throttle()
    for number in range(MOST_KNOWN + 10):
        throttle.take(f"user {number}", now=0)
    assert len(throttle._buckets) == MOST_KNOWN


def test_streams_are_counted_when_they_are_open_and_given_back_when_they_end() -> None:
    throttle = make_throttle()
    with throttle.hold_stream("ada"), throttle.hold_stream("ada"):
        with pytest.raises(TooMany), throttle.hold_stream("ada"):
            pass
        with throttle.hold_stream("bob"), pytest.raises(TooMany), throttle.hold_stream("eve"):
            pass
    assert throttle._open == {}
    with pytest.raises(RuntimeError), throttle.hold_stream("ada"):
        raise RuntimeError
    assert throttle._open == {}


async def test_request_is_answered_with_429_and_when_to_come_again_when_there_are_too_many(tmp_path: Path) -> None:
    async with serve(tmp_path, limits=Limits(requests_per_second=0.5)) as server, server.client() as client:
        assert (await client.get("/api/v1/projects")).status_code == 200
        answer = await client.get("/api/v1/projects")
        assert (answer.status_code, answer.json()["errorCode"]) == (429, "too_many")
        assert int(answer.headers["Retry-After"]) >= 1
        assert (await client.get("/healthz")).status_code == 200


async def test_token_endpoint_counts_for_its_user_when_it_is_known_who_asks(tmp_path: Path) -> None:
    limits = Limits(requests_per_second=0.5)
    async with serve(tmp_path, is_open=False, limits=limits) as server, server.client() as client:
        await server.add_user("ada")
        who = Principal(name="ada", via="password")
        form = {
            "grant_type": EXCHANGE_GRANT,
            "subject_token": (await create_personal_token(server.core, who)).text,
            "subject_token_type": PERSONAL_TYPE,
            "scope": "offline_access",
        }
        first = await client.post("/auth/token", data=form)
        assert first.status_code == 200
        again = {"grant_type": REFRESH_GRANT, "refresh_token": first.json()["refresh_token"]}
        answers = [await client.post("/auth/token", data=one) for one in (form, again)]
        assert [answer.status_code for answer in answers] == [429, 429]


async def test_made_up_tokens_are_limited_by_address_when_nobody_is_known(tmp_path: Path) -> None:
    limits = Limits(requests_per_second=0.5)
    async with serve(tmp_path, is_open=False, limits=limits) as server, server.client() as client:
        form = {"grant_type": REFRESH_GRANT, "refresh_token": "ryr_made-up"}
        answers = [await client.post("/auth/token", data=form) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [400, 429]


@pytest.mark.parametrize(
    ("is_open", "who", "key"),
    [
        (False, Principal(name="ada", address="10.0.0.1"), "ada"),
        (False, Principal(name="ada", address="10.0.0.2"), "ada"),
        (False, Principal(name="ada", run_id="r1", run_uid="u1", address="10.0.0.1"), "run u1"),
        (True, Principal(name="admin", address="10.0.0.1"), "admin@10.0.0.1"),
    ],
)
async def test_bucket_is_of_the_run_the_user_or_the_address_when_a_principal_is_counted(
    tmp_path: Path, is_open: bool, who: Principal, key: str
) -> None:
    async with serve(tmp_path, is_open=is_open) as server:
        connection = HTTPConnection({"type": "http", "app": make_app(server.context), "headers": []})
        assert throttle_key(connection, who) == key


class SlowedDown:
    """Calls a function slowly, and counts how many calls are in progress at most."""

    def __init__(self, function: Callable[..., Awaitable[Any]]) -> None:
        self._function = function
        self._running = 0
        self.most = 0

    async def __call__(self, *given: Any, **options: Any) -> Any:
        self._running += 1
        self.most = max(self.most, self._running)
        await asyncio.sleep(0.1)
        try:
            return await self._function(*given, **options)
        finally:
            self._running -= 1


async def test_a_user_waits_when_two_of_its_pages_are_in_memory(
    demo: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowedDown(list_runs)
    monkeypatch.setattr(run_routes, "list_runs", slow)
    answers = await asyncio.gather(*(demo.get("/api/v1/-/demo/runs") for _ in range(6)))
    assert [answer.status_code for answer in answers] == [200] * 6
    assert slow.most == PAGES_EACH


async def test_a_user_waits_when_three_of_its_requests_are_processed(
    demo: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowedDown(explain_run)
    monkeypatch.setattr(run_routes, "explain_run", slow)
    answers = await asyncio.gather(*(demo.post("/api/v1/-/demo/runs/explain", json=RUN) for _ in range(10)))
    assert [answer.status_code for answer in answers] == [200] * 10
    assert slow.most == WRITES_EACH


async def test_a_user_waits_when_many_of_its_bodies_are_being_read(
    demo: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowedDown(hold_body)
    monkeypatch.setattr(dispatcher, "hold_body", slow)
    answers = await asyncio.gather(*(demo.post("/api/v1/-/demo/runs/explain", json=RUN) for _ in range(20)))
    assert [answer.status_code for answer in answers] == [200] * 20
    assert slow.most == BODIES_EACH


async def test_turns_are_forgotten_when_nobody_waits_for_them() -> None:
    throttle = Throttle(per_second=1, streams=1, streams_each=1)
    for _ in range(2):
        async with throttle.take_turn("a", most=1):
            waiting = asyncio.ensure_future(_take(throttle))
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting
        assert throttle._turns == {}


async def _take(throttle: Throttle) -> None:
    async with throttle.take_turn("a", most=1):
        return


async def test_oldest_form_goes_when_strangers_send_too_many_slowly(tmp_path: Path) -> None:
    """Otherwise slow bodies fill the memory, or keep everybody from signing in."""
    async with serve(tmp_path, is_open=False) as server, server.client() as client:
        never = asyncio.Event()

        async def stall() -> AsyncIterator[bytes]:
            yield b"grant_type="
            await never.wait()

        async def send_slowly() -> httpx2.Response:
            return await client.post("/auth/token", content=stall())

        async def send_at_once() -> httpx2.Response:
            return await client.post("/auth/token", data={"grant_type": "refresh_token", "refresh_token": "x"})

        slow = []
        for _ in range(MOST_ANONYMOUS_BODIES):
            slow.append(asyncio.create_task(send_slowly()))
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)  # all are there
        # Nobody waits for the slow ones: only the oldest gives way.
        for number in range(2):
            assert (await send_at_once()).status_code == 400
            oldest = await slow[number]
            assert (oldest.status_code, oldest.headers["retry-after"], oldest.headers["connection"]) == (
                503,
                "1",
                "close",
            )
            slow.append(asyncio.create_task(send_slowly()))
            await asyncio.sleep(0.5)
        assert [task.done() for task in slow] == [True, True, *[False] * MOST_ANONYMOUS_BODIES]
        never.set()
        assert {(await task).status_code for task in slow[2:]} == {400}
