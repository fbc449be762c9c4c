"""Runs Python programs as forks of one process that has their imports done.

To start Python with all of Runyard takes a second of processor time, a fork a few milliseconds; tests start hundreds. A
fork has arguments, environment, directory and standard streams of its own, and leaves as any program does. What is
about the start of a program itself is tested without this.

`ForkServer` starts `python -m tests.fork_server`, which needs nothing but the standard library. It ends with the
process that started it, as do programs that still run then.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parents[1]
_STREAMS = 3
_PR_SET_PDEATHSIG = 1


class ForkedProcess:
    """A program that runs; what tests use of `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], status: int) -> None:
        self.args = arguments
        self.returncode: int | None = None
        self._status, self._lock, said = status, threading.Lock(), b""
        while not said.endswith(b"\n"):
            said += os.read(status, 1) or _fail("the fork server died")
        self.pid = int(said)
        os.set_blocking(status, False)

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        with self._lock:
            if self.returncode is None:
                try:
                    said = os.read(self._status, 64) or _fail("the fork server died")
                except BlockingIOError:
                    return None
                self.returncode = int(said)
                os.close(self._status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has."""
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            # Not for long: another thread may have read the end of it.
            select.select([self._status], [], [], min(0.2, left or 0.2))
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """Starts programs. `warm_up` and `entry` are functions, as `module:name`; the entry returns the exit code."""

    def __init__(
        self, *, warm_up: str, python: Path = Path(sys.executable), environment: Mapping[str, str] | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._connection, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [str(python), "-m", "tests.fork_server", str(theirs.fileno()), warm_up],
            stdin=subprocess.DEVNULL,
            env={**(os.environ if environment is None else environment), "PYTHONUNBUFFERED": "1"},
            cwd=_ROOT,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        atexit.register(self.close)

    def start(
        self,
        entry: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdin: IO[Any],
        stdout: IO[Any],
        stderr: IO[Any],
        folder: Path | None = None,
    ) -> ForkedProcess:
        """Start a program in a folder, this process's own unless told otherwise."""
        asked = {"entry": entry, "argv": list(argv), "environment": dict(environment)}
        request = json.dumps({**asked, "folder": str(folder or Path.cwd())}).encode()
        reading, writing = os.pipe()
        descriptors = [*(stream.fileno() for stream in (stdin, stdout, stderr)), writing]
        with self._lock:
            socket.send_fds(self._connection, [len(request).to_bytes(8, "big")], descriptors)
            self._connection.sendall(request)
        os.close(writing)
        return ForkedProcess(argv, reading)

    def close(self) -> None:
        """End it and all that it started. Idempotent."""
        self._connection.close()
        self._process.wait()


def _fail(message: str) -> bytes:
    raise RuntimeError(message)


def serve(connection: socket.socket) -> str:
    """Fork for every request until the connection ends. Returns in the forks only: the entry that was asked for."""
    woken, wakes = os.pipe()
    for descriptor in (woken, wakes):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    statuses: dict[int, int] = {}
    parent = os.getpid()
    while True:
        ready, _, _ = select.select([connection.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(statuses)
        if connection.fileno() not in ready:
            continue
        size, descriptors, _, _ = socket.recv_fds(connection, 8, _STREAMS + 1)
        if not size:
            os._exit(0)
        asked = json.loads(_receive(connection, int.from_bytes(size, "big")))
        process_id = os.fork()
        if process_id == 0:
            return _become(asked, descriptors, parent=parent)
        for descriptor in descriptors[:_STREAMS]:
            os.close(descriptor)
        statuses[process_id] = descriptors[_STREAMS]
        os.write(descriptors[_STREAMS], f"{process_id}\n".encode())


def _reap(statuses: dict[int, int]) -> None:
    for process_id in list(statuses):
        found, status = os.waitpid(process_id, os.WNOHANG)
        if found:
            descriptor = statuses.pop(process_id)
            os.write(descriptor, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(descriptor)


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        received += connection.recv(size - len(received)) or _fail("half a request")
    return received


def _become(asked: dict[str, Any], descriptors: Sequence[int], *, parent: int) -> str:
    """Take over the streams, the environment and the directory; nothing of the fork server stays open."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was asked to tell of that
        os._exit(1)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, descriptor in enumerate(descriptors[:_STREAMS]):
        os.dup2(descriptor, number)
    os.closerange(_STREAMS, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = asked["argv"]
    return str(asked["entry"])


def _find_function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _run(entry: str) -> int:
    """Call a function that returns its exit code or raises; returns the exit code that Python would have."""
    try:
        return _find_function(entry)() or 0
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)  # noqa: T201 - as Python does
        return 1
    except BaseException:  # noqa: BLE001 - whatever it is, only its output can say it
        traceback.print_exc()
        return 1


def _leave(code: int) -> None:
    """End as multiprocessing ends its forks: threads and exit functions come to their end, the memory just goes.

    Python would take apart every module first, which costs more processor time than most commands.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _find_function(sys.argv[2])()
    gc.collect()
    gc.freeze()
    _leave(_run(serve(socket.socket(fileno=int(sys.argv[1])))))
