"""A Core on a real database, the engine of the bench, and a reconcile loop that can be started and stopped.

This is the only module of the bench that knows how a loop is made and which columns say how far a run is.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event

from bench.loop.database import Database, connect
from bench.loop.engine import BenchEngine
from bench.row_copies import make_copy
from runyard.app.core import Core
from runyard.app.entities import create_entity
from runyard.app.loops import Reconciler
from runyard.app.model import Principal, Run
from runyard.app.projects import create_project
from runyard.app.runs import submit_run
from runyard.app.times import SystemClock
from runyard.domain.outcomes import Seen
from runyard.logs import open_logs
from runyard.store import open_store
from runyard.vault import open_vault

WHO = Principal(name="bench")
PROJECT = "bench"
PENDING = "state = 'PENDING'"
RUNNING = "state = 'RUNNING'"
COMPLETED = "state = 'COMPLETED'"
LIFE_OVER = "settled_at IS NOT NULL"
"""Nothing is left to do for the run."""
LIMIT_SECONDS = 30.0
"""When a measurement gives up waiting for the loop."""
POLL_SECONDS = 0.01
_CALIBRATION = 100
_CLAIM_SECONDS = 0.05
_SHARE_SECONDS = 0.2


@dataclass
class Counter:
    """What the process has used so far."""

    cpu_seconds: float
    commits: int
    statements: int
    polls: int


@dataclass
class Usage:
    """What one part of a measurement used; the bench's own reads are subtracted from the CPU time."""

    cpu_seconds: float
    commits: int
    statements: int


@dataclass
class World:
    """Everything a measurement needs."""

    url: str
    core: Core
    database: Database
    engine: BenchEngine
    quiet_seconds: float
    commits: int = 0
    statements: int = 0
    polls: int = 0
    poll_cpu_seconds: float = 0.0
    _loop: "asyncio.Task[None] | None" = None
    _runs: int = 0

    async def start(self) -> None:
        """Start a loop, as a server that was just started has it."""
        self._loop = asyncio.create_task(Reconciler(self.core, self.engine, issue_token=_issue_token).run())

    async def stop(self) -> None:
        """Stop the loop."""
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop
            self._loop = None

    def check_loop(self) -> None:
        """Raise what ended the loop, if it has ended."""
        if self._loop is not None and self._loop.done():
            self._loop.result()
            raise RuntimeError("the loop has ended")

    async def submit(self) -> Run:
        """Submit a run like a client does, but without HTTP."""
        self._runs += 1
        run, _ = await submit_run(self.core, WHO, PROJECT, _make_document(f"run-{self._runs}"))
        return run

    async def lead_to_running(self) -> Run:
        """A run that the loop has brought to RUNNING."""
        await self.start()
        run = await self.submit()
        one = f"uid = '{run.uid}'"
        await self.wait(f"{one} AND {PENDING}")
        await self.wait_until_released([run.uid])
        self.engine.change([run.uid], Seen.RUNNING)
        await self.wait(f"{one} AND {RUNNING} AND lease_token IS NULL")
        await self.stop()
        return run

    async def multiply(self, run: Run, count: int, *, name: str) -> Sequence[str]:
        """Copy a running run inside the database; returns the uids of the copies. The engine does not know them yet."""
        return await self._copy(run, count, name=name, replaced={"anchor_uid": f"'uid-{name}-' || n.i"})

    async def submit_held_back(self) -> Run:
        """A READY run that the loop leaves alone, for `queue_copies`; call it while no loop runs."""
        run = await self.submit()
        await self.database.execute(f"UPDATE runs SET is_local = TRUE, due_at = NULL WHERE uid = '{run.uid}'")
        return run

    async def queue_copies(self, run: Run, count: int, *, name: str) -> None:
        """Copies of a run that was held back, all due at once, before anything that becomes due now."""
        uids = await self._copy(run, count, name=name, replaced={"is_local": "FALSE", "due_at": "t.created_at"})
        self.core.signals.notify(uids[0])
        await asyncio.sleep(_CLAIM_SECONDS)

    async def _copy(self, run: Run, count: int, *, name: str, replaced: Mapping[str, str]) -> Sequence[str]:
        uid = f"'{name}-' || n.i"
        runs = {"uid": uid, "id": uid, **replaced}
        await self.database.execute(make_copy("runs", count, where=f"t.uid = '{run.uid}'", replaced=runs))
        history = make_copy("transitions", count, where=f"t.run_uid = '{run.uid}'", replaced={"run_uid": uid})
        await self.database.execute(history)
        await self.database.execute(f"UPDATE run_totals SET number = number + {count}")
        await self.database.execute("ANALYZE")
        return [f"{name}-{number}" for number in range(1, count + 1)]

    async def count(self, where: str) -> int:
        """How many runs are stored like that."""
        self.polls += 1
        rows = await self.database.fetch(f"SELECT count(*) FROM runs WHERE {where}")
        return int(rows[0][0])

    async def list_uids(self, where: str) -> list[str]:
        """Which runs are stored like that."""
        self.polls += 1
        return [row[0] for row in await self.database.fetch(f"SELECT uid FROM runs WHERE {where}")]

    async def wait(self, where: str, count: int = 1) -> bool:
        """Wait until so many runs are stored like that; False if they are not after `LIMIT_SECONDS`."""
        until = time.monotonic() + LIMIT_SECONDS
        while await self.count(where) < count:
            self.check_loop()
            if time.monotonic() > until:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    async def wait_until_released(self, run_uids: Sequence[str]) -> None:
        """Wait until the engine may start these runs: PENDING is stored just before."""
        until = time.monotonic() + LIMIT_SECONDS
        while not self.engine.has_released(run_uids) and time.monotonic() < until:
            self.check_loop()
            await asyncio.sleep(0.001)

    async def wait_until_quiet(self) -> None:
        """Wait until the loop has written nothing for `quiet_seconds`."""
        until = time.monotonic() + LIMIT_SECONDS
        known = -1
        while (self.commits != known or not self.engine.is_heard) and time.monotonic() < until:
            known = self.commits
            await asyncio.sleep(self.quiet_seconds)

    async def calibrate(self) -> None:
        """Measure what one poll of the bench costs; call it while no loop runs."""
        began = time.process_time()
        for _ in range(_CALIBRATION):
            await self.count(COMPLETED)
            await asyncio.sleep(0)
        self.poll_cpu_seconds = (time.process_time() - began) / _CALIBRATION

    def read_counter(self) -> Counter:
        """What was used so far, for `measure_since`."""
        return Counter(time.process_time(), self.commits, self.statements, self.polls)

    def measure_since(self, before: Counter) -> Usage:
        """What was used since then."""
        now = self.read_counter()
        own = (now.polls - before.polls) * self.poll_cpu_seconds
        cpu = now.cpu_seconds - before.cpu_seconds - own
        return Usage(cpu, now.commits - before.commits, now.statements - before.statements)

    def count_commit(self, _connection: Connection) -> None:
        """Count a transaction that the store has committed."""
        self.commits += 1

    def count_statement(self, *_: Any) -> None:
        """Count a statement that the store has executed."""
        self.statements += 1


@asynccontextmanager
async def open_world(url: str, folder: Path, *, quiet_seconds: float = 0.5) -> AsyncIterator[World]:
    """A world on that database, with a project, a function and a task; they are created if the database is empty."""
    store = await open_store(url)
    logs = open_logs(f"database:{folder}/logs.db")
    engine = BenchEngine(project=PROJECT)
    core = Core(store=store, vault=open_vault(folder / "key"), logs=logs, clock=SystemClock(), engine=engine)
    database = await connect(url)
    world = World(url, core, database, engine, quiet_seconds)
    if not await database.fetch("SELECT 1 FROM entities"):
        await create_project(core, WHO, {"kind": "project", "name": PROJECT})
        function = {"kind": "container", "name": "box", "id": "f1", "spec": {"image": "busybox:1.36"}}
        await create_entity(core, WHO, "function", PROJECT, function)
        task = {"kind": "container+job", "id": "t1", "spec": {"function": f"container://{PROJECT}/box:f1"}}
        await create_entity(core, WHO, "task", PROJECT, task)
    await world.calibrate()
    # Only the store has engines of SQLAlchemy, and only its writers commit.
    event.listen(Engine, "commit", world.count_commit)
    event.listen(Engine, "before_cursor_execute", world.count_statement)
    try:
        yield world
    finally:
        event.remove(Engine, "commit", world.count_commit)
        event.remove(Engine, "before_cursor_execute", world.count_statement)
        await world.stop()
        await database.close()
        await logs.close()
        await store.close()


def measure_core_share() -> float:
    """The part of a core that a busy process gets here now: other processes on the same cores take the rest."""
    began, until = time.perf_counter(), time.process_time() + _SHARE_SECONDS
    while time.process_time() < until:
        pass
    return _SHARE_SECONDS / (time.perf_counter() - began)


async def _issue_token(run: Run) -> str:
    return f"token of {run.id}"


def _make_document(run_id: str) -> dict[str, Any]:
    spec = {
        "task": f"container+job://{PROJECT}/t1",
        "args": ["--epochs", "3"],
        "resources": {"cpu": "2", "mem": "8Gi"},
        "envs": [{"name": f"NAME_{number}", "value": "value"} for number in range(5)],
        "volumes": [
            {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "1Gi"}}
        ],
    }
    return {"kind": "container+job:run", "id": run_id, "metadata": {"labels": ["bench"]}, "spec": spec}
