"""The reconcile loop: takes runs that are due, brings each nearer to what is wanted, says when to look again.

Once, for all engines. Woken by use cases (`core.signals.due`), by the engine's changes, and by the clock. May run in
every replica: a run is worked on by who holds its lease, and a stale lease writes nothing.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from secrets import token_hex

from runyard.app.core import Core
from runyard.app.engine import Engine
from runyard.app.loops.assignments import IssueToken
from runyard.app.loops.pace import Pace
from runyard.app.loops.steps import Stepper
from runyard.app.loops.supervisor import keep_going
from runyard.app.model import Lease, Run
from runyard.app.ports import Query, Stale
from runyard.domain.lifecycle import FINAL, State

_UNENDED = tuple(state for state in State if state not in FINAL and state is not State.DELETED)
_PAGE = 500

_log = logging.getLogger(__name__)


class Reconciler:
    """One replica's loop."""

    def __init__(self, core: Core, engine: Engine | None, *, issue_token: IssueToken, pace: Pace | None = None) -> None:
        self._core = core
        self._engine = engine
        self._pace = pace or Pace()
        self._stepper = Stepper(core, engine, issue_token=issue_token, pace=self._pace)
        self._owner = token_hex(8)
        self._changed: set[str] = set()

    async def run(self) -> None:
        """Until it is cancelled; what is being done then is left, and found again when its lease has ended."""
        await self.take_up()
        async with asyncio.TaskGroup() as group:
            if self._engine is not None:
                group.create_task(keep_going("engine changes", partial(self._follow, self._engine)))
            await self._work(group)

    async def take_up(self) -> int:
        """Make due what waited for an engine, if there is one now; how many."""
        if self._engine is None:
            return 0
        count = 0
        for state in _UNENDED:
            waiting = await self._find_waiting(state)
            if waiting:
                async with self._core.store.begin() as unit:
                    await unit.runs.nudge(waiting)
                    await unit.commit()
            count += len(waiting)
        return count

    async def reconcile_due(self) -> int:
        """One pass: everything that is due now, as far as it goes; how many runs."""
        claimed = await self._claim(self._pace.at_once)
        async with asyncio.TaskGroup() as group:
            for run, lease in claimed:
                group.create_task(self._process(run, lease))
        return len(claimed)

    async def _work(self, group: asyncio.TaskGroup) -> None:
        busy: set[asyncio.Task[None]] = set()

        def finish(task: asyncio.Task[None]) -> None:
            busy.discard(task)
            self._core.signals.due.set()

        while True:
            self._core.signals.due.clear()
            free = self._pace.at_once - len(busy)
            claimed = await self._claim(free) if free else []
            for run, lease in claimed:
                task = group.create_task(self._process(run, lease))
                busy.add(task)
                task.add_done_callback(finish)
            if len(claimed) < free or not free:
                await self._wait()

    async def _wait(self) -> None:
        seconds = self._pace.poll_seconds if self._engine is not None else self._pace.idle_poll_seconds
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._core.signals.due.wait()

    async def _claim(self, limit: int) -> Sequence[tuple[Run, Lease]]:
        changed, self._changed = self._changed, set()
        async with self._core.store.begin() as unit:
            if changed:
                await unit.runs.nudge(sorted(changed))
            claimed = await unit.runs.claim_due(
                owner=self._owner, limit=limit, lease_for=self._pace.lease, shard=self._pace.shard
            )
            await unit.commit()
        return claimed

    async def _process(self, run: Run, lease: Lease) -> None:
        """One run never stops the others, nor the loop."""
        wait: timedelta | None = timedelta(0)
        try:
            wait = await self._stepper.advance(run, lease)
        except Stale:
            _log.info("somebody else has the run now", extra={"run": run.id})
        except Exception:  # noqa: BLE001 - whatever it is, the run is found again
            _log.exception("a step failed", extra={"run": run.id})
            wait = self._pace.first_retry
        finally:
            # Also when the loop is cancelled: whoever comes next need not wait for the lease to end.
            await self._give_back(lease, wait)

    async def _give_back(self, lease: Lease, wait: timedelta | None) -> None:
        try:
            async with self._core.store.begin() as unit:
                due_at = None if wait is None else await unit.read_clock() + wait
                await unit.runs.release(lease, due_at=due_at)
                await unit.commit()
        except Exception:  # noqa: BLE001 - the lease ends by itself
            _log.exception("a lease could not be given back", extra={"run": lease.run_id})

    async def _follow(self, engine: Engine) -> None:
        async for run_id in engine.changes():
            self._changed.add(run_id)
            self._core.signals.due.set()

    async def _find_waiting(self, state: State) -> list[str]:
        found: list[str] = []
        page = 0
        async with self._core.store.begin(is_read_only=True) as unit:
            while True:
                listed = await unit.runs.find_page(
                    Query(type="run", state=state.value, page=page, size=_PAGE, is_brief=True)
                )
                found += [
                    run.id for run in listed.content if isinstance(run, Run) and run.due_at is None and not run.is_local
                ]
                if len(listed.content) < _PAGE:
                    return found
                page += 1
