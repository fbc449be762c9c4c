"""The output of an instance: from its pipe into its log file by splice, without a copy through Python."""

from __future__ import annotations

import errno
import fcntl
import os

CHUNK_BYTES = 1 << 20
_COPY_BYTES = 1 << 16
_DRAIN_ROUNDS = 4
MOST_CHUNKS = 16
"""Chunks that are moved before other events have their turn."""
_F_SETPIPE_SZ = 1031


class Output:
    """Moves bytes until the limit, then drops and counts them: a command never waits for its log."""

    def __init__(self, path: str, *, limit: int | None) -> None:
        self.written = 0
        self.dropped = 0
        self.is_closed = False
        self._is_copied = False
        self._limit = limit
        self._log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reader, False)
        try:
            fcntl.fcntl(self.reader, _F_SETPIPE_SZ, CHUNK_BYTES)
        except OSError:
            pass  # More than /proc/sys/fs/pipe-max-size, or too many pipes of this user: slower, not wrong.

    def pump(self) -> bool:
        """Move what is there, a bounded amount; False at the end of the output."""
        for _ in range(MOST_CHUNKS):
            try:
                if self._move() == 0:
                    return False
            except BlockingIOError:
                return True
        return True

    def drain(self) -> None:
        """Move everything that is in the pipe. Whoever still holds its other end may write no more than it holds."""
        for _ in range(_DRAIN_ROUNDS):
            if not self.pump():
                return

    def close(self) -> None:
        """Close everything; a process that still writes gets SIGPIPE."""
        for descriptor in (self.reader, self._log, self._null):
            os.close(descriptor)
        self.is_closed = True

    def _move(self) -> int:
        room = CHUNK_BYTES if self._limit is None else min(CHUNK_BYTES, self._limit - self.written)
        if room > 0:
            try:
                moved = self._splice_or_copy(room)
            except BlockingIOError:
                raise
            except OSError:
                pass  # The disk is full, or the file as large as it may be: the bytes are still in the pipe.
            else:
                self.written += moved
                return moved
        moved = os.splice(self.reader, self._null, CHUNK_BYTES)
        self.dropped += moved
        return moved

    def _splice_or_copy(self, room: int) -> int:
        if not self._is_copied:
            try:
                return os.splice(self.reader, self._log, room)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._is_copied = True  # The file system of the log cannot splice.
        content = os.read(self.reader, min(room, _COPY_BYTES))
        try:
            return os.write(self._log, content) if content else 0
        except OSError:
            self.dropped += len(content)
            raise
