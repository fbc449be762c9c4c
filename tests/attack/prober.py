"""Asks `/healthz` again and again, in a process of its own: `python -m tests.attack.prober HOST PORT`.

For each line on standard input it prints the longest wait since the last one, in seconds. `Prober` is the other end.
"""

import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

PAUSE_SECONDS = 0.003
_TIMEOUT_SECONDS = 600.0


class Prober:
    """The process that asks, and its longest wait."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attack.prober", str(address.hostname), str(address.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> float:
        """The longest wait since the last call, in seconds; a request under way counts as far as it has waited."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


class _Waits:
    """The longest wait, kept by the thread that asks and read by the one that answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._longest = 0.0
        self._since: float | None = None

    def begin(self) -> None:
        with self._lock:
            self._since = time.monotonic()

    def end(self) -> None:
        with self._lock:
            assert self._since is not None
            self._longest = max(self._longest, time.monotonic() - self._since)
            self._since = None

    def take(self) -> float:
        with self._lock:
            under_way = 0.0 if self._since is None else time.monotonic() - self._since
            longest, self._longest = max(self._longest, under_way), 0.0
            return longest


def _ask(host: str, port: int, waits: _Waits) -> None:
    request = f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    with socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS) as connection:
        while True:
            waits.begin()
            connection.sendall(request)
            answer = b""
            while not answer.endswith(b"}"):
                answer += (part := connection.recv(65536))
                if not part:
                    raise ConnectionError("the server closed the connection of the prober")
            waits.end()
            time.sleep(PAUSE_SECONDS)


def main() -> None:
    """Ask until standard input ends."""
    waits = _Waits()
    threading.Thread(target=_ask, args=(sys.argv[1], int(sys.argv[2]), waits), daemon=True).start()
    for _ in sys.stdin:
        sys.stdout.write(f"{waits.take()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
