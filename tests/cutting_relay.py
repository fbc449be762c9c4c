"""A TCP relay that counts the bytes sent to a server, and cuts connections after chosen numbers of them."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(slots=True)
class CuttingRelay:
    """Listens at `url`; `sent` bytes went to the server, and `cuts` connections were cut."""

    target: int
    cut_at: list[int]
    """Numbers of bytes, growing, at which the connection that sends is cut."""
    url: str = ""
    sent: int = 0
    cuts: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            with server:
                threading.Thread(target=_copy_down, args=(server, client), daemon=True).start()
                with suppress(OSError):
                    while (chunk := client.recv(1 << 16)) and not self._is_cut(chunk):
                        server.sendall(chunk)
                for each in (server, client):
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)

    def _is_cut(self, chunk: bytes) -> bool:
        with self._lock:
            self.sent += len(chunk)
            if not self.cut_at or self.sent < self.cut_at[0]:
                return False
            self.cut_at.pop(0)
            self.cuts += 1
            return True


def _copy_down(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while chunk := server.recv(1 << 16):
            client.sendall(chunk)
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


@contextmanager
def open_relay(target: int, *, cut_at: Sequence[int] = ()) -> Iterator[CuttingRelay]:
    """A relay to a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = CuttingRelay(target, list(cut_at), url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        threading.Thread(target=relay.serve, args=(listener,), daemon=True).start()
        yield relay
        listener.shutdown(socket.SHUT_RDWR)
