"""The outside of a supervisor: start one, talk to it, end it by the pid that it was given."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import TestbedError
from testbed.supervisor import CONTROL_SOCKET, IDENTITY_FILE, process_start_ticks

PROJECT_ROOT = Path(__file__).resolve().parent.parent
_LAST_LINES = 12


@dataclass(frozen=True)
class Component:
    """What is known of one process of a cluster."""

    name: str
    pid: int
    exit_code: int | None
    was_stopped: bool

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    @property
    def has_died(self) -> bool:
        """Ended although nobody asked it to."""
        return self.exit_code is not None and not self.was_stopped


class SupervisorHandle:
    """A cluster's supervisor as seen from this machine's own namespaces."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # The writing end of the supervisor's standard input. A bare descriptor: it is to stay open until
        # `detach`, `kill` or the end of this process, whatever becomes of this object.
        self._leash: int | None = None

    @property
    def pid(self) -> int | None:
        """The pid of a supervisor that lives; None where there is none, or the pid went to someone else."""
        try:
            identity = json.loads((self._directory / IDENTITY_FILE).read_text())
        except (OSError, ValueError):
            return None
        pid, start_ticks = int(identity["pid"]), identity["start_ticks"]
        return pid if start_ticks is not None and process_start_ticks(pid) == start_ticks else None

    def spawn(self) -> int:
        """Start a supervisor that lives as long as this process, until `detach`."""
        log_path = self._directory / "logs" / "supervisor.log"
        reading, self._leash = os.pipe()
        with log_path.open("ab") as log, os.fdopen(reading) as stdin:
            starter = subprocess.run(
                [sys.executable, "-m", "testbed.supervisor", str(self._directory)],
                stdin=stdin,
                stdout=log,
                stderr=log,
                cwd=PROJECT_ROOT,
                env=environment_without_proxies(),
                start_new_session=True,
                timeout=30,
                check=False,
            )
        if starter.returncode != 0:
            raise TestbedError(f"no namespaces could be made on this machine: {last_lines(log_path, count=1)}")
        deadline = time.monotonic() + 10
        while not (self._directory / CONTROL_SOCKET).exists():
            if self.pid is None or time.monotonic() > deadline:
                raise TestbedError(f"the supervisor did not start: {last_lines(log_path, count=3)}")
            time.sleep(0.02)
        pid = self.pid
        if pid is None:
            raise TestbedError(f"the supervisor did not start: {last_lines(log_path, count=3)}")
        return pid

    def detach(self) -> None:
        """Let the supervisor live on after this process."""
        if self._leash is not None:
            os.write(self._leash, b"detach\n")
            self._let_go()

    def kill(self) -> None:
        """End the supervisor, and with it everything in its namespaces. Idempotent; returns when it is gone."""
        pid = self.pid
        self._let_go()
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while self.pid is not None:
            if time.monotonic() > deadline:
                raise TestbedError(f"pid {pid} was killed and is still there after 30 s; see `ps {pid}`")
            time.sleep(0.02)

    def _let_go(self) -> None:
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None

    def start(self, name: str, argv: list[str] | None = None) -> int:
        """Start a component, again as before where no command is given; its output goes to logs/NAME.log.

        The pid is the namespace's.
        """
        return int(self._request(operation="start", name=name, argv=argv)["pid"])

    def stop(self, name: str, *, number: signal.Signals = signal.SIGTERM, grace_seconds: float = 10) -> None:
        """Signal a component and wait for its end; SIGKILL after the grace. Idempotent."""
        self._request(operation="signal", name=name, signal=int(number))
        deadline = time.monotonic() + grace_seconds
        while self.components()[name].is_running:
            if time.monotonic() > deadline:
                self._request(operation="signal", name=name, signal=int(signal.SIGKILL))
                deadline = float("inf")
            time.sleep(0.02)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Signal a component without waiting for anything. One that has ended is left alone."""
        self._request(operation="signal", name=name, signal=int(number))

    def components(self) -> dict[str, Component]:
        """Every component ever started here, by name."""
        answer = self._request(operation="status")
        return {
            name: Component(name, process["pid"], process["exit_code"], process["stopping"])
            for name, process in answer["processes"].items()
        }

    def check_alive(self) -> None:
        """Raise, with the last lines of its log, for the first component that died."""
        for component in self.components().values():
            if component.has_died:
                raise TestbedError(self.describe_death(component))

    def describe_death(self, component: Component) -> str:
        """One paragraph on a component that died."""
        log = self._directory / "logs" / f"{component.name}.log"
        return (
            f"{component.name} died with exit code {component.exit_code}; the last lines of its log:\n"
            f"{last_lines(log, count=_LAST_LINES)}"
        )

    def _request(self, **request: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(15)
            try:
                connection.connect(str(self._directory / CONTROL_SOCKET))
                with connection.makefile("rw") as channel:
                    channel.write(json.dumps(request) + "\n")
                    channel.flush()
                    line = channel.readline()
            except OSError as error:
                raise TestbedError(f"the cluster's supervisor does not answer: {error}") from error
        answer: dict[str, Any] = json.loads(line) if line else {"error": "it closed the connection"}
        if "error" in answer:
            raise TestbedError(f"the cluster's supervisor refused: {answer['error']}")
        return answer


def environment_without_proxies() -> dict[str, str]:
    """This process's environment for one that talks to the cluster, which no proxy can reach."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def last_lines(path: Path, *, count: int) -> str:
    """The end of a text file, bounded in bytes too; says so when it is empty or missing."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16_384))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error.strerror})"
    lines = [line[:400] for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-count:]) or "(empty log)"
