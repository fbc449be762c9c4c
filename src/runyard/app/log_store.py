"""The port of log storage: streams of bytes, their gaps, and whether they are complete."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol

LARGEST_POSITION_BYTES = 1024
"""How long an engine's position in a log may be, in UTF-8."""
LARGEST_CAUSE_BYTES = 4096
"""How long the cause of a gap, or of the early end of a stream, may be, in UTF-8. Longer ones are cut."""


class AnyPosition(Enum):
    """The type of `ANY_POSITION`."""

    ANY = "any"


ANY_POSITION = AnyPosition.ANY
"""Bytes and gaps that follow whatever is stored."""


class StreamComplete(ValueError):
    """The stream is complete, and these bytes or this gap are not in it; nothing was written."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The log of one instance of a container of a run, which is known by its uid.

    `pod` distinguishes attempts and replicas. A restarted container is another instance, and so another stream.
    """

    run_uid: str
    pod: str
    container: str
    instance: int = 0

    @property
    def name(self) -> str:
        """Its name within the run, for people: `pod/container`, `pod/container/1` after the first restart."""
        return f"{self.pod}/{self.container}" + (f"/{self.instance}" if self.instance else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """What is stored of a stream: its size, and when its first and last bytes were written."""

    stream: Stream
    size: int
    first_at: datetime | None
    last_at: datetime | None
    position: str | None = None
    """Where the engine continues: the last position that was stored. None: from the beginning."""
    position_offset: int = 0
    """The offset of the first byte after `position`. It is less than `size` if a writer died between two writes."""
    is_complete: bool = False
    """Whether nothing will follow."""
    cause: str | None = None
    """Why it is complete before its container ended, such as `limit`; None if everything was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """Bytes of a stream from an offset on; or a gap, where something could not be read for the cause in `gap`."""

    offset: int
    at: datetime
    content: bytes = b""
    gap: str | None = None
    until: datetime | None = None
    """For a gap: the end of its time span."""


class LogStore(Protocol):
    """Storage of log bytes. Never shares a writer with run state."""

    async def append(
        self,
        stream: Stream,
        content: bytes,
        *,
        offset: int,
        at: datetime,
        after: str | AnyPosition | None = ANY_POSITION,
        position: str | None = None,
    ) -> int:
        """Append bytes that begin at `offset` and were written at `at`; returns the stream's new size.

        `after` is the engine's position from which they were read, `position` the one behind them. That is stored with
        them: never one without the other. Idempotent: bytes that are already stored are skipped. Raises `ValueError`
        for an offset past the end, which would leave a hole; `StreamComplete` for new bytes of a complete stream; and
        `Stale` if another position than `after` is stored, because another replica has written (compare and set).
        """

    async def mark_gap(
        self,
        stream: Stream,
        *,
        since: datetime,
        until: datetime,
        cause: str,
        after: str | AnyPosition | None = ANY_POSITION,
        position: str | None = None,
    ) -> int:
        """Record at the current end that something is missing, and why; returns the stream's size.

        `after` and `position` as in `append`. Idempotent: a gap at the end with the same position, or with the same
        cause and `since`, is already known. Raises `StreamComplete` and `Stale`.
        """

    async def finish(self, stream: Stream, *, cause: str | None, at: datetime) -> None:
        """Mark the stream as complete at that time; creates one without bytes. Idempotent: the first cause stays."""

    async def list_streams(self, run_uid: str) -> Sequence[StreamInfo]:
        """The streams of a run, in the order in which they began."""

    async def read(self, stream: Stream, *, offset: int = 0, limit: int = 1 << 20) -> Sequence[LogPiece]:
        """Pieces and gaps from that offset on, about `limit` bytes at most; empty at the end."""

    async def find_since(self, stream: Stream, since: datetime) -> int:
        """The offset of the first bytes that were written at or after that time; the size if there are none."""

    async def find_tail(self, stream: Stream, lines: int) -> int:
        """The offset at which the last `lines` lines begin; 0 if there are fewer."""

    async def delete(self, run_uid: str) -> None:
        """Delete all streams of a run. Idempotent. Raises `Unavailable`."""

    async def prune(self, *, before: datetime) -> int:
        """Delete streams whose last bytes are older; returns how many. Without bytes, their last gap or end counts."""

    async def close(self) -> None:
        """Close files and connections. Idempotent."""
