"""The reconcile loop: brings the engine to the desired state of every run, and writes what the engine reports.

One loop for all engines. Runs that are due are claimed in lanes (`domain.outcomes.Lane`), each with its own slots, so
that a stop never waits for creations. What the engine reports goes another way, the observe lane, which calls nobody.
It wakes up for use cases and other replicas (`core.signals.due`), and by time. Every replica may run it: the holder of
a run's lease acts, and a lost lease writes nothing.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from secrets import token_hex
from typing import Any

from runyard.app.core import Core
from runyard.app.engine import Anchor, Engine, EngineError, Observation
from runyard.app.engine_calls import call_engine
from runyard.app.errors import Conflict
from runyard.app.event_waits import wait_at_most
from runyard.app.intake import NewRun
from runyard.app.loops.assignments import IssueToken
from runyard.app.loops.log_collection import LogCollector
from runyard.app.loops.log_writer import MAX_LOG_BYTES
from runyard.app.loops.membership import Membership
from runyard.app.loops.observation_lane import ObservationLane
from runyard.app.loops.pace import Pace
from runyard.app.loops.steps import NOTHING_PREPARED, Done, LeaseLost, Prepared, Stepper
from runyard.app.model import Lease, Run
from runyard.app.ports import Stale, Unavailable
from runyard.domain.outcomes import Lane, Seen
from runyard.telemetry.loop_supervision import keep_going

LONGEST_YIELD_SECONDS = 0.5
"""How long creating and settling wait for reports at most."""
SHORTEST_PAUSE_SECONDS = 0.01
"""Between two looks at the queue although nothing was reported due."""
OFFERED_AT_ONCE = 100
"""How many observations are compared with their digests before others get a turn."""
PAGE = 1000
"""How many active runs are read, or woken, at a time."""

_log = logging.getLogger(__name__)


class Reconciler:
    """One replica's loop. Without an engine it only says so in the runs."""

    def __init__(
        self,
        core: Core,
        engine: Engine | None,
        *,
        issue_token: IssueToken,
        pace: Pace | None = None,
        max_log_bytes: int = MAX_LOG_BYTES,
    ) -> None:
        self._core = core
        self._engine = engine
        self._pace = pace or Pace()
        self._place = None if engine is None else str(engine.place)
        self.membership = Membership(core, owner=token_hex(8), place=self._place, pace=self._pace)
        self.collector = (
            None if engine is None else LogCollector(core, engine, owns=self.membership.owns, max_bytes=max_log_bytes)
        )
        attend = None if self.collector is None else self.collector.attend
        self.lane = ObservationLane(
            core,
            owns=self.membership.owns,
            attend=attend,
            count_room=self._count_settle_room,
            settle=self._settle,
            detail_seconds=self._pace.detail_seconds,
        )
        self._stepper = Stepper(
            core, engine, issue_token=issue_token, pace=self._pace, lane=self.lane, collector=self.collector
        )
        self._busy: dict[asyncio.Task[None], Lane] = {}
        self._begun_at = time.monotonic()
        self._stale = asyncio.Event()
        """Set when changes may have been missed."""

    async def run(self) -> None:
        """Run until cancelled. Unfinished work is repeated by whoever claims the run next."""
        try:
            await self.membership.beat()
            await self.wake_waiting()
            await self.wake_misplaced()
            if self._place is not None:
                self._core.intake.open(place=self._place, has_room=self._has_room, take=self._take)
            async with asyncio.TaskGroup() as group:
                group.create_task(keep_going("heartbeat", self._beat))
                if self._engine is not None:
                    group.create_task(keep_going("observations", self.lane.run))
                    if self.collector is not None:
                        group.create_task(keep_going("logs", self.collector.run))
                    group.create_task(keep_going("engine changes", partial(self._follow, self._engine)))
                    group.create_task(keep_going("resync", self._resync))
                group.create_task(keep_going("claims", self._work))
        finally:
            await self.close()

    async def wake_waiting(self) -> int:
        """Make runs due that waited for an engine at this place. Returns how many."""
        if self._place is None:
            return 0
        async with self._core.store.begin() as unit:
            count = await unit.runs.wake_waiting(self._place)
            await unit.commit()
        return count

    async def wake_misplaced(self) -> int:
        """Make runs due that run at a place which nobody serves, so that they say so. Returns how many."""
        count = 0
        while True:
            async with self._core.store.begin() as unit:
                woken = await unit.runs.wake_misplaced(self._place, limit=PAGE)
                await unit.commit()
            count += woken
            if woken:
                self._core.signals.due.set()
            if woken < PAGE:
                return count

    async def reconcile_due(self) -> int:
        """One pass over everything that is due now. Returns the number of runs."""
        claimed = await self._claim(self._pace.slots)
        async with asyncio.TaskGroup() as group:
            for run, lease in claimed:
                group.create_task(self._process(run, lease))
        return len(claimed)

    async def compare_all(self, *, attend: bool = False) -> int:
        """Compare all anchors with what is stored: offer their observations, and wake runs that are not executed.

        Their anchor is missing, or it is still held back: its release got lost, or the engine forgot it in a restart.
        Returns how many were woken. An incomplete list proves no absence. `attend` also follows the logs of all.
        """
        if self._engine is None:
            return 0
        listed = await call_engine(self._engine.list_anchors(), seconds=self._pace.call_seconds)
        is_complete = listed.is_complete
        present: set[str] = set()
        running: list[Anchor] = []
        for start in range(0, len(listed.observations), OFFERED_AT_ONCE):
            # Each part is made now and forgotten: an engine may make observations only when they are asked for.
            part = listed.observations[start : start + OFFERED_AT_ONCE]
            is_complete &= len(part) == min(OFFERED_AT_ONCE, len(listed.observations) - start)
            await self._offer([seen for _, seen in part])
            present.update(anchor.uid for anchor, seen in part if seen.seen is not Seen.HELD)
            running += [anchor for anchor, seen in part if seen.seen is Seen.RUNNING]
        if attend:
            await self._attend(running)
        return await self._wake_missing(present) if is_complete else 0

    async def _offer(self, observations: Sequence[Observation]) -> None:
        """Offer them to the lane in parts, so that many do not hold the event loop."""
        for start in range(0, len(observations), OFFERED_AT_ONCE):
            self.lane.offer(observations[start : start + OFFERED_AT_ONCE])
            await asyncio.sleep(0)

    async def _attend(self, anchors: Sequence[Anchor]) -> None:
        """Follow the logs of runs, but of those that the lane writes only afterwards: states are more urgent."""
        if self.collector is None:
            return
        for number, anchor in enumerate(anchors, start=1):
            if not self.lane.has_report(anchor):
                self.collector.attend(anchor)
            if number % OFFERED_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _wake_missing(self, present: set[str]) -> int:
        count, after = 0, ""
        while True:
            async with self._core.store.begin(is_read_only=True) as unit:
                page = await unit.runs.list_active(str(self._place), after=after, limit=PAGE)
            missing = [
                run.uid
                for run in page
                if run.anchor_uid is not None and run.anchor_uid not in present and run.lane is Lane.WATCH
            ]
            if missing:
                async with self._core.store.begin() as unit:
                    count += len(await unit.runs.wake(missing))
                    await unit.commit()
                self._core.signals.due.set()
            if len(page) < PAGE:
                return count
            after = page[-1].uid

    async def _work(self) -> None:
        """Claim what is due whenever something may be; a failure of the store delays, and cancels nothing."""
        while True:
            self._core.signals.due.clear()
            free = self._count_free()
            try:
                claimed = await self._claim(free) if any(free.values()) else []
            except Unavailable as error:
                _log.warning("due runs cannot be claimed: %s", error)
                await asyncio.sleep(self._pace.min_backoff.total_seconds())
                self._core.signals.due.set()
                continue
            for run, lease in claimed:
                self._begin(run.lane, self._process(run, lease))
            if not claimed or len(claimed) < sum(free.values()):
                await wait_at_most(self._core.signals.due, await self._find_pause())

    async def _find_pause(self) -> float:
        """How long nothing becomes due by time alone, as far as this replica knows: a deadline, or a retry."""
        if self._core.signals.due.is_set():
            return 0.0
        try:
            async with self._core.store.begin(is_read_only=True) as unit:
                due_in = await unit.runs.find_next_due()
        except Unavailable:
            return self._pace.poll_seconds
        if due_in is None:
            return self._pace.poll_seconds
        return min(max(due_in.total_seconds(), SHORTEST_PAUSE_SECONDS), self._pace.poll_seconds)

    def _count_free(self) -> dict[Lane, int]:
        """Free slots. While reports wait to be written, nothing is begun that is less urgent, for a while."""
        used = Counter(self._busy.values())
        free = {lane: slots - used[lane] for lane, slots in self._pace.slots.items()}
        if not self.lane.is_behind or time.monotonic() - self._begun_at > LONGEST_YIELD_SECONDS:
            self._begun_at = time.monotonic()
            return free
        return {**free, Lane.CREATE: 0, Lane.SETTLE: 0}

    def _begin(self, lane: Lane, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._busy[task] = lane
        task.add_done_callback(self._finish)

    def _has_room(self) -> bool:
        """Whether a new run can be taken without a claim."""
        return self._count_free()[Lane.CREATE] > 0

    def _count_settle_room(self) -> int:
        return self._count_free()[Lane.SETTLE]

    def _take(self, new: NewRun, stored: asyncio.Future[bool]) -> None:
        self._begin(Lane.CREATE, self._process_new(new, stored))

    def _settle(self, run_uid: str) -> None:
        self._begin(Lane.SETTLE, self._process_ended(run_uid))

    async def _process_new(self, new: NewRun, stored: asyncio.Future[bool]) -> None:
        """Prepare a run while it is being stored. Nothing is done for a run that is not."""
        prepared = await self._stepper.prepare(new)
        if await stored:
            await self._process(new.run, None, prepared)

    async def _process_ended(self, run_uid: str) -> None:
        try:
            async with self._core.store.begin(is_read_only=True) as unit:
                run = await unit.runs.find_by_uid(run_uid)
        except Unavailable as error:
            _log.warning("a run that has ended cannot be read; it is claimed later: %s", error)
            return
        if run is not None:
            await self._process(run, None)

    def _finish(self, task: asyncio.Task[None]) -> None:
        """Look again: a slot is free, and somebody may have changed the run while it was leased."""
        del self._busy[task]
        self._core.signals.due.set()

    async def _claim(self, limits: Mapping[Lane, int]) -> Sequence[tuple[Run, Lease]]:
        async with self._core.store.begin() as unit:
            claimed = await unit.runs.claim_due(
                owner=self.membership.owner,
                limits=limits,
                lease_for=self._pace.lease,
                place=self._place,
                shard=self.membership.shard,
            )
            if claimed:
                await unit.commit()
        return claimed

    async def _process(self, run: Run, lease: Lease | None, prepared: Prepared = NOTHING_PREPARED) -> None:
        """Process one run; its failure stops neither the others nor the loop.

        Without a lease: the run was taken when it was written, with a due time ahead.
        """
        done = Done(timedelta(0))
        try:
            done = await self._stepper.advance(run, lease, prepared)
        except (Conflict, LeaseLost, Stale):
            _log.info("another replica or a user changed the run first", extra={"run": run.id, "project": run.project})
        except Exception:  # noqa: BLE001 - whatever it is, the run is processed again
            _log.exception("a step failed", extra={"run": run.id, "project": run.project})
            done = Done(self._pace.max_backoff)
        finally:
            # Also when the loop is cancelled: the next replica need not wait until the lease expires.
            if not done.is_lease_ended:
                await self._give_back(run, lease, done.due_in)

    async def _give_back(self, run: Run, lease: Lease | None, due_in: timedelta | None) -> None:
        """End the lease, and say when the run is looked at next."""
        try:
            if lease is None:
                await self._stepper.postpone(run, due_in)
                return
            async with self._core.store.begin() as unit:
                await unit.runs.release(lease, due_in=due_in)
                await unit.commit()
        except LeaseLost:
            _log.info("the run is gone", extra={"run": run.id})
        except Exception:  # noqa: BLE001 - the lease expires by itself, and so does the time ahead
            _log.exception("a lease could not be released", extra={"run": run.id})

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._pace.heartbeat_seconds)
            if not self._busy and not self._core.store.is_shared:
                continue  # no lease to renew, and nobody to tell: an idle server leaves the disk alone
            try:
                if await self.membership.beat():
                    self._stale.set()
            except Unavailable as error:
                _log.warning("leases cannot be renewed: %s", error)

    async def _follow(self, engine: Engine) -> None:
        changes = engine.changes()
        self._stale.set()  # whatever happened before the subscription
        async for batch in changes:
            await self._offer(batch)

    async def _resync(self) -> None:
        """Compare all from time to time, and at once after a gap in the reports or a change of the replicas."""
        pause, is_asked = self._pace.resync_seconds, False
        while True:
            is_asked = await wait_at_most(self._stale, pause) or is_asked
            self._stale.clear()
            try:
                await self.compare_all(attend=is_asked)
                await self.wake_misplaced()
                pause, is_asked = self._pace.resync_seconds, False
            except Exception as error:  # noqa: BLE001 - whatever it is: what was asked for is done later
                is_known = isinstance(error, EngineError | Unavailable)
                _log.warning("the anchors cannot be compared: %s", error, exc_info=not is_known)
                pause = self._pace.min_backoff.total_seconds()

    async def close(self) -> None:
        """End everything that was begun, then the leases. `run` does so by itself."""
        self._core.intake.close()
        for task in list(self._busy):
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        if self.collector is not None:
            await self.collector.close()
        with suppress(Exception):
            await self.membership.leave()
