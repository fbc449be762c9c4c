"""The state file of a supervision, and the news of its changes."""

from __future__ import annotations

import _socket
import errno
import os

from runyard.procs.supervisor.light import render_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from runyard.procs.supervisor.poll_loop import PollLoop

MOST_LISTENERS = 64
"""How many sockets hear of a change."""
_RETRY_SECONDS = 1.0
_RESEND_SECONDS = 0.05
_MOST_RESENDS = 200


class Record:
    """Writes the state atomically. A disk that is full is tried again: it never harms what is supervised."""

    def __init__(self, folder: str, listeners: str, state: dict[str, Any], loop: PollLoop) -> None:
        self.state = state
        self.is_gone = False
        """The folder of the supervision was removed."""
        self._path = f"{folder}/state.json"
        self._loop = loop
        self._news = News(folder, listeners, loop)
        self._is_behind = False

    def save(self, **changes: object) -> None:
        """Change the state, write it and tell the listeners."""
        self.state.update(changes)
        self.state["version"] += 1
        self._write()

    def flush(self) -> None:
        """Wait until the newest state is on disk."""
        self._loop.run_until(lambda: not self._is_behind)

    def finish(self) -> None:
        """Wait until the newest state is on disk and the listeners were told."""
        self.flush()
        self._loop.run_until(lambda: not self._news.is_behind, seconds=2)

    def _write(self) -> None:
        try:
            with open(f"{self._path}.new", "wb") as file:
                file.write(render_json(self.state).encode())
            os.rename(f"{self._path}.new", self._path)
        except OSError as error:
            # A folder that was removed is wanted by nobody any more.
            self.is_gone = error.errno == errno.ENOENT
            if not self.is_gone and not self._is_behind:
                self._loop.call_later(_RETRY_SECONDS, self._retry)
            self._is_behind = not self.is_gone
        else:
            self._is_behind = False
            self._news.send()

    def _retry(self) -> None:
        self._is_behind = False
        self._write()


class News:
    """Sends the path of the folder to every socket among the listeners, again where a queue is full."""

    def __init__(self, folder: str, listeners: str, loop: PollLoop) -> None:
        self._content = os.fsencode(folder)
        self._listeners = listeners
        self._loop = loop
        self._resends = 0
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK)
        self.is_behind = False

    def send(self) -> None:
        """Tell everybody who listens now; never waits."""
        self._loop.cancel(self._resend)
        self._resends = 0
        self._send()

    def _resend(self) -> None:
        self._resends += 1
        self._send()

    def _send(self) -> None:
        self.is_behind = False
        is_full = send_news(self._socket, self._content, self._listeners)
        if is_full and self._resends < _MOST_RESENDS:
            self.is_behind = True
            self._loop.call_later(_RESEND_SECONDS, self._resend)


def send_news(sender: _socket.socket, content: bytes, listeners: str, *, but: str | None = None) -> bool:
    """Send to every socket among the listeners, but for one name; return whether a queue is full. Never waits.

    A socket that a killed process left is removed.
    """
    try:
        # The address of a socket has at most 107 bytes; a path through a descriptor is short whatever the folder.
        directory = os.open(listeners, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        names = [name for name in os.listdir(directory) if name.endswith(".sock") and name != but]
        is_full = [_send_to(sender, content, directory, name) for name in names[:MOST_LISTENERS]]
    finally:
        os.close(directory)
    return any(is_full)


def _send_to(sender: _socket.socket, content: bytes, directory: int, name: str) -> bool:
    """Return whether the socket's queue is full."""
    try:
        sender.sendto(content, f"/proc/self/fd/{directory}/{name}")
    except BlockingIOError:
        return True
    except ConnectionRefusedError:
        _unlink(directory, name)  # Left by a process that was killed.
    except OSError:
        pass
    return False


def _unlink(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:
        pass
