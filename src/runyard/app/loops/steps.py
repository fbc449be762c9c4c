"""One run, one engine call at a time: act, then write the result under the lease, from the run as it is stored.

A crash between any two lines is safe: the work is found or repeated, and nothing is created twice.
"""

import asyncio
import logging
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from runyard.app.core import Core
from runyard.app.engine import Engine, EngineError, EngineRefusal, EngineUnavailable
from runyard.app.errors import Conflict
from runyard.app.loops import run_updates
from runyard.app.loops.assignments import IssueToken, make_assignment
from runyard.app.loops.deadlines import find_deadline, has_timeouts
from runyard.app.loops.pace import Pace
from runyard.app.model import Lease, Run
from runyard.app.ports import Stale, UnitOfWork
from runyard.app.retry import retry_on_conflict
from runyard.app.runs import SYSTEM, Decide, finish_run_deletion, make_anchor, write_change
from runyard.domain.lifecycle import State, is_final
from runyard.domain.outcomes import Seen, Step, choose_step
from runyard.domain.reasons import Reason

Result = TypeVar("Result")
Wait = timedelta | None
"""How long until the run is processed again; None: until something happens."""

NO_ENGINE = EngineUnavailable(
    Reason.ENGINE_NONE, "no engine is configured: the run waits until the server is started with one"
)
_MOST_STEPS = 16

_log = logging.getLogger(__name__)


class LeaseLost(Exception):
    """The lease expired or another replica holds it, or the run is gone. Nothing may be written anymore."""


class Stepper:
    """Brings one run closer to its desired state."""

    def __init__(self, core: Core, engine: Engine | None, *, issue_token: IssueToken, pace: Pace) -> None:
        self._core = core
        self._engine = engine
        self._issue_token = issue_token
        self._pace = pace

    async def advance(self, run: Run, lease: Lease) -> Wait:
        """Take all steps that are possible now. Raises `LeaseLost`, `Stale` and `Conflict`."""
        for _ in range(_MOST_STEPS):
            step = choose_step(State(run.state), desired=run.desired, has_anchor=run.anchor_uid is not None)
            if step is Step.NOTHING or (run.is_local and step is not Step.REMOVE):
                return None
            try:
                after = await self._take(step, run, lease)
            except EngineError as error:
                if isinstance(error, EngineRefusal) and step in (Step.ANCHOR, Step.RELEASE):
                    after = await self._write(lease, run_updates.fail_refused(error))
                else:
                    return await self._back_off(lease, error)
            if not isinstance(after, Run):
                return after
            run = after
        return timedelta(0)

    async def _take(self, step: Step, run: Run, lease: Lease) -> Run | Wait:
        if step is Step.MAKE_READY:
            return await self._write(lease, run_updates.make_ready)
        if self._engine is None or run.is_local:
            return await self._take_without_engine(step, run, lease)
        if step is Step.ANCHOR:
            return await self._anchor(self._engine, run, lease)
        if step is Step.RELEASE:
            return await self._release(self._engine, run, lease)
        if step is Step.WATCH:
            return await self._watch(self._engine, run, lease)
        return await self._stop_or_remove(self._engine, run, lease, step=step)

    async def _take_without_engine(self, step: Step, run: Run, lease: Lease) -> Run | Wait:
        if run.anchor_uid is None and step is Step.STOP:
            return await self._write(lease, run_updates.stop_without_anchor)
        if run.anchor_uid is None and step is Step.REMOVE:
            await finish_run_deletion(self._core, run, lease=lease)
            return None
        now = self._core.clock.now()
        await self._write(lease, run_updates.record_engine_failure(NO_ENGINE, now=now, engine=None))
        return None

    async def _anchor(self, engine: Engine, run: Run, lease: Lease) -> Run:
        assignment = make_assignment(self._core, run, issue_token=self._issue_token)
        await self._call(engine.ensure_project(run.project))
        uid = await self._call(engine.ensure_anchor(assignment))
        try:
            return await self._write(lease, run_updates.store_anchor(uid))
        except (LeaseLost, Conflict):
            await self._remove_orphan(engine, run, uid)
            raise

    async def _release(self, engine: Engine, run: Run, lease: Lease) -> Run:
        assignment = make_assignment(self._core, run, issue_token=self._issue_token)
        await self._call(engine.release(assignment, _get_uid(run)))
        return await self._write(lease, run_updates.mark_released(run.desired_generation, engine.place.engine))

    async def _watch(self, engine: Engine, run: Run, lease: Lease) -> Run | Wait:
        seen = await self._call(engine.observe(make_anchor(run, _get_uid(run))))
        stored = await self._write(lease, run_updates.record_observation(seen))
        if is_final(State(stored.state)) or stored.desired != "run":
            return stored
        if not has_timeouts(stored):
            return self._pace.resync
        async with self._core.store.begin(is_read_only=True) as unit:
            deadline = find_deadline(stored, await unit.runs.list_transitions(stored.uid))
        if deadline is None:
            return self._pace.resync
        left = deadline.at - self._core.clock.now()
        if left > timedelta(0):
            return min(left, self._pace.resync)
        return await self._write(lease, run_updates.request_stop(deadline))

    async def _stop_or_remove(self, engine: Engine, run: Run, lease: Lease, *, step: Step) -> Run | Wait:
        """Stop or remove the anchor. Looks for one that was created just before a crash, and never creates one."""
        assignment = make_assignment(self._core, run, issue_token=self._issue_token)
        uid = run.anchor_uid
        if uid is None:
            found = await self._call(engine.find_anchor(assignment))
            if found is not None:
                return await self._write(lease, run_updates.store_anchor(found))
            if step is Step.STOP:
                return await self._write(lease, run_updates.stop_without_anchor)
            await finish_run_deletion(self._core, run, lease=lease)
            return None
        anchor = make_anchor(run, uid)
        await self._call(engine.stop(assignment, uid) if step is Step.STOP else engine.remove(anchor))
        seen = await self._call(engine.observe(anchor))
        if step is Step.REMOVE:
            if seen.seen is not Seen.ABSENT:
                return self._pace.stop_poll
            await finish_run_deletion(self._core, await self._write(lease, lambda _: None), lease=lease)
            return None
        stored = await self._write(lease, run_updates.record_observation(seen))
        is_over = is_final(State(stored.state)) or stored.desired_generation != run.desired_generation
        return stored if is_over else self._pace.stop_poll

    async def _remove_orphan(self, engine: Engine, run: Run, uid: str) -> None:
        """Remove an anchor that was created too late for its run; keep one that another replica may still use."""
        async with self._core.store.begin(is_read_only=True) as unit:
            stored = await unit.runs.find_by_uid(run.uid)
        if stored is not None:
            is_wanted = stored.desired == "run" and not is_final(State(stored.state))
            if stored.anchor_uid == uid or (stored.anchor_uid is None and is_wanted):
                return
        _log.warning("removing an orphaned anchor", extra={"run": run.id, "uid": uid})
        await self._call(engine.remove(make_anchor(run, uid)))

    async def _back_off(self, lease: Lease, error: EngineError) -> Wait:
        """Keep the run as it is and retry with exponential backoff: wait as long as calls have failed so far."""
        now = self._core.clock.now()
        name = None if self._engine is None else self._engine.place.engine
        run = await self._write(lease, run_updates.record_engine_failure(error, now=now, engine=name))
        since = run_updates.find_failing_since(run) or now
        return min(max(now - since, self._pace.min_backoff), self._pace.max_backoff)

    async def _write(self, lease: Lease, decide: Decide) -> Run:
        """Renew the lease, and write what is decided from the run as it is stored now; retries on conflict.

        Raises `LeaseLost`, and `Conflict` if others change the run all the time.
        """

        async def write_once() -> Run:
            async with self._core.store.begin() as unit:
                run = await self._renew(unit, lease)
                change = decide(run)
                if change is not None:
                    run = await write_change(self._core, unit, SYSTEM, run, change, lease=lease)
                await unit.commit()
            if change is not None:
                self._core.signals.notify(run.uid)
            return run

        return await retry_on_conflict(write_once, on=f"run {lease.run_uid}")

    async def _renew(self, unit: UnitOfWork, lease: Lease) -> Run:
        try:
            await unit.runs.renew(lease, lease_for=self._pace.lease)
        except Stale as lost:
            raise LeaseLost(str(lost)) from None
        run = await unit.runs.find_by_uid(lease.run_uid)
        if run is None:
            raise LeaseLost(f"run {lease.run_uid} is gone")
        return run

    async def _call(self, call: Awaitable[Result]) -> Result:
        """Await a call to the engine with a timeout; every failure becomes an `EngineError`."""
        try:
            async with asyncio.timeout(self._pace.call_seconds):
                return await call
        except TimeoutError:
            raise EngineUnavailable(Reason.ENGINE_TIMEOUT, f"no answer within {self._pace.call_seconds:g} s") from None
        except EngineError:
            raise
        except Exception as error:
            # Its text may hold anything, secrets included; only the log has it.
            _log.exception("a call to the engine failed")
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"the call failed: {type(error).__name__}") from error


def _get_uid(run: Run) -> str:
    if run.anchor_uid is None:
        raise RuntimeError(f"run {run.id} is {run.state} without an anchor")
    return run.anchor_uid
