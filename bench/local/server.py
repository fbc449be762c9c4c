"""`runyard server --engine local` as a process of its own, with functions whose runs are measured."""

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from bench.local.processes import Cpu, Memory, iter_supervisors, read_cpu, read_memory
from examples.demo.stage import end_runs
from tests.core_process import COMMAND, CoreProcess, run_core

PROJECT = "bench"
BASE = f"/api/v1/-/{PROJECT}"
LIMIT_SECONDS = 300.0
"""When a measure gives up waiting for the server."""
POLL_SECONDS = 0.004
REAP_SECONDS = 0.3
"""Within this time the server has reaped the supervisor of a run that is settled, and its CPU time is known."""


@dataclass
class LocalServer:
    """The server, a client of it, and a read-only connection to its database."""

    core: CoreProcess
    client: httpx2.AsyncClient
    database: sqlite3.Connection
    _tasks: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.core.folder / "data"

    @property
    def place(self) -> Path:
        """The place of its engine."""
        return self.data / "local"

    async def submit(self, name: str, **spec: Any) -> str:
        """Submit a run of a function of `FUNCTIONS`; returns its id."""
        run = {"kind": "python+job:run", "spec": {"task": self._tasks[name], **FUNCTIONS[name].run, **spec}}
        return str((await self._post("runs", run))["id"])

    async def stop(self, run_id: str) -> None:
        """End a run."""
        answer = await self.client.post(f"{BASE}/runs/{run_id}/stop")
        answer.raise_for_status()
        await self._wait(f"SELECT 1 FROM runs WHERE id = '{run_id}' AND state = 'STOPPED'")

    async def read_first_line(self, run_id: str) -> bytes:
        """The first line of a run's log, as soon as the server sends it."""
        found = b""
        async with self.client.stream("GET", f"{BASE}/runs/{run_id}/log", params={"follow": "true"}) as answer:
            answer.raise_for_status()
            async for chunk in answer.aiter_raw():
                found += chunk
                if b"\n" in found:
                    break
        return found.partition(b"\n")[0]

    async def wait_settled(self, run_id: str) -> None:
        """Wait until a run has ended well and nothing is left to do for it."""
        state = await self._wait(f"SELECT state FROM runs WHERE id = '{run_id}' AND settled_at IS NOT NULL")
        if state != "COMPLETED":
            answer = await self.client.get(f"{BASE}/runs/{run_id}")
            raise RuntimeError(f"a run of the bench ended as {state}: {answer.json()['status'].get('message')}")

    async def wait_running(self, count: int) -> None:
        """Wait until so many runs are RUNNING."""
        await self._wait(f"SELECT count(*) FROM runs WHERE state = 'RUNNING' HAVING count(*) >= {count}")

    async def wait_log_bytes(self, run_id: str, size: int) -> None:
        """Wait until so much of a run's log is stored."""
        uid = self.fetch(f"SELECT uid FROM runs WHERE id = '{run_id}'")
        query = f"SELECT sum(size) FROM streams WHERE run_uid = '{uid}' HAVING sum(size) >= {size}"
        with open_read_only(self.data / "logs.db") as logs:
            await self._wait(query, database=logs, pause=0.05)

    def fetch(self, query: str, *, database: sqlite3.Connection | None = None) -> Any:
        """The first value of the first row; None if there is none."""
        row = (database or self.database).execute(query).fetchone()
        return None if row is None else row[0]

    async def _wait(
        self, query: str, *, database: sqlite3.Connection | None = None, pause: float = POLL_SECONDS
    ) -> Any:
        until = time.monotonic() + LIMIT_SECONDS
        while (found := self.fetch(query, database=database)) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"the server did not get so far in {LIMIT_SECONDS:.0f} s: {query}")
            await asyncio.sleep(pause)
        return found

    async def read_cpu(self) -> Cpu:
        """What the server has used, and the runs that are settled."""
        await asyncio.sleep(REAP_SECONDS)
        return read_cpu(self.core.process.pid)

    def read_memory(self) -> Memory:
        """What the server has."""
        return read_memory(self.core.process.pid)

    def list_supervisors(self) -> list[int]:
        """The pids of the supervisors."""
        return list(iter_supervisors(self.place))

    def get_run_folder(self, run_id: str) -> Path:
        """Where the engine has the files of a run."""
        return self.place / "runs" / str(self.fetch(f"SELECT uid FROM runs WHERE id = '{run_id}'"))

    def find_python(self) -> Path:
        """The interpreter in which all runs of the bench execute."""
        (found,) = self.place.glob("projects/*/environments/*/bin/python3")
        return found

    async def add_functions(self) -> None:
        """The project, and every function with its task."""
        answer = await self.client.post("/api/v1/projects", json={"kind": "project", "name": PROJECT})
        answer.raise_for_status()
        for name, function in FUNCTIONS.items():
            spec = {"python_version": PYTHON, "source": {"handler": "main", "code": function.code}}
            made = await self._post("functions", {"kind": "python", "name": name, "spec": spec})
            reference = f"python://{PROJECT}/{name}:{made['id']}"
            task = await self._post("tasks", {"kind": "python+job", "spec": {"function": reference}})
            self._tasks[name] = f"python+job://{PROJECT}/{task['id']}"

    async def _post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self.client.post(f"{BASE}/{path}", json=document)
        if answer.status_code != 200:
            raise RuntimeError(answer.text)
        found: dict[str, Any] = answer.json()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of the bench, and what its runs say. A run with a command needs no launcher."""

    code: str = "def main(): pass"
    run: Mapping[str, Any] = field(default_factory=dict)


PYTHON = f"PYTHON3_{sys.version_info.minor}"
PASS = "pass"
"""`python -c pass`."""
PASS_HANDLER = "pass-handler"
LINE = "line"
LINE_HANDLER = "line-handler"
IDLE = "idle"
FUNCTIONS: dict[str, Function] = {
    PASS: Function(run={"command": "python", "args": ["-c", "pass"]}),
    PASS_HANDLER: Function(),
    LINE: Function(run={"command": "python", "args": ["-u", "-c", "print('line')"]}),
    LINE_HANDLER: Function(code="def main(): print('line')"),
    IDLE: Function(run={"command": "sleep", "args": ["3600"]}),
}


@asynccontextmanager
async def open_server() -> AsyncIterator[LocalServer]:
    """A fresh server whose environments are built; afterwards nothing of it is left."""
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as name:
        folder = Path(name)
        await asyncio.to_thread(folder.chmod, 0o711)  # users of runs pass through it
        try:
            flags = ("--engine", "local", "--max-requests", "100000")
            with run_core(*flags, folder=folder, program=COMMAND) as core:
                async with core.client() as client:
                    with open_read_only(folder / "data" / "runyard.db") as database:
                        server = LocalServer(core, client, database)
                        await server.add_functions()
                        for function in (PASS, PASS_HANDLER):
                            await server.wait_settled(await server.submit(function))
                        yield server
        finally:
            await asyncio.to_thread(end_runs, folder / "data")


class open_read_only:  # noqa: N801 - used like a function
    """A connection that writes nothing and is closed at the end."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)

    def __enter__(self) -> sqlite3.Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()
