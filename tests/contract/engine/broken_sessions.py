"""Engines that break the contract of sessions and usage, each in one way that its name says."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from runyard.app.engine import Anchor, ChannelId, EngineUnavailable, Session, Usage
from runyard.domain.reasons import Reason
from tests.contract.engine.memory_sessions import SessionEngine
from tests.engines.interactive import SUCCESS, Container


class OpensSessionsWhereNothingRuns(SessionEngine):
    def check(self, anchor: Anchor) -> None:
        pass


class _Wrapped(Container):
    """A channel that shows something else than the container sends."""

    def __init__(self, inner: Container) -> None:
        super().__init__(inner.anchor, inner.session, port=inner.port)
        self.inner = inner

    async def send(self, channel: ChannelId, content: bytes) -> None:
        await self.inner.send(channel, content)

    async def receive(self) -> AsyncIterator[tuple[ChannelId, bytes]]:
        async for channel, content in self.inner.receive():
            for message in self.change(channel, content):
                yield message

    def change(self, channel: ChannelId, content: bytes) -> Sequence[tuple[ChannelId, bytes]]:
        return [(channel, content)]


class _Wrapping(SessionEngine):
    wrapper: type[_Wrapped]

    async def open_exec(self, anchor: Anchor, session: Session) -> Container:
        return self.wrapper(await super().open_exec(anchor, session))


class _Deaf(_Wrapped):
    async def send(self, channel: ChannelId, content: bytes) -> None:
        if channel is not ChannelId.CLOSE:
            await super().send(channel, content)


class NeverEndsInput(_Wrapping):
    wrapper = _Deaf


class _Textual(_Wrapped):
    def change(self, channel: ChannelId, content: bytes) -> Sequence[tuple[ChannelId, bytes]]:
        return [(channel, content.decode(errors="replace").encode()[:1000])]


class DecodesOutput(_Wrapping):
    wrapper = _Textual


class _Large(_Wrapped):
    def change(self, channel: ChannelId, content: bytes) -> Sequence[tuple[ChannelId, bytes]]:
        return [(channel, content * 4 if len(content) > 1000 else content)]


class SendsLargeMessages(_Wrapping):
    wrapper = _Large


class _Mixed(_Wrapped):
    def change(self, channel: ChannelId, content: bytes) -> Sequence[tuple[ChannelId, bytes]]:
        return [(ChannelId.STDOUT if channel is ChannelId.STDERR else channel, content)]


class MixesOutputs(_Wrapping):
    wrapper = _Mixed


class _Successful(_Wrapped):
    def change(self, channel: ChannelId, content: bytes) -> Sequence[tuple[ChannelId, bytes]]:
        return [(channel, json.dumps(SUCCESS).encode() if channel is ChannelId.ERROR else content)]


class SaysSuccessWhateverHappened(_Wrapping):
    wrapper = _Successful


class _Silent(_Wrapped):
    def change(self, channel: ChannelId, content: bytes) -> Sequence[tuple[ChannelId, bytes]]:
        return [] if channel is ChannelId.ERROR else [(channel, content)]


class EndsWithoutAStatus(_Wrapping):
    wrapper = _Silent


class _Greedy(_Wrapped):
    async def send(self, channel: ChannelId, content: bytes) -> None:
        pass


class SwallowsInput(_Wrapping):
    wrapper = _Greedy


class _Once(_Wrapped):
    async def close(self) -> None:
        if self.is_closed.is_set():
            raise EngineUnavailable(Reason.ENGINE_FAILED, "closed already")
        self.is_closed.set()


class ClosesOnlyOnce(_Wrapping):
    wrapper = _Once


class StopsRunsWithTheirSessions(SessionEngine):
    async def open_exec(self, anchor: Anchor, session: Session) -> Container:
        opened = await super().open_exec(anchor, session)
        engine = self

        class Stopping(_Wrapped):
            async def close(self) -> None:
                engine.finish(anchor.run_uid, phase="stopped")

        return Stopping(opened)


class AttachesToNothing(SessionEngine):
    async def open_attach(self, anchor: Anchor, session: Session) -> Container:
        return await super().open_attach(anchor, replace(session, command=("nothing",)))


class HidesRefusedConnections(SessionEngine):
    async def refuse_connection(self, container: Container) -> None:
        await container.leave()


class MeasuresNothing(SessionEngine):
    async def list_usage(self, anchor: Anchor) -> Sequence[Usage]:
        return []


class CountsDiskOfOthers(SessionEngine):
    async def sum_disk_bytes(self, anchor: Anchor) -> int:
        return 1 << 30


class MeasuresWithoutATimeZone(SessionEngine):
    async def list_usage(self, anchor: Anchor) -> Sequence[Usage]:
        return [replace(usage, at=usage.at.replace(tzinfo=None)) for usage in await super().list_usage(anchor)]
