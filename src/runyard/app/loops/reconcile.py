"""The reconcile loop: claims runs that are due, brings each closer to its desired state, and schedules the next look.

One loop for all engines. It wakes up for use cases (`core.signals.due`), for changes that the engine reports, and after
a poll interval. Every replica may run it: the holder of a run's lease processes it, and a lost lease writes nothing.
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
from runyard.app.errors import Conflict
from runyard.app.loops.assignments import IssueToken
from runyard.app.loops.pace import Pace
from runyard.app.loops.steps import LeaseLost, Stepper
from runyard.app.loops.supervisor import keep_going
from runyard.app.model import Lease, Run
from runyard.app.ports import Stale
from runyard.domain.outcomes import Lane

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
        """Run until cancelled. Unfinished work is repeated by whoever claims the run next."""
        await self.requeue_waiting()
        async with asyncio.TaskGroup() as group:
            if self._engine is not None:
                group.create_task(keep_going("engine changes", partial(self._follow_engine, self._engine)))
            await self._work(group)

    async def requeue_waiting(self) -> int:
        """Make runs due that waited for an engine, if there is one now. Returns how many."""
        if self._engine is None:
            return 0
        async with self._core.store.begin() as unit:
            count = await unit.runs.wake_waiting(str(self._engine.place))
            await unit.commit()
        return count

    async def reconcile_due(self) -> int:
        """One pass over everything that is due now. Returns the number of runs."""
        claimed = await self._claim(self._pace.concurrency)
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
            free = max(0, self._pace.concurrency - len(busy))
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
                left = changed.difference(await unit.runs.wake(sorted(changed)))
                self._changed.update(await unit.runs.list_existing(sorted(left)))
            claimed = await unit.runs.claim_due(
                owner=self._owner,
                limits=dict.fromkeys(Lane, limit),
                lease_for=self._pace.lease,
                place=None if self._engine is None else str(self._engine.place),
                shard=self._pace.shard,
            )
            await unit.commit()
        return claimed

    async def _process(self, run: Run, lease: Lease) -> None:
        """Process one run; its failure stops neither the others nor the loop."""
        wait: timedelta | None = timedelta(0)
        try:
            wait = await self._stepper.advance(run, lease)
        except (Conflict, LeaseLost, Stale):
            _log.info("another replica or a user changed the run first", extra={"run": run.id})
        except Exception:  # noqa: BLE001 - whatever it is, the run is processed again
            _log.exception("a step failed", extra={"run": run.id})
            wait = self._pace.min_backoff
        finally:
            # Also when the loop is cancelled: the next replica need not wait until the lease expires.
            await self._release_lease(lease, wait)

    async def _release_lease(self, lease: Lease, wait: timedelta | None) -> None:
        try:
            async with self._core.store.begin() as unit:
                await unit.runs.release(lease, due_in=wait)
                await unit.commit()
        except Exception:  # noqa: BLE001 - the lease expires by itself
            _log.exception("a lease could not be released", extra={"run_uid": lease.run_uid})

    async def _follow_engine(self, engine: Engine) -> None:
        async for batch in engine.changes():
            self._changed.update(seen.run_uid for seen in batch)
            self._core.signals.due.set()
