"""One run, one engine step at a time: act, then write what came of it, under the lease and from the run as stored.

A crash between any two lines here is safe: what was done is found or repeated, and nothing is made twice.
"""

import asyncio
import logging
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from runyard.app.core import Core
from runyard.app.engine import Engine, EngineError, EngineRefusal, EngineUnavailable
from runyard.app.loops import run_updates
from runyard.app.loops.assignments import IssueToken, make_assignment
from runyard.app.loops.deadlines import find_deadline, has_timeouts
from runyard.app.loops.pace import Pace
from runyard.app.model import Lease, Run
from runyard.app.ports import Stale
from runyard.app.runs import SYSTEM, Decide, finish_run_deletion, write_change
from runyard.domain.lifecycle import State, is_final
from runyard.domain.outcomes import Seen, Step, choose_step
from runyard.domain.reasons import Reason

Result = TypeVar("Result")
Wait = timedelta | None
"""When to look again; None: when something happens."""

NO_ENGINE = EngineUnavailable(Reason.ENGINE_NONE, "no engine is configured: it stays as it is until the server has one")
_MOST_STEPS = 16
_ATTEMPTS = 20

_log = logging.getLogger(__name__)


class Stepper:
    """Brings one run nearer to what is wanted of it."""

    def __init__(self, core: Core, engine: Engine | None, *, issue_token: IssueToken, pace: Pace) -> None:
        self._core = core
        self._engine = engine
        self._issue_token = issue_token
        self._pace = pace

    async def advance(self, run: Run, lease: Lease) -> Wait:
        """As far as it goes now. Raises `Stale` when the lease has passed on, or the run is gone."""
        for _ in range(_MOST_STEPS):
            step = choose_step(State(run.state), desired=run.desired, has_anchor=run.anchor_uid is not None)
            if step is Step.NOTHING or run.is_local:
                return None
            try:
                after = await self._do(step, run, lease)
            except EngineError as error:
                if isinstance(error, EngineRefusal) and step in (Step.ANCHOR, Step.RELEASE):
                    after = await self._write(lease, run_updates.refuse(error))
                else:
                    return await self._put_off(lease, error)
            if not isinstance(after, Run):
                return after
            run = after
        return timedelta(0)

    async def _do(self, step: Step, run: Run, lease: Lease) -> Run | Wait:
        if step is Step.MAKE_READY:
            return await self._write(lease, run_updates.make_ready)
        if self._engine is None:
            return await self._do_without(step, run, lease)
        if step is Step.ANCHOR:
            return await self._anchor(self._engine, run, lease)
        if step is Step.RELEASE:
            return await self._release(self._engine, run, lease)
        if step is Step.WATCH:
            return await self._watch(self._engine, run, lease)
        return await self._end(self._engine, run, lease, step=step)

    async def _do_without(self, step: Step, run: Run, lease: Lease) -> Run | Wait:
        if run.anchor_uid is None and step is Step.STOP:
            return await self._write(lease, run_updates.end_unmade)
        if run.anchor_uid is None and step is Step.REMOVE:
            await finish_run_deletion(self._core, run, lease=lease)
            return None
        now = self._core.clock.now()
        await self._write(lease, run_updates.note_failure(NO_ENGINE, now=now, engine=None))
        return None

    async def _anchor(self, engine: Engine, run: Run, lease: Lease) -> Run:
        assignment = make_assignment(self._core, run, issue_token=self._issue_token)
        uid = await self._call(engine.ensure_anchor(assignment))
        try:
            return await self._write(lease, run_updates.keep_anchor(uid))
        except Stale:
            await self._disown(engine, run, uid)
            raise

    async def _release(self, engine: Engine, run: Run, lease: Lease) -> Run:
        assignment = make_assignment(self._core, run, issue_token=self._issue_token)
        await self._call(engine.release(assignment, _get_uid(run)))
        return await self._write(lease, run_updates.note_release(run.desired_generation, engine.name))

    async def _watch(self, engine: Engine, run: Run, lease: Lease) -> Run | Wait:
        assignment = make_assignment(self._core, run, issue_token=self._issue_token)
        seen = await self._call(engine.observe(assignment, _get_uid(run)))
        stored = await self._write(lease, run_updates.record(seen))
        if is_final(State(stored.state)) or stored.desired != "run":
            return stored
        if not has_timeouts(stored):
            return self._pace.resync
        async with self._core.store.begin(is_read_only=True) as unit:
            deadline = find_deadline(stored, await unit.runs.list_transitions(stored.id))
        if deadline is None:
            return self._pace.resync
        left = deadline.at - self._core.clock.now()
        if left > timedelta(0):
            return min(left, self._pace.resync)
        return await self._write(lease, run_updates.ask_to_stop(deadline))

    async def _end(self, engine: Engine, run: Run, lease: Lease, *, step: Step) -> Run | Wait:
        """Stop or remove; both look for an anchor that was made just before a crash, and never make one."""
        assignment = make_assignment(self._core, run, issue_token=self._issue_token)
        uid = run.anchor_uid
        if uid is None:
            found = await self._call(engine.find_anchor(assignment))
            if found is not None:
                return await self._write(lease, run_updates.keep_anchor(found))
            if step is Step.STOP:
                return await self._write(lease, run_updates.end_unmade)
            await finish_run_deletion(self._core, run, lease=lease)
            return None
        await self._call((engine.stop if step is Step.STOP else engine.remove)(assignment, uid))
        seen = await self._call(engine.observe(assignment, uid))
        if step is Step.REMOVE:
            if seen.seen is not Seen.ABSENT:
                return self._pace.ending
            await finish_run_deletion(self._core, await self._write(lease, lambda _: None), lease=lease)
            return None
        stored = await self._write(lease, run_updates.record(seen))
        is_over = is_final(State(stored.state)) or stored.desired_generation != run.desired_generation
        return stored if is_over else self._pace.ending

    async def _disown(self, engine: Engine, run: Run, uid: str) -> None:
        """Remove an anchor that was made too late for anybody to want it; one that somebody may take is left."""
        async with self._core.store.begin(is_read_only=True) as unit:
            stored = await unit.runs.find(run.id)
        is_same = stored is not None and stored.created_at == run.created_at
        if stored is not None and is_same:
            is_wanted = stored.desired == "run" and not is_final(State(stored.state))
            if stored.anchor_uid == uid or (stored.anchor_uid is None and is_wanted):
                return
        _log.warning("an anchor was made too late and is removed", extra={"run": run.id, "uid": uid})
        await self._call(engine.remove(make_assignment(self._core, run, issue_token=self._issue_token), uid))

    async def _put_off(self, lease: Lease, error: EngineError) -> Wait:
        """Nothing about the run changes; it is tried again, later and later: after as long as it has failed."""
        now = self._core.clock.now()
        name = None if self._engine is None else self._engine.name
        run = await self._write(lease, run_updates.note_failure(error, now=now, engine=name))
        since = run_updates.find_failing_since(run) or now
        return min(max(now - since, self._pace.first_retry), self._pace.last_retry)

    async def _write(self, lease: Lease, decide: Decide) -> Run:
        """Write what is decided about the run as it is stored now; again where a user was quicker."""
        for _ in range(_ATTEMPTS):
            async with self._core.store.begin() as unit:
                await unit.runs.renew(lease, lease_for=self._pace.lease)
                run = await unit.runs.find(lease.run_id)
                if run is None:
                    break
                change = decide(run)
                if change is None:
                    await unit.commit()
                    return run
                try:
                    stored = await write_change(self._core, unit, SYSTEM, run, change, lease=lease)
                except Stale:
                    continue
                await unit.commit()
            self._core.signals.notify(stored.id)
            return stored
        raise Stale(f"run {lease.run_id} is gone, or is being changed by many at once")

    async def _call(self, act: Awaitable[Result]) -> Result:
        """A call of the engine, bounded in time; whatever goes wrong leaves as one of our errors."""
        try:
            async with asyncio.timeout(self._pace.call_seconds):
                return await act
        except TimeoutError:
            raise EngineUnavailable(Reason.ENGINE_TIMEOUT, f"no answer within {self._pace.call_seconds:g} s") from None
        except EngineError:
            raise
        except Exception as error:
            # Its text is not ours and may hold anything; the log has it.
            _log.exception("an engine's call failed")
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"the call failed: {type(error).__name__}") from error


def _get_uid(run: Run) -> str:
    if run.anchor_uid is None:
        raise RuntimeError(f"run {run.id} is {run.state} without an anchor")
    return run.anchor_uid
