"""Reads a followed log from the bytes of one or more responses: no line is lost or doubled when a connection breaks.

The server numbers the bytes of each stream (`pod/container`, or `pod/container/1` after a restart). The reader counts
what it has delivered of each stream. The next response continues at that offset, if the run has a single stream;
otherwise it starts at the beginning, and what was delivered is skipped by position, never by comparing lines.

Lines that begin with the response's marker are the server's: the name of the stream that follows, a gap, or why the
response ends before the log does. Pure.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

MOST_LINE_BYTES = 1 << 20
"""A longer line is delivered in parts."""
_NEWLINE = b"\n"
_UNNAMED = ""
"""A stream that began while it was the only one; the next response names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a log, without its newline; or a gap, in words."""

    text: str
    stream: str | None = None
    """`pod/container`; None while the run has a single stream that the server has not named."""
    is_gap: bool = False
    is_introduced: bool = False
    """Whether another stream than before begins here."""


@dataclass(slots=True)
class StreamTitles:
    """The lines that say where the output of another container begins: its name, and that of a second pod."""

    _pod: str | None = None

    def make(self, line: LogLine) -> str | None:
        """`==> main <==` before the first line of a stream; None before any other."""
        if not line.is_introduced or line.stream is None:
            return None
        pod, _, container = line.stream.partition("/")
        self._pod = self._pod or pod
        return f"==> {container if pod == self._pod else line.stream} <=="


@dataclass(slots=True)
class LogReader:
    """The state of following one log over all connections."""

    _delivered: dict[str, int] = field(default_factory=dict)
    """Bytes of each stream that were read, its partial line included."""
    _partial: dict[str, bytes] = field(default_factory=dict)
    """The beginning of a line whose end has not arrived."""
    _gaps: set[tuple[str, str]] = field(default_factory=set)
    _marker: bytes = b""
    _raw: bytes = b""
    _stream: str = _UNNAMED
    _cursor: dict[str, int] = field(default_factory=dict)
    """Where the current response is in each stream."""
    _lost_name: bool = False
    """Whether the stream that had no name must be found again in this response."""
    _may_use_offset: bool = True
    _early: set[str] = field(default_factory=set)
    """Streams whose last line was yielded before its newline was counted."""
    _is_stream_new: bool = False
    end_reason: str | None = None
    """Why the last response ended before the log did; None if it did not say so."""

    @property
    def offset(self) -> int | None:
        """The offset to ask for in the next response; None: from the start."""
        if not self._may_use_offset or len(self._delivered) != 1:
            return None
        return next(iter(self._delivered.values()))

    @property
    def has_begun(self) -> bool:
        """Whether something was read."""
        return bool(self._delivered)

    def give_up_offset(self) -> None:
        """Continue without an offset: there are several streams."""
        self._may_use_offset = False

    def begin(self, headers: Mapping[str, str]) -> None:
        """Begin with a response."""
        marker = headers.get("x-log-marker", "")
        self._marker = f"{marker} ".encode() if marker else b""
        self._raw, self.end_reason = b"", None
        self._cursor = {}
        self._lost_name = _UNNAMED in self._delivered
        name = headers.get("x-log-stream")
        if name is not None:
            start = headers.get("x-log-offset", "0")
            self._enter(unquote(name), int(start) if start.isdigit() else 0)
            self._is_stream_new = False
        else:
            self._stream = _UNNAMED

    def feed(self, chunk: bytes) -> Iterator[LogLine]:
        """Yield the lines that a chunk completes."""
        raw, start = self._raw + chunk, 0
        while (end := raw.find(_NEWLINE, start)) >= 0:
            if self._is_marked(raw, start):
                yield from self._read_marked(raw[start:end])
            elif end + 1 == len(raw):
                yield from self._deliver_early(raw[start:end])
                start = end
                break
            else:
                is_added = self._is_newline_added(raw, end + 1)
                if is_added is None:
                    break
                yield from self._deliver(raw[start : end if is_added else end + 1])
            start = end + 1
        self._raw = raw[start:]
        if len(self._raw) > MOST_LINE_BYTES and not self._is_marked(self._raw, 0):
            long, self._raw = self._raw, b""
            yield from self._deliver(long)

    def finish(self) -> Iterator[LogLine]:
        """Take what is left when a response ended.

        Nothing of a marked line that broke off, nor a newline before it that may have been added: it comes again.
        """
        raw, self._raw = self._raw, b""
        known = raw.partition(_NEWLINE)[0]
        if known and not self._may_be_marked(raw, 0):
            yield from self._deliver(known)

    def flush(self) -> Iterator[LogLine]:
        """Yield lines without a newline, when the log is complete."""
        for stream, text in self._partial.items():
            if text:
                yield self._make_line(stream, text)
        self._partial = {}

    def _is_marked(self, raw: bytes, start: int) -> bool:
        return bool(self._marker) and raw.startswith(self._marker, start)

    def _may_be_marked(self, raw: bytes, start: int) -> bool:
        """Whether a marked line begins there, or may when the rest has arrived."""
        return bool(self._marker) and self._marker.startswith(raw[start : start + len(self._marker)])

    def _is_newline_added(self, raw: bytes, start: int) -> bool | None:
        """Whether the newline before `start` was added by the server; None if that is not known yet."""
        if not self._may_be_marked(raw, start):
            return False
        end = raw.find(_NEWLINE, start)
        return None if end < 0 else bool(self._parse(raw[start:end]).get("cut"))

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line[len(self._marker) :])
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _read_marked(self, line: bytes) -> Iterator[LogLine]:
        said = self._parse(line)
        if "end" in said:
            self.end_reason = str(said["end"])
        elif "stream" in said:
            self._enter(str(said["stream"]), _to_offset(said.get("offset")))
        elif "gap" in said:
            yield from self._read_gap(said)

    def _read_gap(self, said: Mapping[str, Any]) -> Iterator[LogLine]:
        key = (self._stream, json.dumps(said, sort_keys=True))
        if key in self._gaps:
            return
        self._gaps.add(key)
        text = f"[gap in the log: {said['gap']}, from {said.get('since')} to {said.get('until')}]"
        yield LogLine(text=text, stream=self._stream or None, is_gap=True, is_introduced=self._take_new())

    def _enter(self, stream: str, offset: int) -> None:
        if stream not in self._delivered and self._is_unnamed(offset):
            self._delivered[stream] = self._delivered.pop(_UNNAMED)
            self._partial[stream] = self._partial.pop(_UNNAMED, b"")
            if _UNNAMED in self._early:
                self._early = (self._early - {_UNNAMED}) | {stream}
        self._lost_name = False
        self._is_stream_new = stream != self._stream
        self._stream = stream
        self._cursor[stream] = offset
        self._delivered.setdefault(stream, offset)

    def _is_unnamed(self, offset: int) -> bool:
        """Whether a stream that is named first is the one that had no name.

        It is the first of the run, so the first of a later response; in its own response, it continues where it was,
        while other streams begin at 0.
        """
        return _UNNAMED in self._delivered and (self._lost_name or offset == self._delivered[_UNNAMED] > 0)

    def _deliver_early(self, content: bytes) -> Iterator[LogLine]:
        """Yield a line at once whose newline may not be the stream's: it is counted when more has arrived."""
        yield from self._deliver(content)
        stream = self._stream
        if stream not in self._early and self._cursor[stream] == self._delivered[stream]:
            self._early.add(stream)
            yield self._make_line(stream, self._partial.pop(stream, b""))

    def _deliver(self, content: bytes) -> Iterator[LogLine]:
        """Count bytes of the current stream, skip those that were delivered, and yield a line if one is complete."""
        stream = self._stream
        start = self._cursor.get(stream, 0)
        known = self._delivered.get(stream, start)
        self._cursor[stream] = start + len(content)
        new = content[max(0, known - start) :]
        self._delivered[stream] = max(known, start + len(content))
        if stream in self._early and new:
            self._early.discard(stream)
            new = new.removeprefix(_NEWLINE)
        if not new:
            return
        text = self._partial.pop(stream, b"") + new
        if text.endswith(_NEWLINE):
            yield self._make_line(stream, text[:-1])
        elif len(text) > MOST_LINE_BYTES:
            yield self._make_line(stream, text)
        else:
            self._partial[stream] = text

    def _make_line(self, stream: str, text: bytes) -> LogLine:
        shown = text.decode(errors="replace").removesuffix("\r")
        return LogLine(text=shown, stream=stream or None, is_introduced=self._take_new())

    def _take_new(self) -> bool:
        is_new, self._is_stream_new = self._is_stream_new, False
        return is_new


def _to_offset(given: Any) -> int:
    return given if isinstance(given, int) and given >= 0 else 0
