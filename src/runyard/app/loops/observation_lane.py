"""The observe lane: writes what the engine reports, in batches, without leases and without calls to the engine.

A batch is one transaction: its rows are locked, decided and written together. Rows that others have locked, and batches
that could not be committed, stay in memory and are tried again. An observation that says what was written before is
recognised by its digest, and costs nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice

from runyard.app.core import Core
from runyard.app.engine import Anchor, Observation
from runyard.app.event_waits import wait_at_most
from runyard.app.intake import AHEAD
from runyard.app.loops.run_updates import is_about, record_observation
from runyard.app.lru_map import LruMap
from runyard.app.model import Run
from runyard.app.ports import OVERDUE, Unavailable
from runyard.app.runs import SYSTEM, Change, make_anchor, write_changes
from runyard.domain.lifecycle import FINAL
from runyard.domain.outcomes import ENDED, Seen

BATCH = 100
"""How many runs one transaction writes."""
BATCHES_AT_ONCE = 5
"""After so many batches the reports are put in order anew: those of runs that have ended meanwhile come first."""
LONGEST_UNATTENDED_SECONDS = 5.0
"""How long logs wait for reports at most, while there are always more of them."""
MOST_DIGESTS = 200_000
"""How many digests are kept; an observation whose digest was dropped costs one read."""
RETRY_SECONDS = 0.25
LONGEST_RETRY_SECONDS = 5.0
LONGEST_LOCKED_SECONDS = 2.0
"""Backoff while others have locked the row of a report: how seldom it is tried again at last."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Report:
    seen: Observation
    at: float
    """When it may be written, by the monotonic clock."""
    tries: int = 0


class ObservationLane:
    """One replica's lane. `attend` is told of every anchor whose log may have begun or ended."""

    def __init__(
        self,
        core: Core,
        *,
        owns: Callable[[str], bool],
        attend: Callable[[Anchor], None] | None = None,
        count_room: Callable[[], int] = lambda: 0,
        settle: Callable[[str], None] | None = None,
        detail_seconds: float = 0.0,
    ) -> None:
        self._core = core
        self._owns = owns
        self._attend = attend
        self._count_room = count_room
        self._settle = settle
        self._detail_seconds = detail_seconds
        self._unattended: list[Anchor] = []
        self._reports: dict[tuple[str, str], _Report] = {}
        """By the run's uid and the anchor's: another object may claim to be the anchor of a run."""
        self._digests: LruMap[str, tuple[Seen, bytes]] = LruMap(most=MOST_DIGESTS)
        """What was written last of each run: what was seen, and a digest of everything."""
        self._news = asyncio.Event()
        self.is_behind = False
        """Whether more reports wait than one transaction writes."""

    def offer(self, observations: Iterable[Observation]) -> None:
        """Take observations; of one anchor only the newest is kept.

        Those that change only details wait for a moment: the next state often follows. Those of other replicas' runs
        wait until they are overdue.
        """
        now = time.monotonic()
        for seen in observations:
            known = self._reports.get((seen.run_uid, seen.uid))
            written = self._digests.find(seen.run_uid)
            if known is None and written == (seen.seen, _digest(seen)):
                continue
            if known is not None and _is_newer(known.seen, seen):
                continue
            at = now if _is_urgent(seen, written) else now + self._detail_seconds
            at += 0.0 if self._owns(seen.run_uid) else OVERDUE.total_seconds()
            # One that changes again and again becomes overdue all the same.
            self._reports[seen.run_uid, seen.uid] = _Report(seen, at if known is None else min(at, known.at))
            self._news.set()

    @property
    def has_reports(self) -> bool:
        """Whether something is to be written, now or later."""
        return bool(self._reports)

    def has_report(self, anchor: Anchor) -> bool:
        """Whether a report of that anchor waits. Once it is written, `attend` is told of the anchor."""
        return (anchor.run_uid, anchor.uid) in self._reports

    def forget(self, run_uid: str) -> None:
        """The run is gone, or somebody else wrote what was observed of it: no digest says what is stored."""
        self._digests.discard(run_uid)

    async def run(self) -> None:
        """Write until cancelled; a failure of the store delays, and loses nothing."""
        pause = RETRY_SECONDS
        while True:
            try:
                await self.write_ready()
                pause = RETRY_SECONDS
                await self._wait()
            except Exception:  # noqa: BLE001 - what was not written stays, and is tried again
                _log.exception("observations could not be written; trying again in %.1f s", pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_RETRY_SECONDS)

    async def write_ready(self) -> int:
        """Write everything that may be written now; returns how many runs changed. Raises `Unavailable`."""
        changed, attended_at = 0, time.monotonic()
        try:
            while batches := self._list_batches():
                for batch in batches:
                    self.is_behind = len(batch) == BATCH
                    changed += await self._write_contained(batch)
                if time.monotonic() - attended_at >= LONGEST_UNATTENDED_SECONDS:
                    attended_at = time.monotonic()
                    self._attend_to_all()
        finally:
            self.is_behind = False
            self._attend_to_all()
        return changed

    async def _write_contained(self, batch: dict[str, _Report]) -> int:
        """Write a batch; if one of its reports makes that impossible, only that one is dropped."""
        try:
            return await self._write(batch)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - one run that cannot be judged must not keep the others
            if len(batch) == 1:
                [report] = batch.values()
                _log.exception("an observation was dropped", extra={"run_uid": report.seen.run_uid})
                self._remove(report)
                return 0
        return sum([await self._write_contained({run_uid: report}) for run_uid, report in batch.items()])

    def _list_batches(self) -> list[dict[str, _Report]]:
        """What may be written now, by run; each run once. Reports are removed when they are written, not now.

        Ends come first: after a start there is a report of every run, and most of them say nothing new.
        """
        now = time.monotonic()
        ready = {report.seen.run_uid: report for report in self._reports.values() if report.at <= now}
        items = iter(sorted(ready.items(), key=lambda item: item[1].seen.seen not in ENDED))
        return list(islice(iter(lambda: dict(islice(items, BATCH)), {}), BATCHES_AT_ONCE))

    def _remove(self, report: _Report) -> None:
        """Unless a newer one came meanwhile."""
        key = (report.seen.run_uid, report.seen.uid)
        if self._reports.get(key) is report:
            del self._reports[key]

    async def _write(self, batch: dict[str, _Report]) -> int:
        now = self._core.clock.now()
        async with self._core.store.begin(is_urgent=True) as unit:
            locked = await unit.runs.lock_observed(list(batch))
            unlocked = await unit.runs.list_existing(list(batch.keys() - {run.uid for run in locked}))
            known = [run for run in locked if is_about(run, batch[run.uid].seen)]
            decided = [(run, record_observation(batch[run.uid].seen, now=now)(run)) for run in known]
            changes = [(run, change) for run, change in decided if change is not None]
            ended = self._choose_ended(changes)
            changes = [(run, replace(change, due_in=AHEAD) if run.uid in ended else change) for run, change in changes]
            if changes:
                await write_changes(self._core, unit, SYSTEM, changes)
                await unit.commit()
        for run, _ in changes:
            self._core.signals.notify(run.uid)
        self._finish(batch, unlocked, known)
        self._note_outputs(locked, batch)
        for run_uid in ended:
            if self._settle is not None:
                self._settle(run_uid)
        return len(changes)

    def _choose_ended(self, changes: Sequence[tuple[Run, Change]]) -> set[str]:
        """The runs that end and are settled at once, without a claim: as many as there is room for."""
        ended = [run.uid for run, change in changes if change.moves and change.moves[-1].state in FINAL]
        return set(ended[: max(0, self._count_room())]) if self._settle is not None else set()

    def _note_outputs(self, runs: Sequence[Run], batch: dict[str, _Report]) -> None:
        """Where something runs or has ended, output may have begun or ended, also if the report is not written."""
        for run in runs:
            seen = batch[run.uid].seen
            if seen.uid == run.anchor_uid and (seen.seen is Seen.RUNNING or seen.seen in ENDED):
                self._unattended.append(make_anchor(run, seen.uid))

    def _attend_to_all(self) -> None:
        """States are more urgent than logs: these are followed when the reports that were waiting are written."""
        anchors, self._unattended = self._unattended, []
        if self._attend is None:
            return
        for anchor in anchors:
            self._attend(anchor)

    def _finish(self, batch: dict[str, _Report], unlocked: Sequence[str], known: Sequence[Run]) -> None:
        """Forget what was written, and what is of no run; what others have locked is tried again until it succeeds."""
        now, waiting = time.monotonic(), set(unlocked)
        for run_uid, report in batch.items():
            if run_uid in waiting:
                report.at = now + min(RETRY_SECONDS * 2 ** min(report.tries, 10), LONGEST_LOCKED_SECONDS)
                report.tries += 1
            else:
                self._remove(report)
        for run in known:
            seen = batch[run.uid].seen
            self._digests.put(run.uid, (seen.seen, _digest(seen)))

    async def _wait(self) -> None:
        """Until something is offered, or may be written by its time."""
        self._news.clear()
        next_at = min((report.at for report in self._reports.values()), default=None)
        if next_at is None:
            await self._news.wait()
            return
        await wait_at_most(self._news, next_at - time.monotonic())


def _is_urgent(seen: Observation, written: tuple[Seen, bytes] | None) -> bool:
    """Whether the state of the run changes with it. A run is PENDING before anything is seen of it."""
    if seen.seen in (Seen.HELD, Seen.PENDING):
        return False
    return written is None or written[0] is not seen.seen


def _is_newer(known: Observation, other: Observation) -> bool:
    """Whether the known observation is newer than the other, which is of the same anchor."""
    if other.seen is Seen.ABSENT:
        return False
    return (known.epoch, known.version) > (other.epoch, other.version) and known.seen is not Seen.ABSENT


def _digest(seen: Observation) -> bytes:
    """Of everything that may be written, so without the version."""
    told = (seen.uid, seen.seen, seen.epoch, seen.generation, seen.reason, seen.message, seen.ends, seen.details)
    return blake2b(repr(told).encode(errors="surrogatepass"), digest_size=12).digest()
