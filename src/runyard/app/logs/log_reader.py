"""Read the logs of a run: list its streams, the tail of each, and text from any offset on.

Lines that are not the container's own output, such as gaps and names of streams, begin with a `Marker`: a random text
chosen for each response, which no program can have printed (like the boundary of a multipart message). Such a line is
the marker, a space, and JSON.
"""

import json
import secrets
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from runyard.app.core import Core
from runyard.app.log_store import LogPiece, LogStore, Stream, StreamInfo
from runyard.app.model import Run
from runyard.app.ports import Unavailable
from runyard.app.runs import require_run
from runyard.spec.problem_codes import Code
from runyard.spec.problems import find_nearest, list_words
from runyard.spec.readers import Findings

TAIL_BYTES = 2 << 20
"""Limit per stream in the list of logs."""
LIST_BYTES = 16 << 20
"""Limit for all streams in the list of logs; the newest streams come first."""
CHUNK_BYTES = 64 * 1024
MOST_TAIL = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Selects a part of a run's log."""

    container: str | None = None
    pod: str | None = None
    instance: int | None = None
    """Of a container: 0 is the first, 1 the one after its first restart."""
    since: datetime | None = None
    tail: int | None = None
    """Last lines of each stream."""
    offset: int | None = None
    """Only for a single stream."""

    def takes(self, stream: Stream) -> bool:
        """Whether it selects that stream."""
        wanted = (self.container, self.pod, self.instance)
        found = (stream.container, stream.pod, stream.instance)
        return all(one in (None, other) for one, other in zip(wanted, found, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One stream from an offset on."""

    info: StreamInfo
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """The tail of one stream, with gaps marked."""

    part: Part
    content: bytes


@dataclass(slots=True)
class Marker:
    """Writes lines that cannot be mistaken for output of the container."""

    text: str = field(default_factory=lambda: f"#runyard-{secrets.token_hex(8)}")
    is_at_start: bool = True
    """Whether the last output ended with a newline."""

    def write(self, **values: Any) -> bytes:
        """A marker line, after a newline if needed: then `cut` says that the newline is not of the stream."""
        values |= {} if self.is_at_start else {"cut": True}
        line = f"{self.text} {json.dumps(values, ensure_ascii=False)}\n".encode(errors="backslashreplace")
        begun = b"" if self.is_at_start else b"\n"
        self.is_at_start = True
        return begun + line

    def write_piece(self, piece: LogPiece) -> bytes:
        """The bytes, or a marker line for a gap."""
        if piece.gap is not None:
            until = piece.until or piece.at
            return self.write(gap=piece.gap, since=_show(piece.at), until=_show(until), offset=piece.offset)
        self.is_at_start = piece.content.endswith(b"\n") if piece.content else self.is_at_start
        return piece.content


class PartReader:
    """Reads one stream continuously; returns each gap once."""

    def __init__(self, logs: LogStore, stream: Stream, *, offset: int, end: int | None = None) -> None:
        self._logs = logs
        self._end = end
        self._told: set[tuple[int, datetime, str]] = set()
        self.stream = stream
        self.offset = offset

    async def read(self, *, limit: int = CHUNK_BYTES) -> Sequence[LogPiece]:
        """The next pieces, about `limit` bytes; empty if there are none now."""
        left = limit if self._end is None else min(limit, self._end - self.offset)
        found = await self._logs.read(self.stream, offset=self.offset, limit=left)
        return [piece for piece in map(self._take, found) if piece is not None]

    def _take(self, piece: LogPiece) -> LogPiece | None:
        if piece.gap is not None:
            key = (piece.offset, piece.at, piece.gap)
            is_new = key not in self._told
            self._told.add(key)
            return piece if is_new else None
        if self._end is not None:
            piece = replace(piece, content=piece.content[: max(0, self._end - piece.offset)])
        if not piece.content:
            return None
        self.offset = piece.offset + len(piece.content)
        return piece


async def list_logs(core: Core, project: str, run_id: str, *, marker: Marker) -> tuple[Run, Sequence[LogTail]]:
    """The tail of every stream, in the order in which they began. Raises `Missing`."""
    async with core.store.begin(is_read_only=True) as unit:
        run = await require_run(unit, project, run_id)
    core.signals.notify_collector(run.uid)
    tails: list[LogTail] = []
    left = LIST_BYTES
    for info in reversed(await core.logs.list_streams(run.uid)):
        tail, size = await _read_tail(core, info, limit=min(TAIL_BYTES, left), marker=marker)
        left = max(0, left - size)
        tails.append(tail)
    return run, tails[::-1]


async def choose_parts(core: Core, run: Run, wanted: Wanted, *, can_come: bool = False) -> Sequence[Part]:
    """The selected streams of a stored run with their start offsets. Raises `Refused` for unknown names.

    With `can_come`, a stream may still begin later. An offset is only valid for a single stream.
    """
    core.signals.notify_collector(run.uid)
    infos = await core.logs.list_streams(run.uid)
    chosen = [info for info in infos if wanted.takes(info.stream)]
    findings = Findings()
    if infos and not chosen and not can_come:
        _name_unknown(findings, wanted, [info.stream for info in infos])
    if wanted.offset is not None and len(chosen) > 1:
        streams = [info.stream.name for info in chosen]
        message = f"an offset needs a single stream; {len(chosen)} match: set `pod`, `container` and `instance`"
        findings.add(Code.LOG_STREAMS, ("query", "offset"), message, value=wanted.offset, allowed=list_words(streams))
    findings.finish()
    return [Part(info=info, offset=await find_start(core.logs, info, wanted)) for info in chosen]


async def find_start(logs: LogStore, info: StreamInfo, wanted: Wanted, *, has_tail: bool = True) -> int:
    """The largest of the offsets by `offset`, `since` and `tail`; never past the end."""
    starts = [min(wanted.offset or 0, info.size)]
    if wanted.since is not None:
        starts.append(await logs.find_since(info.stream, wanted.since))
    if wanted.tail is not None and has_tail:
        starts.append(await logs.find_tail(info.stream, wanted.tail))
    return max(starts)


async def iter_parts(logs: LogStore, parts: Sequence[Part], *, marker: Marker) -> AsyncIterator[bytes]:
    """The stored text of the parts, one after the other; if there are several, each after its name."""
    for part in parts:
        stream = part.info.stream
        if len(parts) > 1:
            yield marker.write(stream=stream.name, offset=part.offset)
        reader = PartReader(logs, stream, offset=part.offset, end=part.info.size)
        try:
            while pieces := await reader.read():
                yield write_pieces(pieces, marker=marker)
        except Unavailable:
            # The response has started, so its status cannot change.
            yield marker.write(end="unavailable", offsets={stream.name: reader.offset})
            return


def write_pieces(pieces: Iterable[LogPiece], *, marker: Marker) -> bytes:
    """Write pieces as text."""
    return b"".join(marker.write_piece(piece) for piece in pieces)


async def _read_tail(core: Core, info: StreamInfo, *, limit: int, marker: Marker) -> tuple[LogTail, int]:
    """The end of a stream, and its size as text: `limit`, and a part of a chunk more if bytes were replaced."""
    marker.is_at_start = True
    reader = PartReader(core.logs, info.stream, offset=max(0, info.size - limit), end=info.size)
    # Clients decode strictly, and the cut may be inside a character. What is not UTF-8 becomes three times as long.
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    chunks: deque[tuple[int, bytes]] = deque()
    offset, size = reader.offset, 0
    while pieces := await reader.read():
        text = decoder.decode(write_pieces(pieces, marker=marker), final=reader.offset == info.size).encode()
        chunks.append((offset, text))
        offset, size = reader.offset, size + len(text)
        while size - len(chunks[0][1]) >= limit:
            size -= len(chunks.popleft()[1])
    part = Part(info=info, offset=chunks[0][0] if chunks else offset)
    marker.is_at_start = True
    left_out = marker.write(left_out=part.offset) if part.offset else b""
    return LogTail(part=part, content=b"".join([left_out, *(text for _, text in chunks)])), size


def _name_unknown(findings: Findings, wanted: Wanted, streams: Sequence[Stream]) -> None:
    known: Mapping[str, set[str]] = {
        "container": {stream.container for stream in streams},
        "pod": {stream.pod for stream in streams},
    }
    for name, names in known.items():
        given = getattr(wanted, name)
        if given is not None and given not in names:
            allowed, nearest = list_words(sorted(names)), find_nearest(given, names)
            message = f"unknown {name}: none of that name has written a log"
            findings.add(Code.LOG_UNKNOWN, ("query", name), message, value=given, allowed=allowed, suggestion=nearest)
    if not findings.problems:
        allowed = list_words([stream.name for stream in streams])
        if wanted.instance is not None:
            message = "unknown instance: none of that number has written a log"
            findings.add(Code.LOG_UNKNOWN, ("query", "instance"), message, value=wanted.instance, allowed=allowed)
            return
        message = f"pod {wanted.pod} has no container {wanted.container} with a log"
        findings.add(Code.LOG_UNKNOWN, ("query", "container"), message, value=wanted.container, allowed=allowed)


def _show(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
