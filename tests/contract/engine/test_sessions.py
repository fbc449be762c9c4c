"""Sessions in containers, and what they use: for engines that are `Interactive` or `Metered`."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from runyard.app.engine import (
    LARGEST_MESSAGE_BYTES,
    Channel,
    ChannelId,
    EngineError,
    EngineRefusal,
    Interactive,
    Metered,
    Session,
)
from runyard.domain.outcomes import Seen
from tests.contract.engine.lab import Lab, assign, begin_and_see, eventually, make_anchor, needs, recording
from tests.contract.engine.memory_sessions import CAT, FAIL, SAY_BOTH, SLEEP
from tests.contract.engine.scripts import WAIT_FOREVER, say, wait_for

Messages = list[tuple[ChannelId, bytes]]
UNUSED_PORT = 9


def require_interactive(lab: Lab) -> Interactive:
    """The engine of a lab that can open sessions."""
    engine: Any = lab.engine
    assert isinstance(engine, Interactive)
    return engine


async def read_to_end(lab: Lab, channel: Channel) -> Messages:
    """Every message until the other side has ended."""
    async with recording(channel.receive()) as seen:
        await eventually(lab, seen.has_ended, lambda ended: ended, what="the end of the session")
    assert seen.error is None, seen.error
    messages: Messages = seen.items
    assert all(len(content) <= LARGEST_MESSAGE_BYTES for _, content in messages)
    return messages


def join(messages: Messages, channel: ChannelId) -> bytes:
    """What came on a channel."""
    return b"".join(content for number, content in messages if number == channel)


def read_status(messages: Messages) -> dict[str, Any]:
    """The status, which comes last."""
    assert messages, "the session ended without a status"
    assert messages[-1][0] == ChannelId.ERROR
    status: dict[str, Any] = json.loads(messages[-1][1])
    return status


@needs("sessions")
async def test_input_comes_back_whole_when_a_command_echoes_it_to_its_end(lab: Lab) -> None:
    engine = require_interactive(lab)
    anchor = await begin_and_see(lab, assign(lab), Seen.RUNNING)
    channel = await engine.open_exec(anchor, Session(command=CAT, has_stdin=True))
    parts = [bytes(range(256)) * 1024, b"", b"\xff\0\r\n", b"x" * LARGEST_MESSAGE_BYTES]

    async def send() -> None:
        for part in parts:
            await channel.send(ChannelId.STDIN, part)
        await channel.send(ChannelId.CLOSE, b"\0")

    sending = asyncio.ensure_future(send())
    try:
        messages = await read_to_end(lab, channel)
        await sending
    finally:
        sending.cancel()
        await channel.close()
    assert join(messages, ChannelId.STDOUT) == b"".join(parts)
    assert read_status(messages)["status"] == "Success"


@needs("sessions")
async def test_status_has_the_exit_code_when_the_command_fails(lab: Lab) -> None:
    engine = require_interactive(lab)
    anchor = await begin_and_see(lab, assign(lab), Seen.RUNNING)
    channel = await engine.open_exec(anchor, Session(command=FAIL))
    status = read_status(await read_to_end(lab, channel))
    await channel.close()
    assert (status["status"], status.get("reason")) == ("Failure", "NonZeroExitCode")
    assert {"reason": "ExitCode", "message": "3"} in status["details"]["causes"]


@needs("sessions")
async def test_outputs_are_told_apart_when_the_command_writes_to_both(lab: Lab) -> None:
    engine = require_interactive(lab)
    anchor = await begin_and_see(lab, assign(lab), Seen.RUNNING)
    channel = await engine.open_exec(anchor, Session(command=SAY_BOTH))
    messages = await read_to_end(lab, channel)
    await channel.close()
    assert (join(messages, ChannelId.STDOUT), join(messages, ChannelId.STDERR)) == (b"out\n", b"err\n")


@needs("sessions")
async def test_sessions_are_refused_when_nothing_of_the_run_runs(lab: Lab) -> None:
    engine = require_interactive(lab)
    held = assign(lab)
    anchors = [
        make_anchor(held, await lab.engine.ensure_anchor(held)),
        make_anchor(assign(lab, run_id="r2"), "nothing-has-this-uid"),
        await begin_and_see(lab, assign(lab, say("done"), run_id="r3"), Seen.SUCCEEDED),
    ]
    for anchor in anchors:
        with pytest.raises(EngineRefusal):
            await engine.open_exec(anchor, Session(command=CAT))
        with pytest.raises(EngineRefusal):
            await engine.open_attach(anchor, Session())


@needs("sessions")
async def test_sender_waits_when_the_command_does_not_read(lab: Lab) -> None:
    engine = require_interactive(lab)
    anchor = await begin_and_see(lab, assign(lab), Seen.RUNNING)
    channel = await engine.open_exec(anchor, Session(command=SLEEP, has_stdin=True))

    async def send() -> None:
        for _ in range(1000):
            await channel.send(ChannelId.STDIN, b"x" * LARGEST_MESSAGE_BYTES)

    sending = asyncio.ensure_future(send())
    await lab.pass_time()
    assert not sending.done()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await channel.close()


@needs("sessions")
async def test_run_goes_on_when_a_session_is_closed_twice(lab: Lab) -> None:
    engine = require_interactive(lab)
    anchor = await begin_and_see(lab, assign(lab), Seen.RUNNING)
    channel = await engine.open_exec(anchor, Session(command=SLEEP))
    await channel.close()
    await channel.close()
    await lab.pass_time()
    assert (await lab.engine.observe(anchor)).seen is Seen.RUNNING


@needs("sessions")
async def test_output_of_the_run_is_seen_when_a_session_is_attached_to_it(lab: Lab) -> None:
    engine = require_interactive(lab)
    run = assign(lab, wait_for("go"), say("hello"), WAIT_FOREVER)
    anchor = await begin_and_see(lab, run, Seen.RUNNING)
    channel = await engine.open_attach(anchor, Session())
    async with recording(channel.receive()) as seen:
        await lab.send(run, "go")

        async def read() -> bytes:
            return join(seen.items, ChannelId.STDOUT)

        await eventually(lab, read, lambda output: output == b"hello\n")
    await channel.close()


@needs("sessions")
async def test_failure_is_told_when_nothing_listens_at_the_port(lab: Lab) -> None:
    engine = require_interactive(lab)
    anchor = await begin_and_see(lab, assign(lab), Seen.RUNNING)
    try:
        channel = await engine.open_port(anchor, UNUSED_PORT)
    except EngineError:
        return
    assert read_status(await read_to_end(lab, channel))["status"] == "Failure"
    await channel.close()


async def test_usage_of_each_container_is_listed_when_the_run_runs(lab: Lab) -> None:
    engine: Any = lab.engine
    assert isinstance(engine, Metered)
    anchor = await begin_and_see(lab, assign(lab), Seen.RUNNING)
    (usage,) = await eventually(lab, lambda: engine.list_usage(anchor), lambda found: len(found) == 1)
    assert usage.at.utcoffset() is not None
    assert usage.pod
    assert usage.container
    assert usage.memory_bytes is None or usage.memory_bytes > 0


async def test_disk_is_nothing_when_the_run_has_no_volumes_or_the_anchor_is_another(lab: Lab) -> None:
    engine: Any = lab.engine
    assert isinstance(engine, Metered)
    anchor = await begin_and_see(lab, assign(lab), Seen.RUNNING)
    assert await engine.sum_disk_bytes(anchor) == 0
    assert await engine.sum_disk_bytes(replace(anchor, uid="another")) == 0
