"""One run, one engine call at a time: act, then write the result under the lease, from the run as it is stored.

A crash between any two lines is safe: the work is found or repeated, and nothing is created twice.
"""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

from runyard.app.core import Core
from runyard.app.engine import (
    Anchor,
    Assignment,
    CreateAnchor,
    Engine,
    EngineError,
    EngineFull,
    EngineRefusal,
    EngineUnavailable,
    NamedServices,
    Observation,
    Preparing,
)
from runyard.app.engine_calls import call_engine
from runyard.app.intake import NewRun
from runyard.app.loops import run_updates
from runyard.app.loops.assignments import IssueToken, make_assignment
from runyard.app.loops.deadlines import find_due, find_passed
from runyard.app.loops.log_collection import LogCollector
from runyard.app.loops.observation_lane import ObservationLane
from runyard.app.loops.pace import Pace
from runyard.app.loops.stored_ends import list_ended_outputs
from runyard.app.model import Lease, Run
from runyard.app.ports import UNCHANGED, DueIn, Stale
from runyard.app.projects import PreparedProjects
from runyard.app.rules import RecordedRules
from runyard.app.runs import SYSTEM, Change, Decide, finish_run_deletion, make_anchor, write_change
from runyard.app.volumes import ensure_run_volumes
from runyard.domain.effective_document import UnknownSchema
from runyard.domain.lifecycle import State, is_final
from runyard.domain.outcomes import Seen, Step, choose_step
from runyard.domain.reasons import Reason

Result = TypeVar("Result")

NO_ENGINE = EngineUnavailable(
    Reason.ENGINE_NONE, "no engine is configured: the run waits until the server is started with one"
)
_MOST_STEPS = 16
_LIVE = frozenset({Seen.PENDING, Seen.RUNNING})

_log = logging.getLogger(__name__)


class LeaseLost(Exception):
    """The lease expired or another replica holds it, or the run is gone. Nothing may be written anymore."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do now: when the run is looked at next, and whether its lease has ended already."""

    due_in: timedelta | None = None
    is_lease_ended: bool = False


LEASE_ENDED = Done(is_lease_ended=True)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was done for the first step of a run before the run was stored."""

    is_project_ready: bool = False
    create: CreateAnchor | None = None


NOTHING_PREPARED = Prepared()


class Stepper:
    """Brings one run closer to its desired state."""

    def __init__(
        self,
        core: Core,
        engine: Engine | None,
        *,
        issue_token: IssueToken,
        pace: Pace,
        lane: ObservationLane,
        collector: LogCollector | None,
    ) -> None:
        self._core = core
        self._engine = engine
        self._issue_token = issue_token
        self._pace = pace
        self._lane = lane
        self._collector = collector
        self._rules = RecordedRules()
        self._writes = asyncio.Semaphore(pace.writes)
        self._prepared = None if engine is None else PreparedProjects(core, engine)

    async def prepare(self, new: NewRun) -> Prepared:
        """Do what the first step of a new run needs, without a call to the engine's place and without a write.

        What fails here is done again by the step, which says so in the run.
        """
        engine, run, projects = self._engine, new.run, self._prepared
        if engine is None or projects is None or not isinstance(engine, Preparing):
            return NOTHING_PREPARED
        is_ready = projects.is_ready(run.project, created_at=new.project_created_at, revisions=new.rule_revisions)
        assignment = self._assign(run, has_registries=new.has_registries)
        with suppress(EngineError):
            return Prepared(is_ready, await self._call(engine.prepare_anchor(assignment)))
        return NOTHING_PREPARED

    async def advance(self, run: Run, lease: Lease | None, prepared: Prepared = NOTHING_PREPARED) -> Done:
        """Take all steps that are possible now; without a lease only if nobody else takes the run meanwhile.

        `prepared` is what `prepare` returned for the run, which is stored by now. Raises `LeaseLost`, and `Conflict` if
        a user changed the run.
        """
        for _ in range(_MOST_STEPS):
            step = choose_step(
                State(run.state),
                desired=run.desired,
                has_anchor=run.anchor_uid is not None,
                is_settled=run.settled_at is not None or run.place is None,
            )
            if step is Step.NOTHING or (run.is_local and step is not Step.REMOVE):
                return Done()
            try:
                after = await self._take(step, run, lease, prepared)
            except EngineRefusal as error:
                if step not in (Step.ANCHOR, Step.RELEASE):
                    return await self._back_off(run, lease, error)
                after = await self._write(run, lease, _fail_refused(run, error))
            except EngineFull as error:
                return await self._wait_for_room(run, lease, error)
            except EngineError as error:
                return await self._back_off(run, lease, error)
            except UnknownSchema as error:
                return await self._back_off(run, lease, EngineUnavailable(Reason.SPEC_UNREADABLE, str(error)))
            if isinstance(after, Done):
                return after
            run = after
        return Done(timedelta(0))

    async def postpone(self, run: Run, due_in: timedelta | None) -> None:
        """Say when a run without a lease is looked at next."""
        await self._write(run, None, _change_nothing, due_in=due_in)

    async def _take(self, step: Step, run: Run, lease: Lease | None, prepared: Prepared) -> Run | Done:
        if step is Step.MAKE_READY:
            return await self._write(run, lease, run_updates.make_ready)
        if run.place is None or run.is_local:
            return await self._take_without_place(step, run, lease)
        if self._engine is None or run.place != str(self._engine.place):
            return await self._leave_alone(run, lease)
        if step is Step.ANCHOR:
            return await self._anchor(self._engine, run, lease, prepared)
        if step is Step.RELEASE:
            return await self._release(self._engine, run, lease)
        if step is Step.WATCH:
            return await self._watch(self._engine, run, lease)
        if step is Step.SETTLE:
            return await self._settle(self._engine, run, lease)
        if step is Step.STOP:
            return await self._stop(self._engine, run, lease)
        return await self._remove(self._engine, run, lease)

    async def _take_without_place(self, step: Step, run: Run, lease: Lease | None) -> Run | Done:
        """Nothing exists for the run anywhere."""
        if step is Step.STOP:
            return await self._write(run, lease, run_updates.stop_without_anchor)
        if step is Step.REMOVE:
            return await self._finish_deletion(run, lease)
        failure = run_updates.record_engine_failure(NO_ENGINE, now=self._core.clock.now(), where=None)
        await self._write(run, lease, failure, due_in=None, is_lease_ended=True)
        return LEASE_ENDED

    async def _leave_alone(self, run: Run, lease: Lease | None) -> Done:
        """The run may live in another place, where this server sees nothing. It waits, and says for what."""
        here = "this server has no engine" if self._engine is None else f"this server's engine is {self._engine.place}"
        error = EngineUnavailable(
            Reason.PLACE_OTHER, f"the run belongs to {run.place}, and {here}: it waits for a server with that engine"
        )
        failure = run_updates.record_engine_failure(error, now=self._core.clock.now(), where=None)
        await self._write(run, lease, failure, due_in=self._pace.misplaced, is_lease_ended=True)
        return LEASE_ENDED

    async def _anchor(self, engine: Engine, run: Run, lease: Lease | None, prepared: Prepared) -> Run | Done:
        """Create the anchor, unless the run has waited for room until a deadline."""
        if run.state == State.PENDING:
            deadline = find_passed(run, run_updates.read_notes(run), now=self._core.clock.now())
            if deadline is not None:
                return await self._write(run, lease, run_updates.request_stop(deadline))
        assignment = self._assign(run)
        if self._prepared is not None and not prepared.is_project_ready:
            await self._call(self._prepared.ensure(run.project))
        try:
            create = prepared.create or partial(engine.ensure_anchor, assignment)
            uid = await self._call(create())
        except EngineError as error:
            if self._prepared is not None:
                self._prepared.note_failure(run.project, error)
            raise
        try:
            return await self._hand_over(engine, run, lease, assignment, uid)
        except LeaseLost:
            await self._remove_orphan(engine, run, uid)
            raise

    async def _release(self, engine: Engine, run: Run, lease: Lease | None) -> Run | Done:
        """Start an anchor whose UID is stored: after a crash, or to resume a service."""
        return await self._hand_over(engine, run, lease, self._assign(run), _get_uid(run))

    async def _hand_over(
        self, engine: Engine, run: Run, lease: Lease | None, assignment: Assignment, uid: str
    ) -> Run | Done:
        """Store the UID and PENDING in one write that also ends the lease, then release the anchor.

        Releasing needs no lease: a call of an older generation does nothing. If it gets lost, the anchor is seen HELD
        at the next look, and released again.
        """
        await self._call(ensure_run_volumes(self._core, engine, run))
        decide = run_updates.hand_over(
            uid,
            engine=engine.place.engine,
            now=self._core.clock.now(),
            check_in=self._pace.release_check,
        )
        stored = await self._write(run, lease, decide, is_lease_ended=True)
        if stored.anchor_uid != uid:
            await self._remove_orphan(engine, run, uid)
        elif stored.state == State.PENDING and stored.desired_generation == assignment.generation:
            await self._release_anchor(engine, stored, assignment, uid)
        return LEASE_ENDED

    async def _release_anchor(self, engine: Engine, run: Run, assignment: Assignment, uid: str) -> None:
        try:
            await self._call(engine.release(assignment, uid))
        except EngineRefusal as error:
            await self._write(run, None, _fail_refused(run, error))
        except EngineError as error:
            decide = self._record_failure(error)
            await self._write(run, None, decide, due_in=self._pace.min_backoff)

    async def _watch(self, engine: Engine, run: Run, lease: Lease | None) -> Run | Done:
        """A deadline has come, or nothing was heard of the run since its release."""
        uid = _get_uid(run)
        seen = await self._call(engine.observe(make_anchor(run, uid)))
        now = self._core.clock.now()
        stored = await self._write(run, lease, run_updates.record_observation(seen, now=now))
        self._lane.forget(run.uid)
        if State(stored.state) not in (State.PENDING, State.RUNNING) or stored.desired != "run":
            return stored
        notes = run_updates.read_notes(stored)
        if (deadline := find_passed(stored, notes, now=now)) is not None:
            return await self._write(stored, lease, run_updates.request_stop(deadline))
        if _is_unreleased(stored, seen):
            try:
                await self._call(ensure_run_volumes(self._core, engine, stored))
                await self._call(engine.release(self._assign(stored), uid))
            except EngineRefusal as error:
                return await self._write(stored, lease, _fail_refused(stored, error))
            return Done(self._pace.release_check)
        if run_updates.NAME_NOTE in notes and stored.state == State.RUNNING:
            return await self._take_service_name(engine, stored, lease, seen)
        due_at = find_due(notes, State(stored.state))
        return Done(None if due_at is None else max(due_at - now, timedelta(0)))

    async def _take_service_name(self, engine: Engine, run: Run, lease: Lease | None, seen: Observation) -> Done:
        """Lead the stable name of a service to a run that is ready; repeated until it does."""
        if seen.seen is not Seen.RUNNING:
            return Done(self._pace.release_check)
        if isinstance(engine, NamedServices):
            try:
                await self._call(engine.take_service_name(self._assign(run), _get_uid(run)))
            except EngineRefusal as error:  # somebody else has the name; the run itself works
                await self._write(run, lease, self._record_failure(error))
                return Done(self._pace.max_backoff)
        await self._write(run, lease, partial(run_updates.note_name_taken, generation=run.desired_generation))
        return Done()

    async def _stop(self, engine: Engine, run: Run, lease: Lease | None) -> Run | Done:
        """Stop the anchor once; what follows is reported. Looks for one that was created just before a crash."""
        assignment = self._assign(run)
        uid = run.anchor_uid
        if uid is None:
            found = await self._call(engine.find_anchor(assignment))
            if found is None:
                return await self._write(run, lease, run_updates.stop_without_anchor)
            return await self._write(run, lease, run_updates.store_found_anchor(found))
        await self._call(engine.stop(assignment, uid))
        return await self._await_report(engine, run, lease, uid)

    async def _remove(self, engine: Engine, run: Run, lease: Lease | None) -> Run | Done:
        uid = run.anchor_uid
        if uid is None:
            found = await self._call(engine.find_anchor(self._assign(run)))
            if found is None:
                return await self._finish_deletion(run, lease)
            return await self._write(run, lease, run_updates.store_found_anchor(found))
        anchor = make_anchor(run, uid)
        await self._call(engine.remove(anchor))
        seen = await self._call(engine.observe(anchor))
        if seen.seen is Seen.ABSENT:
            return await self._finish_deletion(run, lease)
        return await self._clear_failure(run, lease, due_in=self._pace.stop_retry)

    async def _await_report(self, engine: Engine, run: Run, lease: Lease | None, uid: str) -> Done:
        """Leave the run to the observe lane. Nobody reports an anchor again that had ended before."""
        done = await self._clear_failure(run, lease, due_in=self._pace.stop_retry)
        self._lane.offer([await self._call(engine.observe(make_anchor(run, uid)))])
        return done

    async def _clear_failure(self, run: Run, lease: Lease | None, *, due_in: timedelta) -> Done:
        def decide(stored: Run) -> Change | None:
            cleared = run_updates.clear_engine_failure(stored)
            return Change(action="run.answered", values=cleared, is_audited=False) if cleared else None

        await self._write(run, lease, decide, due_in=due_in, is_lease_ended=True)
        return LEASE_ENDED

    async def _settle(self, engine: Engine, run: Run, lease: Lease | None) -> Run | Done:
        """Once nothing lives and the log is stored, let the engine clean up; repeated until all is done."""
        uid = run.anchor_uid
        if uid is None:
            uid = await self._call(engine.find_anchor(self._assign(run)))
        if uid is not None and not await self._clean_up(engine, run, make_anchor(run, uid)):
            return await self._clear_failure(run, lease, due_in=self._pace.settle_retry)
        decide = partial(run_updates.settle, now=self._core.clock.now(), generation=run.desired_generation)
        await self._write(run, lease, decide, due_in=None, is_lease_ended=True)
        return LEASE_ENDED

    async def _clean_up(self, engine: Engine, run: Run, anchor: Anchor) -> bool:
        """End what lives, store the log, clean up; returns False at the first that is not done yet.

        A place may start something anew that had failed by its own account: after a disruption, or once a missing image
        is there. The run has ended all the same, and the output of what lives never would.
        """
        assignment = self._assign(run)
        if run.state != State.COMPLETED and (await self._call(engine.observe(anchor))).seen in _LIVE:
            await self._call(engine.stop(assignment, anchor.uid))
            return False
        lost_since = run.created_at if run.reason == Reason.RUN_LOST else None
        if self._collector is not None and not await self._collector.drain(
            anchor, seconds=self._pace.drain_seconds, lost_since=lost_since, ended=list_ended_outputs(run)
        ):
            return False
        return await self._call(engine.settle(assignment, anchor.uid))

    async def _finish_deletion(self, run: Run, lease: Lease | None) -> Done:
        if self._collector is not None:
            await self._collector.forget(run.uid)
        await finish_run_deletion(self._core, await self._write(run, lease, _change_nothing), lease=lease)
        self._lane.forget(run.uid)
        return LEASE_ENDED

    async def _remove_orphan(self, engine: Engine, run: Run, uid: str) -> None:
        """Remove an anchor that was created too late for its run; keep one that another replica may still use."""
        async with self._core.store.begin(is_read_only=True) as unit:
            stored = await unit.runs.find_by_uid(run.uid)
        if stored is not None:
            is_wanted = stored.desired == "run" and not is_final(State(stored.state))
            if stored.anchor_uid == uid or (stored.anchor_uid is None and is_wanted):
                return
        _log.warning("removing an orphaned anchor", extra={"run": run.id, "project": run.project, "uid": uid})
        await self._call(engine.remove(make_anchor(run, uid)))

    async def _back_off(self, run: Run, lease: Lease | None, error: EngineError) -> Done:
        """Keep the run as it is and retry later."""
        due_in = self._choose_backoff(run)
        await self._write(run, lease, self._record_failure(error), due_in=due_in, is_lease_ended=True)
        return LEASE_ENDED

    async def _wait_for_room(self, run: Run, lease: Lease | None, error: EngineFull) -> Done:
        """Say that the run waits for room, and retry later."""
        now = self._core.clock.now()
        decide = run_updates.wait_for_room(error, now=now, retry_in=self._choose_backoff(run))
        await self._write(run, lease, decide, is_lease_ended=True)
        return LEASE_ENDED

    def _choose_backoff(self, run: Run) -> timedelta:
        """Exponential backoff: wait as long as calls have failed so far."""
        now = self._core.clock.now()
        since = run_updates.find_failing_since(run) or now
        due_in = min(max(now - since, self._pace.min_backoff), self._pace.max_backoff)
        return run_updates.bound_by_deadline(run, due_in, now=now)

    def _record_failure(self, error: EngineError) -> Decide:
        where = None if self._engine is None or isinstance(error, EngineFull) else self._engine.place.engine
        return run_updates.record_engine_failure(error, now=self._core.clock.now(), where=where)

    def _assign(self, run: Run, *, has_registries: bool = True) -> Assignment:
        return make_assignment(
            self._core, run, issue_token=self._issue_token, rules=self._rules, has_registries=has_registries
        )

    async def _write(
        self, run: Run, lease: Lease | None, decide: Decide, *, due_in: DueIn = UNCHANGED, is_lease_ended: bool = False
    ) -> Run:
        """Write under the lease what is decided from the run; if it was changed meanwhile, from what is stored now.

        Without a lease, others may change the run at any time; then it is decided anew. `due_in` holds unless the
        change says when the run is due. Raises `LeaseLost`.
        """
        for _ in range(_MOST_STEPS if lease is None else 2):
            try:
                return await self._write_once(run, lease, decide, due_in=due_in, is_lease_ended=is_lease_ended)
            except Stale:
                run = await self._read(run)
                if lease is None and decide(run) is None:
                    return run  # whoever changed it also said when it is due
        raise LeaseLost(f"the lease of run {run.id} has expired or changed hands")

    async def _write_once(
        self, run: Run, lease: Lease | None, decide: Decide, *, due_in: DueIn, is_lease_ended: bool
    ) -> Run:
        change, is_lease_ended = decide(run), is_lease_ended and lease is not None
        async with self._writes, self._core.store.begin() as unit:
            if change is None:
                stored = await unit.runs.update(run, run, lease=lease, is_lease_ended=is_lease_ended, due_in=due_in)
            else:
                if change.due_in is UNCHANGED:
                    change = replace(change, due_in=due_in)
                stored = await write_change(
                    self._core, unit, SYSTEM, run, change, lease=lease, is_lease_ended=is_lease_ended
                )
            await unit.commit()
        if change is not None:
            self._core.signals.notify(run.uid)
        return stored

    async def _read(self, run: Run) -> Run:
        async with self._core.store.begin(is_read_only=True) as unit:
            stored = await unit.runs.find_by_uid(run.uid)
        if stored is None:
            raise LeaseLost(f"run {run.id} is gone")
        return stored

    async def _call(self, call: Awaitable[Result]) -> Result:
        """Await a call to the engine, or work around one. Raises `EngineError`, and `Conflict`."""
        return await call_engine(call, seconds=self._pace.call_seconds)


def _change_nothing(_run: Run) -> None:
    return None


def _fail_refused(run: Run, error: EngineRefusal) -> Decide:
    return run_updates.fail_refused(error, generation=run.desired_generation)


def _is_unreleased(run: Run, seen: Observation) -> bool:
    """Whether the last release got lost: the anchor is held back, or has not obeyed the newest generation."""
    if seen.uid != run.anchor_uid or seen.seen is Seen.ABSENT:
        return False
    return seen.seen is Seen.HELD or seen.generation < run.desired_generation


def _get_uid(run: Run) -> str:
    if run.anchor_uid is None:
        raise RuntimeError(f"run {run.id} is {run.state} without an anchor")
    return run.anchor_uid
