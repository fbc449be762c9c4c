"""Whatever users, engines and crashes do, in whatever order: one anchor, no state that goes back, nobody forgotten.

The server also changes its place, and sweeps; runs write logs, of which every byte is stored once before they settle.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from hypothesis import HealthCheck, Phase, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from runyard.app.core import Core
from runyard.app.engine import Anchor, EngineFull, EngineUnavailable
from runyard.app.errors import Missing, NotPossible
from runyard.app.intake import AHEAD, NewRun
from runyard.app.list_query import Query
from runyard.app.log_store import LogStore
from runyard.app.loops.assignments import make_assignment
from runyard.app.loops.pace import Pace
from runyard.app.loops.reconcile import Reconciler
from runyard.app.loops.sweep import Sweeper
from runyard.app.model import Principal, Run, Transition
from runyard.app.ports import Store
from runyard.app.rules import RecordedRules
from runyard.app.runs.client_reports import report_run
from runyard.app.runs.resume import resume_run
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.stop import stop_run
from runyard.app.runs.transitions import can_be_resumed
from runyard.domain.lifecycle import FINAL, State, is_final
from runyard.domain.outcomes import Lane
from runyard.domain.reasons import Reason
from tests.engines.memory import MemoryEngine
from tests.lifecycle_table import may_follow
from tests.unit.app.crash_points import Crash, Fate, MortalLogs, MortalStore
from tests.unit.app.run_world import ADA, JOB, SERVICE, issue_token, make_run, open_world

RUN_IDS = ("r1", "r2", "r3")
run_ids = strategies.sampled_from(RUN_IDS)
deaths = strategies.none() | strategies.integers(0, 6) | strategies.integers(0, 15)
early_deaths = strategies.none() | strategies.integers(0, 1)
PACE = Pace(
    detail_seconds=0.0, min_backoff=timedelta(0), stop_retry=timedelta(0), settle_retry=timedelta(0), drain_seconds=0.2
)

Act = Callable[[Core, Principal, str, str], Awaitable[Any]]


class RunMachine(RuleBasedStateMachine):
    """The real store, engines in memory at two places, and one process that acts at one of them and may die."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.known: dict[str, tuple[Run, list[Transition]]] = {}
        self.number = 0
        self.lost_before_stored: set[str] = set()
        self.lost: set[str] = set()
        """UIDs that somebody else deleted."""
        self.foreign: dict[str, MemoryEngine] = {}
        """UIDs of anchors whose runs this database has never known."""
        self.written: defaultdict[str, bytearray] = defaultdict(bytearray)
        """What each run wrote, by its uid."""

    @initialize()
    def open(self) -> None:
        self.world = self.runner.run(self.stack.enter_async_context(open_world()))
        self.engines = {"a": self.world.engine, "b": MemoryEngine("b")}
        for engine in self.engines.values():
            engine.projects.add("p")
        self.submit("r1", SERVICE)

    def live(self, dies_at: int | None) -> Core:
        """The core of a new process with that fate; what an earlier one held has ended."""
        fate = Fate(dies_at)
        for engine in self.engines.values():
            engine.at = fate.pass_point
        self.world.make_due()
        return replace(
            self.world.core,
            store=cast("Store", MortalStore(self.world.store, fate)),
            logs=cast("LogStore", MortalLogs(self.world.logs, fate)),
        )

    def attempt(self, act: Act, run_id: str, *, dies_at: int | None) -> None:
        core = self.live(dies_at)
        with suppress(Crash, Missing, NotPossible):
            self.runner.run(_await(act(core, ADA, "p", run_id)))

    @rule(run_id=run_ids, effective=strategies.sampled_from([JOB, SERVICE, {**JOB, "timeout": 60}]))
    def submit(self, run_id: str, effective: dict[str, Any]) -> None:
        if self.runner.run(self.world.find(run_id)) is None:
            self.number += 1
            kind = f"container+{effective['action']}:run"
            given: dict[str, Any] = {"effective": effective, "kind": kind, "request_hash": str(self.number)}
            self.runner.run(self.world.submit(run_id, **given))
            self.known.pop(run_id, None)

    @rule(run_id=run_ids, dies_at=early_deaths)
    def stop(self, run_id: str, dies_at: int | None) -> None:
        self.attempt(stop_run, run_id, dies_at=dies_at)

    @rule(run_id=run_ids, dies_at=early_deaths)
    def resume(self, run_id: str, dies_at: int | None) -> None:
        self.attempt(resume_run, run_id, dies_at=dies_at)

    @rule(run_id=run_ids, dies_at=early_deaths)
    def delete(self, run_id: str, dies_at: int | None) -> None:
        self.attempt(delete_run, run_id, dies_at=dies_at)

    @rule(run_id=run_ids, state=strategies.sampled_from([*State]))
    def report(self, run_id: str, state: State) -> None:
        kind = self.known[run_id][0].kind if run_id in self.known else "container+job:run"
        document = {"kind": kind, "status": {"state": state.value, "results": {"n": self.number}}}

        async def act(core: Core, who: Principal, project: str, name: str) -> Run:
            return await report_run(core, who, project, name, document)

        self.attempt(act, run_id, dies_at=None)

    @rule(dies_at=deaths, replicas=strategies.integers(1, 2))
    def work(self, dies_at: int | None, replicas: int) -> None:
        core = self.live(dies_at)
        loops = [Reconciler(core, self.world.engine, issue_token=issue_token, pace=PACE) for _ in range(replicas)]

        async def look(loop: Reconciler) -> None:
            with suppress(EngineUnavailable):
                await loop.compare_all()
            await loop.lane.write_ready()
            await loop.reconcile_due()
            await loop.lane.write_ready()
            await asyncio.gather(*loop._busy)

        async def reconcile() -> None:
            async with asyncio.TaskGroup() as group:
                for loop in loops:
                    group.create_task(look(loop))

        try:
            self.runner.run(reconcile())
        except BaseExceptionGroup as group:
            _, others = group.split(Crash)
            if others is not None:
                raise
        finally:
            self.runner.run(_close(loops))

    @rule(run_id=run_ids, dies_at=deaths)
    def submit_and_take(self, run_id: str, dies_at: int | None) -> None:
        """The loop of the process that stores a run takes it at once, without a claim."""
        if self.runner.run(self.world.find(run_id)) is not None:
            return
        core = self.live(dies_at)
        loop = Reconciler(core, self.world.engine, issue_token=issue_token, pace=PACE)
        self.number += 1
        given: dict[str, Any] = {"place": str(self.world.engine.place), "request_hash": str(self.number)}

        async def submit() -> None:
            stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            run = await self.world.submit(run_id, ahead=AHEAD, **given)
            new = NewRun(run=run, project_created_at=run.created_at, rule_revisions=(None, {}), has_registries=False)
            loop._take(new, stored)
            stored.set_result(True)
            await asyncio.gather(*loop._busy)

        with suppress(Crash):
            self.runner.run(submit())
        self.runner.run(_close([loop]))
        self.known.pop(run_id, None)

    @rule(run_id=run_ids, dies_at=strategies.integers(1, 8), act=strategies.sampled_from([stop_run, delete_run]))
    def begin_badly(self, run_id: str, dies_at: int, act: Act) -> None:
        self.submit(run_id, JOB)
        self.work(dies_at, 1)
        self.attempt(act, run_id, dies_at=None)

    @rule(run_id=run_ids, dies_at=strategies.integers(1, 8))
    def begin_badly_and_sweep(self, run_id: str, dies_at: int) -> None:
        self.submit(run_id, JOB)
        self.work(dies_at, 1)
        self.sweep(None)

    @rule()
    def work_well(self) -> None:
        self.work(None, 1)
        self.let_time_pass_in_the_engines()

    @rule()
    def let_time_pass_in_the_engines(self) -> None:
        for engine in self.engines.values():
            engine.tick()

    @rule(run_id=run_ids, phase=strategies.sampled_from(["succeeded", "failed", "stopped"]))
    def finish(self, run_id: str, phase: str) -> None:
        for engine in self.engines.values():
            engine.finish(run_id, phase=phase)

    @rule(run_id=run_ids, lines=strategies.integers(1, 3))
    def write_log(self, run_id: str, lines: int) -> None:
        for engine in self.engines.values():
            for thing in engine.things.values():
                if thing.anchor.run_id == run_id and thing.phase == "running":
                    self.number += 1
                    content = b"%d\n" % self.number * lines
                    engine.write_log(thing.anchor.run_uid, content)
                    self.written[thing.anchor.run_uid] += content

    @rule(run_id=run_ids)
    def lose(self, run_id: str) -> None:
        for engine in self.engines.values():
            lost = engine.lose(run_id)
            if lost is None:
                continue
            self.lost.add(lost)
            run = self.runner.run(self.world.find(run_id))
            if run is None or run.anchor_uid != lost:
                # Nobody had stored its UID: that it is made again is right.
                self.lost_before_stored.add(lost)

    @rule(place=strategies.sampled_from(["a", "b"]))
    def move(self, place: str) -> None:
        """The server is started again with the engine of that place."""
        engine = self.engines[place]
        self.world.engine = engine
        self.world.core = replace(self.world.core, engine=engine)
        self.runner.run(self.world.make_loop().wake_waiting())

    @rule()
    def plant(self) -> None:
        """An anchor of this installation whose run the database does not know: it is younger than a backup."""
        self.number += 1
        run = make_run(f"unknown-{self.number}")
        assignment = make_assignment(self.world.core, run, issue_token=issue_token, rules=RecordedRules())
        self.live(None)
        with suppress(EngineUnavailable):
            self.foreign[self.runner.run(self.world.engine.ensure_anchor(assignment))] = self.world.engine

    @rule(dies_at=deaths)
    def sweep(self, dies_at: int | None) -> None:
        core = self.live(dies_at)
        engine = self.world.engine
        before = {uid: thing.anchor for uid, thing in engine.things.items() if thing.phase != "removing"}
        with suppress(Crash, EngineUnavailable):
            self.runner.run(Sweeper(core, engine, grace=timedelta(0)).sweep())
        for uid, anchor in before.items():
            if uid not in engine.things or engine.things[uid].phase == "removing":
                self.check_swept(anchor)

    def check_swept(self, anchor: Anchor) -> None:
        """Only what belongs to a run that has ended or was deleted may be removed."""
        assert anchor.uid not in self.foreign
        run = self.runner.run(self.find_by_uid(anchor.run_uid))
        assert run is None or (is_final(State(run.state)) and run.anchor_uid != anchor.uid)

    async def find_by_uid(self, run_uid: str) -> Run | None:
        async with self.world.store.begin(is_read_only=True) as unit:
            return await unit.runs.find_by_uid(run_uid)

    @rule(number=strategies.integers(1, 3))
    def fail(self, number: int) -> None:
        self.world.engine.failures = [EngineUnavailable("engine.unreachable", "no")] * number

    @rule(number=strategies.integers(1, 3))
    def fill(self, number: int) -> None:
        self.world.engine.failures = [EngineFull("quota.exceeded", "no room")] * number

    @rule(age=strategies.integers(0, 3))
    def remember_wrongly(self, age: int) -> None:
        self.world.engine.choose_age = lambda _known: age

    @rule()
    def let_time_pass(self) -> None:
        self.world.turn(timedelta(seconds=40))

    @invariant()
    def nothing_goes_back(self) -> None:
        if not hasattr(self, "world"):
            return
        for run_id, (run, history) in self.runner.run(self.read_all()).items():
            if run is None:
                self.known.pop(run_id, None)
                continue
            self.check_history(run, history)
            self.check_engine(run)
            self.known[run_id] = (run, history)

    async def read_all(self) -> dict[str, tuple[Run | None, list[Transition]]]:
        return {run_id: (await self.world.find(run_id), await self.world.history(run_id)) for run_id in RUN_IDS}

    def check_history(self, run: Run, history: list[Transition]) -> None:
        known, past = self.known.get(run.id, (run, history))
        assert history[: len(past)] == past
        assert history[-1].state == run.state
        assert [step.sequence for step in history] == list(range(1, len(history) + 1))
        for before, after in itertools.pairwise(history):
            assert may_follow(before.state, after.state, can_resume=can_be_resumed(run))
        assert known.anchor_uid in (None, run.anchor_uid)
        assert run.desired_generation >= known.desired_generation
        is_watched = run.lane is Lane.WATCH
        is_settled = run.settled_at is not None and is_final(State(run.state))
        assert run.due_at is not None or is_watched or is_settled

    def check_engine(self, run: Run) -> None:
        made = [uid for engine in self.engines.values() for uid in engine.made.get(run.uid, [])]
        assert len(set(made) - self.lost_before_stored) <= 1
        if run.reason == Reason.RUN_LOST:
            # Absence at another place proves nothing.
            assert run.anchor_uid in self.lost
        for name, engine in self.engines.items():
            anchor = engine.things.get(run.anchor_uid or "")
            if anchor is None:
                continue
            assert run.place == f"memory/{name}"
            if run.state == State.STOPPED:
                assert anchor.phase not in ("pending", "running")
            if run.settled_at is not None and State(run.state) in FINAL:
                assert not anchor.has_secrets

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                for engine in self.engines.values():
                    engine.choose_age = lambda _known: 0
                    engine.failures = []
                self.finish_all()
        finally:
            self.runner.run(self.stack.aclose())
            self.runner.close()

    def finish_all(self) -> None:
        """With nothing in the way any more, every run comes to where it should be; then all can end and go."""
        self.settle_everywhere()
        for run in self.list_runs():
            assert run.state == State.RUNNING or (is_final(State(run.state)) and run.state != State.DELETING), run
        for run in self.list_runs():
            self.runner.run(stop_run(self.world.core, ADA, "p", run.id))
        self.settle_everywhere()
        for run in self.list_runs():
            assert is_final(State(run.state))
            assert run.settled_at is not None
            past = self.runner.run(self.world.history(run.id))
            assert run.state == State.STOPPED or past[-1].reason != "user.stop"
            self.check_log(run)
            self.runner.run(delete_run(self.world.core, ADA, "p", run.id))
        self.settle_everywhere()
        assert self.list_runs() == []
        left = {uid for engine in self.engines.values() for uid in engine.things}
        assert left == {uid for uid, engine in self.foreign.items() if uid in engine.things} == set(self.foreign)

    def settle_everywhere(self) -> None:
        """Let a server at each place do all there is to do, then sweep."""
        for place in self.engines:
            self.live(None)
            self.move(place)
            self.runner.run(self.world.settle())
            self.runner.run(Sweeper(self.world.core, self.world.engine, grace=timedelta(0)).sweep())
        self.nothing_goes_back()

    def check_log(self, run: Run) -> None:
        """What the run wrote is stored once, unless somebody deleted its anchor before it was read."""
        stored = self.runner.run(self.read_log(run.uid))
        written = bytes(self.written[run.uid])
        if run.anchor_uid in self.lost:
            assert written.startswith(stored)
        else:
            assert stored == written
            assert run.is_log_complete

    async def read_log(self, run_uid: str) -> bytes:
        content = b""
        for info in await self.world.logs.list_streams(run_uid):
            content += b"".join(piece.content for piece in await self.world.logs.read(info.stream))
        return content

    def list_runs(self) -> list[Run]:
        async def find() -> list[Run]:
            async with self.world.store.begin(is_read_only=True) as unit:
                return [cast("Run", run) for run in (await unit.runs.find_page(Query(type="run"))).content]

        return self.runner.run(find())


async def _close(loops: list[Reconciler]) -> None:
    """What is left of dead processes."""
    for loop in loops:
        await asyncio.gather(*loop._busy, return_exceptions=True)
        if loop.collector is not None:
            await loop.collector.close()


async def _await(act: Awaitable[Any]) -> Any:
    return await act


def test_run_keeps_its_promises_when_anything_happens_in_any_order() -> None:
    run_state_machine_as_test(
        RunMachine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            database=None,
            # A failure is told with its thirty steps at once; making them fewer takes longer than a test may.
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
