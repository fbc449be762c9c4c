"""Engines that break the contract in what they do, each in one way that its name says."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self, TypeVar

from runyard.app.engine import (
    Anchor,
    AnchorList,
    Assignment,
    EngineRefusal,
    KeptVolume,
    Observation,
    VolumeState,
)
from runyard.domain.admission import AdmittedObjects
from runyard.domain.outcomes import Seen
from runyard.domain.reasons import Reason
from runyard.domain.resolve_inputs import AdminRules
from tests.engines.memory import MemoryEngine
from tests.engines.memory_objects import Thing

Value = TypeVar("Value")


class CreatesAnotherAnchor(MemoryEngine):
    async def ensure_anchor(self, assignment: Assignment) -> str:
        self.made.pop(assignment.run_uid, None)
        return await super().ensure_anchor(assignment)


class CreatesAnchorsInARace(MemoryEngine):
    async def ensure_anchor(self, assignment: Assignment) -> str:
        found = await self.find_anchor(assignment)
        await asyncio.sleep(0)
        if found is None:
            self.made.pop(assignment.run_uid, None)
        return await super().ensure_anchor(assignment)


class SharesOneAnchor(MemoryEngine):
    def _find_own(self, assignment: Assignment) -> Thing | None:
        return next(iter(self.things.values()), None)


class InventsAnchors(MemoryEngine):
    async def find_anchor(self, assignment: Assignment) -> str | None:
        return await super().find_anchor(assignment) or "invented"


class KnowsAnchorsByProjectAndRunId(MemoryEngine):
    def _find_own(self, assignment: Assignment) -> Thing | None:
        key = (assignment.project, assignment.run_id)
        things = self.things.values()
        return next((thing for thing in things if (thing.anchor.project, thing.anchor.run_id) == key), None)


class KnowsAnchorsByRunId(MemoryEngine):
    def _find_own(self, assignment: Assignment) -> Thing | None:
        return next((thing for thing in self.things.values() if thing.anchor.run_id == assignment.run_id), None)


class StartsBeforeTheRelease(MemoryEngine):
    async def ensure_anchor(self, assignment: Assignment) -> str:
        uid = await super().ensure_anchor(assignment)
        if self.things[uid].phase == "held":
            self.things[uid].phase = "pending"
        return uid


class SendsMoreThanWasAdmitted(MemoryEngine):
    def _send(self, assignment: Assignment, objects: AdmittedObjects | None) -> None:
        super()._send(assignment, objects)
        self.sent[assignment.run_uid].append(b'{"kind": "Pod"}')


class CreatesRefusedAnchors(MemoryEngine):
    async def ensure_anchor(self, assignment: Assignment) -> str:
        try:
            return await super().ensure_anchor(assignment)
        except EngineRefusal:
            self.is_admitting = False
            await super().ensure_anchor(assignment)
            raise


class StoresSecretsBeforeTheAdmission(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        if uid in self.things:
            self.secrets[uid] = dict(await assignment.access.read_secrets())
        await super().release(assignment, uid)


class ReplacesStrangers(MemoryEngine):
    async def ensure_anchor(self, assignment: Assignment) -> str:
        self.strangers.discard(assignment.run_uid)
        return await super().ensure_anchor(assignment)


class CreatesAnchorsOnRelease(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        await super().release(assignment, uid if uid in self.things else await self.ensure_anchor(assignment))


class IgnoresTheUid(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        await super().release(assignment, await self.find_anchor(assignment) or uid)


class RemovesByName(MemoryEngine):
    async def remove(self, anchor: Anchor) -> None:
        found = self._find_by_uid(anchor.run_uid)
        await super().remove(anchor if found is None else found.anchor)


class RestartsWhatIsReleasedAgain(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        if uid in self.things and self.things[uid].phase == "running":
            self.restart(assignment.run_uid)
        await super().release(assignment, uid)


class RemovesOnlyTheAnchor(MemoryEngine):
    def _forget_secrets(self, thing: Thing) -> None:
        if thing.phase != "removing":
            super()._forget_secrets(thing)


class RemovesOnlyWhatItMade(MemoryEngine):
    def __init__(self) -> None:
        super().__init__()
        self.own: set[str] = set()

    def reopen(self) -> Self:
        other = super().reopen()
        other.own = set()
        return other

    async def ensure_anchor(self, assignment: Assignment) -> str:
        uid = await super().ensure_anchor(assignment)
        self.own.add(uid)
        return uid

    async def remove(self, anchor: Anchor) -> None:
        if anchor.uid in self.own:
            await super().remove(anchor)


class ListsAnchorsWithoutTheirAction(MemoryEngine):
    async def list_anchors(self) -> AnchorList:
        listed = await super().list_anchors()
        observations = [(replace(anchor, action=""), seen) for anchor, seen in listed.observations]
        return replace(listed, observations=observations)


class NeverStops(MemoryEngine):
    async def stop(self, assignment: Assignment, uid: str) -> None:
        self._obey(assignment, uid)


class RemovesWhatItStops(MemoryEngine):
    async def stop(self, assignment: Assignment, uid: str) -> None:
        thing = self._obey(assignment, uid)
        if thing is not None:
            await self.remove(thing.anchor)


class DropsOutputOfStoppedRuns(MemoryEngine):
    async def stop(self, assignment: Assignment, uid: str) -> None:
        await super().stop(assignment, uid)
        for source in self._sources.get(assignment.run_uid, ()):
            self.outputs[source].content.clear()


class ObeysOlderGenerations(MemoryEngine):
    def _obey(self, assignment: Assignment, uid: str) -> Thing | None:
        if uid in self.things:
            self.things[uid].generation = min(self.things[uid].generation, assignment.generation)
        return super()._obey(assignment, uid)


class SettlesOlderGenerations(MemoryEngine):
    async def settle(self, assignment: Assignment, uid: str) -> bool:
        is_older = uid in self.things and assignment.generation < self.things[uid].generation
        if is_older:
            self._forget_secrets(self.things[uid])
        return await super().settle(assignment, uid) or is_older


class ForgetsTheStopOfAHeldRun(MemoryEngine):
    async def stop(self, assignment: Assignment, uid: str) -> None:
        if uid in self.things and self.things[uid].phase != "held":
            await super().stop(assignment, uid)


class RestartsEndedRuns(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        if uid in self.things and self.things[uid].phase in ("succeeded", "failed"):
            self.things[uid].phase = "stopped"
        await super().release(assignment, uid)


class StopsEndedRuns(MemoryEngine):
    async def stop(self, assignment: Assignment, uid: str) -> None:
        await super().stop(assignment, uid)
        if uid in self.things and self.things[uid].phase == "succeeded":
            self._end(self.things[uid], "stopped")


class ListsOnlyWhatRuns(MemoryEngine):
    async def list_anchors(self) -> AnchorList:
        listed = await super().list_anchors()
        return replace(listed, observations=[pair for pair in listed.observations if pair[1].seen is Seen.RUNNING])


class ClaimsTheListIsComplete(MemoryEngine):
    async def list_anchors(self) -> AnchorList:
        return replace(await super().list_anchors(), is_complete=True)


class NeverListsCompletely(MemoryEngine):
    async def list_anchors(self) -> AnchorList:
        return replace(await super().list_anchors(), is_complete=False)


class ListsAnchorsOfOthers(MemoryEngine):
    async def list_anchors(self) -> AnchorList:
        listed = await super().list_anchors()
        theirs = [
            (anchor, Observation(run_uid=anchor.run_uid, uid=anchor.uid, seen=Seen.RUNNING))
            for anchor in self.foreign_anchors.values()
        ]
        return replace(listed, observations=[*listed.observations, *theirs])


class StopsRunsOnClose(MemoryEngine):
    async def close(self) -> None:
        for thing in self.things.values():
            thing.phase = "stopping"


class MixesUpConcurrentCalls(MemoryEngine):
    current: Anchor

    async def observe(self, anchor: Anchor) -> Observation:
        self.current = anchor
        await asyncio.sleep(0)
        return await super().observe(self.current)


class ForgetsSecretsOnRelease(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        await super().release(assignment, uid)
        if uid in self.secrets:
            self.secrets[uid] = dict.fromkeys(self.secrets[uid], "")


class KeepsSecrets(MemoryEngine):
    def _forget_secrets(self, thing: Thing) -> None:
        if thing.phase == "removing":
            super()._forget_secrets(thing)


class KeepsTokens(MemoryEngine):
    def _forget_secrets(self, thing: Thing) -> None:
        kept = self.tokens.get(thing.anchor.uid)
        super()._forget_secrets(thing)
        if kept is not None and thing.phase != "removing":
            self.tokens[thing.anchor.uid] = kept


class RemovesWhatIsSettled(MemoryEngine):
    async def settle(self, assignment: Assignment, uid: str) -> bool:
        done = await super().settle(assignment, uid)
        if uid in self.things and done:
            self._delete(self.things[uid])
        return done


class SettlesRunsAtWork(MemoryEngine):
    async def settle(self, assignment: Assignment, uid: str) -> bool:
        await super().settle(assignment, uid)
        if uid in self.things:
            self._forget_secrets(self.things[uid])
        return True


class IgnoresTheTtl(MemoryEngine):
    def tick(self) -> None:
        for thing in self.things.values():
            thing.is_settled = False
        super().tick()


class DeletesAfterTheTtlUnsettled(MemoryEngine):
    def tick(self) -> None:
        for thing in self.things.values():
            thing.is_settled = True
        super().tick()


class NeverSettlesWhatIsAbsent(MemoryEngine):
    async def settle(self, assignment: Assignment, uid: str) -> bool:
        return await super().settle(assignment, uid) and uid in self.things


class CannotStartAgain(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        if uid not in self.things or not self.things[uid].is_settled:
            await super().release(assignment, uid)


class StartsAgainWithoutSecrets(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        is_again = uid in self.released
        await super().release(assignment, uid)
        if is_again:
            self._forget_secrets(self.things[uid])
            self.secrets[uid] = {}


class RemovesStoppedServices(MemoryEngine):
    async def settle(self, assignment: Assignment, uid: str) -> bool:
        thing = self.things.get(uid)
        if thing is not None and thing.phase == "stopped" and not thing.was_released:
            self._delete(thing)
        return await super().settle(assignment, uid)


class KeepsFailedServices(MemoryEngine):
    async def settle(self, assignment: Assignment, uid: str) -> bool:
        return await super().settle(replace(assignment, can_be_resumed=True), uid)


class KeepsWhatNeverRan(MemoryEngine):
    async def settle(self, assignment: Assignment, uid: str) -> bool:
        if uid in self.things:
            self.things[uid].was_released = True
        return await super().settle(assignment, uid)


class StartsRefusedRuns(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        try:
            await super().release(assignment, uid)
        except EngineRefusal:
            self.things[uid].phase = "pending"
            self.things[uid].was_released = True
            raise


class HidesRefusals(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        with suppress(EngineRefusal):
            await super().release(assignment, uid)


class KeepsProjects(MemoryEngine):
    async def remove_project(self, project: str) -> bool:
        return True


class NeverFinishesRemovingProjects(MemoryEngine):
    async def remove_project(self, project: str) -> bool:
        await super().remove_project(project)
        return False


class PreparesNothing(MemoryEngine):
    async def ensure_project(self, project: str, rules: AdminRules) -> None:
        if project in ("p", "q"):
            await super().ensure_project(project, rules)


class RemovesEveryProject(MemoryEngine):
    async def remove_project(self, project: str) -> bool:
        self.projects.clear()
        return True


class RemovesProjectsOfOthers(MemoryEngine):
    async def remove_project(self, project: str) -> bool:
        self.foreign_projects.discard(project)
        return await super().remove_project(project)


class CreatesVolumesAgain(MemoryEngine):
    async def ensure_volume(self, volume: KeptVolume) -> VolumeState:
        state = await super().ensure_volume(volume)
        self.volumes[volume.project, f"{volume.claim}-{next(self._numbers)}"] = state
        return state


class ListsVolumesOfOneProject(MemoryEngine):
    async def list_volumes(self) -> Sequence[VolumeState]:
        return [state for state in await super().list_volumes() if state.project == "p"]


class ListsTheFirstVolumes(MemoryEngine):
    async def list_volumes(self) -> Sequence[VolumeState]:
        return (await super().list_volumes())[:2]


class ListsNoMounts(MemoryEngine):
    def _see_volume(self, state: VolumeState) -> VolumeState:
        return state


class TakesVolumesOfOtherIds(MemoryEngine):
    async def ensure_volume(self, volume: KeptVolume) -> VolumeState:
        found = self.volumes.get((volume.project, volume.claim))
        if found is not None:
            self.volumes[volume.project, volume.claim] = replace(found, volume_id=volume.volume_id)
        return await super().ensure_volume(volume)


class RemovesVolumesByClaim(MemoryEngine):
    async def remove_volume(self, volume: KeptVolume) -> bool:
        found = self.volumes.get((volume.project, volume.claim))
        found_id = None if found is None else found.volume_id
        return await super().remove_volume(replace(volume, volume_id=found_id or volume.volume_id))


class KeepsVolumes(MemoryEngine):
    async def remove_volume(self, volume: KeptVolume) -> bool:
        return True


class RemovesVolumesWithTheirRuns(MemoryEngine):
    async def remove(self, anchor: Anchor) -> None:
        self.files.clear()
        await super().remove(anchor)


class KeepsDataOfRemovedVolumes(MemoryEngine):
    def _remove_unmounted(self) -> None:
        files = {key: dict(value) for key, value in self.files.items()}
        super()._remove_unmounted()
        self.files.update(files)


class RemovesMountedVolumes(MemoryEngine):
    async def remove_volume(self, volume: KeptVolume) -> bool:
        self.volumes.pop((volume.project, volume.claim), None)
        return True


class HidesClaimsOfOthers(MemoryEngine):
    async def list_volumes(self) -> Sequence[VolumeState]:
        return [state for state in await super().list_volumes() if state.volume_id is not None]


class RefusesWithoutAReason(MemoryEngine):
    async def ensure_anchor(self, assignment: Assignment) -> str:
        return await _drop_code(super().ensure_anchor(assignment))

    async def ensure_volume(self, volume: KeptVolume) -> VolumeState:
        return await _drop_code(super().ensure_volume(volume))


async def _drop_code(call: Coroutine[Any, Any, Value]) -> Value:
    try:
        return await call
    except EngineRefusal as refusal:
        raise EngineRefusal("no", str(refusal)) from refusal


class LeavesTheReasonOut(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        try:
            await super().release(assignment, uid)
        except EngineRefusal as refusal:
            raise EngineRefusal(Reason.ENGINE_FAILED, str(refusal)) from refusal
