"""Retention and supervision."""

import asyncio
from datetime import timedelta

import pytest

from runyard.app.loops.retention_loop import RetentionLoop
from runyard.app.retention import Retention
from runyard.app.runs.stop import stop_run
from runyard.telemetry import loop_supervision as supervisor
from runyard.telemetry.loop_supervision import keep_going, supervise
from tests.unit.app.run_world import ADA, World


async def test_old_runs_go_with_their_logs_when_they_have_ended_long_ago(bare_world: World) -> None:
    old, _ = [await bare_world.submit(name) for name in ("old", "alive")]
    await stop_run(bare_world.core, ADA, "p", "old")
    bare_world.clock.at += timedelta(days=31)
    await bare_world.submit("new")
    await stop_run(bare_world.core, ADA, "p", "new")

    loop = RetentionLoop(bare_world.core, retention=Retention(runs=timedelta(days=30)))
    assert await loop.prune() == 1
    assert await loop.prune() == 0
    assert bare_world.logs.deleted == [old.uid]
    assert await bare_world.find("old") is None
    assert await bare_world.find("alive") is not None
    assert await bare_world.find("new") is not None


async def test_everything_is_kept_when_nothing_else_is_said(bare_world: World) -> None:
    await bare_world.submit("old")
    await stop_run(bare_world.core, ADA, "p", "old")
    bare_world.clock.at += timedelta(days=10_000)
    assert await RetentionLoop(bare_world.core, retention=Retention()).prune() == 0
    assert await bare_world.find("old") is not None
    assert bare_world.logs.deleted == []


async def test_loop_is_begun_again_later_and_later_when_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    pauses: list[float] = []

    async def fail() -> None:
        if len(pauses) % 2:
            raise RuntimeError("broken")

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await keep_going("frail", fail, sleep=sleep)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert {record.message for record in caplog.records} == {"loop failed", "loop returned"}


async def test_pauses_begin_anew_when_the_loop_went_well_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LASTING_SECONDS", 0.5)
    pauses: list[float] = []

    async def fail() -> None:
        if len(pauses) == 3:
            await asyncio.sleep(0.6)
        raise RuntimeError("broken")

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await keep_going("frail", fail, sleep=sleep)
    assert pauses == [1, 2, 4, 1, 2, 4]


async def test_others_go_on_when_one_fails() -> None:
    count = 0
    is_enough = asyncio.Event()

    async def fail() -> None:
        raise RuntimeError("broken")

    async def work() -> None:
        nonlocal count
        while True:
            count += 1
            if count == 50:
                is_enough.set()
            await asyncio.sleep(0)

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    task = asyncio.create_task(supervise({"frail": fail, "good": work}, sleep=sleep))
    await is_enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
