"""An engine that keeps the contract and everything in memory; tests say what happens to its runs."""

import copy
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Self
from weakref import WeakSet

from runyard.app.engine import (
    LARGEST_DESCRIPTION_BYTES,
    MOST_ENDS,
    Anchor,
    AnchorList,
    Assignment,
    ContainerEnd,
    EngineError,
    EngineRefusal,
    EngineUnavailable,
    KeptVolume,
    LogChunk,
    LogGap,
    LogSource,
    Observation,
    Place,
    VolumeState,
)
from runyard.app.model import Json
from runyard.domain.admission import AdmittedObjects
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.domain.resolve_inputs import AdminRules
from runyard.pods.snapshot import Snapshot
from tests.engines.memory_manifests import PLATFORM, admit_anchor, admit_dependents
from tests.engines.memory_objects import Output, Subscriber, Thing, keep_newest

RESUMABLE = frozenset({"serve", "deploy"})
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ENDED = ("succeeded", "failed", "stopped")
_RELEASABLE = ("held", "stopped", "stopping")
CAPACITY_CORES = 64
"""A run that requests more waits forever."""


async def pass_by(_point: str) -> None:
    """Nothing happens at that point."""


class MemoryEngine:
    """`app.engine.Engine`. `at` is called before and after every act, so that tests can fail or crash there.

    Runs are named by their id, or by their uid where an id is used twice.
    """

    def __init__(self, place: str = "a") -> None:
        self.place = Place("memory", place)
        self.platform = PLATFORM
        self.things: dict[str, Thing] = {}
        """By the anchor's UID."""
        self.made: defaultdict[str, list[str]] = defaultdict(list)
        """UIDs ever made, by the run's uid."""
        self.calls: list[str] = []
        """Names of the acts, in order."""
        self.released: list[str] = []
        self.secrets: dict[str, dict[str, str]] = {}
        """What runs were given when they were released, by UID."""
        self.sent: defaultdict[str, list[bytes]] = defaultdict(list)
        """What was sent after its admission, by the run's uid."""
        self.outputs: dict[LogSource, Output] = {}
        self.tokens: dict[str, str] = {}
        """The token of each run that was released, by UID; gone with its secrets."""
        self.projects: set[str] = set()
        self.rules: dict[str, AdminRules] = {}
        """The rules that each project was prepared with last."""
        self.foreign_projects: set[str] = set()
        """Made by somebody else."""
        self.foreign_anchors: dict[str, Anchor] = {}
        """Anchors of another installation, by the run's uid."""
        self.strangers: set[str] = set()
        """Objects of another installation that have the names of these runs' anchors, by the run's uid."""
        self.volumes: dict[tuple[str, str], VolumeState] = {}
        """By project and claim. What mounts them is read from the runs."""
        self.files: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        """The contents of volumes."""
        self.failures: list[EngineError] = []
        """Raised, one each, by the next calls."""
        self.at: Callable[[str], Awaitable[None]] = pass_by
        self.choose_age: Callable[[int], int] = lambda _known: 0
        """How many observations old what is remembered is."""
        self.is_admitting = False
        """Whether it asks for admission, as an engine must. Tests of loops leave it off: their runs have no rules."""
        self.is_list_complete = True
        self.hidden: set[str] = set()
        """Projects that cannot be read now."""
        self.is_cut = False
        """The place cannot be reached; what was observed is remembered."""
        self._sources: defaultdict[str, list[LogSource]] = defaultdict(list)
        """The keys of `outputs`, by the run's uid."""
        self._epochs = [0]
        self._numbers = count(1)
        self._subscribers: WeakSet[Subscriber] = WeakSet()

    def reopen(self) -> Self:
        """Another engine at the same place, as another process has one."""
        return copy.copy(self)

    @property
    def epoch(self) -> int:
        """Of the versions that the place gives now."""
        return self._epochs[-1]

    async def find_anchor(self, assignment: Assignment) -> str | None:
        """By the place itself."""
        await self._enter("find_anchor")
        found = self._find_own(assignment)
        return None if found is None else found.anchor.uid

    async def ensure_anchor(self, assignment: Assignment) -> str:
        """One, by its name."""
        await self._enter("ensure_anchor")
        if assignment.project not in self.projects:
            raise EngineUnavailable(Reason.ENGINE_FAILED, f"project {assignment.project} was not prepared")
        if assignment.run_uid in self.strangers:
            raise EngineRefusal(Reason.ANCHOR_TAKEN, "an object that is not ours has the name of the run's anchor")
        admitted = await admit_anchor(assignment) if self.is_admitting else None
        found = self._find_own(assignment)
        if found is None:
            self._send(assignment, admitted)
            anchor = Anchor(
                run_uid=assignment.run_uid,
                run_id=assignment.run_id,
                project=assignment.project,
                action=assignment.effective.action,
                uid=f"{self.place.uid}-{next(self._numbers)}",
            )
            found = Thing(
                anchor=anchor, generation=assignment.generation, epoch=self.epoch, effective=assignment.effective
            )
            self.things[anchor.uid] = found
            self.made[assignment.run_uid].append(anchor.uid)
            self._note(found)
        await self.at("ensure_anchor done")
        return found.anchor.uid

    async def release(self, assignment: Assignment, uid: str) -> None:
        """Start it, unless it is gone, has ended, or was told something newer."""
        await self._enter("release")
        secrets, token = await assignment.access.read_secrets(), await assignment.access.issue_token()
        is_due = uid in self.things and self.things[uid].phase in _RELEASABLE
        admitted = await self._admit_dependents(assignment, uid, secrets, token) if is_due else None
        thing = self._obey(assignment, uid)
        if thing is not None and thing.phase in _RELEASABLE:
            self._send(assignment, admitted)
            thing.phase = "pending"
            thing.was_released = thing.has_secrets = True
            thing.is_settled = False
            self._note(thing)
            self.released.append(uid)
            self.secrets[uid], self.tokens[uid] = dict(secrets), token
        await self.at("release done")

    async def _admit_dependents(
        self, assignment: Assignment, uid: str, secrets: Mapping[str, str], token: str
    ) -> AdmittedObjects | None:
        if not self.is_admitting:
            return None
        return await admit_dependents(assignment, uid, secrets=secrets, token=token)

    def _send(self, assignment: Assignment, objects: AdmittedObjects | None) -> None:
        """The only function that sends anything."""
        self.sent[assignment.run_uid] += [item.body for item in objects or ()]

    async def observe(self, anchor: Anchor) -> Observation:
        """As remembered; absence as it is."""
        await self._enter("observe", is_remembered=anchor.uid in self.things)
        return self._remember(anchor)

    async def describe(self, anchor: Anchor) -> Json:
        """Its phase and its newest events."""
        await self._enter("describe")
        thing = self.things.get(anchor.uid)
        if thing is None:
            return {}
        events = keep_newest(thing.events, most_bytes=LARGEST_DESCRIPTION_BYTES - 1024)
        return {"phase": thing.phase, "generation": thing.generation, "events": events}

    async def stop(self, assignment: Assignment, uid: str) -> None:
        """Begin to end it."""
        await self._enter("stop")
        thing = self._obey(assignment, uid)
        if thing is not None and thing.phase in ("held", "pending", "running"):
            thing.phase = "stopping" if thing.phase == "running" else "stopped"
            self._note(thing)
        await self.at("stop done")

    async def settle(self, assignment: Assignment, uid: str) -> bool:
        """Forget its secrets; remove what never ran, and a stopped service that cannot be resumed."""
        await self._enter("settle")
        thing = self._obey(assignment, uid)
        if thing is not None and thing.phase in (*ENDED, "held"):
            self._forget_secrets(thing)
            thing.is_settled = True
            is_service = thing.phase == "stopped" and thing.anchor.action in RESUMABLE
            if not assignment.can_be_resumed if is_service else not thing.was_released:
                self._delete(thing)
        await self.at("settle done")
        return uid not in self.things or (thing is not None and thing.is_settled)

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
        listed = [
            (thing.anchor, self._remember(thing.anchor))
            for thing in self.things.values()
            if thing.anchor.project not in self.hidden
        ]
        return AnchorList(observations=listed, is_complete=self.is_list_complete and not self.hidden)

    def changes(self) -> AsyncIterator[Sequence[Observation]]:
        """As they come."""
        subscriber = Subscriber()
        self._subscribers.add(subscriber)
        return subscriber.iterate()

    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        """Those that wrote or will write."""
        await self._enter("list_log_sources")
        return list(self._sources.get(anchor.run_uid, ()))

    async def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        """From there on; positions are offsets."""
        await self._enter("follow_log")
        output = self.outputs.get(source)
        position = int(after or 0)
        if output is None:
            yield LogGap(since=NOON, until=NOON, cause="the container is gone", position=str(position))
            return
        while True:
            if self.is_cut:
                raise _UNREACHABLE
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

    async def ensure_project(self, project: str, rules: AdminRules) -> None:
        """Note it."""
        await self._enter("ensure_project")
        self.projects.add(project)
        self.rules[project] = rules

    async def remove_project(self, project: str) -> bool:
        """Forget it, unless somebody else made it."""
        await self._enter("remove_project")
        self.projects.discard(project)
        return True

    def has_project(self, project: str) -> bool:
        """Whether it is there, whoever made it."""
        return project in self.projects | self.foreign_projects

    async def ensure_volume(self, volume: KeptVolume) -> VolumeState:
        """One per claim; bound at once."""
        await self._enter("ensure_volume")
        key = (volume.project, volume.claim)
        found = self.volumes.get(key)
        if found is not None and found.volume_id != volume.volume_id:
            raise EngineRefusal(
                Reason.VOLUME_TAKEN, f"claim {volume.claim} belongs to another volume or to somebody else"
            )
        if found is None:
            found = self.volumes[key] = VolumeState(
                project=volume.project,
                claim=volume.claim,
                volume_id=volume.volume_id,
                phase="bound",
                size=volume.size,
                storage_class=volume.storage_class or "standard",
            )
        return self._see_volume(found)

    async def remove_volume(self, volume: KeptVolume) -> bool:
        """Remove it at once, or when no run has it mounted anymore."""
        await self._enter("remove_volume")
        key = (volume.project, volume.claim)
        found = self.volumes.get(key)
        if found is None or found.volume_id != volume.volume_id:
            return True
        self.volumes[key] = replace(found, phase="removing")
        self._remove_unmounted()
        return key not in self.volumes

    async def list_volumes(self) -> Sequence[VolumeState]:
        """All of them."""
        await self._enter("list_volumes")
        return [self._see_volume(state) for state in self.volumes.values()]

    def _see_volume(self, state: VolumeState) -> VolumeState:
        mounts = (thing for thing in self.things.values() if thing.phase in ("running", "stopping", "removing"))
        by = [thing.anchor.run_uid for thing in mounts if (state.project, state.claim) in list_claims(thing)]
        return replace(state, mounted_by=tuple(sorted({*state.mounted_by, *by})))

    def _remove_unmounted(self) -> None:
        for key, state in list(self.volumes.items()):
            if state.phase == "removing" and not self._see_volume(state).mounted_by:
                del self.volumes[key]
                self.files.pop(key, None)

    async def snapshot(self) -> Snapshot:
        """One node with what runs on it."""
        await self._enter("snapshot")
        node = {"metadata": {"name": "memory"}, "status": {"allocatable": {"cpu": str(CAPACITY_CORES)}}}
        running = [thing.anchor for thing in self.things.values() if thing.phase in ("running", "stopping", "removing")]
        pods = [
            {
                "metadata": {"name": f"{anchor.run_id}-0", "namespace": anchor.project, "uid": anchor.uid},
                "spec": {"nodeName": "memory"},
            }
            for anchor in running
        ]
        return Snapshot(at=NOON.isoformat(), nodes=(node,), pods=tuple(pods))

    async def close(self) -> None:
        """Nothing to give back."""

    def tick(self) -> None:
        """Time passes: what is pending starts, what is stopping ends, what is being removed goes."""
        for thing in list(self.things.values()):
            is_expired = thing.is_settled and thing.phase in ENDED and thing.effective.ttl_seconds is not None
            if thing.phase == "removing" or is_expired:
                self._delete(thing)
            elif thing.phase == "pending":
                self._place(thing)
            elif thing.phase == "stopping":
                self._end(thing, "stopped")
        self._remove_unmounted()

    def start(self, run_id: str) -> None:
        """It runs, in a new instance of its container."""
        self._start(self._get(run_id))

    def _place(self, thing: Thing) -> None:
        cores = thing.effective.resources.get("cpu")
        requested = None if cores is None else cores.requests or cores.limits
        if requested is None or requested.value <= CAPACITY_CORES:
            self._start(thing)
        elif thing.history[-1].reason is None:
            self._note(thing, reason=Reason.ENGINE_RELEASED, message=f"no node has {requested.text} cores")

    def _start(self, thing: Thing) -> None:
        thing.phase = "running"
        while self._source(thing) in self.outputs:
            thing.instance += 1
        source = self._source(thing)
        self.outputs[source] = Output()
        self._sources[source.run_uid].append(source)
        self._note(thing)

    def restart(self, run_id: str, *, exit_code: int = 1, end: ContainerEnd | None = None) -> None:
        """Its container ends and is started again."""
        thing = self._get(run_id)
        self._close_output(thing)
        thing.ends.append(end or self._make_end(thing, exit_code=exit_code))
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

    def add_events(self, run_id: str, events: Sequence[Json]) -> None:
        """Things happen to it that people may want to know."""
        thing = self._get(run_id)
        thing.events += events
        self._note(thing)

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

    def cut(self) -> None:
        """The place cannot be reached from now on."""
        self.is_cut = True
        for output in self.outputs.values():
            output.news.set()

    def mend(self) -> None:
        """The place can be reached again."""
        self.is_cut = False

    def begin_epoch(self) -> None:
        """Versions begin anew, as after the restore of an etcd."""
        self._epochs.append(self.epoch + 1)
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

    def _forget_secrets(self, thing: Thing) -> None:
        thing.has_secrets = False
        self.secrets.pop(thing.anchor.uid, None)
        self.tokens.pop(thing.anchor.uid, None)

    def _delete(self, thing: Thing) -> None:
        del self.things[thing.anchor.uid]
        self._forget_secrets(thing)
        self._close_output(thing)
        for source in self._sources.pop(thing.anchor.run_uid, ()):
            del self.outputs[source]
        self._tell(
            Observation(
                run_uid=thing.anchor.run_uid,
                uid=thing.anchor.uid,
                seen=Seen.ABSENT,
                epoch=self.epoch,
                ends=tuple(thing.ends[-MOST_ENDS:]),
            )
        )
        self._remove_unmounted()

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
        return self._find_by_uid(assignment.run_uid)

    def _find_by_uid(self, run_uid: str) -> Thing | None:
        return next((self.things[uid] for uid in self.made.get(run_uid, ()) if uid in self.things), None)

    def _find(self, run_id: str) -> Thing | None:
        things = (thing for thing in self.things.values() if thing.anchor.run_id == run_id)
        return self._find_by_uid(run_id) or next(things, None)

    def _get(self, run_id: str) -> Thing:
        thing = self._find(run_id)
        assert thing is not None, f"{run_id} has no anchor"
        return thing

    def _note(self, thing: Thing, *, reason: str | None = None, message: str | None = None) -> None:
        thing.note(reason=reason, message=message)
        self._tell(thing.history[-1])

    def _tell(self, observation: Observation) -> None:
        for subscriber in list(self._subscribers):
            subscriber.tell(observation)

    async def _enter(self, point: str, *, is_remembered: bool = False) -> None:
        self.calls.append(point)
        await self.at(point)
        if self.failures:
            raise self.failures.pop(0)
        if self.is_cut and not is_remembered:
            raise _UNREACHABLE


_UNREACHABLE = EngineUnavailable(Reason.ENGINE_FAILED, "the place cannot be reached")


def list_claims(thing: Thing) -> set[tuple[str, str]]:
    """The project and claim of each kept volume that it mounts."""
    claims = (volume.claim_name for volume in thing.effective.volumes)
    return {(thing.anchor.project, claim) for claim in claims if claim is not None}
