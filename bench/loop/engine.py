"""The tests' engine in memory, with every call that a life needs in constant time: the figures are the loop's."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from runyard.app.engine import Anchor, AnchorList, Assignment, LogChunk, LogGap, LogSource, Observation
from runyard.domain.outcomes import ENDED, Seen
from tests.engines.memory import MemoryEngine
from tests.engines.memory_objects import Subscriber

LINES = b"".join(b"line %02d of what a job of the bench writes\n" % number for number in range(25))
"""What every run writes: about 1 KB."""
_START = datetime(2026, 11, 15, 12, tzinfo=UTC)
_POD = "bench-0"
"""The same for all: copies of a run have its status."""
_ADOPTED_VERSION = 1000
"""Newer than what is stored of any run."""


@dataclass(slots=True)
class _Object:
    anchor: Anchor
    observation: Observation
    end: asyncio.Event = field(default_factory=asyncio.Event)


class BenchEngine(MemoryEngine):
    """The bench says when its runs start and end."""

    def __init__(self, *, project: str) -> None:
        super().__init__()
        self.create_seconds = 0.0
        """How long it takes to create an anchor."""
        self._project = project
        self._objects: dict[str, _Object] = {}
        """By the run's uid."""
        self._subscriber: Subscriber | None = None

    def adopt(self, run_uids: Iterable[str], *, seen: Seen = Seen.RUNNING) -> None:
        """Have anchors for runs that are stored already; reports nothing."""
        for run_uid in run_uids:
            self._keep(run_uid, run_id=run_uid, generation=1, seen=seen, version=_ADOPTED_VERSION)

    def change(self, run_uids: Iterable[str], seen: Seen) -> None:
        """Change runs, and report that."""
        for run_uid in run_uids:
            known = self._objects[run_uid]
            known.observation = replace(known.observation, seen=seen, version=known.observation.version + 1)
            if seen in ENDED:
                known.end.set()
        self.repeat(run_uids)

    def repeat(self, run_uids: Iterable[str]) -> None:
        """Report runs, whether or not they have changed."""
        if self._subscriber is not None:
            for run_uid in run_uids:
                self._subscriber.tell(self._objects[run_uid].observation)

    def has_released(self, run_uids: Iterable[str]) -> bool:
        """Whether the loop has released all of these runs."""
        return all(self._objects[run_uid].observation.seen is not Seen.HELD for run_uid in run_uids)

    @property
    def is_heard(self) -> bool:
        """Whether the loop has taken all reports."""
        return self._subscriber is None or not self._subscriber.unread

    async def find_anchor(self, assignment: Assignment) -> str | None:
        found = self._objects.get(assignment.run_uid)
        return None if found is None else found.anchor.uid

    async def ensure_anchor(self, assignment: Assignment) -> str:
        if self.create_seconds:
            await asyncio.sleep(self.create_seconds)
        found = self._objects.get(assignment.run_uid) or self._keep(
            assignment.run_uid, run_id=assignment.run_id, generation=assignment.generation, seen=Seen.HELD
        )
        return found.anchor.uid

    async def release(self, assignment: Assignment, uid: str) -> None:  # noqa: ARG002 - the run has one anchor
        if self._objects[assignment.run_uid].observation.seen is Seen.HELD:
            self.change([assignment.run_uid], Seen.PENDING)

    async def observe(self, anchor: Anchor) -> Observation:
        return self._objects[anchor.run_uid].observation

    async def settle(self, assignment: Assignment, uid: str) -> bool:  # noqa: ARG002 - nothing is kept for it
        return True

    async def list_anchors(self) -> AnchorList:
        listed = [(known.anchor, known.observation) for known in self._objects.values()]
        return AnchorList(observations=listed, is_complete=True)

    def changes(self) -> AsyncIterator[Sequence[Observation]]:
        self._subscriber = Subscriber()
        return self._subscriber.iterate()

    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        return [LogSource(run_uid=anchor.run_uid, pod=_POD, container="main")]

    async def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        if after is None:
            yield LogChunk(content=LINES, at=_START, position=str(len(LINES)))
        await self._objects[source.run_uid].end.wait()

    def _keep(self, run_uid: str, *, run_id: str, generation: int, seen: Seen, version: int = 1) -> _Object:
        anchor = Anchor(run_uid=run_uid, run_id=run_id, project=self._project, action="job", uid=f"uid-{run_uid}")
        observation = Observation(
            run_uid=run_uid,
            uid=anchor.uid,
            seen=seen,
            version=version,
            generation=generation,
            details={"pods": [{"name": _POD}]},
        )
        known = self._objects[run_uid] = _Object(anchor, observation)
        if seen in ENDED:
            known.end.set()
        return known
