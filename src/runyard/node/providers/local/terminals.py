"""A pseudo terminal for `kubectl exec -t`."""

import asyncio
import errno
import fcntl
import json
import os
import pty
import struct
import termios
from contextlib import suppress

LARGEST_SIDE = 10_000
"""Columns or rows of a terminal; more are taken for a mistake, and ignored."""


class Terminal:
    """Both ends of a terminal. `open` it, hand `slave` to a process, then `close_slave`; `close` it at the end."""

    def __init__(self, master: int, slave: int) -> None:
        self.slave = slave
        self._master = master
        self._reading: asyncio.ReadTransport | None = None
        self._writing: asyncio.WriteTransport | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.reader = asyncio.StreamReader()
        """What the process prints; ends when nobody has the other end open any more."""

    @classmethod
    async def open(cls) -> "Terminal":
        """A new terminal."""
        terminal = cls(*pty.openpty())
        loop = asyncio.get_running_loop()
        protocol = _TerminalReader(terminal.reader)
        read_end, write_end = (os.fdopen(os.dup(terminal._master), "rb+", 0) for _ in range(2))
        terminal._reading, _ = await loop.connect_read_pipe(lambda: protocol, read_end)
        terminal._writing, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, write_end)
        terminal._writer = asyncio.StreamWriter(terminal._writing, flow, None, loop)
        return terminal

    async def write(self, data: bytes) -> None:
        """Type something; waits while the process does not read."""
        if self._writer is not None:
            self._writer.write(data)
            await self._writer.drain()

    def resize(self, message: bytes) -> None:
        """Take the size of the client's window, as Kubernetes writes it: `{"Width": 80, "Height": 24}`."""
        with suppress(ValueError, TypeError, AttributeError, OSError):
            size = json.loads(message)
            width, height = int(size.get("Width", 0)), int(size.get("Height", 0))
            if 0 < width <= LARGEST_SIDE and 0 < height <= LARGEST_SIDE:
                fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def close_slave(self) -> None:
        """The process has it now: its end is the end of the output."""
        if self.slave >= 0:
            os.close(self.slave)
            self.slave = -1

    def close(self) -> None:
        """Idempotent."""
        self.close_slave()
        for transport in (self._reading, self._writing):
            if transport is not None:
                transport.close()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1


class _TerminalReader(asyncio.StreamReaderProtocol):
    """A terminal that nobody holds any more fails with EIO. A failure would throw away what was read before: an end."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(None if isinstance(exc, OSError) and exc.errno == errno.EIO else exc)
