"""The steps of a run, as a list and as a stream."""

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.api import streams
from runyard.api.application import make_app
from runyard.api.context import Limits
from runyard.api.routes import events
from runyard.app.core import Core, Signals
from runyard.app.model import Principal, Transition
from runyard.app.runs import RunFollower, follow_run, run_follower
from runyard.app.runs.stop import stop_run
from runyard.domain.lifecycle import State
from tests.http_servers import Server, password_of, serve
from tests.unit.api.stream_clients import open_stream

EVENTS = "/api/v1/-/demo/runs/r1/events"
SSE = {"Accept": "text/event-stream"}
RUN: dict[str, Any] = {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://demo/t1"}}

STEP = Transition(sequence=3, state=State.COMPLETED, at=datetime(2026, 1, 1, tzinfo=UTC), actor="ada")


@pytest.fixture
async def running(demo: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The client, with a run `r1` that is READY."""
    assert (await demo.post("/api/v1/-/demo/runs", json=RUN)).status_code == 200
    return demo


@pytest.fixture
def app(server: Server, running: httpx2.AsyncClient) -> Any:
    """The application itself, without its outermost layers."""
    assert running is not None
    return make_app(server.context)


def _read(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Id, name and data of each event."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "event" in lines:
            found.append((lines.get("id", ""), lines["event"], json.loads(lines["data"])))
    return found


async def test_steps_are_listed_oldest_first_when_asked_for(running: httpx2.AsyncClient) -> None:
    steps = (await running.get(EVENTS)).json()
    assert [(one["sequence"], one["status"]) for one in steps] == [(1, "CREATED"), (2, "READY")]
    assert steps[1]["reason"] == "engine.none"
    assert [one["sequence"] for one in (await running.get(EVENTS, params={"after": 1})).json()] == [2]
    assert (await running.get(EVENTS, params={"after": 99})).json() == []


async def test_stream_ends_after_the_final_state_when_the_run_has_ended(running: httpx2.AsyncClient) -> None:
    await running.post("/api/v1/-/demo/runs/r1/stop")
    answer = await running.get(EVENTS, headers=SSE)
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = _read(answer.text)
    assert [(one[0], one[2].get("status")) for one in found[:2]] == [("1", "CREATED"), ("2", "READY")]
    assert found[-2][2]["status"] == "STOPPED"
    assert found[-1] == ("", "end", {"reason": "final"})


async def test_stream_goes_on_where_it_broke_off_when_the_last_id_is_sent(running: httpx2.AsyncClient) -> None:
    await running.post("/api/v1/-/demo/runs/r1/stop")
    every = _read((await running.get(EVENTS, headers=SSE)).text)
    later = await running.get(EVENTS, headers={**SSE, "Last-Event-ID": "2"}, params={"after": 1})
    assert _read(later.text) == every[2:]
    done = await running.get(EVENTS, headers={**SSE, "Last-Event-ID": every[-2][0]})
    assert (done.status_code, done.content) == (204, b"")


async def test_no_step_is_skipped_when_a_run_has_more_than_a_page(server: Server, running: httpx2.AsyncClient) -> None:
    async with server.core.store.begin() as unit:
        run = await server.find_run("demo", "r1")
        steps = [replace(STEP, sequence=number) for number in range(3, 151)]
        await unit.runs.update(run, replace(run, state="COMPLETED"), transitions=steps)
        await unit.commit()
    for headers, parameters in ({"Last-Event-ID": "2"}, {}), ({}, {"after": "2"}):
        found = _read((await running.get(EVENTS, headers={**SSE, **headers}, params=parameters)).text)
        assert [one[0] for one in found] == [*map(str, range(3, 151)), ""]
    listed, target = list[int](), f"{EVENTS}?after=2"
    while target:
        answer = await running.get(target)
        listed += [one["sequence"] for one in answer.json()]
        target = str(answer.url.join(answer.links["next"]["url"])) if answer.links else ""
    assert listed == list(range(3, 151))


async def test_steps_come_as_they_happen_when_a_stream_is_open(app: Any, running: httpx2.AsyncClient) -> None:
    async with open_stream(app, EVENTS, headers=SSE) as stream:
        await stream.wait_for(b'"READY"')
        await running.post("/api/v1/-/demo/runs/r1/stop")
        text = await stream.wait_for_end()
    assert _read(text)[-2][2]["status"] == "STOPPED"
    assert _read(text)[-1][2] == {"reason": "final"}


@pytest.mark.parametrize("is_signal_lost", [True, False])
async def test_steps_come_when_another_replica_writes_them(
    app: Any, server: Server, monkeypatch: pytest.MonkeyPatch, is_signal_lost: bool
) -> None:
    """The store signals writes of others; if that is lost, the run is read again after a while."""
    if is_signal_lost:
        monkeypatch.setattr(run_follower, "FALLBACK_SECONDS", 0.05)
    other = replace(server.core, signals=Signals())
    async with open_stream(app, EVENTS, headers=SSE) as stream:
        await stream.wait_for(b'"READY"')
        run = await stop_run(other, Principal(name="ada"), "demo", "r1", words=None)
        if not is_signal_lost:
            server.core.signals.notify(run.uid)
        assert '"STOPPED"' in await stream.wait_for_end()


async def test_nothing_is_read_when_nothing_happens(app: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the clock nor the log of the run wakes a follower of its steps."""
    reads: list[str] = []
    read_new = RunFollower.read_new

    async def count(self: RunFollower) -> Sequence[Transition]:
        reads.append(self.run.id)
        return await read_new(self)

    monkeypatch.setattr(RunFollower, "read_new", count)
    async with open_stream(app, EVENTS, headers=SSE) as stream:
        await stream.wait_for(b'"READY"')
        await asyncio.sleep(0.5)
        reads.clear()
        server.core.signals.notify_readers((await server.find_run("demo", "r1")).uid)
        await asyncio.sleep(1.2)
    assert reads == []


async def test_no_step_is_missed_when_it_happens_before_the_stream_listens(
    app: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow_late(core: Core, project: str, run_id: str) -> RunFollower:
        follower = await follow_run(core, project, run_id)
        await stop_run(server.core, Principal(name="ada"), "demo", "r1", words=None)
        return follower

    monkeypatch.setattr(events, "follow_run", follow_late)
    async with open_stream(app, EVENTS, headers=SSE) as stream:
        assert '"STOPPED"' in await stream.wait_for_end()


async def test_stream_ends_when_the_run_is_deleted(app: Any, running: httpx2.AsyncClient) -> None:
    async with open_stream(app, EVENTS, headers=SSE) as stream:
        await stream.wait_for(b'"READY"')
        await running.delete("/api/v1/-/demo/runs/r1")
        assert _read(await stream.wait_for_end())[-1][2] == {"reason": "gone"}


async def test_stream_ends_when_the_server_drains(app: Any, server: Server) -> None:
    async with open_stream(app, EVENTS, headers=SSE) as stream:
        await stream.wait_for(b'"READY"')
        app.state.is_draining = True
        server.core.signals.notify_all()
        assert _read(await stream.wait_for_end())[-1][2] == {"reason": "draining"}


async def test_comment_comes_when_nothing_happens(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.0)
    async with open_stream(app, EVENTS, headers=SSE) as stream:
        await stream.wait_for(b": still there\n\n")
        assert stream.chunks[-1] == b": still there\n\n"


async def test_place_is_free_again_when_a_client_goes(server: Server, running: httpx2.AsyncClient) -> None:
    app = make_app(replace(server.context, limits=Limits(streams_each=1)))
    async with open_stream(app, EVENTS, headers=SSE) as first:
        await first.wait_for(b'"READY"')
        async with open_stream(app, EVENTS, headers=SSE) as second:
            await second.wait_for_end()
        assert (second.status, "retry-after" in second.headers) == (429, True)
        await first.leave()
    async with open_stream(app, EVENTS, headers=SSE) as third:
        await third.wait_for(b'"READY"')


async def test_stream_ends_when_its_client_does_not_read(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SEND_SECONDS", 0.01)
    async with open_stream(app, EVENTS, headers=SSE, is_reading=False) as stream:
        assert await stream.wait_for_end() == ""


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "9" * 40, "٣"])
async def test_id_is_refused_when_it_is_none_of_ours(running: httpx2.AsyncClient, given: str) -> None:
    headers = {**SSE, "Last-Event-ID": given.encode()}
    assert (await running.get(EVENTS, headers=headers)).status_code == 400  # type: ignore[arg-type]


@pytest.mark.parametrize("parameters", ["after=-1", "after=x", "since=1"])
async def test_question_is_refused_when_a_parameter_is_wrong(running: httpx2.AsyncClient, parameters: str) -> None:
    assert (await running.get(f"{EVENTS}?{parameters}")).status_code == 400


async def test_nothing_is_found_when_the_run_is_of_another_project(running: httpx2.AsyncClient) -> None:
    await running.post("/api/v1/projects", json={"kind": "project", "name": "other"})
    assert (await running.get("/api/v1/-/other/runs/r1/events")).status_code == 404
    assert (await running.get("/api/v1/-/other/runs/r1/events", headers=SSE)).status_code == 404


async def test_stream_ends_when_access_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RECHECK_SECONDS", 0.0)
    async with serve(tmp_path, is_open=False) as server:
        await server.add_user("ada")
        await server.add_user("vic")
        async with server.client("ada") as ada, server.client("vic") as vic:
            await ada.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
            run = {"kind": "dbt+transform:run", "id": "r1", "spec": {"task": "dbt+transform://demo/t1"}}
            function = {"kind": "dbt", "name": "f", "id": "f1"}
            await ada.post("/api/v1/-/demo/functions", json=function)
            task = {"kind": "dbt+transform", "id": "t1", "spec": {"function": "dbt://demo/f:f1"}}
            await ada.post("/api/v1/-/demo/tasks", json=task)
            run["spec"]["local_execution"] = True  # type: ignore[index]
            made = await ada.post("/api/v1/-/demo/runs", json=run)
            assert made.status_code == 200, made.text
            assert (await vic.get(EVENTS)).status_code == 403
            share = {"user": "vic", "role": "viewer"}
            await ada.post("/api/v1/projects/demo/share", params=share)
            basic = base64.b64encode(f"vic:{password_of('vic')}".encode()).decode()
            headers = {**SSE, "Authorization": f"Basic {basic}"}
            async with open_stream(server.app, EVENTS, headers=headers) as stream:
                await stream.wait_for(b'"CREATED"')
                await ada.delete("/api/v1/projects/demo/share", params={"user": "vic"})
                assert _read(await stream.wait_for_end())[-1][2] == {"reason": "access"}
