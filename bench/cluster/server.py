"""`runyard server --engine kubernetes` as a process of its own, with SQLite, and how far its runs are."""

import asyncio
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from bench.cluster.beds import Bed
from bench.local.processes import Cpu, Memory, read_cpu, read_memory
from bench.local.server import open_read_only
from tests.core_process import COMMAND, CoreProcess, run_core

T = TypeVar("T")
PROJECT = "bench"
BASE = f"/api/v1/-/{PROJECT}"
IMAGE = "busybox:1.36"
PROFILE_VARIABLE = "RUNYARD_BENCH_PROFILE"
"""A file: the server is profiled while it is measured, and leaves the figures there. If a measure has several phases,
the name of the phase is added to that of the file."""
PROFILE_SECONDS = 3.0
"""Within this time the figures are written."""
LIMIT_SECONDS = 900.0
"""When a measure gives up waiting for the server."""
TTL = "1h"
"""How long Jobs are kept: longer than the bench, so that their deletion is not part of any figure."""
FUNCTIONS: Mapping[str, Mapping[str, Any]] = {
    "short": {"command": "true", "ttl": TTL, "run_as_user": 1000},
    "long": {"command": "sleep", "args": ["100000"], "ttl": TTL, "run_as_user": 1000},
    "ticking": {
        "command": "sh",
        "args": ["-c", "while true; do cut -d ' ' -f 1 /proc/uptime; sleep 0.5; done"],
        "ttl": TTL,
        "run_as_user": 1000,
    },
    "flooding": {
        "command": "sh",
        "args": ["-c", "timeout 300 yes flood-flood-flood-flood || true"],
        "resources": {"cpu": "500m"},
        "ttl": TTL,
        "run_as_user": 1000,
    },
}


@dataclass
class ClusterServer:
    """The server, a client of it, and a read-only connection to its database."""

    core: CoreProcess
    session: aiohttp.ClientSession
    database: sqlite3.Connection
    namespace: str
    tasks: dict[str, str] = field(default_factory=dict)

    async def submit(self, function: str) -> str:
        """Submit a run of a function; returns its id."""
        run = {"kind": "container+job:run", "spec": {"task": self.tasks[function], **FUNCTIONS[function]}}
        return str((await self.post(f"{BASE}/runs", run))["id"])

    async def submit_many(self, function: str, count: int, *, at_once: int = 16) -> None:
        """Submit so many, as fast as the server takes them."""
        left = iter(range(count))

        async def work() -> None:
            for _ in left:
                await self.submit(function)

        await asyncio.gather(*(work() for _ in range(at_once)))

    async def post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Create something; raises `RuntimeError` with the answer if it is refused."""
        async with self.session.post(self.core.url + path, json=document) as answer:
            if answer.status != 200:
                raise RuntimeError(await answer.text())
            found: dict[str, Any] = await answer.json()
            return found

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of the database."""
        return self.database.execute(query).fetchall()

    def count(self, where: str) -> int:
        """How many runs there are of which that is true."""
        found: int = self.fetch(f"SELECT count(*) FROM runs WHERE {where}")[0][0]
        return found

    async def wait_none(self, where: str) -> None:
        """Wait until that is true of no run."""
        until = time.monotonic() + LIMIT_SECONDS
        while found := self.count(where):
            if time.monotonic() > until:
                raise TimeoutError(f"{found} runs: {where}; {self.core.read_errors()[-2000:]}")
            await asyncio.sleep(0.05)

    async def wait_count(self, where: str, count: int, *, pause: float = 0.05) -> None:
        """Wait until that is true of so many runs."""
        until = time.monotonic() + LIMIT_SECONDS
        while (found := self.count(where)) < count:
            if time.monotonic() > until or self.core.process.poll() is not None:
                raise TimeoutError(f"{found} of {count} runs: {where}; {self.core.read_errors()[-2000:]}")
            await asyncio.sleep(pause)

    def read_cpu(self) -> Cpu:
        """What the server has used."""
        return read_cpu(self.core.process.pid)

    def read_memory(self) -> Memory:
        """What the server has."""
        return read_memory(self.core.process.pid)

    async def profile(self, work: Awaitable[T], *, phase: str = "", is_from_start: bool = False) -> T:
        """What the work returns; done under the profiler, if one was asked for."""
        if PROFILE_VARIABLE not in os.environ:
            return await work
        if not is_from_start:
            self.core.process.send_signal(signal.SIGUSR1)
        result = await work
        self.core.process.send_signal(signal.SIGUSR2)
        await asyncio.sleep(PROFILE_SECONDS)
        _name_profile(phase)
        return result

    async def add_functions(self) -> None:
        """The project, and every function with its task."""
        await self.post("/api/v1/projects", {"kind": "project", "name": PROJECT})
        for name in FUNCTIONS:
            made = await self.post(f"{BASE}/functions", {"kind": "container", "name": name, "spec": {"image": IMAGE}})
            reference = f"container://{PROJECT}/{name}:{made['id']}"
            task = await self.post(f"{BASE}/tasks", {"kind": "container+job", "spec": {"function": reference}})
            self.tasks[name] = f"container+job://{PROJECT}/{task['id']}"


@asynccontextmanager
async def open_server(
    bed: Bed, *, namespace: str, folder: Path | None = None, tasks: Mapping[str, str] | None = None
) -> AsyncIterator[ClusterServer]:
    """A server on the cluster; in a folder that has a database it goes on with those runs, and `tasks` are known."""
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as temporary:
        home = folder or Path(temporary)
        arguments = [
            *("--engine", "kubernetes", "--kubeconfig", str(bed.cluster.kubeconfig), "--namespace", namespace),
            *("--endpoint", f"http://{bed.host_ip}:8080", "--max-requests", "100000"),
        ]
        with run_core(*arguments, folder=home, program=_choose_program()) as core:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                with open_read_only(home / "data" / "runyard.db") as database:
                    server = ClusterServer(core, session, database, namespace, dict(tasks or {}))
                    if tasks is None:
                        await server.add_functions()
                    yield server


def _name_profile(phase: str) -> None:
    path = Path(os.environ[PROFILE_VARIABLE])
    if phase:
        path.rename(path.with_name(f"{path.name}.{phase}"))


def _choose_program() -> tuple[str, ...]:
    profile = os.environ.get(PROFILE_VARIABLE)
    return COMMAND if profile is None else (sys.executable, "-m", "bench.cluster.profiled_server", profile)
