"""The sweep: compares the anchors at the engine's place with the runs and the tombstones.

It removes only what belongs to a run that has ended or was deleted. It wakes a run that does not know its anchor yet,
and it reports the rest: an unknown anchor may belong to a run that a restored database has never seen. An anchor that
its run knows is left alone, unless the place itself was restored and the anchor is behind its run. The list is read
first and the database afterwards, so a run that was submitted meanwhile is never missing. Nothing is done about an
anchor before it was found so for a grace period, which covers a creation whose UID is not committed yet.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from runyard.app.audit import note_act
from runyard.app.core import Core
from runyard.app.engine import Anchor, Engine, EngineError, Observation
from runyard.app.engine_calls import call_engine
from runyard.app.model import Run
from runyard.app.places import MOST_ORPHANS, Orphan, SweepFindings, Verdict, is_sweeper_on, write_findings
from runyard.app.ports import Unavailable
from runyard.app.runs import SYSTEM, can_be_resumed
from runyard.domain.lifecycle import FINAL, State
from runyard.domain.outcomes import Seen

EVERY = timedelta(minutes=5)
FIRST_AFTER = timedelta(seconds=30)
"""When the first pass begins: a server that starts has more urgent things to do, and nothing is ripe yet."""
GRACE = timedelta(minutes=10)
"""How long an anchor must be found without its run before anything is done; longer than any creation takes."""
PAGE = 500
"""How many anchors are compared with the database at a time."""
MOST_REMOVED = 500
"""How many anchors one pass removes; the next pass removes the others."""
SWEEP_CALL_SECONDS = 60.0
"""Longer than other calls: nobody waits for it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Suspect:
    """What is to be done with an anchor, and since when."""

    verdict: Verdict
    since: float


def judge_anchor(anchor: Anchor, run: Run | None, *, is_buried: bool, seen: Seen) -> tuple[Verdict, str] | None:
    """What is to be done with an anchor, and why; None if it is its run's. `run` has no documents."""
    if run is None:
        if is_buried:
            return Verdict.REMOVE, "its run was deleted"
        return Verdict.REPORT, "no run and no deleted run has this uid"
    if run.anchor_uid == anchor.uid:
        return _judge_own(run, seen)
    state = State(run.state)
    if run.anchor_uid is not None:
        if state in FINAL or state is State.DELETING:
            return Verdict.REMOVE, "its run has ended, and had another anchor"
        return Verdict.REPORT, f"its run is {state.value} and has another anchor, {run.anchor_uid}"
    if state not in FINAL:
        return Verdict.ADOPT, f"its run is {state.value} and does not know its anchor yet"
    if state is State.STOPPED and can_be_resumed(run):
        return Verdict.REPORT, "its run is STOPPED and may be resumed, which may start this anchor"
    return Verdict.REMOVE, "its run has ended without knowing it"


def _judge_own(run: Run, seen: Seen) -> tuple[Verdict, str] | None:
    """An anchor that is behind its run: the place was restored from a backup."""
    state = State(run.state)
    if state is State.RUNNING and run.desired == "run" and seen is Seen.HELD:
        return Verdict.ADOPT, "its run is RUNNING, and the anchor was not released"
    if state in FINAL and run.settled_at is not None and seen in (Seen.PENDING, Seen.RUNNING):
        if state is State.STOPPED and can_be_resumed(run):
            return Verdict.REPORT, "its run is STOPPED, and the anchor is at work again"
        return Verdict.REMOVE, "its run has ended, and the anchor is at work again"
    return None


class Sweeper:
    """One replica's sweep. Every replica judges all anchors, and acts on those of its own shard."""

    def __init__(
        self,
        core: Core,
        engine: Engine,
        *,
        owns: Callable[[str], bool] = lambda _run_uid: True,
        count: Callable[[Mapping[str, int]], None] = lambda _counts: None,
        every: timedelta = EVERY,
        grace: timedelta = GRACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._engine = engine
        self._owns = owns
        self._count = count
        self._every = every
        self._grace = grace.total_seconds()
        self._clock = clock
        self._suspects: dict[str, _Suspect] = {}
        self._told: set[tuple[str, Verdict]] = set()
        """UIDs that were logged or audited, with the verdict."""

    async def run(self) -> None:
        """Until it is cancelled."""
        await asyncio.sleep(min(self._every, FIRST_AFTER).total_seconds())
        while True:
            try:
                await self.sweep()
            except (EngineError, Unavailable) as error:
                _log.warning("the sweep failed and is repeated: %s", error)
            await asyncio.sleep(self._every.total_seconds())

    async def sweep(self) -> SweepFindings | None:
        """One pass; returns what it found, or None if the list of anchors is not complete."""
        listed = await call_engine(self._engine.list_anchors(), seconds=SWEEP_CALL_SECONDS)
        if not listed.is_complete:
            _log.info("nothing is swept: the list of anchors is not complete")
            return None
        found: list[tuple[Anchor, Verdict, str]] = []
        for start in range(0, len(listed.observations), PAGE):
            found += await self._judge(listed.observations[start : start + PAGE])
        ripe = self._keep_ripe(found)
        async with self._core.store.begin(is_read_only=True) as unit:
            is_on = await is_sweeper_on(unit)
        await self._act(ripe, is_on=is_on)
        findings = self._summarise(ripe, is_on=is_on)
        await write_findings(self._core, findings)
        return findings

    async def _judge(self, page: Sequence[tuple[Anchor, Observation]]) -> list[tuple[Anchor, Verdict, str]]:
        uids = list({anchor.run_uid for anchor, _ in page})
        async with self._core.store.begin(is_read_only=True) as unit:
            runs = {run.uid: run for run in await unit.runs.list_without_documents(uids)}
            buried = set(await unit.runs.list_buried([uid for uid in uids if uid not in runs]))
        judged = (
            (a, judge_anchor(a, runs.get(a.run_uid), is_buried=a.run_uid in buried, seen=observation.seen))
            for a, observation in page
        )
        return [(anchor, *verdict) for anchor, verdict in judged if verdict is not None]

    def _keep_ripe(self, found: Sequence[tuple[Anchor, Verdict, str]]) -> list[tuple[Anchor, Verdict, str]]:
        """Those that were judged so for the grace period; a different verdict begins a new one."""
        now = self._clock()
        suspects = {}
        for anchor, verdict, _ in found:
            known = self._suspects.get(anchor.uid)
            is_same = known is not None and known.verdict is verdict
            suspects[anchor.uid] = known if known is not None and is_same else _Suspect(verdict, now)
        self._suspects = suspects
        self._told = {told for told in self._told if told[0] in suspects}
        return [each for each in found if now - suspects[each[0].uid].since >= self._grace]

    async def _act(self, ripe: Sequence[tuple[Anchor, Verdict, str]], *, is_on: bool) -> None:
        own = [each for each in ripe if self._owns(each[0].run_uid)]
        await self._adopt([anchor.run_uid for anchor, verdict, _ in own if verdict is Verdict.ADOPT])
        for anchor, verdict, message in own:
            if verdict is Verdict.REPORT and (anchor.uid, verdict) not in self._told:
                self._told.add((anchor.uid, verdict))
                _log.warning("an anchor is left to an admin: %s", message, extra=_describe(anchor))
        if is_on:
            removed = [(anchor, message) for anchor, verdict, message in own if verdict is Verdict.REMOVE]
            for anchor, message in removed[:MOST_REMOVED]:
                await self._remove(anchor, message)

    async def _adopt(self, run_uids: Sequence[str]) -> None:
        if not run_uids:
            return
        async with self._core.store.begin() as unit:
            await unit.runs.wake(run_uids)
            await unit.commit()
        self._core.signals.due.set()

    async def _remove(self, anchor: Anchor, message: str) -> None:
        """Remove one; its failure does not end the pass. Audited once, before it is removed."""
        try:
            if (anchor.uid, Verdict.REMOVE) not in self._told:
                async with self._core.store.begin() as unit:
                    details = {"uid": anchor.uid, "run_uid": anchor.run_uid, "message": message}
                    of = ("run", anchor.run_id)
                    await note_act(
                        self._core, unit, SYSTEM, "anchor.remove", of=of, project=anchor.project, details=details
                    )
                    await unit.commit()
                self._told.add((anchor.uid, Verdict.REMOVE))
            _log.warning("removing an anchor: %s", message, extra=_describe(anchor))
            await call_engine(self._engine.remove(anchor), seconds=SWEEP_CALL_SECONDS)
        except (EngineError, Unavailable) as error:
            _log.warning("an anchor cannot be removed now: %s", error, extra=_describe(anchor))

    def _summarise(self, ripe: Sequence[tuple[Anchor, Verdict, str]], *, is_on: bool) -> SweepFindings:
        kept = [each for each in ripe if each[1] is not Verdict.ADOPT]
        counts = Counter(verdict.value for _, verdict, _ in kept)
        self._count({verdict.value: counts[verdict.value] for verdict in (Verdict.REMOVE, Verdict.REPORT)})
        orphans = [
            Orphan(
                uid=anchor.uid,
                run_uid=anchor.run_uid,
                run_id=anchor.run_id,
                project=anchor.project,
                verdict=verdict,
                message=message,
            )
            for anchor, verdict, message in kept[:MOST_ORPHANS]
        ]
        return SweepFindings(
            place=str(self._engine.place),
            at=self._core.clock.now().isoformat(),
            is_on=is_on,
            count=len(kept),
            orphans=tuple(orphans),
        )


def _describe(anchor: Anchor) -> dict[str, str]:
    return {"run_uid": anchor.run_uid, "run": anchor.run_id, "anchor": anchor.uid}
