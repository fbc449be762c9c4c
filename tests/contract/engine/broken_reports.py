"""Engines that break the contract in what they tell, each in one way that its name says."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self

from runyard.app.engine import (
    Anchor,
    Assignment,
    EngineRefusal,
    EngineUnavailable,
    LogChunk,
    LogGap,
    LogSource,
    Observation,
    Place,
)
from runyard.app.model import Json
from runyard.domain.outcomes import Seen
from runyard.pods.snapshot import Snapshot
from tests.engines.memory import MemoryEngine


class _Seeing(MemoryEngine):
    """Shows something else than there is, wherever it shows it."""

    def change(self, seen: Observation) -> Observation:
        raise NotImplementedError

    def _remember(self, anchor: Anchor) -> Observation:
        return self.change(super()._remember(anchor))

    def _tell(self, observation: Observation) -> None:
        super()._tell(self.change(observation))


class ForgetsTheGeneration(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, generation=1)


class TakesHeldForPending(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, seen=Seen.PENDING) if seen.seen is Seen.HELD else seen


class TakesPendingForHeld(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, seen=Seen.HELD) if seen.seen is Seen.PENDING else seen


class WaitsWithoutAMessage(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, message=None)


class CountsNoVersions(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, version=1)


class CountsVersionsDown(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, version=1000 - seen.version)


class TakesFailureForSuccess(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, seen=Seen.SUCCEEDED) if seen.seen is Seen.FAILED else seen


class TakesSuccessForFailure(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, seen=Seen.FAILED) if seen.seen is Seen.SUCCEEDED else seen


class ForgetsExitCodes(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, ends=tuple(replace(end, exit_code=None) for end in seen.ends))


class TakesSignalsForExitCodes(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, ends=tuple(replace(end, signal=None) for end in seen.ends))


class TakesOutOfMemoryForASignal(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, ends=tuple(replace(end, is_out_of_memory=False) for end in seen.ends))


class TakesEverySignalForOutOfMemory(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, ends=tuple(replace(end, is_out_of_memory=end.signal == 9) for end in seen.ends))


class MeasuresPeaksInKibibytes(_Seeing):
    def change(self, seen: Observation) -> Observation:
        ends = (replace(end, peak_bytes=end.peak_bytes and end.peak_bytes // 1024) for end in seen.ends)
        return replace(seen, ends=tuple(ends))


class CountsNoInstances(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, ends=tuple(replace(end, instance=0) for end in seen.ends))


class KeepsOnlyTheLastEnd(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, ends=seen.ends[-1:])


class ListsEveryEnd(_Seeing):
    def change(self, seen: Observation) -> Observation:
        thing = self.things.get(seen.uid)
        return seen if thing is None else replace(seen, ends=tuple(thing.ends))


class ShowsEveryEvent(_Seeing):
    def change(self, seen: Observation) -> Observation:
        thing = self.things.get(seen.uid)
        return seen if thing is None else replace(seen, details={**seen.details, "events": thing.events})


class AddsOwnDetails(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, details={**seen.details, "k8s": {}})


class ForgetsEndsOfWhatIsGone(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, ends=()) if seen.seen is Seen.ABSENT else seen


class ForgetsEpochs(_Seeing):
    def change(self, seen: Observation) -> Observation:
        return replace(seen, epoch=0)


class CountsEpochsPerProcess(MemoryEngine):
    def reopen(self) -> Self:
        other = super().reopen()
        other._epochs = [0]
        for thing in other.things.values():
            thing.history[-1] = replace(thing.history[-1], epoch=0)
        return other


class MovesWithEachProcess(MemoryEngine):
    def reopen(self) -> Self:
        other = super().reopen()
        other.place = Place("memory", "another")
        return other


class DescribesWithoutABound(MemoryEngine):
    async def describe(self, anchor: Anchor) -> Json:
        return {**await super().describe(anchor), "events": self.things[anchor.uid].events}


class DescribesNothing(MemoryEngine):
    async def describe(self, anchor: Anchor) -> Json:
        return {}


class DescribesSecrets(MemoryEngine):
    async def describe(self, anchor: Anchor) -> Json:
        return {**await super().describe(anchor), "env": self.secrets.get(anchor.uid, {})}


class TakesSilenceForAbsence(MemoryEngine):
    async def observe(self, anchor: Anchor) -> Observation:
        if self.is_cut:
            return Observation(run_uid=anchor.run_uid, uid=anchor.uid, seen=Seen.ABSENT)
        return await super().observe(anchor)


class FindsNothingInSilence(MemoryEngine):
    async def find_anchor(self, assignment: Assignment) -> str | None:
        return None if self.is_cut else await super().find_anchor(assignment)


class RefusesWhenCut(MemoryEngine):
    async def _enter(self, point: str, *, is_remembered: bool = False) -> None:
        try:
            await super()._enter(point, is_remembered=is_remembered)
        except EngineUnavailable as error:
            raise EngineRefusal(error.code, str(error)) from error


class SwallowsFailures(MemoryEngine):
    async def release(self, assignment: Assignment, uid: str) -> None:
        with suppress(EngineUnavailable):
            await super().release(assignment, uid)


class HasNoCodes(MemoryEngine):
    async def _enter(self, point: str, *, is_remembered: bool = False) -> None:
        try:
            await super()._enter(point, is_remembered=is_remembered)
        except EngineUnavailable as error:
            raise EngineUnavailable("oops", str(error)) from error


class TakesEmptySnapshots(MemoryEngine):
    async def snapshot(self) -> Snapshot:
        return replace(await super().snapshot(), nodes=(), pods=())


class TakesSnapshotsWithoutATimeZone(MemoryEngine):
    async def snapshot(self) -> Snapshot:
        return replace(await super().snapshot(), at="2026-11-15T12:00:00")


class ReportsNoAbsence(MemoryEngine):
    def _tell(self, observation: Observation) -> None:
        if observation.seen is not Seen.ABSENT:
            super()._tell(observation)


class ReportsNoEnds(MemoryEngine):
    def _tell(self, observation: Observation) -> None:
        if observation.seen is not Seen.FAILED:
            super()._tell(observation)


class SubscribesWhenItIsRead(MemoryEngine):
    def changes(self) -> AsyncIterator[Sequence[Observation]]:
        return self._subscribe()

    async def _subscribe(self) -> AsyncIterator[Sequence[Observation]]:
        async for batch in super().changes():
            yield batch


class RepeatsRunsInABatch(MemoryEngine):
    def changes(self) -> AsyncIterator[Sequence[Observation]]:
        return self._double(super().changes())

    async def _double(self, batches: AsyncIterator[Sequence[Observation]]) -> AsyncIterator[Sequence[Observation]]:
        async for batch in batches:
            yield [*batch, *batch]


class TellsOnlyTheLastSubscriber(MemoryEngine):
    def changes(self) -> AsyncIterator[Sequence[Observation]]:
        self._subscribers.clear()
        return super().changes()


class ListsSourcesBeforeTheStart(MemoryEngine):
    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        first = LogSource(run_uid=anchor.run_uid, pod=f"{anchor.run_id}-0", container="main")
        return await super().list_log_sources(anchor) or [first]


class MergesInstances(MemoryEngine):
    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        return (await super().list_log_sources(anchor))[-1:]


class ListsSourcesNewestFirst(MemoryEngine):
    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        return (await super().list_log_sources(anchor))[::-1]


class KnowsSourcesByRunId(MemoryEngine):
    async def list_log_sources(self, anchor: Anchor) -> Sequence[LogSource]:
        pod = f"{anchor.run_id}-0"
        return [source for source in self.outputs if source.pod == pod][:1]


class _Reading(MemoryEngine):
    """Reads logs wrongly."""

    def change(self, item: LogChunk | LogGap) -> LogChunk | LogGap | None:
        return item

    async def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        async for item in super().follow_log(source, after=after):
            changed = self.change(item)
            if changed is not None:
                yield changed


class DecodesLogs(_Reading):
    def change(self, item: LogChunk | LogGap) -> LogChunk | LogGap | None:
        if isinstance(item, LogGap):
            return item
        return replace(item, content=item.content.decode(errors="replace").encode())


class HidesGaps(_Reading):
    def change(self, item: LogChunk | LogGap) -> LogChunk | LogGap | None:
        return None if isinstance(item, LogGap) else item


class HasGapsWithoutACause(_Reading):
    def change(self, item: LogChunk | LogGap) -> LogChunk | LogGap | None:
        return replace(item, cause="") if isinstance(item, LogGap) else item


class RepeatsTheLastChunk(_Reading):
    def change(self, item: LogChunk | LogGap) -> LogChunk | LogGap | None:
        if isinstance(item, LogGap):
            return item
        return replace(item, position=str(int(item.position) - len(item.content)))


class SkipsAByteAfterEachChunk(_Reading):
    def change(self, item: LogChunk | LogGap) -> LogChunk | LogGap | None:
        return replace(item, position=str(int(item.position) + 1))


class StandsStillAtGaps(_Reading):
    def change(self, item: LogChunk | LogGap) -> LogChunk | LogGap | None:
        return replace(item, position="0") if isinstance(item, LogGap) else item


class EndsLogsWhereTheyStandNow(MemoryEngine):
    async def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        output = self.outputs.get(source)
        was_ended = output is not None and output.is_ended
        if output is not None:
            output.is_ended = True
        async for item in super().follow_log(source, after=after):
            yield item
        if output is not None:
            output.is_ended = was_ended


class NeverEndsLogs(MemoryEngine):
    async def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        async for item in super().follow_log(source, after=after):
            yield item
        await asyncio.Event().wait()


class EndsLogsWhenCut(MemoryEngine):
    async def follow_log(self, source: LogSource, *, after: str | None = None) -> AsyncIterator[LogChunk | LogGap]:
        with suppress(EngineUnavailable):
            async for item in super().follow_log(source, after=after):
                yield item
