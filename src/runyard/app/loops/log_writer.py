"""Stores what engines read of outputs: retries while log storage is down, and cuts at the limit per run."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from runyard.app.core import Core
from runyard.app.engine import LogChunk, LogGap
from runyard.app.log_store import StreamComplete
from runyard.app.loops.followed_logs import FollowedSource
from runyard.app.ports import Unavailable

T = TypeVar("T")
MAX_LOG_BYTES = 1 << 30
"""The default limit of a run's log: the sum of its streams."""
LARGEST_APPEND_BYTES = 1 << 20
"""Larger chunks are stored in parts, so that one write does not hold up others."""
RETRY_SECONDS = 30.0
"""How long a write is retried while log storage is down. After that the output is read again, from what is stored."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_WRITE_PAUSE_SECONDS = 5.0
LIMIT = "limit"
"""The cause of a stream that was cut."""


class LogWriter:
    """Writes to the log store, and wakes those who read. Every write may be repeated: by a retry, after a crash, or by
    another replica that follows the same output.
    """

    def __init__(self, core: Core, *, max_bytes: int = MAX_LOG_BYTES) -> None:
        self._core = core
        self._max_bytes = max_bytes

    async def write(self, one: FollowedSource, item: LogChunk | LogGap) -> bool:
        """Store it with its position; returns whether the stream is complete: cut, or finished by another replica.

        Raises `Stale` or `ValueError` if something else is stored than was: by another replica, or after a deletion.
        """
        try:
            if isinstance(item, LogGap):
                await self._write_gap(one, item)
                is_complete = False
            else:
                is_complete = await self._write_chunk(one, item)
        except StreamComplete:
            is_complete = True
        one.failures = 0
        self._core.signals.notify_readers(one.source.run_uid)
        return is_complete

    async def finish(self, one: FollowedSource, *, cause: str | None) -> None:
        """Mark the stream as complete."""
        now = self._core.clock.now()
        await self._retry(one, lambda: self._core.logs.finish(one.stream, cause=cause, at=now))
        self._core.signals.notify_readers(one.source.run_uid)

    async def cut(self, one: FollowedSource, *, since: datetime, cause: str, name: str) -> None:
        """Record that the rest is missing, and mark the stream as complete for the cause `name`."""
        await self._mark_gap(one, since=since, until=max(since, self._core.clock.now()), cause=cause, position=None)
        await self.finish(one, cause=name)

    async def _write_chunk(self, one: FollowedSource, chunk: LogChunk) -> bool:
        content, run = chunk.content, one.run
        left = self._max_bytes - run.stored_bytes - (one.offset + len(content) - one.size)
        is_cut = left < 0 and one.offset + len(content) > one.size
        if is_cut:
            content = content[: max(one.size - one.offset, len(content) + left)]
        for start in range(0, len(content), LARGEST_APPEND_BYTES):
            part = content[start : start + LARGEST_APPEND_BYTES]
            is_last = start + len(part) == len(chunk.content)
            await self._append(one, part, at=chunk.at, position=chunk.position if is_last else None)
        if is_cut:
            cause = f"{LIMIT}: the log of a run has at most {self._max_bytes} bytes; the rest was not stored"
            await self.cut(one, since=chunk.at, cause=cause, name=LIMIT)
            return True
        one.position = chunk.position
        return False

    async def _append(self, one: FollowedSource, content: bytes, *, at: datetime, position: str | None) -> None:
        offset = one.offset
        after = one.stored_position
        size = await self._retry(
            one,
            lambda: self._core.logs.append(one.stream, content, offset=offset, at=at, after=after, position=position),
        )
        one.offset += len(content)
        one.stored_position = after if position is None else position
        one.run.stored_bytes += max(0, size - one.size)
        one.size = size

    async def _write_gap(self, one: FollowedSource, gap: LogGap) -> None:
        await self._mark_gap(one, since=gap.since, until=gap.until, cause=gap.cause, position=gap.position)
        one.position = gap.position

    async def _mark_gap(
        self, one: FollowedSource, *, since: datetime, until: datetime, cause: str, position: str | None
    ) -> None:
        after = one.stored_position
        one.offset = one.size = await self._retry(
            one,
            lambda: self._core.logs.mark_gap(
                one.stream, since=since, until=until, cause=cause or "unknown", after=after, position=position
            ),
        )
        one.stored_position = after if position is None else position

    async def _retry(self, one: FollowedSource, write: Callable[[], Awaitable[T]]) -> T:
        """Repeat a write while log storage is down. Raises `Unavailable` when it stays down, or `one` is to stop."""
        clock = asyncio.get_running_loop().time
        end, pause = clock() + RETRY_SECONDS, FIRST_PAUSE_SECONDS
        while True:
            try:
                return await write()
            except Unavailable:
                if one.is_stopping or clock() >= end:
                    raise
            one.can_be_cancelled = True
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            one.can_be_cancelled = False
            pause = min(2 * pause, LONGEST_WRITE_PAUSE_SECONDS)
