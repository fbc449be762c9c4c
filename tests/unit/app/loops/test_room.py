"""Runs for which the engine has no room yet: PENDING without an anchor, with figures and deadlines, until there is."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from runyard.app.engine import EngineFull, EngineUnavailable
from runyard.app.loops.pace import Pace
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from runyard.app.runs.transitions import NOTES
from runyard.domain.outcomes import Lane
from tests.engines.memory import MemoryEngine
from tests.unit.app.run_world import ADA, JOB, SERVICE, World

FIGURES = "the resource quota team has no room (count/jobs.batch: 1 requested, 5 of 5 used)"


@contextmanager
def full(method: str = "ensure_anchor", figures: str = FIGURES) -> Iterator[None]:
    """An engine without room."""

    async def refuse(*_: object) -> Any:
        raise EngineFull("quota.exceeded", figures)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryEngine, method, refuse)
        yield


async def test_run_is_pending_with_the_figures_and_goes_on_when_there_is_room(world: World) -> None:
    await world.submit()
    with full():
        await world.settle()
        waiting = await world.get()
        assert (waiting.state, waiting.reason, waiting.message) == ("PENDING", "quota.exceeded", FIGURES)
        assert (waiting.anchor_uid, waiting.lane) == (None, Lane.CREATE)
        assert waiting.due_at is not None
        last = (await world.history())[-1]
        assert (last.state, last.reason, last.message) == ("PENDING", "quota.exceeded", FIGURES)
    with full(figures="another figure"):
        await world.settle()
        assert (await world.get()).message == "another figure"
    await world.settle()
    running = await world.get()
    assert (running.state, running.reason) == ("RUNNING", None)
    assert await world.states() == ["CREATED", "READY", "PENDING", "RUNNING"]
    assert "failing" not in running.status.get(NOTES, {})
    assert world.engine.released == [running.anchor_uid]


async def test_history_has_one_entry_when_a_run_waits_for_long(world: World) -> None:
    await world.submit()
    with full():
        for _ in range(5):
            world.turn(timedelta(minutes=1))
            await world.look()
    assert await world.states() == ["CREATED", "READY", "PENDING"]
    assert [entry.action for entry in await world.audit()] == ["run.waiting"]


async def test_run_says_that_it_was_handed_over_when_it_had_waited(world: World) -> None:
    await world.submit()
    with full():
        await world.look()
    world.make_due()
    loop = world.make_loop()
    await loop.reconcile_due()
    run = await world.get()
    assert (run.state, run.reason, run.message) == ("PENDING", "engine.released", "handed to the engine `memory`")
    assert run.lane is Lane.WATCH


async def test_run_fails_without_an_anchor_when_it_waits_longer_than_pending_timeout(world: World) -> None:
    await world.submit(effective={**JOB, "pending_timeout": 60})
    with full():
        await world.settle()
        world.turn(timedelta(seconds=59))
        await world.look()
        assert (await world.get()).state == "PENDING"
        world.turn(timedelta(seconds=2))
        await world.settle()
    run = await world.get()
    assert (run.state, run.reason) == ("ERROR", "timeout.pending")
    assert run.message == "the run waited for its resources longer than pending_timeout: 1m"
    assert run.settled_at is not None
    assert world.engine.things == {}
    await world.settle()
    assert (await world.get()).state == "ERROR"


async def test_time_without_room_counts_when_the_anchor_comes_later(world: World) -> None:
    await world.submit(effective={**JOB, "pending_timeout": 60})
    with full():
        await world.settle()
        world.turn(timedelta(seconds=40))
        await world.look()
    world.make_due()
    await world.make_loop().reconcile_due()
    waiting = await world.get()
    assert waiting.anchor_uid is not None
    world.turn(timedelta(seconds=25))
    world.make_due()
    await world.make_loop().reconcile_due()
    assert (await world.get()).desired == "stop"
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason) == ("ERROR", "timeout.pending")


async def test_run_is_looked_at_in_time_when_its_deadline_comes_before_the_next_attempt(world: World) -> None:
    await world.submit(effective={**JOB, "pending_timeout": 45})
    with full():
        for _ in range(8):
            world.make_due()
            await world.make_loop(pace=Pace()).reconcile_due()
            world.clock.at += timedelta(seconds=5)
        async with world.store.begin(is_read_only=True) as unit:
            now = await unit.read_clock()
    due_at = (await world.get()).due_at
    assert due_at is not None
    assert due_at - now <= timedelta(seconds=11)


@pytest.mark.parametrize("effective", [JOB, SERVICE])
async def test_run_is_stopped_or_deleted_at_once_when_it_waits_for_room(
    world: World, effective: dict[str, Any]
) -> None:
    await world.submit(effective=effective)
    await world.submit("r2", effective=effective)
    with full():
        await world.settle()
        await stop_run(world.core, ADA, "p", "r1")
        await delete_run(world.core, ADA, "p", "r2")
        await world.settle()
        stopped = await world.get()
        assert stopped.state == "STOPPED"
        assert stopped.reason != "quota.exceeded"
        assert await world.find("r2") is None
    await world.settle()
    assert world.engine.things == {}


async def test_anchor_is_found_when_the_answer_to_its_creation_was_lost_before_the_quota_was_full(world: World) -> None:
    await world.submit()
    create = MemoryEngine.ensure_anchor

    async def create_and_fail(engine: MemoryEngine, assignment: Any) -> str:
        await create(engine, assignment)
        raise EngineFull("quota.exceeded", FIGURES)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryEngine, "ensure_anchor", create_and_fail)
        await world.settle()
        assert (await world.get()).state == "PENDING"
        await stop_run(world.core, ADA, "p", "r1")
        await world.settle()
    assert (await world.get()).state == "STOPPED"


async def test_run_with_an_anchor_waits_with_the_figures_when_its_release_finds_no_room(world: World) -> None:
    await world.submit(effective={**JOB, "pending_timeout": 60})
    with full("release"):
        await world.settle()
        waiting = await world.get()
        assert (waiting.state, waiting.reason, waiting.message) == ("PENDING", "quota.exceeded", FIGURES)
        assert waiting.anchor_uid is not None
    await world.settle()
    assert (await world.get()).state == "RUNNING"


async def test_state_stays_pending_when_the_place_cannot_be_reached_while_a_run_waits(world: World) -> None:
    await world.submit()
    with full():
        await world.settle()
    world.engine.failures = [EngineUnavailable("engine.unreachable", "connection refused")] * 2
    world.make_due()
    await world.make_loop().reconcile_due()
    run = await world.get()
    assert (run.state, run.reason, run.anchor_uid) == ("PENDING", "engine.unreachable", None)
    world.engine.failures = []
    await world.settle()
    assert (await world.get()).state == "RUNNING"
