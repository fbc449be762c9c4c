"""An engine that keeps the contract and everything in memory; tests say what happens to its runs."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count

from runyard.app.engine import (
    Anchor,
    AnchorList,
    Assignment,
    ContainerEnd,
    EngineError,
    EngineRefusal,
    KeptVolume,
    LogChunk,
    LogGap,
    LogSource,
    Observation,
    Place,
    VolumeState,
)
from runyard.app.model import Json
from runyard.domain.outcomes import Seen
from runyard.pods.snapshot import Snapshot

RESUMABLE = frozenset({"serve", "deploy"})
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ENDED = ("succeeded", "failed", "stopped")


async def pass_by(_point: str) -> None:
    """Nothing happens at that point."""


@dataclass
class Output:
    """What one instance of a container wrote."""

    content: bytearray = field(default_factory=bytearray)
    lost: int = 0
    """How many bytes from the beginning cannot be read anymore."""
    is_ended: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Thing:
    """The objects of one run; their history is what observers may remember."""

    anchor: Anchor
    generation: int
    phase: str = "held"
    """held, pending, running, stopping, stopped, succeeded, failed, removing"""
    was_released: bool = False
    has_secrets: bool = False
    is_settled: bool = False
    instance: int = 0
    epoch: int = 0
    ends: list[ContainerEnd] = field(default_factory=list)
    history: list[Observation] = field(default_factory=list)

    def note(self, *, reason: str | None = None, message: str | None = None) -> None:
        """Something changed."""
        last = self.history[-1] if self.history else None
        version = last.version + 1 if last is not None and last.epoch == self.epoch else 1
        details = {"pods": [{"name": f"{self.anchor.run_id}-0"}]} if self.phase in ("running", "stopping") else {}
        self.history.append(
            Observation(
                run_uid=self.anchor.run_uid,
                uid=self.anchor.uid,
                seen=_SEEN[self.phase],
                epoch=self.epoch,
                version=version,
                generation=self.generation,
                reason=reason,
                message=message,
                ends=tuple(self.ends),
                details=details,
            )
        )


_SEEN = {
    "held": Seen.HELD,
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

    def __init__(self, place: str = "a") -> None:
        self.place = Place("memory", place)
        self.things: dict[str, Thing] = {}
        """By the anchor's UID."""
        self.made: defaultdict[str, list[str]] = defaultdict(list)
        """UIDs ever made, by the run's uid."""
        self.calls: list[str] = []
        """Names of the acts, in order."""
        self.released: list[str] = []
        self.secrets: dict[str, dict[str, str]] = {}
        """What runs were given when they were released, by UID."""
        self.sent: list[Json] = []
        """What was sent after its admission."""
        self.outputs: dict[LogSource, Output] = {}
        self.projects: set[str] = set()
        self.volumes: dict[tuple[str, str], VolumeState] = {}
        self.failures: list[EngineError] = []
        """Raised, one each, by the next calls."""
        self.at: Callable[[str], Awaitable[None]] = pass_by
        self.choose_age: Callable[[int], int] = lambda _known: 0
        """How many observations old what is remembered is."""
        self.is_list_complete = True
        self.epoch = 0
        self._numbers = count(1)
        self._watchers: list[asyncio.Queue[Observation]] = []

    async def find_anchor(self, assignment: Assignment) -> str | None:
        """By the place itself."""
        await self._enter("find_anchor")
        found = self._find_own(assignment)
        return None if found is None else found.anchor.uid

    async def ensure_anchor(self, assignment: Assignment) -> str:
        """One, by its name."""
        await self._enter("ensure_anchor")
        if assignment.project not in self.projects:
            raise EngineRefusal("project.absent", f"nobody prepared the project {assignment.project}")
        found = self._find_own(assignment)
        if found is None:
            anchor = Anchor(
                run_uid=assignment.run_uid,
                run_id=assignment.run_id,
                project=assignment.project,
                action=assignment.effective.action,
                uid=f"{self.place.uid}-{next(self._numbers)}",
            )
            found = Thing(anchor=anchor, generation=assignment.generation, epoch=self.epoch)
            self.things[anchor.uid] = found
            self.made[assignment.run_uid].append(anchor.uid)
            self._note(found)
        await self.at("ensure_anchor done")
        return found.anchor.uid

    async def release(self, assignment: Assignment, uid: str) -> None:
        """Start it, unless it is gone, has ended, or was told something newer."""
        await self._enter("release")
        secrets = await assignment.access.read_secrets()
        thing = self._obey(assignment, uid)
        if thing is not None and thing.phase in ("held", "stopped", "stopping"):
            thing.phase = "pending"
            thing.was_released = thing.has_secrets = True
            thing.is_settled = False
            self._note(thing)
            self.released.append(uid)
            self.secrets[uid] = dict(secrets)
        await self.at("release done")

    async def observe(self, anchor: Anchor) -> Observation:
        """As remembered; absence as it is."""
        await self._enter("observe")
        return self._remember(anchor)

    async def describe(self, anchor: Anchor) -> Json:
        """Its phase."""
        await self._enter("describe")
        thing = self.things.get(anchor.uid)
        return {} if thing is None else {"phase": thing.phase, "generation": thing.generation}

    async def stop(self, assignment: Assignment, uid: str) -> None:
        """Begin to end it."""
        await self._enter("stop")
        thing = self._obey(assignment, uid)
        if thing is not None and thing.phase in ("held", "pending", "running"):
            thing.phase = "stopping" if thing.phase == "running" else "stopped"
            self._note(thing)
        await self.at("stop done")

    async def settle(self, assignment: Assignment, uid: str) -> bool:
        """Forget its secrets; remove what never ran."""
        await self._enter("settle")
        thing = self._obey(assignment, uid)
        if thing is not None and thing.phase in (*ENDED, "held"):
            thing.has_secrets = False
            self.secrets.pop(uid, None)
            thing.is_settled = True
            if not thing.was_released:
                self._delete(thing)
        await self.at("settle done")
        return thing is None or thing.is_settled

    async def remove(self, anchor: Anchor) -> None:
        """Begin to remove it."""
        await self._enter("remove")
        thing = self.things.get(anchor.uid)
        if thing is not None and thing.phase in ("running", "stopping", "removing"):
            if thing.phase != "removing":
                thing.phase = "removing"
                self._note(thing)
        elif thing is not None:
            self._delete(thing)
        await self.at("remove done")

    async def list_anchors(self) -> AnchorList:
        """All there are."""
        await self._enter("list_anchors")
        listed = [(thing.anchor, self._remember(thing.anchor)) for thing in self.things.values()]
        return AnchorList(observations=listed, is_complete=self.is_list_complete)

    def changes(self) -> AsyncIterator[Sequence[Observation]]:
        """As they come."""
        queue: asyncio.Queue[Observation] = asyncio.Queue()
        self._watchers.append(queue)
        return self._iterate(queue)

    async def _iterate(self, queue: asyncio.Queue[Observation]) -> AsyncIterator[Sequence[Observation]]:
        try:
            while True:
                batch = {(first := await queue.get()).run_uid: first}
                while not queue.empty():
                    following = queue.get_nowait()
                    batch[following.run_uid] = following
                yield list(batch.values())
        finally:
            self._watchers.remove(queue)

    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        """Those that wrote or will write."""
        await self._enter("list_log_sources")
        return [source for source in self.outputs if source.run_uid == anchor.run_uid]

    async def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        """From there on; positions are offsets."""
        await self._enter("follow_log")
        output = self.outputs.get(source)
        position = int(after or 0)
        if output is None:
            yield LogGap(since=NOON, until=NOON, cause="the container is gone", position=str(position))
            return
        while True:
            if position < output.lost:
                position = output.lost
                yield LogGap(since=NOON, until=NOON, cause="rotated", position=str(position))
            if content := bytes(output.content[position : position + 65536]):
                position += len(content)
                yield LogChunk(content=content, at=NOON, position=str(position))
            elif output.is_ended:
                return
            else:
                output.news.clear()
                await output.news.wait()
            if self.failures:
                raise self.failures.pop(0)

    async def ensure_project(self, project: str) -> None:
        """Note it."""
        await self._enter("ensure_project")
        self.projects.add(project)

    async def remove_project(self, project: str) -> bool:
        """Forget it."""
        await self._enter("remove_project")
        self.projects.discard(project)
        return True

    async def ensure_volume(self, volume: KeptVolume) -> VolumeState:
        """One per claim; bound at once."""
        await self._enter("ensure_volume")
        key = (volume.project, volume.claim)
        found = self.volumes.get(key)
        if found is not None and found.volume_id != volume.volume_id:
            raise EngineRefusal("volume.taken", f"the claim {volume.claim} belongs to another volume")
        if found is None:
            found = self.volumes[key] = VolumeState(
                project=volume.project,
                claim=volume.claim,
                volume_id=volume.volume_id,
                phase="bound",
                size=volume.size,
                storage_class=volume.storage_class or "standard",
            )
        return found

    async def remove_volume(self, volume: KeptVolume) -> bool:
        """Remove it at once, unless a run has it mounted."""
        await self._enter("remove_volume")
        key = (volume.project, volume.claim)
        found = self.volumes.get(key)
        if found is None or found.volume_id != volume.volume_id:
            return True
        if found.mounted_by:
            self.volumes[key] = replace(found, phase="removing")
            return False
        del self.volumes[key]
        return True

    async def list_volumes(self) -> Sequence[VolumeState]:
        """All of them."""
        await self._enter("list_volumes")
        return list(self.volumes.values())

    async def snapshot(self) -> Snapshot:
        """An empty place."""
        await self._enter("snapshot")
        return Snapshot(at=NOON.isoformat())

    async def close(self) -> None:
        """Nothing to give back."""

    def tick(self) -> None:
        """Time passes: what is pending starts, what is stopping ends, what is being removed goes."""
        for thing in list(self.things.values()):
            if thing.phase == "removing":
                self._delete(thing)
            elif thing.phase == "pending":
                self._start(thing)
            elif thing.phase == "stopping":
                self._end(thing, "stopped")

    def start(self, run_id: str) -> None:
        """It runs, in a new instance of its container."""
        self._start(self._get(run_id))

    def _start(self, thing: Thing) -> None:
        thing.phase = "running"
        self.outputs[self._source(thing)] = Output()
        self._note(thing)

    def restart(self, run_id: str, *, exit_code: int = 1) -> None:
        """Its container ends and is started again."""
        thing = self._get(run_id)
        self._close_output(thing)
        thing.ends.append(self._make_end(thing, exit_code=exit_code))
        thing.instance += 1
        self._start(thing)

    def write_log(self, run_id: str, content: bytes) -> None:
        """Its container writes."""
        thing = self._get(run_id)
        output = self.outputs[self._source(thing)]
        output.content += content
        output.news.set()

    def rotate_log(self, run_id: str) -> None:
        """What was written so far cannot be read anymore."""
        output = self.outputs[self._source(self._get(run_id))]
        output.lost = len(output.content)
        output.news.set()

    def finish(
        self,
        run_id: str,
        *,
        phase: str,
        reason: str | None = None,
        message: str | None = None,
        end: ContainerEnd | None = None,
    ) -> None:
        """Its work ends by itself."""
        thing = self._find(run_id)
        if thing is not None and thing.phase in ("pending", "running", "stopping"):
            self._end(thing, phase, reason=reason, message=message, end=end)

    def explain(self, run_id: str, *, reason: str, message: str) -> None:
        """Why it is as it is."""
        self._note(self._get(run_id), reason=reason, message=message)

    def lose(self, run_id: str) -> str | None:
        """Somebody deleted it outside; the UID of what is gone."""
        thing = self._find(run_id)
        if thing is None:
            return None
        self._delete(thing)
        return thing.anchor.uid

    def begin_epoch(self) -> None:
        """Versions begin anew, as after the restore of an etcd."""
        self.epoch += 1
        for thing in self.things.values():
            thing.epoch = self.epoch
            self._note(thing)

    def _end(
        self,
        thing: Thing,
        phase: str,
        *,
        reason: str | None = None,
        message: str | None = None,
        end: ContainerEnd | None = None,
    ) -> None:
        codes = {"succeeded": 0, "failed": 1, "stopped": 143}
        if thing.phase in ("running", "stopping"):
            thing.ends.append(end or self._make_end(thing, exit_code=codes[phase]))
        thing.phase = phase
        self._close_output(thing)
        self._note(thing, reason=reason, message=message)

    def _make_end(self, thing: Thing, *, exit_code: int) -> ContainerEnd:
        pod = f"{thing.anchor.run_id}-0"
        return ContainerEnd(pod=pod, container="main", instance=thing.instance, exit_code=exit_code)

    def _source(self, thing: Thing) -> LogSource:
        pod = f"{thing.anchor.run_id}-0"
        return LogSource(run_uid=thing.anchor.run_uid, pod=pod, container="main", instance=thing.instance)

    def _close_output(self, thing: Thing) -> None:
        output = self.outputs.get(self._source(thing))
        if output is not None:
            output.is_ended = True
            output.news.set()

    def _delete(self, thing: Thing) -> None:
        del self.things[thing.anchor.uid]
        self._close_output(thing)
        for source in [source for source in self.outputs if source.run_uid == thing.anchor.run_uid]:
            del self.outputs[source]
        self._tell(
            Observation(
                run_uid=thing.anchor.run_uid,
                uid=thing.anchor.uid,
                seen=Seen.ABSENT,
                epoch=self.epoch,
                ends=tuple(thing.ends),
            )
        )

    def _remember(self, anchor: Anchor) -> Observation:
        thing = self.things.get(anchor.uid)
        if thing is None:
            return Observation(run_uid=anchor.run_uid, uid=anchor.uid, seen=Seen.ABSENT, epoch=self.epoch)
        known = len(thing.history)
        return thing.history[-1 - min(self.choose_age(known), known - 1)]

    def _obey(self, assignment: Assignment, uid: str) -> Thing | None:
        thing = self.things.get(uid)
        if thing is None or assignment.generation < thing.generation:
            return None
        if assignment.generation > thing.generation:
            thing.generation = assignment.generation
            last = thing.history[-1]
            self._note(thing, reason=last.reason, message=last.message)
        return thing

    def _find_own(self, assignment: Assignment) -> Thing | None:
        own = (thing for thing in self.things.values() if thing.anchor.run_uid == assignment.run_uid)
        return next(own, None)

    def _find(self, run_id: str) -> Thing | None:
        return next((thing for thing in self.things.values() if thing.anchor.run_id == run_id), None)

    def _get(self, run_id: str) -> Thing:
        thing = self._find(run_id)
        assert thing is not None, f"{run_id} has no anchor"
        return thing

    def _note(self, thing: Thing, *, reason: str | None = None, message: str | None = None) -> None:
        thing.note(reason=reason, message=message)
        self._tell(thing.history[-1])

    def _tell(self, observation: Observation) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(observation)

    async def _enter(self, point: str) -> None:
        self.calls.append(point)
        await self.at(point)
        if self.failures:
            raise self.failures.pop(0)
