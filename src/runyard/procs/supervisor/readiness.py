"""Asks a service on the loopback address whether it is ready, by TCP or HTTP, without waiting for it."""

from __future__ import annotations

import _socket
import errno
import select

from runyard.procs.supervisor.process_tree import read_kernel_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from runyard.procs.supervisor.poll_loop import PollLoop

LARGEST_ANSWER_BYTES = 1024
"""How much of an answer is read: its status line is at the beginning."""
LARGEST_SOCKETS_BYTES = 4 << 20
"""How much of the list of sockets is read to know whose service answers."""
_ADDRESS = "127.0.0.1"
_LISTENING = b"0A"


class Probe:
    """Asks every period, and reports when the answer has changed often enough."""

    def __init__(
        self,
        readiness: dict[str, Any],
        port: int,
        loop: PollLoop,
        report: Callable[[bool], None],
        *,
        owner: int | None = None,
    ) -> None:
        """`owner` is the user whose service it is; None: anybody's."""
        self._readiness = readiness
        self._owner = owner
        self._port = port
        self._loop = loop
        self._report = report
        self._socket: _socket.socket | None = None
        self._answer = b""
        self._is_ready = False
        self._streak = 0
        loop.call_later(readiness["initial_delay_seconds"], self._ask)

    def close(self) -> None:
        """Ask no more."""
        self._drop()
        for callback in (self._ask, self._give_up):
            self._loop.cancel(callback)

    def _ask(self) -> None:
        self._loop.call_later(max(0.1, self._readiness["period_seconds"]), self._ask)
        self._drop()
        self._answer = b""
        self._socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
        code = self._socket.connect_ex((_ADDRESS, self._port))
        if code not in (0, errno.EINPROGRESS):
            self._conclude(is_success=False)
            return
        self._loop.call_later(self._readiness["timeout_seconds"], self._give_up)
        self._loop.add(self._socket.fileno(), self._connected, select.POLLOUT)

    def _connected(self) -> None:
        connection = self._socket
        if connection is None:
            return
        # Without a listener, TCP may connect a socket in the range of ephemeral ports to itself.
        is_open = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR) == 0
        if not is_open or connection.getsockname() == connection.getpeername():
            self._conclude(is_success=False)
        elif self._readiness["path"] is None:
            self._conclude(is_success=True)
        else:
            self._send_request(connection)

    def _send_request(self, connection: _socket.socket) -> None:
        head = f"GET {self._readiness['path']} HTTP/1.1\r\nHost: {_ADDRESS}:{self._port}\r\nConnection: close\r\n\r\n"
        try:
            connection.send(head.encode())
        except OSError:
            self._conclude(is_success=False)
            return
        self._loop.remove(connection.fileno())
        self._loop.add(connection.fileno(), self._receive)

    def _receive(self) -> None:
        connection = self._socket
        if connection is None:
            return
        try:
            content = connection.recv(LARGEST_ANSWER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        self._answer += content
        if not content or b"\n" in self._answer or len(self._answer) >= LARGEST_ANSWER_BYTES:
            fields = self._answer.split(None, 2)
            is_http = len(fields) >= 2 and fields[0].startswith(b"HTTP/1.") and fields[1].isdigit()
            self._conclude(is_success=is_http and 200 <= int(fields[1]) < 400)

    def _give_up(self) -> None:
        if self._socket is not None:
            self._conclude(is_success=False)

    def _conclude(self, *, is_success: bool) -> None:
        self._drop()
        if is_success and not self._is_ready and self._owner is not None:
            # Another user's program may have taken the port between its choice and the start of the service.
            is_success = is_listener_of(self._owner, self._port)
        if is_success == self._is_ready:
            self._streak = 0
            return
        self._streak += 1
        name = "success_threshold" if is_success else "failure_threshold"
        if self._streak >= self._readiness[name]:
            self._is_ready = is_success
            self._streak = 0
            self._report(is_success)

    def _drop(self) -> None:
        self._loop.cancel(self._give_up)
        if self._socket is not None:
            self._loop.remove(self._socket.fileno())
            self._socket.close()
            self._socket = None


def is_listener_of(user: int, port: int) -> bool:
    """Whether a socket of this user listens on the port; True if the machine does not tell."""
    owners = {owner for name in ("tcp", "tcp6") for owner in _list_owners(f"/proc/net/{name}", port)}
    return not owners or user in owners


def _list_owners(path: str, port: int) -> list[int]:
    """Return the users of listening sockets, from lines such as `0: 0100007F:1F90 00000000:0000 0A … uid …`."""
    found = []
    for line in read_kernel_file(path, LARGEST_SOCKETS_BYTES).splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[3] == _LISTENING and fields[1].endswith(b":%04X" % port):
            found.append(int(fields[7]))
    return found
