"""An engine that keeps the contract and everything in memory; tests say what happens to its runs."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from itertools import count

from runyard.app.engine import Assignment, EngineError, Observation
from runyard.domain.outcomes import Seen

RESUMABLE = frozenset({"serve", "deploy"})


async def pass_by(_point: str) -> None:
    """Nothing happens at that point."""


@dataclass
class Anchor:
    """One object; its history is what observers may remember."""

    uid: str
    run_id: str
    run_uid: str
    generation: int
    phase: str = "held"
    """held, pending, running, stopping, stopped, succeeded, failed, removing"""
    history: list[Observation] = field(default_factory=list)

    def note(self, *, reason: str | None = None, message: str | None = None) -> None:
        """Something changed."""
        version = self.history[-1].version + 1 if self.history else 1
        details = {"pods": [{"name": f"{self.run_id}-0"}]} if self.phase in ("running", "stopping") else {}
        self.history.append(
            Observation(
                uid=self.uid,
                seen=_SEEN[self.phase],
                version=version,
                generation=self.generation,
                reason=reason,
                message=message,
                details=details,
            )
        )


_SEEN = {
    "held": Seen.PENDING,
    "pending": Seen.PENDING,
    "running": Seen.RUNNING,
    "stopping": Seen.RUNNING,
    "removing": Seen.RUNNING,
    "stopped": Seen.STOPPED,
    "succeeded": Seen.SUCCEEDED,
    "failed": Seen.FAILED,
}


class MemoryEngine:
    """`app.engine.Engine`. `at` is called before and after every act, so that tests can fail or crash there."""

    name = "memory"

    def __init__(self) -> None:
        self.anchors: dict[str, Anchor] = {}
        self.made: defaultdict[str, list[str]] = defaultdict(list)
        """UIDs ever made, by the run's uid."""
        self.released: list[str] = []
        self.secrets: dict[str, dict[str, str]] = {}
        """What runs were given when they were released, by UID."""
        self.failures: list[EngineError] = []
        """Raised, one each, by the next calls."""
        self.at: Callable[[str], Awaitable[None]] = pass_by
        self.choose_age: Callable[[int], int] = lambda _known: 0
        """How many observations old what is remembered is."""
        self._numbers = count(1)
        self._changes: asyncio.Queue[str] = asyncio.Queue()

    async def find_anchor(self, assignment: Assignment) -> str | None:
        """By the place itself."""
        await self._enter("find_anchor")
        found = self._find_own(assignment)
        return None if found is None else found.uid

    async def ensure_anchor(self, assignment: Assignment) -> str:
        """One, by its name."""
        await self._enter("ensure_anchor")
        found = self._find_own(assignment)
        if found is None:
            found = Anchor(
                uid=f"uid-{next(self._numbers)}",
                run_id=assignment.run_id,
                run_uid=assignment.run_uid,
                generation=assignment.generation,
            )
            found.note()
            self.anchors[found.uid] = found
            self.made[assignment.run_uid].append(found.uid)
        await self.at("ensure_anchor done")
        return found.uid

    async def release(self, assignment: Assignment, uid: str) -> None:
        """Start it, unless it is gone, has ended, or was told something newer."""
        await self._enter("release")
        secrets = await assignment.access.read_secrets()
        anchor = self._obey(assignment, uid)
        if anchor is not None and anchor.phase in ("held", "stopped", "stopping"):
            anchor.phase = "pending"
            anchor.note()
            self.released.append(uid)
            self.secrets[uid] = dict(secrets)
            self._tell(anchor)
        await self.at("release done")

    async def observe(self, assignment: Assignment, uid: str) -> Observation:
        """As remembered; absence as it is."""
        await self._enter("observe")
        anchor = self.anchors.get(uid)
        if anchor is None:
            return Observation(uid=uid, seen=Seen.ABSENT)
        known = len(anchor.history)
        return anchor.history[-1 - min(self.choose_age(known), known - 1)]

    async def stop(self, assignment: Assignment, uid: str) -> None:
        """Begin to end it."""
        await self._enter("stop")
        anchor = self._obey(assignment, uid)
        if anchor is not None and anchor.phase in ("held", "pending", "running"):
            anchor.phase = "stopping" if anchor.phase == "running" else "stopped"
            anchor.note()
            self._tell(anchor)
        await self.at("stop done")

    async def remove(self, assignment: Assignment, uid: str) -> None:
        """Begin to remove it."""
        await self._enter("remove")
        anchor = self._obey(assignment, uid)
        if anchor is not None:
            if anchor.phase in ("running", "stopping", "removing"):
                anchor.phase = "removing"
                anchor.note()
            else:
                del self.anchors[uid]
            self._tell(anchor)
        await self.at("remove done")

    async def changes(self) -> AsyncIterator[str]:
        """As they come."""
        while True:
            yield await self._changes.get()

    async def close(self) -> None:
        """Nothing to give back."""

    def tick(self) -> None:
        """Time passes: what is pending starts, what is stopping ends, what is being removed goes."""
        for anchor in list(self.anchors.values()):
            if anchor.phase == "removing":
                del self.anchors[anchor.uid]
                self._tell(anchor)
            elif anchor.phase in ("pending", "stopping"):
                anchor.phase = "running" if anchor.phase == "pending" else "stopped"
                anchor.note()
                self._tell(anchor)

    def finish(self, run_id: str, *, phase: str, reason: str | None = None, message: str | None = None) -> None:
        """Its work ends by itself."""
        anchor = self._find(run_id)
        if anchor is not None and anchor.phase in ("pending", "running", "stopping"):
            anchor.phase = phase
            anchor.note(reason=reason, message=message)
            self._tell(anchor)

    def explain(self, run_id: str, *, reason: str, message: str) -> None:
        """Why it is as it is."""
        anchor = self._find(run_id)
        assert anchor is not None
        anchor.note(reason=reason, message=message)
        self._tell(anchor)

    def lose(self, run_id: str) -> str | None:
        """Somebody deleted it outside; the UID of what is gone."""
        anchor = self._find(run_id)
        if anchor is None:
            return None
        del self.anchors[anchor.uid]
        self._tell(anchor)
        return anchor.uid

    def _obey(self, assignment: Assignment, uid: str) -> Anchor | None:
        anchor = self.anchors.get(uid)
        if anchor is None or assignment.generation < anchor.generation:
            return None
        if assignment.generation > anchor.generation:
            last = anchor.history[-1]
            anchor.generation = assignment.generation
            anchor.history.append(replace(last, version=last.version + 1, generation=anchor.generation))
        return anchor

    def _find_own(self, assignment: Assignment) -> Anchor | None:
        own = (anchor for anchor in self.anchors.values() if anchor.run_uid == assignment.run_uid)
        return next(own, None)

    def _find(self, run_id: str) -> Anchor | None:
        return next((anchor for anchor in self.anchors.values() if anchor.run_id == run_id), None)

    def _tell(self, anchor: Anchor) -> None:
        self._changes.put_nowait(anchor.run_uid)

    async def _enter(self, point: str) -> None:
        await self.at(point)
        if self.failures:
            raise self.failures.pop(0)
