"""A server with the local engine that can be killed and started again on its port, and what is left of its runs.

Every start is a fork of a process that has everything imported, so that a test can kill many. The port is below the
ephemeral ones: a client that asks a dead server again and again could else take its port, even by connecting to itself.
"""

import asyncio
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from runyard.procs import end_leftovers, is_supervised, read_state, request_stop
from tests.contract.engine.local_lab import folder_of_words, iter_supervisors, make_folder
from tests.core_process import make_client, make_environment

SECONDS = 60.0
"""How long a test waits for one thing."""
ENDED = ("COMPLETED", "ERROR", "STOPPED")
PROJECT = "proof"
BASE = f"/api/v1/-/{PROJECT}"
SMALL = {"cpu": "10m", "mem": "32Mi"}
"""Small enough that many runs have room at once."""


class Spawner:
    """Starts servers as forks of a process that has everything imported."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.core.spawner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=make_environment(),
            cwd=Path(__file__).parents[3],
        )
        self._dead: dict[str, int] = {}

    def start(self, flags: dict[str, str], *, output: Path) -> int:
        """Start a server with these settings; returns its pid."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"flags": flags, "output": str(output), **self._dead}
        self._dead = {}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def kill(self, pid: int) -> None:
        """Kill a server; it is reaped at the next start."""
        os.kill(pid, signal.SIGKILL)
        self._dead = {"previous": pid}

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class KillableCore:
    """One server with its data, and a client of it."""

    def __init__(self, folder: Path, spawner: Spawner) -> None:
        self.folder = folder
        self.place = folder / "data" / "local"
        self.words = folder_of_words(folder)
        """A folder that every run may read and write."""
        port = _find_port()
        self.client = make_client(f"http://127.0.0.1:{port}", timeout=20.0)
        flags = {"port": str(port), "data": str(folder / "data"), "engine": "local", "max_requests": "100000"}
        self._flags = {**flags, "log_level": "warning"}
        self._spawner = spawner
        self._pid: int | None = None

    async def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._pid = await asyncio.to_thread(self._spawner.start, self._flags, output=self.folder / "output")
        await wait_until(self._answers, what=self.read_output)

    def kill(self) -> None:
        """As a crash would."""
        assert self._pid is not None
        self._spawner.kill(self._pid)
        self._pid = None

    async def close(self) -> None:
        """End the server and everything that it started."""
        if self._pid is not None:
            self.kill()
        await self.client.aclose()
        await asyncio.to_thread(self._end_all)

    def read_output(self) -> str:
        """What the server said since its last start, the end of it."""
        path = self.folder / "output"
        return path.read_text()[-3000:] if path.exists() else ""

    async def make_function(self, code: str, *, name: str = "f", action: str = "job", **spec: Any) -> str:
        """A python function with a task for the action; returns the task as runs name it."""
        found = await self.client.get(f"/api/v1/projects/{PROJECT}")
        if found.status_code == 404:
            await self.post("/api/v1/projects", {"kind": "project", "name": PROJECT})
        fields = {"python_version": f"PYTHON3_{sys.version_info.minor}", **spec}
        source = {"handler": "main", "code": code}
        function = {"kind": "python", "name": name, "spec": {**fields, "source": source}}
        made = await self.post(f"{BASE}/functions", function)
        reference = f"python://{PROJECT}/{name}:{made['id']}"
        task = await self.post(f"{BASE}/tasks", {"kind": f"python+{action}", "spec": {"function": reference}})
        return f"python+{action}://{PROJECT}/{task['id']}"

    async def submit(self, task: str, *, run_id: str | None = None, **spec: Any) -> str:
        """Submit a run of a task; its id."""
        made = await self.post(f"{BASE}/runs", make_run(task, run_id=run_id, **spec))
        return str(made["id"])

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post something that is accepted."""
        answer = await self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def get_run(self, run_id: str) -> dict[str, Any]:
        """A run as the API gives it."""
        answer = await self.client.get(f"{BASE}/runs/{run_id}")
        assert answer.status_code == 200, answer.text
        run: dict[str, Any] = answer.json()
        return run

    async def wait_for(self, run_id: str, *states: str, seconds: float = SECONDS) -> dict[str, Any]:
        """The run, once it is in one of the states; fails early if it ended in another."""
        deadline = time.monotonic() + seconds
        while True:
            run = await self.get_run(run_id)
            state = run["status"]["state"]
            if state in states:
                return run
            assert state not in ENDED, run["status"]
            assert time.monotonic() < deadline, (run["status"], self.read_output())
            await asyncio.sleep(0.05)

    async def read_log(self, run_id: str, *, container: str = "main") -> list[str]:
        """The lines of a run's log, once all of it has arrived."""
        return (await self.read_log_text(run_id, container=container)).splitlines()

    async def read_log_text(self, run_id: str, *, container: str = "main") -> str:
        """A run's log with all bytes of its processes, in their order, once all of it has arrived."""
        await wait_until(lambda: self._has_whole_log(run_id), what=lambda: f"the log of {run_id}")
        answer = await self.client.get(f"{BASE}/runs/{run_id}/log", params={"container": container})
        if answer.status_code == 400 and answer.json()["errors"][0]["code"] == "log.unknown":
            return ""  # it never began
        assert answer.status_code == 200, answer.text
        return answer.text

    async def _has_whole_log(self, run_id: str) -> bool:
        status = (await self.get_run(run_id))["status"]
        return bool(status.get("logs", {}).get("state") == "complete")

    def get_run_folder(self, run_id: str) -> Path:
        """The anchor of a run."""
        for path in (self.place / "runs").iterdir():
            with suppress(OSError, ValueError):
                if json.loads((path / "anchor.json").read_text())["run_id"] == run_id:
                    return path
        raise AssertionError(f"run {run_id} has no anchor")

    def list_supervisions(self, run_id: str) -> list[Path]:
        """The folders in which a supervisor of the run has ever begun."""
        found = sorted((self.get_run_folder(run_id) / "releases").glob("*/supervision"))
        states = {path: read_state(path) for path in found}
        return [path for path, state in states.items() if state is not None and state.supervisor_pid is not None]

    def list_processes(self) -> dict[int, str]:
        """Every process of this place: supervisors, and what carries a variable that only its runs have."""
        return dict(_iter_processes(self.place))

    async def wait_until_nothing_runs(self) -> None:
        """Until no process of this place is left."""

        async def is_empty() -> bool:
            return self.list_processes() == {}

        await wait_until(is_empty, what=self.list_processes)

    async def wait_until_said(self, run_id: str, words: str) -> None:
        """Until a run has written that to the log that its supervisor keeps; no server is needed."""
        path = self.list_supervisions(run_id)[0] / "log" / "main.0"

        async def has_said() -> bool:
            return path.exists() and words in path.read_text()

        await wait_until(has_said, what=lambda: path.exists() and path.read_text())

    def _end_all(self) -> None:
        for _ in range(100):
            if not (pids := list(iter_supervisors(self.place))):
                break
            for supervision in (self.place / "runs").glob("*/releases/*/supervision"):
                if is_supervised(supervision):
                    request_stop(supervision, grace_seconds=0)
            time.sleep(0.1)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for supervision in (self.place / "runs").glob("*/releases/*/supervision"):
            end_leftovers(supervision)

    async def _answers(self) -> bool:
        with suppress(httpx2.TransportError):
            return (await self.client.get("/readyz")).status_code == 200
        return False


@asynccontextmanager
async def open_killable_core(spawner: Spawner) -> AsyncIterator[KillableCore]:
    """A server that runs, and of which nothing is left afterwards."""
    folder = make_folder()
    core = KillableCore(folder, spawner)
    try:
        await core.start()
        yield core
    finally:
        await core.close()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def make_run(task: str, *, run_id: str | None = None, **spec: Any) -> dict[str, Any]:
    """A run of a task."""
    kind = f"{task.partition('://')[0]}:run"
    return {"kind": kind, "id": run_id or secrets.token_hex(8), "spec": {"task": task, "resources": SMALL, **spec}}


async def wait_until(
    is_so: Callable[[], Awaitable[bool]], *, what: Callable[[], object], seconds: float = SECONDS
) -> None:
    """Ask again until it is so; fails with `what`."""
    deadline = time.monotonic() + seconds
    while not await is_so():
        assert time.monotonic() < deadline, what()
        await asyncio.sleep(0.05)


def _iter_processes(place: Path) -> Iterator[tuple[int, str]]:
    mark = os.fsencode(place)
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes()
            is_supervisor = b"procs/supervisor" in words and mark in words
            is_zombie = not words
            if not is_zombie and (is_supervisor or mark in (path / "environ").read_bytes()):
                yield int(path.name), words.replace(b"\0", b" ").decode(errors="replace")


def _find_port() -> int:
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
