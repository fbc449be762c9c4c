"""A run that this process makes due is taken by its own loop, without a claim; nobody else takes it meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from runyard.app.core import Core
from runyard.app.engine import Assignment, CreateAnchor, EngineRefusal
from runyard.app.intake import AHEAD
from runyard.app.loops.pace import SLOTS, Pace
from runyard.app.loops.reconcile import Reconciler
from runyard.app.model import Run
from runyard.app.ports import Unavailable
from runyard.app.rules import import_policy
from runyard.app.runs import stop_run, submit_run
from runyard.domain.outcomes import Lane
from runyard.domain.reasons import Reason
from runyard.spec.registries import REGISTRIES_SECRET
from runyard.store.unit_of_work import SqlUnitOfWork
from tests.engines.memory import MemoryEngine
from tests.unit.app.demo import ADA, RUN, open_demo
from tests.unit.app.run_world import World, issue_token, reach_phase, running, until


class PreparingEngine(MemoryEngine):
    """It says when it prepares an anchor; what it prepares is as good as nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.refusal: EngineRefusal | None = None
        self.registries: list[str] = []
        """Those that runs could use when their anchors were prepared."""

    async def prepare_anchor(self, assignment: Assignment) -> CreateAnchor:
        await self.at("prepare_anchor")
        self.registries += await assignment.access.read_registries()
        if self.refusal is not None:
            raise self.refusal
        return partial(self.create_prepared, assignment)

    async def create_prepared(self, assignment: Assignment) -> str:
        self.calls.append("create_prepared")
        return await self.ensure_anchor(assignment)

    def list_acts(self) -> list[str]:
        """What it did for runs; it is asked for what it observes all the time."""
        return [name for name in self.calls if name.startswith(("ensure_", "create_", "release"))]


class HeldCommits:
    """Commits of submits that wait until a test lets them go on, or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()
        self.failure: Exception | None = None
        commit = SqlUnitOfWork.commit

        async def wait(unit: SqlUnitOfWork, *, meanwhile: Callable[[], None] | None = None) -> None:
            task = asyncio.current_task()
            if task is None or task.get_name() != "submit":
                await commit(unit, meanwhile=meanwhile)
                return
            self.reached.set()
            if meanwhile is not None:
                meanwhile()
            await self.released.wait()
            if self.failure is not None:
                raise self.failure
            await commit(unit)

        monkeypatch.setattr(SqlUnitOfWork, "commit", wait)


@pytest.fixture
async def preparing(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path, engine=PreparingEngine()) as opened:
        yield opened


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path, engine=MemoryEngine()) as opened:
        yield opened


async def find(core: Core, run_id: str = "r1") -> Run:
    async with core.store.begin(is_read_only=True) as unit:
        run = await unit.runs.find(run_id, project="demo")
    assert run is not None
    return run


async def reach(core: Core, state: str, *, run_id: str = "r1") -> None:
    async def is_there() -> bool:
        return (await find(core, run_id)).state == state

    async with asyncio.timeout(30):
        await until(is_there)


async def open_intake(core: Core) -> None:
    """Wait until the loop takes runs."""

    async def is_open() -> bool:
        return core.intake.find_place() is not None

    async with asyncio.timeout(30):
        await until(is_open)


async def test_run_is_taken_before_the_loops_are_woken_when_it_is_submitted(core: Core) -> None:
    assert core.engine is not None
    woken: list[bool] = []
    place = str(core.engine.place)
    core.intake.open(
        place=place, has_room=lambda: True, take=lambda _run, _stored: woken.append(core.signals.due.is_set())
    )
    core.signals.due.clear()
    await submit_run(core, ADA, "demo", RUN)
    assert woken == [False], "claims and triggers would work before the engine gets its request"
    assert core.signals.due.is_set()


async def test_run_is_taken_without_a_claim_when_a_loop_runs_here(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = core.engine
    assert isinstance(engine, MemoryEngine)
    loop = Reconciler(core, engine, issue_token=issue_token, pace=Pace(poll_seconds=600))
    claimed: list[int] = []
    claim = loop._claim

    async def count(limits: dict[Lane, int]) -> list[tuple[Run, object]]:
        found = list(await claim(limits))
        claimed.append(len(found))
        return found  # type: ignore[return-value]

    monkeypatch.setattr(loop, "_claim", count)
    task = asyncio.create_task(loop.run())
    await open_intake(core)
    run, _ = await submit_run(core, ADA, "demo", RUN)
    assert run.place == "memory/a"
    await reach(core, "PENDING")
    await reach_phase(engine, "r1", "pending")
    engine.tick()
    await reach(core, "RUNNING")
    engine.finish("r1", phase="succeeded")
    await reach(core, "COMPLETED")

    async def is_settled() -> bool:
        return (await find(core)).settled_at is not None

    async with asyncio.timeout(30):
        await until(is_settled)
    assert sum(claimed) == 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_anchor_is_prepared_while_the_run_is_stored_and_created_only_afterwards(
    preparing: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = preparing.engine
    assert isinstance(engine, PreparingEngine)
    is_prepared = asyncio.Event()

    async def note(point: str) -> None:
        if point == "prepare_anchor":
            is_prepared.set()

    async with asyncio.timeout(30), running(Reconciler(preparing, engine, issue_token=issue_token)):
        await open_intake(preparing)
        await submit_run(preparing, ADA, "demo", {**RUN, "id": "earlier"})  # the project is prepared with it
        await reach(preparing, "PENDING", run_id="earlier")
        before = len(engine.list_acts())
        engine.at = note
        commits = HeldCommits(monkeypatch)
        submitting = asyncio.create_task(submit_run(preparing, ADA, "demo", RUN), name="submit")
        await commits.reached.wait()
        await is_prepared.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert engine.list_acts()[before:] == []
        commits.released.set()
        await submitting
        await reach(preparing, "PENDING")
        assert engine.list_acts()[before:][:2] == ["create_prepared", "ensure_anchor"]


async def test_nothing_is_done_for_a_run_when_its_commit_fails(
    preparing: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = preparing.engine
    assert isinstance(engine, PreparingEngine)
    loop = Reconciler(preparing, engine, issue_token=issue_token)
    async with asyncio.timeout(30), running(loop):
        await open_intake(preparing)
        commits = HeldCommits(monkeypatch)
        commits.failure = Unavailable("the disk is full")
        commits.released.set()
        with pytest.raises(Unavailable):
            await asyncio.create_task(submit_run(preparing, ADA, "demo", RUN), name="submit")
        commits.failure = None

        async def is_idle() -> bool:
            return not loop._busy

        await until(is_idle)
        assert engine.list_acts() == []
        run, _ = await submit_run(preparing, ADA, "demo", RUN)
        assert run.place == "memory/a"
        await reach(preparing, "PENDING")
        assert len(engine.made[run.uid]) == 1


async def test_run_is_stored_when_the_loop_ends_while_it_is_committed(
    preparing: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = preparing.engine
    assert isinstance(engine, PreparingEngine)
    commits = HeldCommits(monkeypatch)
    loop = Reconciler(preparing, engine, issue_token=issue_token)
    task = asyncio.create_task(loop.run())

    async def is_idle() -> bool:
        return not loop._busy

    async with asyncio.timeout(30):
        await open_intake(preparing)
        submitting = asyncio.create_task(submit_run(preparing, ADA, "demo", RUN), name="submit")
        await commits.reached.wait()
        assert loop._busy
        task.cancel()
        await until(is_idle)
        commits.released.set()
        run, _ = await submitting
        await asyncio.gather(task, return_exceptions=True)
    assert (await find(preparing)).uid == run.uid
    assert engine.list_acts() == []


async def test_run_begins_when_the_preparation_of_its_anchor_meets_a_defect(preparing: Core) -> None:
    engine = preparing.engine
    assert isinstance(engine, PreparingEngine)

    async def break_down(point: str) -> None:
        if point == "prepare_anchor":
            raise RuntimeError("a defect")

    engine.at = break_down
    async with running(Reconciler(preparing, engine, issue_token=issue_token)):
        await open_intake(preparing)
        await submit_run(preparing, ADA, "demo", RUN)
        await reach(preparing, "PENDING")
    assert "ensure_anchor" in engine.list_acts()


async def test_run_says_why_it_failed_when_its_anchor_cannot_be_prepared(preparing: Core) -> None:
    engine = preparing.engine
    assert isinstance(engine, PreparingEngine)
    engine.refusal = EngineRefusal(Reason.ADMISSION_REFUSED, "not like that")

    async def refuse(point: str) -> None:
        if point == "ensure_anchor" and engine.refusal is not None:
            raise engine.refusal

    engine.at = refuse
    async with running(Reconciler(preparing, engine, issue_token=issue_token)):
        await open_intake(preparing)
        await submit_run(preparing, ADA, "demo", RUN)
        await reach(preparing, "ERROR")
    run = await find(preparing)
    assert (run.reason, run.message) == (Reason.ADMISSION_REFUSED, "not like that")


async def test_anchor_is_prepared_with_the_registries_that_its_project_has(preparing: Core) -> None:
    engine = preparing.engine
    assert isinstance(engine, PreparingEngine)
    config = '{"auths": {"registry.test": {"username": "ada", "password": "x"}}}'
    async with running(Reconciler(preparing, engine, issue_token=issue_token)):
        await open_intake(preparing)
        await submit_run(preparing, ADA, "demo", {**RUN, "id": "without"})
        await reach(preparing, "PENDING", run_id="without")
        assert engine.registries == []
        async with preparing.store.begin() as unit:
            await unit.secrets.put(preparing.vault.seal("demo", REGISTRIES_SECRET, 1, config))
            await unit.commit()
        await submit_run(preparing, ADA, "demo", {**RUN, "id": "with"})
        await reach(preparing, "PENDING", run_id="with")
        assert engine.registries == ["registry.test"]


async def test_project_is_prepared_again_when_its_policy_changed_since(preparing: Core) -> None:
    engine = preparing.engine
    assert isinstance(engine, PreparingEngine)
    async with running(Reconciler(preparing, engine, issue_token=issue_token)):
        await open_intake(preparing)
        for number, text in enumerate((None, "replicas: {max: 4}", None)):
            if text is not None:
                await import_policy(preparing, text, name="policy.yaml")
            await submit_run(preparing, ADA, "demo", {**RUN, "id": f"p{number}"})
            await reach(preparing, "PENDING", run_id=f"p{number}")
        assert engine.calls.count("ensure_project") == 2
        assert engine.calls.count("create_prepared") == 3


async def test_run_is_left_to_claims_when_no_loop_runs_here(core: Core) -> None:
    run, _ = await submit_run(core, ADA, "demo", RUN)
    assert (run.place, run.due_at is not None) == (None, True)


async def test_run_becomes_due_by_itself_when_the_process_dies_after_the_submit(world: World) -> None:
    await world.submit(ahead=AHEAD, place="memory/a")
    assert await world.look() == 0  # nobody takes it while the process that stored it may live
    world.turn(AHEAD)
    assert await world.look() == 1
    assert (await world.get()).state == "PENDING"


async def test_nothing_is_left_behind_when_a_stop_is_done_before_the_anchor_is_made(core: Core) -> None:
    engine = core.engine
    assert isinstance(engine, MemoryEngine)
    is_settled = asyncio.Event()

    async def wait(point: str) -> None:
        if point == "ensure_anchor":
            await is_settled.wait()

    engine.at = wait
    loop = Reconciler(core, engine, issue_token=issue_token)
    task = asyncio.create_task(loop.run())
    await open_intake(core)
    await submit_run(core, ADA, "demo", RUN)
    await stop_run(core, ADA, "demo", "r1")

    async def has_settled() -> bool:
        return (await find(core)).settled_at is not None

    async def is_made_and_gone() -> bool:
        return bool(engine.made) and not engine.things

    async with asyncio.timeout(30):
        await until(has_settled)
        is_settled.set()
        await until(is_made_and_gone)
    run = await find(core)
    assert (run.state, run.anchor_uid) == ("STOPPED", None)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_due_time_stays_when_somebody_else_took_the_run_meanwhile(world: World) -> None:
    run = await world.submit(ahead=AHEAD, place="memory/a")
    loop = world.make_loop()
    world.turn(AHEAD)
    await loop.reconcile_due()
    pending = await world.get()
    assert (pending.state, pending.due_at is not None) == ("PENDING", True)
    await loop._stepper.postpone(run, None)
    assert (await world.get()).due_at == pending.due_at


async def test_run_is_left_to_claims_when_the_loop_has_ended(core: Core) -> None:
    assert core.engine is not None
    async with running(Reconciler(core, core.engine, issue_token=issue_token)):
        await open_intake(core)
        assert core.intake.find_place() == "memory/a"
    run, _ = await submit_run(core, ADA, "demo", RUN)
    assert run.place is None


async def test_run_is_left_to_claims_when_the_loop_has_no_room(core: Core) -> None:
    assert core.engine is not None
    pace = Pace(slots={**SLOTS, Lane.CREATE: 0})
    async with running(Reconciler(core, core.engine, issue_token=issue_token, pace=pace)):
        await asyncio.sleep(0.2)
        run, _ = await submit_run(core, ADA, "demo", RUN)
    assert run.place is None
