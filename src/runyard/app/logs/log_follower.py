"""Follow a run's log until the run has ended and its log is complete.

The collector of this process is told that the log is read, follows it before others, and signals when it has stored
something. For a run whose log another replica collects, the log store is read every `POLL_SECONDS`; streams that grow
are read more often.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from runyard.app.core import Core
from runyard.app.log_store import Stream
from runyard.app.logs.log_reader import Marker, Part, PartReader, Wanted, find_start, write_pieces
from runyard.app.ports import Unavailable
from runyard.app.runs import RunFollower

FLUSH_SECONDS = 0.05
"""Output that arrives within this time is sent together."""
SAY_SECONDS = 5.0
"""How often the collector is told that the log is still read, at most. A guard asks for a look every 15 s at least."""
POLL_SECONDS = 1.0
"""How often the log store is read for a run whose log another replica collects."""
GROWING_POLL_SECONDS = 0.4
"""How often its streams that grow are read: so that a line is seen within a second."""
GROWING_SECONDS = 30.0
"""How long a stream counts as growing after its last output."""
GROWING_READS_PER_SECOND = 20
"""How often one follower reads growing streams, all together. With more than eight, each is read less often."""


class Guard(Protocol):
    """Decides whether the response must end."""

    @property
    def seconds_left(self) -> float:
        """When to ask again at the latest."""

    async def stop_reason(self) -> str | None:
        """Why it must end now; None if it need not."""


class LogFollower:
    """The text of all wanted streams, including streams that begin later."""

    def __init__(self, core: Core, follower: RunFollower, wanted: Wanted, *, marker: Marker) -> None:
        self._core = core
        self._follower = follower
        self._wanted = wanted
        self._marker = marker
        self._readers: dict[Stream, PartReader] = {}
        self._current: Stream | None = None
        self._said_at = -SAY_SECONDS
        self._grew_at: dict[Stream, float] = {}
        self._listed_at = -POLL_SECONDS

    async def iterate(self, parts: Sequence[Part], *, guard: Guard) -> AsyncIterator[bytes]:
        """Chunks of text. If it ends before the log, the last line says why and at which offsets to continue."""
        for part in parts:
            self._add(part.info.stream, offset=part.offset)
        try:
            with self._follower.listen():
                async for chunk in self._iterate(guard):
                    yield chunk
        except Unavailable:
            yield self._write_end("unavailable")

    async def _iterate(self, guard: Guard) -> AsyncIterator[bytes]:
        while True:
            self._say_that_it_is_read()
            # First whether it is complete, then what is stored: so that nothing is left unread at the end.
            if self._follower.may_have_changed:
                await self._follower.read_new()
            is_complete = self._follower.is_log_complete
            has_news = False
            async for chunk in self._read_round(await self._choose_readers(is_last=is_complete)):
                has_news = True
                yield chunk
            if is_complete:
                return
            if (reason := await guard.stop_reason()) is not None:
                yield self._write_end(reason)
                return
            if has_news:
                await asyncio.sleep(FLUSH_SECONDS)
            pause = self._choose_poll_pause() if self._is_collected_elsewhere else guard.seconds_left
            await self._follower.wait(seconds=min(pause, guard.seconds_left))

    def _say_that_it_is_read(self) -> None:
        """Not at every line: a busy log is read twenty times a second."""
        if time.monotonic() - self._said_at >= SAY_SECONDS:
            self._said_at = time.monotonic()
            self._core.signals.notify_collector(self._follower.run.uid)

    @property
    def _is_collected_elsewhere(self) -> bool:
        run = self._follower.run
        return run.place is not None and run.uid not in self._core.signals.collected

    async def _choose_readers(self, *, is_last: bool) -> list[PartReader]:
        """Those of all streams, or between two polls of streams that grow."""
        is_between = time.monotonic() - self._listed_at < POLL_SECONDS
        if is_between and self._is_collected_elsewhere and not is_last:
            return self._list_growing()
        self._listed_at = time.monotonic()
        await self._find_streams()
        return list(self._readers.values())

    def _list_growing(self) -> list[PartReader]:
        since = time.monotonic() - GROWING_SECONDS
        return [reader for stream, reader in self._readers.items() if self._grew_at.get(stream, since) > since]

    def _choose_poll_pause(self) -> float:
        growing = len(self._list_growing())
        pause = max(GROWING_POLL_SECONDS, growing / GROWING_READS_PER_SECOND) if growing else POLL_SECONDS
        return min(pause, POLL_SECONDS)

    async def _find_streams(self) -> None:
        """Look for new streams."""
        for info in await self._core.logs.list_streams(self._follower.run.uid):
            if info.stream not in self._readers and self._wanted.takes(info.stream):
                # `tail` applies to the streams that existed; a new stream is sent from its start.
                start = await find_start(self._core.logs, info, self._wanted, has_tail=False)
                self._add(info.stream, offset=start)

    def _add(self, stream: Stream, *, offset: int) -> None:
        self._readers[stream] = PartReader(self._core.logs, stream, offset=offset)

    async def _read_round(self, readers: Sequence[PartReader]) -> AsyncIterator[bytes]:
        """Everything stored now, one chunk of each stream in turn."""
        waiting = list(readers)
        while waiting:
            for reader in list(waiting):
                start = reader.offset
                pieces = await reader.read()
                if pieces:
                    self._grew_at[reader.stream] = time.monotonic()
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
