"""A Core on a real SQLite file, with an engine in memory, a clock that tests turn, and logs that only count."""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from sqlalchemy import event, select
from sqlalchemy.pool import QueuePool

from runyard.app.core import Core
from runyard.app.log_store import LogStore
from runyard.app.loops.pace import Pace
from runyard.app.loops.reconcile import Reconciler
from runyard.app.model import AuditEntry, Principal, Run, SealedValue, Transition
from runyard.app.ports import Unavailable
from runyard.app.runs.transitions import make_first_transitions
from runyard.app.vault import Vault
from runyard.domain.lifecycle import State
from runyard.logs.backends import open_logs
from runyard.store import SqlStore, open_store, tables
from tests.engines.memory import MemoryEngine
from tests.sqlite_databases import create_sqlite

ADA = Principal(name="ada")
START = datetime(2026, 11, 15, 12, tzinfo=UTC)
JOB = {"kind": "container", "action": "job", "image": "busybox"}
PACE = Pace(detail_seconds=0.0, min_backoff=timedelta(0), settle_retry=timedelta(0))
SERVICE = {"kind": "container", "action": "serve", "image": "nginx"}


class TurnedClock:
    """`app.ports.Clock` that stands until it is turned."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        return self.at


class DatabaseClock:
    """SQLite's clock, which tests turn: leases, and when runs are due, are judged by it alone."""

    def __init__(self, database: Path) -> None:
        self.ahead = timedelta(0)
        self._database = database

    def install(self, connection: object, _record: object) -> None:
        """Replace the function by which `store.clock` reads the time, in connections to this database."""
        if not isinstance(connection, sqlite3.Connection):
            return
        (_, _, path) = connection.execute("PRAGMA database_list").fetchone()
        if Path(path).samefile(self._database):
            connection.create_function("julianday", 1, self.read_julian_day)

    def read_julian_day(self, _when: str) -> float:
        return (time.time() + self.ahead.total_seconds()) / 86400 + 2440587.5


class CountingLogs:
    """A real `app.log_store.LogStore` that counts deletions, and refuses them when a test says so."""

    def __init__(self, logs: LogStore) -> None:
        self._logs = logs
        self.deleted: list[str] = []
        self.is_busy = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logs, name)

    async def delete(self, run_uid: str) -> None:
        if self.is_busy:
            raise Unavailable("the log store is busy")
        await self._logs.delete(run_uid)
        self.deleted.append(run_uid)


class PlainVault:
    """`app.ports.Vault` that hides nothing."""

    def seal(self, project: str, name: str, version: int, text: str) -> SealedValue:
        return SealedValue(
            project=project, name=name, version=version, key_id="k", wrapped_key=b"", ciphertext=text.encode()
        )

    def open(self, value: SealedValue) -> str:
        return value.ciphertext.decode()


async def issue_token(run: Run) -> str:
    """A token that names its run."""
    return f"token of {run.id}"


@dataclass
class World:
    """Everything a test of runs needs."""

    store: SqlStore
    core: Core
    clock: TurnedClock
    logs: CountingLogs
    database_clock: DatabaseClock
    engine: MemoryEngine

    def make_loop(self, *, pace: Pace | None = None) -> Reconciler:
        """A loop as a server that was just started has it."""
        return Reconciler(self.core, self.core.engine, issue_token=issue_token, pace=pace or PACE)

    async def submit(self, run_id: str = "r1", *, ahead: timedelta = timedelta(0), **fields: Any) -> Run:
        """Store a run that is due, now or so far ahead; READY unless told otherwise."""
        run = make_run(run_id, **{"created_at": self.clock.now(), **fields})
        states = [State.CREATED] if run.state == "CREATED" else [State.CREATED, State(run.state)]
        async with self.store.begin() as unit:
            first = make_first_transitions(states, at=self.clock.now(), actor="ada")
            stored = await unit.runs.add(run, first, due_in=None if run.is_local else ahead)
            await unit.commit()
        return stored

    async def settle(self, *, passes: int = 6) -> None:
        """Let the loop do all there is to do now, and time pass in the engine."""
        loop = self.make_loop()
        known: Any = None
        for _ in range(passes):
            self.make_due()
            await self.look(loop)
            self.engine.tick()
            before, known = known, await self._summarise()
            if known == before:
                break
        await loop.close()

    async def look(self, loop: Reconciler | None = None) -> int:
        """One pass as the loops take it together: what the engine has to say, then what is due. Returns how many."""
        own = loop or self.make_loop()
        await own.compare_all()
        await own.lane.write_ready()
        count = await own.reconcile_due()
        if own.lane.has_reports:
            await own.lane.write_ready()
        await asyncio.gather(*own._busy)
        if loop is None:
            await own.close()
        return count

    async def get(self, run_id: str = "r1") -> Run:
        run = await self.find(run_id)
        assert run is not None, f"{run_id} is gone"
        return run

    async def reach(self, run_id: str, state: str) -> None:
        """Wait until the run is in that state."""

        async def is_there() -> bool:
            return (await self.get(run_id)).state == state

        await until(is_there)

    async def find(self, run_id: str = "r1") -> Run | None:
        async with self.store.begin(is_read_only=True) as unit:
            return await unit.runs.find(run_id, project="p")

    async def history(self, run_id: str = "r1") -> list[Transition]:
        run = await self.find(run_id)
        async with self.store.begin(is_read_only=True) as unit:
            return [] if run is None else list(await unit.runs.list_transitions(run.uid))

    async def states(self, run_id: str = "r1") -> list[str]:
        return [transition.state.value for transition in await self.history(run_id)]

    async def audit(self) -> list[AuditEntry]:
        """Oldest first."""
        async with self.store.begin(is_read_only=True) as unit:
            return [entry for _, entry in await unit.audit.list_entries()][::-1]

    def turn(self, by: timedelta) -> None:
        """Time passes for everybody, the database included."""
        self.clock.at += by
        self.database_clock.ahead += by

    def make_due(self) -> None:
        """Turn the database's clock alone until every lease has expired and every run that waits is due."""
        self.database_clock.ahead += timedelta(minutes=10)

    async def _summarise(self) -> Any:
        async with self.store.begin(is_read_only=True) as unit:
            rows = await unit.session.fetch_all(select(tables.runs.c.id, tables.runs.c.revision))
        phases = [(thing.anchor.uid, thing.phase, len(thing.history)) for thing in self.engine.things.values()]
        return [tuple(row.values()) for row in rows], phases


@asynccontextmanager
async def running(loop: Reconciler) -> AsyncIterator[None]:
    """The loop runs by itself, for a minute at most."""
    task = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(60):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds."""
    while True:
        if await check():
            return
        await asyncio.sleep(0.01)


async def reach_phase(engine: MemoryEngine, run_id: str, phase: str) -> None:
    """Wait until the engine has brought the run there: a run is PENDING before its release is done."""

    async def is_there() -> bool:
        return engine._get(run_id).phase == phase

    await until(is_there)


def _find_memory() -> Path | None:
    """A file system in memory where there is one: nothing here is about what survives a loss of power."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else None


@asynccontextmanager
async def open_world(*, has_engine: bool = True) -> AsyncIterator[World]:
    """An empty one."""
    with tempfile.TemporaryDirectory(prefix="runyard-world-", dir=_find_memory()) as place:
        database = Path(place) / "runyard.db"
        url = await create_sqlite(database)
        clock, database_clock = TurnedClock(), DatabaseClock(database)
        real_logs = open_logs(f"database:{place}/logs.db")
        logs, memory = CountingLogs(real_logs), MemoryEngine()
        # On the class: the store makes its connections itself, whenever it needs one.
        event.listen(QueuePool, "connect", database_clock.install)
        store = await open_store(url)
        core = Core(
            store=store,
            vault=cast("Vault", PlainVault()),
            logs=cast("LogStore", logs),
            clock=clock,
            engine=memory if has_engine else None,
        )
        try:
            yield World(store=store, core=core, clock=clock, logs=logs, database_clock=database_clock, engine=memory)
        finally:
            event.remove(QueuePool, "connect", database_clock.install)
            await real_logs.close()
            await store.close()


def make_run(run_id: str, **fields: Any) -> Run:
    """A container job of project `p`."""
    chosen: dict[str, Any] = {
        "type": "run",
        "project": "p",
        "kind": "container+job:run",
        "name": run_id,
        "uid": uuid4().hex,
        "user": "ada",
        "created_at": START,
        "updated_at": START,
        "updated_by": "ada",
        "state": "READY",
        "metadata": {"project": "p", "name": run_id},
        "spec": {"task": "container+job://p/t1"},
        "request": {"kind": "container+job:run"},
        "request_hash": f"hash of {run_id}",
        "task": "container+job://p/t1",
        "function": "container://p/f:f1",
        "effective": JOB,
    }
    return Run(id=run_id, **{**chosen, **fields})
