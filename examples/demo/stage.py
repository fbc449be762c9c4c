"""The server of the demo and everything it starts: in one temporary folder, ended by its processes and files."""

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from examples.demo.console import ROOT, Console, DemoFailed
from runyard.procs import end_leftovers, is_supervised, read_state, request_stop

PREFIX = "runyard-demo-"
START_SECONDS = 60.0
STOP_SECONDS = 15.0
"""How long the server has to end after SIGTERM."""
GRACE_SECONDS = 2.0
"""How long runs have to end after SIGTERM."""
LOG_TAIL_BYTES = 4000
_LISTENS = re.compile(r"^runyard listens on (\S+)$", re.MULTILINE)
RULES = "--profiles examples/rules/profiles --policy examples/rules/policy.yaml"


@dataclass(frozen=True)
class ServerFolder(ABC):
    """The folder of one demo: the data directory of its server, and what the server printed."""

    folder: Path

    @abstractmethod
    def start_server(self, console: Console) -> str:
        """Start the server and what it needs; returns its URL."""

    @abstractmethod
    def end(self) -> list[str]:
        """End the server and every run, and delete the folder; returns what could not be ended. Idempotent."""

    @property
    def netrc(self) -> Path | None:
        """The file with the credentials of the demo's account, as curl reads it; None: the server has no accounts."""
        return None

    @property
    def data(self) -> Path:
        """The data directory of the server."""
        return self.folder / "data"

    def launch_server(self, console: Console, options: str) -> str:
        """Start the server in a session of its own, so that Ctrl-C does not reach it; returns its URL."""
        command = f"runyard server --log-level warning {options}"
        console.show(f"{command} 2> {self.folder}/server.log &")
        with (self.folder / "output").open("wb") as output, (self.folder / "server.log").open("wb") as log:
            server = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                cwd=ROOT,
                env=console.environment,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while (found := _LISTENS.search((self.folder / "output").read_text())) is None:
            if server.poll() is not None or time.monotonic() > deadline:
                raise DemoFailed(f"the server did not start\n{self.read_log_tail()}")
            time.sleep(0.05)
        console.answer(found[0])
        return found[1]

    def read_log_tail(self) -> str:
        """The end of the server's log: warnings and errors."""
        with suppress(OSError):
            return (self.folder / "server.log").read_text(errors="replace")[-LOG_TAIL_BYTES:]
        return ""

    def list_server_processes(self) -> list[str]:
        """The server, if it is still there."""
        return list_processes(self.data, marks=set())

    def end_server(self) -> None:
        """End the server, found by its command line: an interrupt may have come before anybody noted its pid."""
        for pid in _iter_pids():
            with suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                try:
                    if {b"server", str(self.data).encode()} <= set(_read_proc(pid, "cmdline").split(b"\0")):
                        _end_process(pid, descriptor)
                finally:
                    os.close(descriptor)


@dataclass(frozen=True)
class Stage(ServerFolder):
    """A demo of the local engine."""

    @classmethod
    def make(cls) -> "Stage":
        """A new one, in a temporary folder."""
        return cls(Path(tempfile.mkdtemp(prefix=PREFIX)))

    def start_server(self, console: Console) -> str:
        """On loopback."""
        return self.launch_server(console, f"--engine local --port 0 --data {self.data} \\\n  {RULES}")

    def end(self) -> list[str]:
        """By its processes, supervisors and files."""
        self.end_server()
        left = list_processes(self.data, marks=end_runs(self.data))
        shutil.rmtree(self.folder, ignore_errors=True)
        return left + ([f"the folder {self.folder}"] if self.folder.exists() else [])


def end_runs(data: Path) -> set[str]:
    """End all local runs of a data directory whose server is gone; returns the marks of their processes.

    Runs outlive their server, so their supervisors are asked to end them.
    """
    supervisions = list(data.glob("local/runs/*/releases/*/supervision"))
    for folder in supervisions:
        request_stop(folder, grace_seconds=GRACE_SECONDS)
    deadline = time.monotonic() + GRACE_SECONDS + STOP_SECONDS
    while any(is_supervised(folder) for folder in supervisions) and time.monotonic() < deadline:
        time.sleep(0.05)
    for folder in supervisions:
        end_leftovers(folder)
    return {state.mark for folder in supervisions if (state := read_state(folder)) is not None}


def list_processes(data: Path, *, marks: set[str]) -> list[str]:
    """The processes of a data directory: servers, supervisors, and what they supervise."""
    found = []
    needles = {b"RUNYARD_SUPERVISION=" + mark.encode() for mark in marks}
    for pid in _iter_pids():
        words = _read_proc(pid, "cmdline").split(b"\0")
        is_ours = any(word.startswith(f"{data}/local/".encode()) for word in words) or str(data).encode() in words
        if is_ours or needles & set(_read_proc(pid, "environ").split(b"\0")):
            found.append(f"process {pid}: {b' '.join(words).decode(errors='replace').strip()}")
    return found


def find_stage(folder: Path) -> Stage:
    """The demo that `KEEP=1` left in this folder; raises `DemoFailed` if it is not one."""
    if not folder.name.startswith(PREFIX) or not (folder / "server.log").is_file():
        raise DemoFailed(f"{folder} is not the folder of a demo that was kept")
    return Stage(folder.resolve())


def _end_process(pid: int, descriptor: int) -> None:
    """End it, by force if it takes too long; a child is reaped."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        signal.pidfd_send_signal(descriptor, number)
        if select.select([descriptor], [], [], STOP_SECONDS)[0]:  # readable: it has ended
            break
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _iter_pids() -> Iterator[int]:
    """All processes but this one."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            yield int(entry.name)


def _read_proc(pid: int, name: str) -> bytes:
    """A file of /proc; empty if the process is gone or belongs to another user."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
