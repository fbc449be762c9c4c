"""Sessions through a played apiserver: which container, what is passed on, and that nothing stays open."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from runyard.app.engine import (
    LARGEST_MESSAGE_BYTES,
    Anchor,
    Channel,
    ChannelId,
    EngineRefusal,
    EngineUnavailable,
    Session,
)
from runyard.engines.kubernetes.run_sessions import RunSessions
from tests.unit.engines.kubernetes.logs.played_pods import (
    NOON,
    RUN,
    PlayedCache,
    ended,
    make_job,
    make_pod,
    running,
    waiting,
)
from tests.unit.kube.scripted_apiserver import refuse
from tests.unit.kube.streams.scripted_socket import STATUS, STDERR, STDOUT, SUCCESS, Side, connected, failure, talk

ANCHOR = Anchor(run_uid=RUN, run_id="r1", project="p", action="job", uid="job-uid")
OTHER = Anchor(run_uid=RUN, run_id="r1", project="p", action="job", uid="other")
PORT = (80).to_bytes(2, "little")


def make_cache(*pods: Any) -> PlayedCache:
    return PlayedCache(*(pods or (make_pod(running()),)), job=make_job())


async def collect(channel: Channel) -> list[tuple[ChannelId, bytes]]:
    return [message async for message in channel.receive()]


async def test_outputs_and_exit_code_come_when_a_command_ends() -> None:
    async def script(side: Side) -> None:
        await side.send(STDOUT, b"x" * (LARGEST_MESSAGE_BYTES + 1))
        await side.send(STDERR, b"err")
        await side.send(STATUS, failure("3"))

    async with connected(talk(script)) as (client, server):
        channel = await RunSessions(client, make_cache()).open_exec(ANCHOR, Session(command=("sh", "-c", "x")))
        messages = await collect(channel)
        await channel.close()
    assert [(number, len(content)) for number, content in messages[:3]] == [
        (ChannelId.STDOUT, LARGEST_MESSAGE_BYTES),
        (ChannelId.STDOUT, 1),
        (ChannelId.STDERR, 3),
    ]
    status = json.loads(messages[-1][1])
    assert messages[-1][0] is ChannelId.ERROR
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert "container=main" in server.requests[0].target


async def test_input_is_passed_on_and_half_closed_when_the_session_has_stdin() -> None:
    heard: list[bytes] = []

    async def script(side: Side) -> None:
        heard.extend([await side.receive(), await side.receive()])
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script)) as (client, _):
        channel = await RunSessions(client, make_cache()).open_exec(ANCHOR, Session(command=("cat",), has_stdin=True))
        await channel.send(ChannelId.RESIZE, b'{"Width": 80, "Height": 24}')
        await channel.send(ChannelId.STDIN, b"hello")
        await channel.send(ChannelId.CLOSE, b"\0")
        (status,) = await collect(channel)
        await channel.send(ChannelId.STDIN, b"too late")
        await channel.close()
    assert heard == [b"\0hello", b"\xff\0"]
    assert status == (ChannelId.ERROR, json.dumps(SUCCESS).encode())


@pytest.mark.parametrize(
    ("content", "is_sent"),
    [
        (b'{"Width": 80, "Height": 24}', True),
        (b"[80, 24]", False),
        (b'{"Width": 0, "Height": 24}', False),
        (b'{"Width": true, "Height": 24}', False),
        (b"nonsense", False),
    ],
)
async def test_the_terminal_is_resized_only_when_the_message_is_a_size(content: bytes, is_sent: bool) -> None:
    heard: list[bytes] = []

    async def script(side: Side) -> None:
        heard.append(await side.receive())
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script)) as (client, _):
        session = Session(command=("sh",), has_stdin=True, is_tty=True)
        channel = await RunSessions(client, make_cache()).open_exec(ANCHOR, session)
        await channel.send(ChannelId.RESIZE, content)
        await channel.send(ChannelId.CLOSE, b"\0")
        await channel.send(ChannelId.STDIN, b"x")
        await collect(channel)
        await channel.close()
    assert heard == ([b'\x04{"Width":80,"Height":24}'] if is_sent else [b"\0x"])


async def test_session_is_unavailable_when_the_connection_breaks() -> None:
    async def script(side: Side) -> None:
        side.cut()

    async with connected(talk(script)) as (client, _):
        channel = await RunSessions(client, make_cache()).open_exec(ANCHOR, Session(command=("cat",)))
        with pytest.raises(EngineUnavailable, match="broke"):
            await collect(channel)
        await channel.close()
        await channel.close()


async def test_failure_is_the_status_when_the_command_cannot_be_started() -> None:
    message = 'exec failed: unable to start container process: exec: "zz": executable file not found in $PATH: unknown'

    async def script(side: Side) -> None:
        await side.send(STATUS, {"status": "Failure", "message": message, "code": 500})

    async with connected(talk(script)) as (client, _):
        channel = await RunSessions(client, make_cache()).open_exec(ANCHOR, Session(command=("zz",)))
        ((number, content),) = await collect(channel)
        await channel.close()
    assert number is ChannelId.ERROR
    assert json.loads(content)["status"] == "Failure"
    assert "not found" in json.loads(content)["message"]


async def test_only_output_is_asked_for_when_a_session_is_attached() -> None:
    async def script(side: Side) -> None:
        await side.send(STDOUT, b"hello\n")
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script)) as (client, server):
        channel = await RunSessions(client, make_cache()).open_attach(ANCHOR, Session(has_stdin=True, is_tty=True))
        await channel.send(ChannelId.STDIN, b"dropped")
        assert (await collect(channel))[0] == (ChannelId.STDOUT, b"hello\n")
        await channel.close()
    assert "stdin" not in server.requests[0].target
    assert "/attach?" in server.requests[0].target


async def test_bytes_come_both_ways_when_a_port_is_open() -> None:
    async def script(side: Side) -> None:
        await side.send(0, PORT)
        await side.send(1, PORT)
        await side.send(0, (await side.receive())[1:].upper())

    async with connected(talk(script, "v4.channel.k8s.io")) as (client, server):
        channel = await RunSessions(client, make_cache()).open_port(ANCHOR, 80)
        await channel.send(ChannelId.CLOSE, b"\0")
        await channel.send(ChannelId.STDIN, b"hello")
        assert await collect(channel) == [(ChannelId.STDIN, b"HELLO")]
        await channel.close()
    assert server.requests[0].target.endswith("/portforward?ports=80")


async def test_failure_is_told_when_nothing_listens_at_the_port() -> None:
    async def script(side: Side) -> None:
        await side.send(0, PORT)
        await side.send(1, PORT + b"connect: connection refused")

    async with connected(talk(script, "v4.channel.k8s.io")) as (client, _):
        channel = await RunSessions(client, make_cache()).open_port(ANCHOR, 80)
        ((number, content),) = await collect(channel)
        await channel.close()
    assert (number, json.loads(content)["status"]) == (ChannelId.ERROR, "Failure")


@pytest.mark.parametrize(
    ("pods", "session", "chosen"),
    [
        ([make_pod(running(), name="a"), make_pod(running(), name="b")], Session(), "b"),
        ([make_pod(running(), name="a"), make_pod(waiting(), name="b")], Session(), "a"),
        (
            [make_pod(running(), name="a"), make_pod(running(), name="b", deleted=NOON)],
            Session(),
            "a",
        ),
        ([make_pod(running(), name="a"), make_pod(running(), name="b")], Session(pod="a"), "a"),
        ([make_pod(waiting(), name="a", init=[running("setup")])], Session(container="setup"), "a"),
    ],
)
async def test_newest_running_pod_is_chosen_when_none_is_named(pods: Any, session: Session, chosen: str) -> None:
    async def script(side: Side) -> None:
        await side.send(STATUS, SUCCESS)

    async with connected(talk(script)) as (client, server):
        channel = await RunSessions(client, make_cache(*pods)).open_attach(ANCHOR, session)
        await channel.close()
    assert f"/pods/{chosen}/attach" in server.requests[0].target
    assert f"container={session.container or 'main'}" in server.requests[0].target


@pytest.mark.parametrize(
    ("pods", "anchor", "session", "message"),
    [
        ([make_pod(running())], OTHER, Session(), "has no containers"),
        ([make_pod(ended())], ANCHOR, Session(), "does not run"),
        ([make_pod(running())], ANCHOR, Session(pod="zz"), "has no pod zz; it has pod"),
        ([make_pod(running())], ANCHOR, Session(container="zz"), "zz of run r1 does not run; running: main"),
    ],
)
async def test_sessions_are_refused_without_a_request_when_nothing_fits(
    pods: Any, anchor: Anchor, session: Session, message: str
) -> None:
    async with connected(refuse(500, "InternalError")) as (client, server):
        sessions = RunSessions(client, make_cache(*pods))
        with pytest.raises(EngineRefusal, match=message):
            await sessions.open_exec(anchor, session)
        if session.container is None:
            with pytest.raises(EngineRefusal, match=message):
                await sessions.open_port(anchor, 80, pod=session.pod)
    assert server.requests == []


async def test_refusal_tells_that_it_does_not_run_when_the_cluster_knows_better() -> None:
    async with connected(refuse(404, "NotFound")) as (client, _):
        with pytest.raises(EngineRefusal, match="does not run anymore"):
            await RunSessions(client, make_cache()).open_exec(ANCHOR, Session(command=("cat",)))
    async with connected(refuse(503, "ServiceUnavailable")) as (client, _):
        with pytest.raises(EngineUnavailable):
            await RunSessions(client, make_cache()).open_exec(ANCHOR, Session(command=("cat",)))


async def test_nothing_stays_open_when_the_call_is_cancelled() -> None:
    asked, cancelled, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hang(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await cancelled.wait()
        while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        closed.set()
        return web.Response()

    async with connected(hang) as (client, _):
        opening = asyncio.ensure_future(RunSessions(client, make_cache()).open_exec(ANCHOR, Session(command=("cat",))))
        await asked.wait()
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        assert opening.cancelled()
        cancelled.set()
        async with asyncio.timeout(60):
            await closed.wait()
        assert not [task for task in asyncio.all_tasks() if "ping_forever" in repr(task)]
