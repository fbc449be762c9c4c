"""After every final state: the log is stored, then the engine cleans up, until it says that it is done."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from runyard.app.engine import Assignment, EngineRefusal, EngineUnavailable
from runyard.app.log_store import Stream
from runyard.app.loops.log_collection import LogCollector
from runyard.app.loops.run_updates import read_notes
from runyard.app.runs.resume import resume_run
from runyard.app.runs.stop import stop_run
from tests.unit.app.crash_points import Crash
from tests.unit.app.run_world import ADA, JOB, SERVICE, World


async def run_to_end(world: World, *, phase: str = "succeeded") -> None:
    async with world.store.begin() as unit:
        await unit.secrets.put(world.core.vault.seal("p", "key", 1, "s3cr3t"))
        await unit.commit()
    await world.submit(effective={**JOB, "secrets": [{"name": "key"}]})
    await world.settle()
    world.engine.write_log("r1", b"hello\n")
    world.engine.finish("r1", phase=phase)


@pytest.mark.parametrize("phase", ["succeeded", "failed"])
async def test_values_of_secrets_are_gone_and_the_log_is_whole_when_a_run_has_ended(world: World, phase: str) -> None:
    await run_to_end(world, phase=phase)
    assert world.engine.secrets
    await world.settle()
    run = await world.get()
    assert (run.settled_at, run.is_log_complete, run.due_at) == (world.clock.now(), True, None)
    assert world.engine.secrets == {}
    [info] = await world.core.logs.list_streams(run.uid)
    assert (info.stream, info.size, info.is_complete) == (Stream(run.uid, "r1-0", "main"), 6, True)


async def test_log_is_stored_before_the_engine_is_asked_to_clean_up(world: World) -> None:
    sizes = []

    async def look(point: str) -> None:
        if point == "settle":
            run = await world.get()
            sizes.extend([(info.size, info.is_complete) for info in await world.core.logs.list_streams(run.uid)])

    await run_to_end(world)
    world.engine.at = look
    await world.settle()
    assert sizes[:1] == [(6, True)]


async def test_run_has_ended_and_its_log_has_not_when_the_engine_cannot_be_reached(world: World) -> None:
    async def fail(point: str) -> None:
        if point == "settle":
            raise EngineUnavailable("engine.unreachable", "no")

    await run_to_end(world)
    world.engine.at = fail
    await world.look()
    run = await world.get()
    assert (run.state, run.settled_at, run.reason) == ("COMPLETED", None, None)
    assert read_notes(run)["failing"]["told"] == "engine.unreachable"
    assert not run.is_log_complete
    world.engine.at = lambda _: asyncio.sleep(0)
    await world.settle()
    run = await world.get()
    assert (run.settled_at is not None, run.reason) == (True, None)
    assert "failing" not in read_notes(run)


async def test_settling_is_repeated_when_the_engine_is_not_done(world: World) -> None:
    answers = iter([False, False, True])
    settle = world.engine.settle

    async def settle_later(assignment: Assignment, uid: str) -> bool:
        await settle(assignment, uid)
        return next(answers)

    world.engine.settle = settle_later  # type: ignore[method-assign]
    await run_to_end(world)
    loop = world.make_loop()
    for _ in range(3):
        assert (await world.get()).settled_at is None
        world.turn(timedelta(seconds=6))
        await world.look(loop)
    assert (await world.get()).settled_at is not None


async def test_work_is_stopped_and_its_log_stored_when_the_engine_began_it_anew_after_the_end(world: World) -> None:
    """As a Job does that has a retry left by its own account. What it prints would never end by itself."""

    async def begin_anew(point: str) -> None:
        if point == "settle":
            world.engine.at = lambda _: asyncio.sleep(0)
            world.engine.start("r1")
            world.engine.write_log("r1", b"again\n")

    await run_to_end(world, phase="failed")
    world.engine.at = begin_anew
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, run.settled_at is not None) == ("ERROR", "run.failed", True)
    assert world.engine.calls.count("stop") == 1
    infos = await world.core.logs.list_streams(run.uid)
    assert [(info.stream.instance, info.size, info.is_complete) for info in infos] == [(0, 6, True), (1, 6, True)]


async def test_settling_is_finished_when_the_process_died_in_it(world: World) -> None:
    async def die(point: str) -> None:
        if point == "settle done":
            raise Crash

    await run_to_end(world)
    world.engine.at = die
    with pytest.raises((Crash, BaseExceptionGroup)):
        await world.look()
    assert (await world.get()).settled_at is None
    world.engine.at = lambda _: asyncio.sleep(0)
    await world.settle()
    assert (await world.get()).settled_at is not None


async def test_nothing_is_left_behind_when_the_engine_refuses_to_release(world: World) -> None:
    async def refuse(point: str) -> None:
        if point == "release":
            raise EngineRefusal("admission.denied", "no")

    await world.submit()
    world.engine.at = refuse
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, run.settled_at is not None) == ("ERROR", "admission.denied", True)
    assert world.engine.things == {}


async def test_service_goes_on_when_it_was_settled_and_is_resumed(world: World) -> None:
    await world.submit(effective=SERVICE, kind="container+serve:run")
    await world.settle()
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert (await world.get()).settled_at is not None
    await resume_run(world.core, ADA, "p", "r1")
    run = await world.get()
    assert (run.settled_at, run.is_log_complete) == (None, False)
    await world.settle()
    assert (await world.get()).state == "RUNNING"
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert ((await world.get()).state, (await world.get()).settled_at is not None) == ("STOPPED", True)


async def test_nothing_is_settled_when_nothing_existed(world: World) -> None:
    await world.submit()
    await stop_run(world.core, ADA, "p", "r1")
    run = await world.get()
    assert (run.state, run.settled_at is not None, run.due_at) == ("STOPPED", True, None)
    await world.settle()
    assert "settle" not in world.engine.calls


async def test_engine_keeps_everything_when_the_log_cannot_be_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def give_up(*_args: Any, **_options: Any) -> bool:
        return False

    await run_to_end(world)
    with monkeypatch.context() as patched:
        patched.setattr(LogCollector, "drain", give_up)
        await world.settle()
    run = await world.get()
    assert (run.state, run.settled_at, run.is_log_complete) == ("COMPLETED", None, False)
    assert "settle" not in world.engine.calls
    await world.settle()
    assert (await world.get()).is_log_complete


async def test_anchor_is_found_and_goes_when_its_uid_was_never_stored(world: World) -> None:
    async def die(point: str) -> None:
        if point == "ensure_anchor done":
            raise Crash

    async def refuse(point: str) -> None:
        if point == "ensure_anchor":
            raise EngineRefusal("admission.denied", "no")

    await world.submit()
    world.engine.at = die
    with pytest.raises(BaseExceptionGroup):
        await world.look()
    assert len(world.engine.things) == 1
    world.engine.at = refuse
    await world.settle()
    run = await world.get()
    assert (run.state, run.anchor_uid, run.settled_at is not None) == ("ERROR", None, True)
    assert world.engine.things == {}


async def test_service_goes_on_when_it_is_resumed_while_it_is_settled(world: World) -> None:
    async def press_resume(point: str) -> None:
        if point == "settle done":
            world.engine.at = lambda _: asyncio.sleep(0)
            await resume_run(world.core, ADA, "p", "r1")

    await world.submit(effective=SERVICE, kind="container+serve:run")
    await world.settle()
    world.engine.at = press_resume
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    run = await world.get()
    assert (run.state, run.settled_at, run.is_log_complete) == ("RUNNING", None, False)


@pytest.mark.parametrize("is_failed", [True, False])
async def test_objects_of_a_service_go_when_it_has_failed_and_stay_when_it_was_stopped(
    world: World, is_failed: bool
) -> None:
    await world.submit(effective={**SERVICE, "pending_timeout": 60}, kind="container+serve:run")
    await world.look()
    if is_failed:
        world.turn(timedelta(seconds=61))
    else:
        await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    run = await world.get()
    assert (run.state, run.settled_at is not None) == ("ERROR" if is_failed else "STOPPED", True)
    assert len(world.engine.things) == (0 if is_failed else 1)
