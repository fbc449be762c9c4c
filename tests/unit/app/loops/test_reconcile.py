import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runyard.app.engine import EngineRefusal, EngineUnavailable, Observation
from runyard.app.loops.pace import Pace
from runyard.app.loops.run_updates import record_observation
from runyard.app.loops.steps import Done, Prepared
from runyard.app.model import Lease, Run
from runyard.app.runs.resume import resume_run
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from runyard.app.runs.transitions import NOTES
from runyard.domain.outcomes import Seen
from tests.unit.app.crash_points import Crash
from tests.unit.app.run_world import ADA, JOB, SERVICE, START, World, make_run, reach_phase, running, until

LIFE = ["CREATED", "READY", "PENDING", "RUNNING"]


async def test_run_goes_through_its_states_when_the_engine_does_its_work(world: World) -> None:
    await world.submit()
    await world.settle()
    running = await world.get()
    assert (running.state, running.observed_generation) == ("RUNNING", 1)
    assert running.status["pods"] == [{"name": "r1-0"}]

    world.engine.finish("r1", phase="succeeded")
    await world.settle()
    assert await world.states() == [*LIFE, "COMPLETED"]
    assert (await world.get()).due_at is None
    assert world.engine.released == [running.anchor_uid]


async def test_every_transition_says_who_and_is_audited_when_the_loop_makes_it(world: World) -> None:
    await world.submit()
    await world.settle()
    world.engine.finish("r1", phase="failed", reason="image.root", message="it only runs as root")
    await world.settle()

    last = (await world.history())[-1]
    assert (last.state, last.actor, last.reason, last.message) == (
        "ERROR",
        "system",
        "image.root",
        "it only runs as root",
    )
    actions = [entry.action for entry in await world.audit()]
    assert actions == ["run.release", "run.running", "run.error"]


async def test_run_that_was_only_created_is_taken_up_when_it_is_due(world: World) -> None:
    await world.submit(state="CREATED")
    await world.settle()
    assert await world.states() == LIFE


async def test_message_follows_the_engine_when_the_state_stays(world: World) -> None:
    await world.submit()
    await world.look()
    world.engine.explain("r1", reason="pending.unschedulable", message="no node has a GPU left")
    before = await world.history()
    world.make_due()
    await world.look()
    run = await world.get()
    assert (run.state, run.reason, run.message) == ("PENDING", "pending.unschedulable", "no node has a GPU left")
    assert await world.history() == before


async def test_nothing_is_written_when_nothing_has_changed(world: World) -> None:
    await world.submit()
    await world.settle()
    before = await world.get()
    await world.settle()
    assert replace(await world.get(), due_at=before.due_at) == before


async def test_run_is_lost_when_its_anchor_is_gone(world: World) -> None:
    await world.submit()
    await world.settle()
    world.engine.lose("r1")
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason) == ("ERROR", "run.lost")
    assert world.engine.things == {}


async def test_run_fails_when_it_is_stopped_behind_our_back(world: World) -> None:
    await world.submit(effective=SERVICE)
    await world.settle()
    world.engine.finish("r1", phase="stopped")
    await world.settle()
    assert (await world.get()).reason == "run.stopped_outside"


@pytest.mark.parametrize("number", range(2))
async def test_state_stays_and_message_says_so_when_a_call_fails(world: World, number: int) -> None:
    await world.submit()
    for _ in range(number):
        await world.look()
    before = await world.get()
    history = await world.history()
    world.engine.failures = [EngineUnavailable("engine.unreachable", "connection refused")] * 2
    world.make_due()
    await world.make_loop().reconcile_due()
    failing = await world.get()
    assert (failing.state, failing.anchor_uid) == (before.state, before.anchor_uid)
    assert failing.reason == "engine.unreachable"
    assert failing.message is not None
    assert failing.message.startswith("engine `memory`, since 2026-11-15 12:00:00 UTC: connection refused")
    assert await world.history() == history

    world.engine.failures = []
    await world.settle()
    recovered = await world.get()
    assert (recovered.state, recovered.reason) == ("RUNNING", None)
    assert "failing" not in recovered.status.get(NOTES, {})


async def test_it_is_tried_later_and_later_when_calls_go_on_failing(world: World) -> None:
    await world.submit()
    pace = Pace()
    waits = []
    for _ in range(9):
        world.engine.failures = [EngineUnavailable("engine.unreachable", "no")]
        world.make_due()
        await world.make_loop(pace=pace).reconcile_due()
        async with world.store.begin(is_read_only=True) as unit:
            now = await unit.read_clock()
        due_at = (await world.get()).due_at
        assert due_at is not None
        wait = due_at - now
        waits.append(round(wait.total_seconds()))
        world.clock.at += timedelta(seconds=waits[-1])
    assert waits == [1, 1, 2, 4, 8, 16, 32, 60, 60]


async def test_unknown_error_of_an_engine_tells_only_its_type_when_it_is_shown(world: World) -> None:
    async def explode(point: str) -> None:
        if point == "release":
            raise ValueError("password=hunter2")

    await world.submit()
    world.engine.at = explode
    await world.settle(passes=2)
    run = await world.get()
    assert (run.state, run.reason) == ("PENDING", "engine.failed")
    assert run.message is not None
    assert "hunter2" not in run.message


async def test_engine_is_not_waited_for_when_a_call_takes_too_long(world: World) -> None:
    never = asyncio.Event()

    async def hang(point: str) -> None:
        await never.wait()

    await world.submit()
    world.engine.at = hang
    await world.make_loop(pace=Pace(call_seconds=0.01)).reconcile_due()
    assert (await world.get()).reason == "engine.timeout"


@pytest.mark.parametrize("point", ["ensure_anchor", "release"])
async def test_run_ends_in_error_with_the_reason_when_the_engine_refuses_it(world: World, point: str) -> None:
    async def refuse(at: str) -> None:
        if at == point:
            raise EngineRefusal("admission.denied", "hostPath is not allowed")

    await world.submit()
    world.engine.at = refuse
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, run.message) == ("ERROR", "admission.denied", "hostPath is not allowed")
    assert run.due_at is None


async def test_stop_is_tried_again_when_the_engine_refuses_it(world: World) -> None:
    await world.submit()
    await world.settle()
    await stop_run(world.core, ADA, "p", "r1")
    world.engine.failures = [EngineRefusal("rbac.forbidden", "may not delete jobs")]
    await world.make_loop().reconcile_due()
    failing = await world.get()
    assert (failing.state, failing.reason) == ("STOP", "rbac.forbidden")
    await world.settle()
    stopped = await world.get()
    assert (stopped.state, stopped.reason, stopped.message) == ("STOPPED", "user.stop", "stopped by ada")


@pytest.mark.parametrize("failures", [0, 2])
async def test_stopped_run_says_who_stopped_it_when_calls_failed_before_and_after(world: World, failures: int) -> None:
    await world.submit()
    unreachable = EngineUnavailable("engine.unreachable", "connection refused")
    world.engine.failures = [unreachable]
    await world.make_loop().reconcile_due()
    assert (await world.get()).reason == "engine.unreachable"
    await stop_run(world.core, ADA, "p", "r1")
    for _ in range(failures):
        world.engine.failures = [unreachable]
        world.make_due()
        await world.make_loop().reconcile_due()
        assert (await world.get()).reason == "engine.unreachable"
    world.engine.failures = []
    await world.settle()
    stopped = await world.get()
    assert (stopped.state, stopped.reason, stopped.message) == ("STOPPED", "user.stop", "stopped by ada")


async def test_secrets_are_given_when_the_run_is_released(world: World) -> None:
    async with world.store.begin() as unit:
        await unit.secrets.put(world.core.vault.seal("p", "key", 1, "s3cr3t"))
        await unit.commit()
    await world.submit(effective={**JOB, "secrets": [{"name": "key"}]})
    await world.settle()
    assert list(world.engine.secrets.values()) == [{"key": "s3cr3t"}]


async def test_run_is_refused_when_a_secret_has_no_value_any_more(world: World) -> None:
    await world.submit(effective={**JOB, "secrets": [{"name": "gone"}]})
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason) == ("ERROR", "secret.missing")
    assert world.engine.released == []


async def test_old_news_change_nothing_when_the_engine_remembers_wrongly(world: World) -> None:
    await world.submit(effective=SERVICE)
    await world.settle()
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    await resume_run(world.core, ADA, "p", "r1")
    world.engine.choose_age = lambda known: 2  # what was seen before the release: that it is stopped
    await world.look()
    assert (await world.get()).state == "PENDING"
    world.engine.choose_age = lambda known: 0
    await world.settle()
    assert await world.states() == [*LIFE, "STOP", "STOPPED", "RESUME", "PENDING", "RUNNING"]
    assert len(world.engine.released) == 2


async def test_details_do_not_go_back_when_the_engine_remembers_wrongly(world: World) -> None:
    await world.submit()
    await world.settle()
    pods = (await world.get()).status["pods"]
    world.engine.choose_age = lambda known: 1
    world.make_due()
    await world.look()
    run = await world.get()
    assert (run.state, run.status["pods"]) == ("RUNNING", pods)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"uid": "other", "seen": Seen.ABSENT}, False),
        ({"version": 4}, False),
        ({"generation": 0}, False),
        ({}, True),
        ({"epoch": 2, "version": 1}, True),
        ({"epoch": 0, "version": 9}, False),
    ],
)
def test_observation_counts_when_it_is_of_the_anchor_and_not_older(fields: dict[str, Any], expected: bool) -> None:
    run = make_run("r1", state="RUNNING", anchor_uid="mine", observed_epoch=1, observed_version=5)
    given = {"uid": "mine", "seen": Seen.SUCCEEDED, "epoch": 1, "version": 5, "generation": 1, **fields}
    seen = Observation(run_uid=run.uid, **given)
    assert (record_observation(seen, now=START)(run) is not None) is expected


async def test_anchor_is_found_and_not_made_again_when_the_loop_died_before_it_was_stored(world: World) -> None:
    async def crash(point: str) -> None:
        if point == "ensure_anchor done":
            raise Crash

    await world.submit()
    world.engine.at = crash
    with pytest.raises(BaseExceptionGroup):
        await world.look()
    [uid] = world.engine.things
    world.engine.at = lambda point: asyncio.sleep(0)
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    stopped = await world.get()
    assert (stopped.state, stopped.anchor_uid) == ("STOPPED", uid)
    await delete_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert world.engine.things == {}
    assert await world.find() is None


async def test_anchor_is_removed_when_it_was_made_after_the_run_had_ended(world: World) -> None:
    frozen, thawed = asyncio.Event(), asyncio.Event()

    async def freeze(point: str) -> None:
        if point == "ensure_anchor" and not frozen.is_set():
            frozen.set()
            await thawed.wait()

    await world.submit()
    world.engine.at = freeze
    async with asyncio.TaskGroup() as group:
        group.create_task(world.look())
        await frozen.wait()
        await stop_run(world.core, ADA, "p", "r1")
        await world.settle()
        assert (await world.get()).state == "STOPPED"
        thawed.set()
    assert world.engine.things == {}
    assert world.engine.released == []


async def test_anchor_is_removed_when_its_id_was_used_again_before_it_was_made(world: World) -> None:
    frozen, thawed = asyncio.Event(), asyncio.Event()

    async def freeze(point: str) -> None:
        if point == "ensure_anchor" and not frozen.is_set():
            frozen.set()
            await thawed.wait()

    await world.submit()
    world.engine.at = freeze
    async with asyncio.TaskGroup() as group:
        group.create_task(world.look())
        await frozen.wait()
        await delete_run(world.core, ADA, "p", "r1")
        await world.settle()
        assert await world.find() is None
        world.turn(timedelta(seconds=1))
        await world.submit()
        thawed.set()
    assert world.engine.things == {}
    assert (await world.get()).anchor_uid is None


def stop_at(world: World, where: str) -> None:
    """A user stops the run when the engine comes to that point."""

    async def press_stop(point: str) -> None:
        if point == where:
            world.engine.at = lambda _: asyncio.sleep(0)
            await stop_run(world.core, ADA, "p", "r1")

    world.engine.at = press_stop


async def test_user_wins_when_stop_comes_while_the_engine_releases(world: World) -> None:
    await world.submit()
    stop_at(world, "release done")
    await world.settle()
    assert await world.states() == ["CREATED", "READY", "PENDING", "STOP", "STOPPED"]


async def test_one_anchor_is_made_when_two_loops_race(world: World) -> None:
    names = [f"r{number}" for number in range(12)]
    for name in names:
        await world.submit(name)
    world.engine.at = lambda _: asyncio.sleep(0)
    loops = [world.make_loop() for _ in range(3)]
    for _ in range(4):
        await asyncio.gather(*(loop.reconcile_due() for loop in loops))
        world.engine.tick()
        world.make_due()
    assert [len(uids) for uids in world.engine.made.values()] == [1] * len(names)
    for name in names:
        assert (await world.get(name)).state == "RUNNING"
        assert await world.states(name) == LIFE


async def test_run_waits_and_says_why_when_there_is_no_engine(bare_world: World) -> None:
    await bare_world.submit()
    await bare_world.settle()
    run = await bare_world.get()
    assert (run.state, run.reason, run.due_at) == ("READY", "engine.none", None)
    assert run.message is not None
    assert "no engine is configured" in run.message
    assert await bare_world.look() == 0


async def test_waiting_run_is_taken_up_when_a_later_server_has_an_engine(bare_world: World) -> None:
    await bare_world.submit()
    await bare_world.submit("local", is_local=True)
    await bare_world.settle()
    bare_world.core = replace(bare_world.core, engine=bare_world.engine)
    assert await bare_world.make_loop().wake_waiting() == 1
    await bare_world.settle()
    assert ((await bare_world.get()).state, (await bare_world.get()).reason) == ("RUNNING", None)


async def test_end_waits_for_an_engine_when_something_was_made_by_one(world: World) -> None:
    await world.submit()
    await world.settle()
    world.core = replace(world.core, engine=None)
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert ((await world.get()).state, (await world.get()).reason) == ("STOP", "place.other")
    await delete_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert (await world.get()).state == "DELETING"

    world.core = replace(world.core, engine=world.engine)
    await world.make_loop().wake_waiting()
    await world.settle()
    assert await world.find() is None
    assert world.engine.things == {}


@pytest.mark.parametrize(
    ("limits", "is_running", "reason"),
    [
        ({"pending_timeout": 60}, False, "timeout.pending"),
        ({"timeout": 60}, False, "timeout.run"),
        ({"timeout": 60}, True, "timeout.run"),
        ({"timeout": 60, "pending_timeout": 30}, True, "timeout.run"),
    ],
)
async def test_run_is_stopped_and_ends_in_error_when_it_is_overdue(
    world: World, limits: dict[str, int], is_running: bool, reason: str
) -> None:
    await world.submit(effective={**JOB, **limits})
    await world.look()
    if is_running:
        world.engine.tick()
    world.turn(timedelta(seconds=29))
    world.make_due()
    await world.look()
    assert (await world.get()).desired == "run"

    world.turn(timedelta(seconds=31))
    assert await world.look() == 1
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, run.desired) == ("ERROR", reason, "stop")
    assert [anchor.phase for anchor in world.engine.things.values()] == ["stopped"]


async def test_run_that_made_it_is_completed_when_the_timer_was_late(world: World) -> None:
    await world.submit(effective={**JOB, "timeout": 60})
    await world.settle()
    world.turn(timedelta(seconds=61))
    world.engine.choose_age = lambda known: 1
    world.engine.finish("r1", phase="succeeded")
    await world.look()
    assert (await world.get()).desired == "stop"
    world.engine.choose_age = lambda known: 0
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, run.message) == ("COMPLETED", None, None)


async def test_service_goes_on_when_only_jobs_have_a_timeout(world: World) -> None:
    await world.submit(effective={**SERVICE, "timeout": 60, "pending_timeout": 60})
    await world.settle()
    world.turn(timedelta(seconds=3600))
    await world.settle()
    assert (await world.get()).state == "RUNNING"


async def test_loop_works_by_itself_when_it_runs(world: World) -> None:
    await world.submit()
    task = asyncio.create_task(world.make_loop(pace=Pace(poll_seconds=600)).run())
    async with asyncio.timeout(30):
        await world.reach("r1", "PENDING")
        await reach_phase(world.engine, "r1", "pending")
        world.engine.tick()
        await world.reach("r1", "RUNNING")
        await delete_run(world.core, ADA, "p", "r1")
        await reach_phase(world.engine, "r1", "removing")
        world.engine.tick()

        async def is_gone() -> bool:
            return await world.find() is None

        await until(is_gone)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.engine.things == {}


async def test_job_is_stopped_at_its_deadline_when_nothing_else_wakes_the_loop(world: World) -> None:
    await world.submit(effective={**JOB, "timeout": 1})
    async with running(world.make_loop(pace=Pace(poll_seconds=600, resync_seconds=600))), asyncio.timeout(30):
        await world.reach("r1", "PENDING")
        await reach_phase(world.engine, "r1", "pending")
        world.engine.tick()
        await world.reach("r1", "RUNNING")
        world.turn(timedelta(seconds=2))
        await reach_phase(world.engine, "r1", "stopping")


async def test_lease_is_given_back_when_the_loop_is_cancelled_at_work(world: World) -> None:
    reached = asyncio.Event()

    async def hang(point: str) -> None:
        reached.set()
        await asyncio.Event().wait()

    await world.submit()
    world.engine.at = hang
    task = asyncio.create_task(world.make_loop().run())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    world.engine.at = lambda _: asyncio.sleep(0)
    assert await world.look() == 1


async def test_run_is_processed_again_when_its_effective_spec_cannot_be_read(world: World) -> None:
    await world.submit("broken", effective={"schema_version": 99})
    await world.submit("fine")
    loop = world.make_loop(pace=Pace(min_backoff=timedelta(seconds=7)))
    assert await loop.reconcile_due() == 2
    assert (await world.get("fine")).state == "PENDING"
    broken = await world.get("broken")
    assert (broken.state, broken.reason) == ("READY", "spec.unreadable")
    async with world.store.begin(is_read_only=True) as unit:
        now = await unit.read_clock()
    assert broken.due_at is not None
    assert timedelta(seconds=5) < broken.due_at - now <= timedelta(seconds=7)
    world.turn(timedelta(seconds=8))
    assert await loop.reconcile_due() >= 1


async def test_nothing_is_written_when_the_lease_expired_during_a_call(world: World) -> None:
    pace = Pace()

    async def take_too_long(point: str) -> None:
        if point == "ensure_anchor":
            world.turn(pace.lease * 1.1)

    await world.submit()
    world.engine.at = take_too_long
    await world.look(world.make_loop(pace=pace))
    run = await world.get()
    assert (run.state, run.anchor_uid) == ("READY", None)
    assert world.engine.released == []


async def test_run_is_released_when_the_process_died_just_before_that(world: World) -> None:
    async def die(point: str) -> None:
        if point == "release":
            raise Crash

    await world.submit()
    world.engine.at = die
    with pytest.raises(BaseExceptionGroup):
        await world.look()
    assert (await world.get()).state == "PENDING"
    world.engine.at = lambda _: asyncio.sleep(0)
    await world.settle()
    assert await world.states() == LIFE
    assert len(world.engine.released) == 1


async def test_service_is_released_again_when_its_release_got_lost_after_a_resume(world: World) -> None:
    await world.submit(effective=SERVICE, kind="container+serve:run")
    await world.settle()
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    await resume_run(world.core, ADA, "p", "r1")

    async def fail(point: str) -> None:
        if point == "release":
            raise EngineUnavailable("engine.unreachable", "no")

    world.engine.at = fail
    await world.look()
    assert (await world.get()).state == "PENDING"
    world.engine.at = lambda _: asyncio.sleep(0)
    await world.settle()
    assert (await world.get()).state == "RUNNING"


async def test_run_ends_in_error_when_the_engine_refuses_a_release_that_is_repeated(world: World) -> None:
    failures = [EngineUnavailable("engine.unreachable", "no"), EngineRefusal("admission.denied", "not allowed")]

    async def fail(point: str) -> None:
        if point == "release" and failures:
            raise failures.pop(0)

    await world.submit()
    world.engine.at = fail
    await world.settle()
    run = await world.get()
    assert (run.state, run.reason, run.message) == ("ERROR", "admission.denied", "not allowed")
    assert world.engine.things == {}


async def test_service_starts_when_it_was_stopped_before_it_ran_and_is_resumed(world: World) -> None:
    async def stop(point: str) -> None:
        if point == "ensure_anchor done":
            world.engine.at = lambda _: asyncio.sleep(0)
            await stop_run(world.core, ADA, "p", "r1")

    await world.submit(effective=SERVICE, kind="container+serve:run")
    world.engine.at = stop
    await world.settle()
    stopped = await world.get()
    assert (stopped.state, stopped.settled_at is not None) == ("STOPPED", True)
    await resume_run(world.core, ADA, "p", "r1")
    await world.settle()
    assert (await world.get()).state == "RUNNING"


async def test_newer_life_goes_on_when_the_refusal_of_an_older_release_comes_late(world: World) -> None:
    refused = asyncio.Event()

    async def refuse_late(point: str) -> None:
        if point == "release":
            world.engine.at = lambda _: asyncio.sleep(0)
            await refused.wait()
            raise EngineRefusal("secret.missing", "no value")

    await world.submit(effective=SERVICE, kind="container+serve:run")
    world.engine.at = refuse_late
    late = asyncio.create_task(world.make_loop().reconcile_due())
    await world.reach("r1", "PENDING")
    await stop_run(world.core, ADA, "p", "r1")
    await world.settle()
    await resume_run(world.core, ADA, "p", "r1")
    refused.set()
    await late
    await world.settle()
    assert (await world.get()).state == "RUNNING"


async def test_run_is_processed_again_when_a_step_fails_unexpectedly(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.submit("broken")
    await world.submit("fine")
    loop = world.make_loop()
    advance = loop._stepper.advance

    async def fail(run: Run, lease: Lease, prepared: Prepared) -> Done:
        if run.id == "broken":
            raise RuntimeError("a defect")
        return await advance(run, lease, prepared)

    monkeypatch.setattr(loop._stepper, "advance", fail)
    assert await loop.reconcile_due() == 2
    assert (await world.get("fine")).state == "PENDING"
    monkeypatch.undo()
    assert await loop.reconcile_due() == 0
    world.turn(Pace().max_backoff)
    await loop.reconcile_due()
    assert (await world.get("broken")).state == "PENDING"


async def test_anchor_stays_held_when_stop_comes_while_the_engine_makes_the_anchor(world: World) -> None:
    await world.submit()
    stop_at(world, "ensure_anchor done")
    await world.settle()
    assert await world.states() == ["CREATED", "READY", "STOP", "STOPPED"]
    assert world.engine.released == []


async def test_stop_is_acted_on_at_once_when_the_release_hangs(world: World) -> None:
    reached, released = asyncio.Event(), asyncio.Event()

    async def hang(point: str) -> None:
        if point == "release":
            reached.set()
            await released.wait()

    await world.submit()
    world.engine.at = hang
    async with asyncio.TaskGroup() as group:
        group.create_task(world.look())
        await reached.wait()
        await stop_run(world.core, ADA, "p", "r1")
        assert await world.look() == 1
        assert "stop" in world.engine.calls
        released.set()
    assert world.engine.released == []


async def test_first_failure_and_the_reason_before_it_are_kept_when_another_error_follows(world: World) -> None:
    await world.submit()
    await world.settle()
    await stop_run(world.core, ADA, "p", "r1")
    for message in ("refused", "reset"):
        world.engine.failures = [EngineUnavailable("engine.unreachable", message)]
        world.make_due()
        await world.make_loop().reconcile_due()
        world.turn(timedelta(seconds=30))
    failing = await world.get()
    assert failing.message == "engine `memory`, since 2026-11-15 12:00:00 UTC: reset"
    await world.settle()
    stopped = await world.get()
    assert (stopped.state, stopped.reason, stopped.message) == ("STOPPED", "user.stop", "stopped by ada")


async def test_release_is_tried_again_soon_when_it_failed(world: World) -> None:
    pace = Pace()

    async def fail(point: str) -> None:
        if point == "release":
            raise EngineUnavailable("engine.unreachable", "no")

    await world.submit()
    world.engine.at = fail
    await world.make_loop(pace=pace).reconcile_due()
    assert ((await world.get()).state, (await world.get()).reason) == ("PENDING", "engine.unreachable")
    world.engine.at = lambda _: asyncio.sleep(0)
    world.turn(pace.min_backoff)
    await world.make_loop(pace=pace).reconcile_due()
    assert len(world.engine.released) == 1


async def test_deadline_is_kept_when_the_run_was_looked_at_before_it(world: World) -> None:
    await world.submit(effective={**JOB, "timeout": 60})
    await world.settle()
    run = await world.get()
    async with world.store.begin() as unit:
        await unit.runs.wake([run.uid])
        await unit.commit()
    assert await world.make_loop().reconcile_due() == 1
    assert (await world.get()).desired == "run"
    world.turn(timedelta(seconds=60))
    await world.make_loop().reconcile_due()
    assert (await world.get()).desired == "stop"
