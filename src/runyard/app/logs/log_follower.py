"""Follow a run's log until the run has ended and all its output was read."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from runyard.app.core import Core
from runyard.app.logs.log_reader import Marker, Part, PartReader, Wanted, find_start, write_pieces
from runyard.app.ports import Stream, Unavailable
from runyard.app.runs import POLL_SECONDS, RunFollower

FLUSH_SECONDS = 0.05
"""Output that arrives within this time is sent together."""
GRACE_SECONDS = 2.0
"""How long to wait after the end of the run for its last bytes."""

StopReason = Callable[[], Awaitable[str | None]]
"""Why the response must end now; None if it need not."""


class LogFollower:
    """The text of all wanted streams, including streams that begin later."""

    def __init__(self, core: Core, follower: RunFollower, wanted: Wanted, *, marker: Marker) -> None:
        self._core = core
        self._follower = follower
        self._wanted = wanted
        self._marker = marker
        self._readers: dict[Stream, PartReader] = {}
        self._current: Stream | None = None

    async def iterate(self, parts: Sequence[Part], *, stop_reason: StopReason) -> AsyncIterator[bytes]:
        """Chunks of text. If it ends before the run, the last line says why and at which offsets to continue."""
        for part in parts:
            self._add(part.info.stream, offset=part.offset)
        try:
            async for chunk in self._iterate(stop_reason):
                yield chunk
        except Unavailable:
            yield self._write_end("unavailable")

    async def _iterate(self, stop_reason: StopReason) -> AsyncIterator[bytes]:
        pause, ended_at = FLUSH_SECONDS, None
        while True:
            if self._follower.has_ended and ended_at is None:
                ended_at = time.monotonic()
            has_news = False
            async for chunk in self._read_round():
                has_news = True
                yield chunk
            if (reason := await stop_reason()) is not None:
                yield self._write_end(reason)
                return
            if not has_news and ended_at is not None and time.monotonic() - ended_at >= GRACE_SECONDS:
                return
            pause = FLUSH_SECONDS if has_news else min(pause * 2, POLL_SECONDS)
            await self._follower.wait(seconds=pause)
            await self._look()

    async def _look(self) -> None:
        """Look for news of the run and for new streams."""
        if not self._follower.has_ended:
            await self._follower.read_new()
        for info in await self._core.logs.list_streams(self._follower.run.uid):
            if info.stream not in self._readers and self._wanted.takes(info.stream):
                # `tail` applies to the streams that existed; a new stream is sent from its start.
                start = await find_start(self._core.logs, info, self._wanted, has_tail=False)
                self._add(info.stream, offset=start)

    def _add(self, stream: Stream, *, offset: int) -> None:
        self._readers[stream] = PartReader(self._core.logs, stream, offset=offset)

    async def _read_round(self) -> AsyncIterator[bytes]:
        """Everything stored now, one chunk of each stream in turn."""
        waiting = list(self._readers.values())
        while waiting:
            for reader in list(waiting):
                start = reader.offset
                pieces = await reader.read()
                if pieces:
                    yield self._introduce(reader.stream, offset=start) + write_pieces(pieces, marker=self._marker)
                else:
                    waiting.remove(reader)

    def _introduce(self, stream: Stream, *, offset: int) -> bytes:
        """A line with the stream's name, if there are several and the stream changes."""
        is_other, self._current = stream != self._current, stream
        if not is_other or len(self._readers) == 1:
            return b""
        return self._marker.write(stream=stream.name, offset=offset)

    def _write_end(self, reason: str) -> bytes:
        offsets = {stream.name: reader.offset for stream, reader in self._readers.items()}
        return self._marker.write(end=reason, offsets=offsets)
