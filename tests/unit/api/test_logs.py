"""Logs of a run: as the SDK reads them, and as text."""

import asyncio
import base64
import binascii
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.api.application import make_app
from runyard.api.context import Limits
from runyard.app.log_store import LogPiece, Stream, StreamInfo
from runyard.app.logs import log_follower, log_reader
from runyard.app.model import Transition
from runyard.domain.lifecycle import State
from tests.http_servers import Server, serve
from tests.unit.api.stream_clients import open_stream

LOGS = "/api/v1/-/demo/runs/r1/logs"
LOG = "/api/v1/-/demo/runs/r1/log"
RUN: dict[str, Any] = {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://demo/t1"}}
MAIN = Stream("r1", "pod-1", "main")
SIDE = Stream("r1", "pod-1", "side")
AT = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
async def running(demo: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The client, with a run `r1` that is READY."""
    assert (await demo.post("/api/v1/-/demo/runs", json=RUN)).status_code == 200
    return demo


async def _find_stored(server: Server, stream: Stream) -> Stream:
    """The stream by the uid of its run, which tests name by its id."""
    run = await server.find_run("demo", stream.run_uid)
    return replace(stream, run_uid=run.uid)


async def _write(server: Server, stream: Stream, *texts: bytes, offset: int = 0) -> int:
    """Append texts, a second between two of them."""
    stream = await _find_stored(server, stream)
    for number, text in enumerate(texts):
        offset = await server.core.logs.append(stream, text, offset=offset, at=AT + timedelta(seconds=number))
    server.core.signals.notify_readers(stream.run_uid)
    return offset


async def _change_run(server: Server, state: State | None = None, **values: Any) -> None:
    """Write to the run as the loops do."""
    async with server.core.store.begin() as unit:
        run = await unit.runs.find("r1", project="demo")
        assert run is not None
        transitions = [Transition(sequence=run.last_sequence + 1, state=state, at=AT, actor="loop")] if state else []
        after = replace(run, state=state or run.state, **values)
        await unit.runs.update(run, after, transitions=transitions)
        await unit.commit()
    server.core.signals.notify(run.uid)


async def _mark_gap(server: Server, stream: Stream, cause: str = "the node did not answer\n") -> None:
    until = AT + timedelta(seconds=9)
    stream = await _find_stored(server, stream)
    await server.core.logs.mark_gap(stream, since=AT + timedelta(seconds=5), until=until, cause=cause)
    server.core.signals.notify_readers(stream.run_uid)


def _split(answer: httpx2.Response) -> tuple[str, list[dict[str, Any]]]:
    """The log's own text, and what our lines say."""
    marker = answer.headers["X-Log-Marker"]
    lines = answer.text.splitlines(keepends=True)
    ours = [json.loads(line.removeprefix(marker)) for line in lines if line.startswith(marker)]
    return "".join(line for line in lines if not line.startswith(marker)), ours


async def test_list_is_empty_when_nothing_was_written(running: httpx2.AsyncClient) -> None:
    assert (await running.get(LOGS)).json() == []
    text = await running.get(LOG)
    assert (text.status_code, text.content) == (200, b"")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"


async def test_list_is_what_every_sdk_reads_when_containers_wrote(running: httpx2.AsyncClient, server: Server) -> None:
    await _write(server, MAIN, b"hi ", b"41\n")
    await _write(server, SIDE, b"side\n")
    items = (await running.get(LOGS)).json()
    assert [base64.b64decode(item["content"]) for item in items] == [b"hi 41\n", b"side\n"]
    first = items[0]
    assert (first["kind"], first["project"], first["run"]) == ("log", "demo", "r1")
    assert first["name"] == first["id"] == first["metadata"]["name"]
    assert first["spec"] == {"run": "r1", "timestamp": int((AT + timedelta(seconds=1)).timestamp() * 1000)}
    assert (first["status"]["container"], first["status"]["pod"], first["status"]["size"]) == ("main", "pod-1", 6)


async def test_list_has_the_end_of_a_long_log_when_it_is_cut(
    running: httpx2.AsyncClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "TAIL_BYTES", 5)
    await _write(server, MAIN, "aaaa\u20acbcd\n".encode())
    item = (await running.get(LOGS)).json()[0]
    text = base64.b64decode(item["content"]).decode()
    notice, _, rest = text.partition("\n")
    assert json.loads(notice.removeprefix(item["status"]["marker"])) == {"left_out": 6}
    assert rest == "\ufffdbcd\n"
    assert item["status"]["offset"] == 6


async def test_newest_streams_come_first_when_all_together_are_too_long(
    running: httpx2.AsyncClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "LIST_BYTES", 6)
    await _write(server, MAIN, b"main\n")
    side = await _find_stored(server, SIDE)
    await server.core.logs.append(side, b"side\n", offset=0, at=AT + timedelta(hours=1))
    offsets = [item["status"]["offset"] for item in (await running.get(LOGS)).json()]
    assert offsets == [4, 0]


async def test_list_is_bounded_when_bytes_are_replaced(
    running: httpx2.AsyncClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = log_reader.CHUNK_BYTES
    monkeypatch.setattr(log_reader, "TAIL_BYTES", 6 * chunk)
    monkeypatch.setattr(log_reader, "LIST_BYTES", 8 * chunk)
    for number in range(4):
        stream = await _find_stored(server, replace(MAIN, instance=number))
        for start in range(6):
            at = AT + timedelta(hours=number)
            await server.core.logs.append(stream, b"\xff" * chunk, offset=start * chunk, at=at)
    threads = set()

    def note_thread(content: bytes) -> bytes:
        threads.add(threading.current_thread())
        return binascii.b2a_base64(content, newline=False)

    monkeypatch.setattr(base64, "b64encode", note_thread)
    items = (await running.get(LOGS)).json()
    assert threading.main_thread() not in threads, "the event loop is held meanwhile"
    assert threads
    texts = [base64.b64decode(item["content"]).decode().rpartition("\n")[2] for item in items]
    assert [set(text) for text in texts] == [set(), set(), {"\ufffd"}, {"\ufffd"}]
    # The newest has two thirds of its limit left out, the one before what is left of that of the list.
    assert [item["status"]["offset"] // chunk for item in items] == [6, 6, 5, 4]
    for item, text in zip(items, texts, strict=True):
        assert len(text) == item["status"]["size"] - item["status"]["offset"]


async def test_list_is_of_the_state_when_one_is_named(running: httpx2.AsyncClient, server: Server) -> None:
    await _write(server, MAIN, b"hi\n")
    assert len((await running.get(LOGS, params={"state": "READY"})).json()) == 1
    assert (await running.get(LOGS, params={"state": "COMPLETED"})).json() == []
    assert (await running.get(LOGS, params={"stat": "READY"})).status_code == 400


async def test_text_says_where_to_go_on_when_it_is_one_stream(running: httpx2.AsyncClient, server: Server) -> None:
    end = await _write(server, MAIN, b"one\n", b"two\n")
    first = await running.get(LOG)
    assert first.content == b"one\ntwo\n"
    assert (first.headers["X-Log-Stream"], first.headers["X-Log-Offset"]) == ("pod-1/main", "0")
    assert first.headers["X-Log-Next-Offset"] == str(end)
    await _write(server, MAIN, b"three\n", offset=end)
    rest = await running.get(LOG, params={"offset": end})
    assert (rest.content, rest.headers["X-Log-Next-Offset"]) == (b"three\n", str(end + 6))
    assert (await running.get(LOG, params={"offset": 10**9})).content == b""


async def test_lines_and_time_choose_when_they_are_given(running: httpx2.AsyncClient, server: Server) -> None:
    await _write(server, MAIN, b"one\n", b"two\n", b"three\n")
    assert (await running.get(LOG, params={"tail": 2})).content == b"two\nthree\n"
    assert (await running.get(LOG, params={"tail": 0})).content == b""
    since = (AT + timedelta(seconds=1)).isoformat()
    assert (await running.get(LOG, params={"since": since})).content == b"two\nthree\n"
    assert (await running.get(LOG, params={"since": since, "tail": 1})).content == b"three\n"
    assert (await running.get(LOG, params={"tail": 3, "offset": 4})).content == b"two\nthree\n"


async def test_streams_are_named_when_there_are_several(running: httpx2.AsyncClient, server: Server) -> None:
    await _write(server, MAIN, b"main without end")
    await _write(server, SIDE, b"side\n")
    answer = await running.get(LOG)
    text, ours = _split(answer)
    assert text == "main without end\nside\n"
    assert ours == [{"stream": "pod-1/main", "offset": 0}, {"stream": "pod-1/side", "offset": 0, "cut": True}]
    assert "X-Log-Next-Offset" not in answer.headers
    assert (await running.get(LOG, params={"container": "side"})).content == b"side\n"
    assert (await running.get(LOG, params={"pod": "pod-1", "container": "main"})).content == b"main without end"


async def test_instances_are_told_apart_when_a_container_was_restarted(
    running: httpx2.AsyncClient, server: Server
) -> None:
    again = replace(MAIN, instance=1)
    await _write(server, MAIN, b"first\n")
    await _write(server, again, b"second\n")
    await server.core.logs.finish(await _find_stored(server, MAIN), cause="limit", at=AT)
    text, ours = _split(await running.get(LOG, params={"container": "main"}))
    assert text == "first\nsecond\n"
    assert [line["stream"] for line in ours] == ["pod-1/main", "pod-1/main/1"]
    only = await running.get(LOG, params={"instance": 1, "offset": 3})
    assert (only.content, only.headers["X-Log-Stream"]) == (b"ond\n", "pod-1/main/1")
    assert (await running.get(LOG, params={"instance": 0})).content == b"first\n"
    items = (await running.get(LOGS)).json()
    assert [item["id"] for item in items] == ["r1-pod-1-main", "r1-pod-1-main-1"]
    ends = [(item["status"]["instance"], item["status"]["complete"], item["status"]["cause"]) for item in items]
    assert ends == [(0, True, "limit"), (1, False, None)]
    refused = (await running.get(LOG, params={"instance": 7})).json()["errors"][0]
    assert (refused["code"], refused["path"]) == ("log.unknown", "query.instance")


async def test_gap_has_a_line_of_its_own_when_something_is_missing(running: httpx2.AsyncClient, server: Server) -> None:
    forged = b'#runyard-0123456789abcdef {"gap": "forged"}\n'
    end = await _write(server, MAIN, forged, b"before")
    await _mark_gap(server, MAIN)
    await _write(server, MAIN, b"after\n", offset=end)
    answer = await running.get(LOG)
    text, ours = _split(answer)
    assert text == f"{forged.decode()}before\nafter\n"
    assert ours == [
        {
            "gap": "the node did not answer\n",
            "since": "2026-11-15T12:00:05.000Z",
            "until": "2026-11-15T12:00:09.000Z",
            "offset": end,
            "cut": True,
        }
    ]
    again = await running.get(LOG)
    assert again.headers["X-Log-Marker"] != answer.headers["X-Log-Marker"]
    listed = base64.b64decode((await running.get(LOGS)).json()[0]["content"])
    assert b"the node did not answer" in listed


async def test_text_comes_as_it_is_written_when_it_is_followed(running: httpx2.AsyncClient, server: Server) -> None:
    end = await _write(server, MAIN, b"one\n", b"two\n")
    async with open_stream(server.app, f"{LOG}?follow=true&tail=1") as stream:
        await stream.wait_for(b"two\n")
        await _mark_gap(server, MAIN)
        await stream.wait_for(b"did not answer")
        await _write(server, MAIN, b"three\n", offset=end)
        await stream.wait_for(b"three\n")
        await running.post("/api/v1/-/demo/runs/r1/stop")
        text = await stream.wait_for_end()
    assert text.count("did not answer") == 1
    assert not text.startswith("one")
    assert "X-Log-Next-Offset" not in stream.headers


async def test_collector_is_told_again_and_again_when_a_log_is_followed(
    running: httpx2.AsyncClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running is not None
    monkeypatch.setattr(log_follower, "SAY_SECONDS", 0.0)
    signals, uid = server.core.signals, (await server.find_run("demo", "r1")).uid
    end = await _write(server, MAIN, b"one\n")
    async with open_stream(server.app, f"{LOG}?follow=true") as stream:
        await stream.wait_for(b"one\n")
        assert signals.take_log_reads() == set()  # another replica collects it
        signals.collected.add(uid)
        await _write(server, MAIN, b"two\n", offset=end)
        await asyncio.wait_for(signals.log_reads.wait(), timeout=60)
        assert signals.take_log_reads() == {uid}
        await stream.leave()


@pytest.mark.parametrize("path", [LOG, LOGS])
async def test_collector_is_told_when_a_log_is_read(running: httpx2.AsyncClient, server: Server, path: str) -> None:
    signals, uid = server.core.signals, (await server.find_run("demo", "r1")).uid
    signals.collected.add(uid)
    assert (await running.get(path)).status_code == 200
    assert signals.log_reads.is_set()
    assert signals.take_log_reads() == {uid}
    assert not signals.log_reads.is_set()


async def test_new_stream_is_named_when_it_begins_while_it_is_followed(
    running: httpx2.AsyncClient, server: Server
) -> None:
    async with open_stream(server.app, f"{LOG}?follow=true") as stream:
        await _write(server, MAIN, b"main\n")
        await stream.wait_for(b"main\n")
        await _write(server, SIDE, b"side\n")
        await stream.wait_for(b"side\n")
        await running.post("/api/v1/-/demo/runs/r1/stop")
        await stream.wait_for_end()
    marker = stream.headers["x-log-marker"]
    assert f'main\n{marker} {{"stream": "pod-1/side", "offset": 0}}\nside\n' in stream.content.decode()


async def test_followed_text_ends_when_the_log_is_complete_not_when_the_run_ends(
    running: httpx2.AsyncClient, server: Server
) -> None:
    assert running is not None
    await _change_run(server, State.RUNNING, place="memory/a")
    end = await _write(server, MAIN, b"one\n")
    server.core.signals.collected.add((await server.find_run("demo", "r1")).uid)
    async with open_stream(server.app, f"{LOG}?follow=true") as stream:
        await stream.wait_for(b"one\n")
        await _change_run(server, State.COMPLETED)
        await asyncio.sleep(0.1)
        assert stream.task is not None
        assert not stream.task.done()
        end = await _write(server, MAIN, b"two\n", offset=end)
        await stream.wait_for(b"two\n")
        # The last bytes are stored before the log is called complete; no signal tells of them.
        last = await _find_stored(server, MAIN)
        await server.core.logs.append(last, b"three\n", offset=end, at=AT)
        await server.core.logs.finish(last, cause=None, at=AT)
        await _change_run(server, is_log_complete=True)
        assert await stream.wait_for_end() == "one\ntwo\nthree\n"
    async with open_stream(server.app, f"{LOG}?follow=true") as again:
        assert await again.wait_for_end() == "one\ntwo\nthree\n"


async def test_text_is_followed_without_signals_when_another_replica_collects_it(
    running: httpx2.AsyncClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running is not None
    monkeypatch.setattr(log_follower, "POLL_SECONDS", 0.02)
    await _change_run(server, State.RUNNING, place="memory/a")
    main = await _find_stored(server, MAIN)
    async with open_stream(server.app, f"{LOG}?follow=true") as stream:
        await asyncio.sleep(0.05)
        await server.core.logs.append(main, b"one\n", offset=0, at=AT)
        await stream.wait_for(b"one\n")


async def test_stream_that_grows_is_read_more_often_when_another_replica_collects_it(
    running: httpx2.AsyncClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without listing streams: only those that grow cost more."""
    assert running is not None
    monkeypatch.setattr(log_follower, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(log_follower, "GROWING_POLL_SECONDS", 0.02)
    await _change_run(server, State.RUNNING, place="memory/a")
    main, side = await _find_stored(server, MAIN), await _find_stored(server, SIDE)
    for each in (main, side):
        await server.core.logs.append(each, b"one\n", offset=0, at=AT)
    reads: list[Stream] = []
    read = server.core.logs.read

    async def count(stream: Stream, **where: int) -> Sequence[LogPiece]:
        reads.append(stream)
        return await read(stream, **where)

    monkeypatch.setattr(server.core.logs, "read", count)
    async with open_stream(server.app, f"{LOG}?follow=true&container=main") as stream:
        await stream.wait_for(b"one\n")
        monkeypatch.setattr(server.core.logs, "list_streams", None)
        await server.core.logs.append(main, b"two\n", offset=4, at=AT)
        async with asyncio.timeout(10):  # the run itself is read every 15 s
            await stream.wait_for(b"two\n")
        assert set(reads) == {main}
        monkeypatch.setattr(log_follower, "GROWING_SECONDS", 0.0)
        await asyncio.sleep(0.2)
        reads.clear()
        await asyncio.sleep(0.2)
        assert reads == []


async def test_log_storage_is_not_polled_when_this_replica_collects_the_log(
    running: httpx2.AsyncClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running is not None
    monkeypatch.setattr(log_follower, "POLL_SECONDS", 0.01)
    await _change_run(server, State.RUNNING, place="memory/a")
    await _write(server, MAIN, b"one\n")
    server.core.signals.collected.add((await server.find_run("demo", "r1")).uid)
    lists: list[str] = []
    list_streams = server.core.logs.list_streams

    async def count(run_uid: str) -> Sequence[StreamInfo]:
        lists.append(run_uid)
        return await list_streams(run_uid)

    monkeypatch.setattr(server.core.logs, "list_streams", count)
    async with open_stream(server.app, f"{LOG}?follow=true") as stream:
        await stream.wait_for(b"one\n")
        await asyncio.sleep(0.5)
        lists.clear()
        await asyncio.sleep(0.3)
    assert lists == []


async def test_status_says_whether_the_log_is_complete_when_the_run_has_ended(
    running: httpx2.AsyncClient, server: Server
) -> None:
    path = "/api/v1/-/demo/runs/r1"
    assert "logs" not in (await running.get(path)).json()["status"]
    await _change_run(server, State.RUNNING, place="memory/a")
    assert "logs" not in (await running.get(path)).json()["status"]
    await _change_run(server, State.COMPLETED)
    run = (await running.get(path)).json()
    assert run["status"]["logs"] == {"state": "draining"}
    why = {"reason": "kube.permissions", "message": "cannot settle"}
    notes = {"failing": {"told": why["reason"], "cleanup": why["message"]}}
    await _change_run(server, status={"reconcile": notes})
    assert (await running.get(path)).json()["status"]["logs"] == {"state": "draining", **why}
    await _change_run(server, is_log_complete=True)
    assert (await running.get(path)).json()["status"]["logs"] == {"state": "complete"}
    # The SDK sends back what it read, stale or not.
    answer = await running.put(path, json=run)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"]["logs"] == {"state": "complete"}
    assert "warnings" not in answer.json()["status"]
    assert "logs" not in (await server.find_run("demo", "r1")).status


async def test_chunks_are_bounded_when_there_is_much(running: httpx2.AsyncClient, server: Server) -> None:
    written = b"0123456789abcde\n" * 20_000
    await _write(server, MAIN, written)
    await running.post("/api/v1/-/demo/runs/r1/stop")
    async with open_stream(server.app, f"{LOG}?follow=true") as stream:
        await stream.wait_for_end()
    assert stream.content == written
    assert max(map(len, stream.chunks)) <= log_reader.CHUNK_BYTES


async def test_followed_text_says_where_to_go_on_when_the_server_drains(
    running: httpx2.AsyncClient, server: Server
) -> None:
    assert running is not None
    app = make_app(server.context)
    await _write(server, MAIN, b"one\n")
    async with open_stream(app, f"{LOG}?follow=true") as stream:
        await stream.wait_for(b"one\n")
        app.state.is_draining = True
        server.core.signals.notify_all()
        text = await stream.wait_for_end()
    last = text.splitlines()[-1]
    assert json.loads(last.removeprefix(stream.headers["x-log-marker"])) == {
        "end": "draining",
        "offsets": {"pod-1/main": 4},
    }


async def test_place_is_free_again_when_a_client_goes(running: httpx2.AsyncClient, server: Server) -> None:
    assert running is not None
    app = make_app(replace(server.context, limits=Limits(streams_each=1)))
    await _write(server, MAIN, b"one\n")
    async with open_stream(app, f"{LOG}?follow=true") as first:
        await first.wait_for(b"one\n")
        async with open_stream(app, LOG) as second:
            await second.wait_for_end()
        assert second.status == 429
        await first.leave()
    async with open_stream(app, LOG) as third:
        assert await third.wait_for_end() == "one\n"


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ("container=mian", "log.unknown"),
        ("pod=pod-2", "log.unknown"),
        ("instance=1", "log.unknown"),
        ("instance=-1", "number.range"),
        ("offset=0", "log.streams"),
        ("offset=-1", "number.range"),
        ("offset=x", "number.invalid"),
        ("tail=-1", "number.range"),
        ("tail=99999999", "number.range"),
        ("since=yesterday", "time.invalid"),
        ("follow=maybe", "value.option"),
        ("lines=3", "parameter.unknown"),
    ],
)
async def test_question_is_refused_when_a_parameter_is_wrong(
    running: httpx2.AsyncClient, server: Server, parameters: str, code: str
) -> None:
    await _write(server, MAIN, b"main\n")
    await _write(server, SIDE, b"side\n")
    answer = await running.get(f"{LOG}?{parameters}")
    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"][0]["code"] == code


async def test_near_container_is_named_when_it_is_not_known(running: httpx2.AsyncClient, server: Server) -> None:
    await _write(server, MAIN, b"main\n")
    answer = await running.get(LOG, params={"container": "mian"})
    assert answer.json()["errors"][0]["suggestion"] == "main"


async def test_only_members_read_when_there_are_accounts(tmp_path: Path) -> None:
    async with serve(tmp_path, is_open=False) as server:
        await server.add_user("ada")
        await server.add_user("eve")
        async with server.client("ada") as ada, server.client("eve") as eve, server.client() as nobody:
            await ada.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
            for path in (LOGS, LOG):
                assert (await ada.get(path)).status_code == 404
                assert (await eve.get(path)).status_code == 403
                assert (await nobody.get(path)).status_code == 401
