"""Both ends of a relayed stream, as apiservers are: TLS in threads of their own, closed as Go closes it.

Go's TLS sends its `close_notify` and closes the socket at once, whatever the peer has still to say.
"""

import array
import fcntl
import hashlib
import socket
import ssl
import termios
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
_READ_BYTES = 1 << 16
MOST_SECONDS = 60.0


class TlsEnd:
    """One end of a connection. One thread may read while another writes, which Python's SSL sockets do not allow."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, *, host: str | None = None) -> None:
        self._socket = connection
        self._socket.settimeout(MOST_SECONDS)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=host is None, server_hostname=host)
        self._state = threading.Lock()
        self._sending = threading.Lock()
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._incoming.write(self._socket.recv(_READ_BYTES))
        self._flush()

    def read(self) -> bytes:
        """What has come; empty when the peer has closed."""
        while True:
            with self._state:
                try:
                    return self._tls.read(_READ_BYTES)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    return b""
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise ConnectionError("the connection ended without a word")
            with self._state:
                self._incoming.write(data)

    def write(self, data: bytes) -> None:
        with self._sending:
            with self._state:
                self._tls.write(data)
                encrypted = self._outgoing.read()
            self._socket.sendall(encrypted)

    def end_sending(self) -> None:
        """Send `close_notify`, and go on reading."""
        with self._sending, self._state:
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            with suppress(OSError):
                self._socket.sendall(self._outgoing.read())

    def close(self) -> None:
        """As Go does: a thread that reads does not keep the socket open."""
        self.end_sending()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)
        self._socket.close()

    def reset(self) -> None:
        """End without a word, as a process that is killed with unread bytes; what it has sent is received before."""
        unsent = array.array("i", [1])
        while unsent[0]:
            fcntl.ioctl(self._socket, termios.TIOCOUTQ, unsent)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._socket.close()

    def _flush(self) -> None:
        if encrypted := self._outgoing.read():
            self._socket.sendall(encrypted)


@dataclass
class Received:
    """What an end was sent."""

    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    size_bytes: int = 0
    end: str = ""
    """`closed`, or why it ended otherwise."""
    _more: threading.Condition = field(default_factory=threading.Condition)

    def take(self, data: bytes) -> None:
        with self._more:
            self.digest.update(data)
            self.size_bytes += len(data)
            self._more.notify_all()

    def wait_for(self, size_bytes: int) -> None:
        """Return when so much has come; TimeoutError if it does not."""
        with self._more:
            if not self._more.wait_for(lambda: self.size_bytes >= size_bytes, MOST_SECONDS):
                raise TimeoutError(f"{self.size_bytes} of {size_bytes} bytes came")


def read_all(end: TlsEnd, received: Received, *, pause_seconds: float = 0.0) -> None:
    """Read to the end, with a pause after each read."""
    try:
        while data := end.read():
            received.take(data)
            time.sleep(pause_seconds)
        received.end = "closed"
    except (OSError, ValueError) as error:
        received.end = f"{type(error).__name__}: {error}"


def read_head(end: TlsEnd) -> tuple[bytes, bytes]:
    """The head of a request or an answer, and what came behind it."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = end.read()
        if not more:
            raise ConnectionError("no head came")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest
