"""The same program and the same writes without Runyard: `subprocess.run` in a loop that nothing supervises.

What is written is taken from a run: the files of its folder, and the rows that it left in the databases.
"""

import resource
import secrets
import sqlite3
import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.local.server import PASS, LocalServer
from runyard.procs import read_state

DATABASES = ("runyard.db", "logs.db")
TRANSACTIONS = 5
"""Of a run: submitted, PENDING, RUNNING, COMPLETED, settled."""


@dataclass(frozen=True, slots=True)
class Writes:
    """What one run wrote."""

    folders: Sequence[str]
    files: Sequence[tuple[str, bytes]]
    """Every write of a file, one that is replaced several times: path and content."""
    rows: Sequence[tuple[str, tuple[Any, ...]]]
    """Table and values."""
    python: str
    """The interpreter of its environment."""

    @property
    def text(self) -> str:
        """For people."""
        size = sum(len(content) for _, content in self.files)
        return (
            f"{len(self.folders)} folders, {len(self.files)} files written and renamed ({size} bytes),"
            f" {len(self.rows)} rows in {TRANSACTIONS} transactions"
        )


@dataclass(frozen=True, slots=True)
class PlainRuns:
    """Of the plain loop, per run."""

    per_second: float
    process_cpu_ms: float
    """Of `python -c pass`."""
    loop_cpu_ms: float
    """Of the loop itself, in Python."""


async def record_writes(server: LocalServer, folder: Path) -> Writes:
    """Take a run through the server and find out what it wrote."""
    for name in DATABASES:
        _copy(server.data / name, folder / name)
    run_id = await server.submit(PASS)
    await server.wait_settled(run_id)
    rows = [row for name in DATABASES for row in _list_new_rows(server.data / name, folder / name)]
    run = server.get_run_folder(run_id)
    paths = sorted(run.rglob("*"))
    files = [(str(path.relative_to(run)), path.read_bytes()) for path in paths if path.is_file()]
    states = [read_state(path) for path in run.glob("releases/*/supervision")]
    # The wish is written when the anchor is made, at the release and at the settling.
    again = {"state.json": sum(state.version - 1 for state in states if state is not None), "wish.json": 2}
    repeated = [one for one in files for _ in range(again.get(Path(one[0]).name, 0))]
    folders = [str(path.relative_to(run)) for path in paths if path.is_dir()]
    return Writes(folders, [*files, *repeated], rows, str(server.find_python()))


def measure_plain(writes: Writes, folder: Path, *, runs: int, in_flight: int) -> PlainRuns:
    """So many runs, so many at a time."""
    database = _make_database(folder / f"{secrets.token_hex(4)}.db", writes)
    lock = threading.Lock()

    def run(number: int) -> None:
        target = folder / f"{in_flight}-{number}"
        target.mkdir()
        for name in writes.folders:
            (target / name).mkdir()
        with (target / "output").open("wb") as output:
            command = [writes.python, "-c", "pass"]
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={}, check=True)
        for name, content in writes.files:
            path = target / name
            path.with_name(".new").write_bytes(content)
            path.with_name(".new").rename(path)
        with lock:
            _write_rows(database, writes)

    began = time.perf_counter()
    own, children = time.process_time(), _read_children_cpu()
    with ThreadPoolExecutor(in_flight) as threads:
        list(threads.map(run, range(runs)))
    seconds = time.perf_counter() - began
    database.close()
    own, children = time.process_time() - own, _read_children_cpu() - children
    return PlainRuns(runs / seconds, children / runs * 1000, own / runs * 1000)


def _write_rows(database: sqlite3.Connection, writes: Writes) -> None:
    """All rows with the first transaction; the others write the row of the run again."""
    runs = [row for row in writes.rows if row[0] == "runs"]
    for number in range(TRANSACTIONS):
        database.execute("BEGIN IMMEDIATE")
        for table, values in runs if number else writes.rows:
            if number:
                database.execute(f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        database.execute("COMMIT")


def _make_database(path: Path, writes: Writes) -> sqlite3.Connection:
    """Tables without indexes; as durable as the server's."""
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for setting in ("journal_mode = WAL", "synchronous = FULL"):
        database.execute(f"PRAGMA {setting}").fetchall()
    for table, width in {table: len(values) for table, values in writes.rows}.items():
        database.execute(f"CREATE TABLE {table} ({', '.join(f'c{number}' for number in range(width))})")
    return database


def _list_new_rows(path: Path, before: Path) -> list[tuple[str, tuple[Any, ...]]]:
    """The rows that are new or were changed since the copy was made."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    database.execute("ATTACH ? AS before", (str(before),))
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    names = [name for (name,) in database.execute(tables)]
    rows = [
        (name, row)
        for name in names
        for row in database.execute(f"SELECT * FROM main.{name} EXCEPT SELECT * FROM before.{name}")
    ]
    database.close()
    return rows


def _copy(path: Path, target: Path) -> None:
    source, copy = sqlite3.connect(f"file:{path}?mode=ro", uri=True), sqlite3.connect(target)
    source.backup(copy)
    source.close()
    copy.close()


def _read_children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
