"""From a log's bytes to its lines, and how far one has read. Pure.

The log is always asked for with `timestamps=true`. So every line of it begins with the moment it was written, and what
does not is not of the log: it is the kubelet speaking. A program that prints the kubelet's words gets a timestamp in
front of them like everybody else.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from runyard.kube.streams.errors import LogsUnavailable, LogsUnwatched, shorten

# A program may write without ever ending a line: longer ones come in pieces of this size.
MAX_LINE_BYTES = 1 << 20

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
# The same without groups, after the newline of the line before: `split` then takes the stamps off in one pass.
_LINE_START = re.compile(rb"\n\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) ")
_LONGEST_STAMP_BYTES = 40
_PART_OF_STAMP = re.compile(rb"\d[-+\dT:.Z]{0,34}")
_POSITION = re.compile(r"([0-9]{1,10})\.([0-9]{1,20})\.([0-9]{1,20})\.([!-~]{0,256})")
_GONE = b"unable to retrieve container logs for "
_NO_WATCHER = b"failed to create fsnotify watcher"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One line of a log, without its newline."""

    written_ns: int
    """When the line was begun: nanoseconds since 1970 by the node's clock. Neither unique nor strictly rising."""
    text: bytes
    is_complete: bool = True
    """False for a piece (the next line goes on with the same moment) and for what was read of a line that was cut."""

    @property
    def written_at(self) -> datetime:
        """The moment it was begun, to the microsecond."""
        return _EPOCH + timedelta(microseconds=self.written_ns // 1000)


class LogBlock(msgspec.Struct, frozen=True, gc=False):
    """Lines of a log that came together: the program's bytes, newlines included."""

    content: bytes
    written_ns: int
    """When the last line was begun."""
    count: int
    """How many lines at its end were begun at that moment."""
    is_one_moment: bool
    """Whether all of its lines were."""
    is_cut: bool = False
    """Whether it is what was read of a line that was cut: not a line yet, and to be read again."""
    skipped_since_ns: int | None = None
    """The moment of the line before, if lines may be missing between the two; see `rotation`."""
    lines: tuple[LogLine, ...] = ()
    """Empty if `raw` has them."""
    raw: bytes = b""

    @classmethod
    def join(cls, lines: Sequence[LogLine], *, is_cut: bool = False, skipped_since_ns: int | None = None) -> "LogBlock":
        """The block of some lines, at least one."""
        content = b"".join([line.text + b"\n" if line.is_complete else line.text for line in lines])
        written_ns, count = lines[-1].written_ns, 0
        for line in reversed(lines):
            if line.written_ns != written_ns:
                break
            count += 1
        return cls(content, written_ns, count, count == len(lines), is_cut, skipped_since_ns, tuple(lines))

    def split(self) -> Sequence[LogLine]:
        """Its lines."""
        return self.lines or LineParser(is_since=False).feed(self.raw)

    @property
    def written_at(self) -> datetime:
        """When the last line was begun, to the microsecond."""
        return _EPOCH + timedelta(microseconds=self.written_ns // 1000)


class LogPosition(msgspec.Struct, frozen=True, gc=False):
    """How far the log of one container instance was read: up to the `count`-th line stamped `written_ns`.

    Kubernetes can only be asked for whole seconds, and two outputs may write at the same moment or in each other's
    past: so a log is taken up again by finding the last line, never by comparing moments or texts.
    The instance is named by its container ID, so that a restarted container is not taken for a rotated log. `str`
    makes a text of it, and `parse` reads it.
    """

    written_ns: int
    count: int
    """0: nothing of the instance was read yet."""
    container_id: str = ""
    """Empty: whichever instance is the newest."""
    restart_count: int = 0

    @classmethod
    def after(cls, line: LogLine, position: "LogPosition | None") -> "LogPosition | None":
        """The position after a line that was read at `position`; a line that was cut is to be read again."""
        if not line.is_complete and len(line.text) < MAX_LINE_BYTES:
            return position
        if position is None:
            return cls(line.written_ns, 1)
        count = position.count + 1 if position.count and position.written_ns == line.written_ns else 1
        return cls(line.written_ns, count, position.container_id, position.restart_count)

    def behind(self, block: LogBlock) -> "LogPosition":
        """The position after a block that was read at this one."""
        is_same = block.is_one_moment and self.count and self.written_ns == block.written_ns
        count = self.count + block.count if is_same else block.count
        return LogPosition(block.written_ns, count, self.container_id, self.restart_count)

    def __str__(self) -> str:
        return f"{self.restart_count}.{self.written_ns}.{self.count}.{self.container_id}"

    @classmethod
    def parse(cls, text: str) -> "LogPosition":
        """The position of which `text` was made; ValueError for anything else."""
        match = _POSITION.fullmatch(text)
        if match is None:
            raise ValueError(f"not a position in a log: {text[:80]!r}")
        restart_count, written_ns, count, container_id = match.groups()
        return cls(int(written_ns), int(count), container_id, int(restart_count))


class LineParser:
    """Takes bytes in the order they come and gives lines; long ones are cut at the same places on every reading."""

    def __init__(self, *, is_since: bool) -> None:
        self._may_begin_headless = is_since
        self._rest = b""
        self._begun_ns: int | None = None
        self._complaint: bytes | None = None

    def feed(self, data: bytes) -> list[LogLine]:
        """The lines that are known to be such now; call `check` when they were used."""
        raw_lines = (self._rest + data).split(b"\n")
        self._rest = raw_lines.pop()
        lines: list[LogLine] = []
        for raw in raw_lines:
            self._take(raw, lines, is_complete=True)
        if len(self._rest) > MAX_LINE_BYTES:
            self._take(self._rest, lines, is_complete=False)
        return lines

    def feed_block(self, data: bytes) -> LogBlock | None:
        """As `feed`, as one block. Several times as fast where all is whole lines, as nearly always."""
        joined = self._rest + data if self._rest else data
        end = joined.rfind(b"\n") + 1
        if end and self._begun_ns is None and self._complaint is None and len(joined) <= MAX_LINE_BYTES:
            block = _strip_stamps(joined[:end])
            if block is not None:
                self._rest = joined[end:]
                self._may_begin_headless = False
                return block
        lines = self.feed(data)
        return LogBlock.join(lines) if lines else None

    def check(self) -> None:
        """Raise LogsUnavailable or LogsUnwatched if the kubelet sent a message in place of a line."""
        if self._complaint is not None:
            message = shorten(self._complaint.decode(errors="replace"))
            raise LogsUnwatched(message) if self._complaint.startswith(_NO_WATCHER) else LogsUnavailable(message)

    def end(self) -> None:
        """Mark the end of the answer: a rest without a timestamp is then a message of the kubelet."""
        if self._rest and self.cut_line() is None and not _PART_OF_STAMP.fullmatch(self._rest):
            self._complaint = self._rest
        self.check()

    def cut_line(self) -> LogLine | None:
        """What is there of a line that has no end yet."""
        if not self._rest:
            return None
        if self._begun_ns is not None:
            return LogLine(self._begun_ns, self._rest, is_complete=False)
        stamp = _parse_stamp(self._rest)
        return LogLine(stamp[0], self._rest[stamp[1] :], is_complete=False) if stamp else None

    def _take(self, raw: bytes, lines: list[LogLine], *, is_complete: bool) -> None:
        if self._complaint is not None:
            return
        written_ns, start = self._begun_ns, 0
        if written_ns is None:
            stamp = _parse_stamp(raw)
            if stamp is None:
                self._take_unstamped(raw, is_complete=is_complete)
                return
            written_ns, start = stamp
        while len(raw) - start > MAX_LINE_BYTES:
            lines.append(LogLine(written_ns, raw[start : start + MAX_LINE_BYTES], is_complete=False))
            start += MAX_LINE_BYTES
        self._may_begin_headless = False
        if is_complete:
            lines.append(LogLine(written_ns, raw[start:]))
            self._begun_ns = None
        else:
            self._begun_ns, self._rest = written_ns, raw[start:]

    def _take_unstamped(self, raw: bytes, *, is_complete: bool) -> None:
        if not self._may_begin_headless or raw.startswith(_GONE):
            self._complaint = raw
        # Asked for lines since a moment, the kubelet also sends the end of a long one begun before: not asked for.
        elif is_complete:
            self._may_begin_headless = False
        else:
            self._rest = b""


def _strip_stamps(raw: bytes) -> LogBlock | None:
    """The block of some whole lines; None if one of them does not begin with a timestamp."""
    before, *texts = _LINE_START.split(b"\n" + raw)
    if before or len(texts) != raw.count(b"\n"):
        return None
    start = raw.rfind(b"\n", 0, -1) + 1
    stamp = _parse_stamp(raw[start : start + _LONGEST_STAMP_BYTES])
    if stamp is None:
        return None
    written_ns, stamp_bytes = stamp
    count, prefix = 1, raw[start : start + stamp_bytes]
    while start and raw.startswith(prefix, start := raw.rfind(b"\n", 0, start - 1) + 1):
        count += 1
    return LogBlock(b"\n".join(texts), written_ns, count, count == len(texts), raw=raw)


def _parse_stamp(raw: bytes) -> tuple[int, int] | None:
    """The moment in nanoseconds and where the text begins, or None where there is no timestamp."""
    match = _STAMP.match(raw)
    if match is None:
        return None
    second, fraction, zone = match.groups(b"")
    try:
        return _epoch_seconds(second, zone) * 1_000_000_000 + int(fraction.ljust(9, b"0")), match.end()
    except ValueError:
        return None  # It looks like a date and is none.


@lru_cache(maxsize=256)
def _epoch_seconds(second: bytes, zone: bytes) -> int:
    # Most lines share their second with the line before.
    return int(datetime.fromisoformat((second + zone).decode()).timestamp())
