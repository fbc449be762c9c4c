"""Retention and supervision."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from runyard.app.loops.retention import Keep, RetentionLoop
from runyard.app.loops.supervisor import keep_going, supervise
from runyard.app.runs.stop import stop_run
from tests.unit.app.run_world import ADA, World


async def test_old_runs_go_with_their_logs_when_they_have_ended_long_ago(bare_world: World) -> None:
    for name in ("old", "alive"):
        await bare_world.submit(name)
    await stop_run(bare_world.core, ADA, "p", "old")
    bare_world.clock.at += timedelta(days=31)
    await bare_world.submit("new")
    await stop_run(bare_world.core, ADA, "p", "new")

    loop = RetentionLoop(bare_world.core, bare_world.store, keep=Keep(runs_days=30))
    assert await loop.prune() == 1
    assert await loop.prune() == 0
    assert bare_world.logs.deleted == ["old"]
    assert await bare_world.find("old") is None
    assert await bare_world.find("alive") is not None
    assert await bare_world.find("new") is not None


@dataclass
class Nothing:
    run_ids: list[str] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

    async def prune(self, now: datetime, **keep: int | None) -> "Nothing":
        self.asked.append((now, keep))
        return self


async def test_everything_is_kept_when_nothing_else_is_said(bare_world: World) -> None:
    store = Nothing()
    await RetentionLoop(bare_world.core, store, keep=Keep()).prune()
    assert store.asked == [(bare_world.clock.at, {"keep_runs_days": None, "keep_audit_days": None})]


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
    assert {record.message for record in caplog.records} == {"loop failed", "loop ended by itself"}


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
