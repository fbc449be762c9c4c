"""Append-only files of frames. An incomplete frame at the end, left by a crash, is detected.

A frame is a head of fixed size and its content. The heads are the index; a reader skips from one to the next.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from runyard.logs.errors import LogsUnavailable

_HEAD = struct.Struct(">4sQQqqIII")
_MAGIC = b"RyL1"
_FIELDS = struct.Struct(">QQqqI")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A head. `position` is where the content begins in the file; `stored` is its length there."""

    offset: int
    length: int
    first_at: int
    last_at: int
    stored: int
    checksum: int
    position: int

    @property
    def start(self) -> int:
        """The position of its head."""
        return self.position - _HEAD.size

    @property
    def end_position(self) -> int:
        """The position of the next head."""
        return self.position + self.stored


def make_frame(content: bytes, *, offset: int, length: int, first_at: int, last_at: int) -> bytes:
    """Encode a frame."""
    fields = (offset, length, first_at, last_at, len(content))
    head_checksum = zlib.crc32(_FIELDS.pack(*fields))
    return _HEAD.pack(_MAGIC, *fields, zlib.crc32(content), head_checksum) + content


def iter_frames(descriptor: int, *, start: int = 0) -> Iterator[Frame]:
    """The complete frames from a position on, up to the first incomplete one."""
    size = os.fstat(descriptor).st_size
    while start + _HEAD.size <= size:
        magic, *fields, checksum, head_checksum = _HEAD.unpack(os.pread(descriptor, _HEAD.size, start))
        if magic != _MAGIC or zlib.crc32(_FIELDS.pack(*fields)) != head_checksum:
            return
        offset, length, first_at, last_at, stored = fields
        frame = Frame(
            offset=offset,
            length=length,
            first_at=first_at,
            last_at=last_at,
            stored=stored,
            checksum=checksum,
            position=start + _HEAD.size,
        )
        if frame.end_position > size:
            return
        yield frame
        start = frame.end_position


def read_frame(descriptor: int, frame: Frame) -> bytes:
    """The content; raises `LogsUnavailable` if the checksum is wrong."""
    content = os.pread(descriptor, frame.stored, frame.position)
    if zlib.crc32(content) != frame.checksum:
        raise LogsUnavailable("a chunk of a log is damaged: its checksum is wrong")
    return content


def write_frames(descriptor: int, content: bytes, *, position: int) -> None:
    """Write frames at a position and sync them to the disk. On failure the file is truncated to that position."""
    os.ftruncate(descriptor, position)
    try:
        start = 0
        while start < len(content):
            start += os.pwrite(descriptor, content[start:], position + start)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, position)
        raise
