"""Hears of changes: supervisors send the path of their folder to every listener, and their death is news too.

Whoever changes something itself sends such news with `tell_listeners`.
"""

import asyncio
import contextlib
import os
import secrets
import socket
from pathlib import Path

from runyard.procs.state import read_state
from runyard.procs.supervisor.process_tree import find_start_time
from runyard.procs.supervisor.record import send_news

MOST_PENDING = 10_000
"""Folders with news that wait to be read; more of them are one `None`: look at everything."""
LONGEST_PATH_BYTES = 4096
"""Of a folder's path, as PATH_MAX of Linux: the size of a datagram."""


class Listener:
    """A datagram socket in `folder`, read by iteration: `async for supervision in listener`.

    Yields the folder of a supervision whose state has changed or whose supervisor has died; news of one folder that
    were not read yet are one. Yields None if news may have been missed. Open it in the event loop that reads it.
    """

    def __init__(self, folder: Path) -> None:
        self._pending: dict[Path | None, None] = {}
        self._has_news = asyncio.Event()
        self._watched: dict[Path, int] = {}
        self._loop = asyncio.get_running_loop()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{secrets.token_hex(8)}.sock"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._bind(folder)
        except OSError:
            self._socket.close()
            raise
        self._loop.add_reader(self._socket.fileno(), self._receive)

    @property
    def name(self) -> str:
        """The name of its socket among the listeners."""
        return self._path.name

    def watch(self, folder: Path, *, pid: int | None = None) -> bool:
        """Report the death of the folder's supervisor; False if there is none to watch (any more): look at it now.

        Give the `pid` that `start` returned; without it the state says which process it is. Idempotent.
        """
        if folder in self._watched:
            return True
        state = None if pid is not None else read_state(folder)
        number = pid if state is None else state.supervisor_pid
        if number is None:
            return False
        try:
            descriptor = os.pidfd_open(number)
        except OSError:
            return False
        # The start time is compared after the pidfd is held: from then on the pid cannot be reused unnoticed.
        if state is not None and find_start_time(number) != state.supervisor_start_time:
            os.close(descriptor)
            return False
        self._watched[folder] = descriptor
        self._loop.add_reader(descriptor, self._report_death, folder)
        return True

    def __aiter__(self) -> "Listener":
        return self

    async def __anext__(self) -> Path | None:
        while not self._pending:
            self._has_news.clear()
            await self._has_news.wait()
        folder = next(iter(self._pending))
        del self._pending[folder]
        return folder

    def close(self) -> None:
        """Stop listening and remove the socket. Supervisors are not affected. Idempotent."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._path.unlink(missing_ok=True)
        for folder in list(self._watched):
            self._forget(folder)

    def _bind(self, folder: Path) -> None:
        # The address of a socket has at most 107 bytes; a path through a descriptor is short whatever the folder.
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._socket.bind(f"/proc/self/fd/{descriptor}/{self._path.name}")
        finally:
            os.close(descriptor)

    def _receive(self) -> None:
        # Bounded: other readers of the event loop get their turn, and the loop calls again while data is there.
        for _ in range(100):
            try:
                content = self._socket.recv(LONGEST_PATH_BYTES)
            except OSError:
                return
            self._add(Path(os.fsdecode(content)))

    def _report_death(self, folder: Path) -> None:
        with contextlib.suppress(ChildProcessError, KeyError):
            os.waitid(os.P_PIDFD, self._watched[folder], os.WEXITED | os.WNOHANG)
        self._forget(folder)
        self._add(folder)

    def _forget(self, folder: Path) -> None:
        descriptor = self._watched.pop(folder)
        self._loop.remove_reader(descriptor)
        os.close(descriptor)

    def _add(self, folder: Path) -> None:
        self._pending[folder if len(self._pending) < MOST_PENDING else None] = None
        self._has_news.set()


def tell_listeners(listeners: Path, folder: Path, *, but: str | None = None) -> None:
    """Send the path of a folder to every listener, but for the one of this name, as supervisors do. Never waits.

    A full queue is no loss: a listener that has not read it all looks at everything.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        send_news(sender, os.fsencode(folder), str(listeners), but=but)
