"""The server: submit and list over 100,000 runs, on SQLite and PostgreSQL, beside a bare route with the same bytes."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.report import Cell, Goal, Section, Table, progress
from bench.row_copies import make_copy
from tests.postgres import NoPostgres, run_postgres

RUNS = 100_000
SUBMITS_PER_SECOND = 50
SUBMIT_SECONDS = 20
LISTS = 500
WARM_UP = 20
WARM_UP_SECONDS = 2
FLOOD_SECONDS = 5
CONNECTIONS = 8
_COPY = "'r' || n.i"
RUNYARD = Path(sys.executable).parent / "runyard"
NOTES = (
    f"One server process and one client on {os.cpu_count()} cores. {SUBMITS_PER_SECOND} submits come in a second,",
    f"whether or not the earlier ones are answered, for {SUBMIT_SECONDS} s; lists are 25 of {RUNS:,} runs, one after",
    f"another. {WARM_UP_SECONDS} s of submits and {WARM_UP} lists come before the clock starts. Requests/s are GETs of",
    f"one run over {CONNECTIONS} connections; the bare route is Starlette on the same uvicorn, with the same bytes.",
    "The reference server, measured once: submit p50 219 ms, 857 MB, 20 s to start.",
)
BARE = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

content = open(sys.argv[1], "rb").read()


async def get(request: Request) -> Response:
    return Response(content, media_type="application/json")


app = Starlette(routes=[Route("/run", get)])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)
"""


RunSql = Callable[..., str]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one database; times in milliseconds, memory in MB."""

    name: str
    start: float
    idle: float
    submit: Sequence[float]
    listed: Sequence[float]
    per_second: float
    bare_per_second: float
    loaded: float


def measure() -> Section:
    """Both databases; PostgreSQL only where there is one."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        found.append(_measure_one("SQLite", f"sqlite:///{folder}/bench.db", Path(folder)))
    try:
        with run_postgres() as server, tempfile.TemporaryDirectory() as folder:
            url = server.create_database()
            found.append(_measure_one("PostgreSQL", url, Path(folder), run_sql=server.run_sql))
    except NoPostgres as error:
        progress(f"no PostgreSQL: {error}")
    rows: list[list[Cell]] = [_make_row(one) for one in found]
    columns = ["", "submit p50", "p99", "list p50", "p99", "GET/s", "bare/s", "ratio", "start s", "idle MB", "then MB"]
    goals = [goal for one in found for goal in _make_goals(one)]
    title = f"server over {RUNS:,} runs (ms unless said)"
    return Section("server", [Table(title, columns, rows)], goals, NOTES)


def _make_row(one: Figures) -> list[Cell]:
    times = [_percentile(values, part) for values in (one.submit, one.listed) for part in (50, 99)]
    shown: list[Cell] = [one.name, *(f"{value:.1f}" for value in times), f"{one.per_second:.0f}"]
    ratio = one.per_second / one.bare_per_second
    return [
        *shown,
        f"{one.bare_per_second:.0f}",
        f"{ratio:.2f}",
        f"{one.start:.2f}",
        f"{one.idle:.0f}",
        f"{one.loaded:.0f}",
    ]


def _make_goals(one: Figures) -> list[Goal]:
    return [
        Goal(f"{one.name}: submit p99 at {SUBMITS_PER_SECOND}/s", _percentile(one.submit, 99), "ms", at_most=100),
        Goal(f"{one.name}: list of 25, p99", _percentile(one.listed, 99), "ms", at_most=20),
        Goal(f"{one.name}: idle", one.idle, "MB", at_most=150),
        Goal(f"{one.name}: start", one.start, "s", at_most=2),
    ]


def _percentile(values: Sequence[float], part: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[part - 1]


def _measure_one(name: str, url: str, folder: Path, *, run_sql: RunSql | None = None) -> Figures:
    progress(f"{name}: a run, and {RUNS:,} like it")
    with _serve(url, folder) as (server, _):
        _prepare(server.url)
    _multiply(url, run_sql)
    with _serve(url, folder) as (server, start):
        idle = server.read_memory()
        progress(f"{name}: lists")
        asyncio.run(_time_all(server.url, [("GET", "/api/v1/-/bench/runs", None)] * WARM_UP))
        listed = asyncio.run(_time_all(server.url, [("GET", "/api/v1/-/bench/runs", None)] * LISTS))
        progress(f"{name}: submits")
        submit = asyncio.run(_submit_steadily(server.url))
        progress(f"{name}: one run, over and over")
        per_second, content = asyncio.run(_flood(server.url, "/api/v1/-/bench/runs/seed"))
        loaded = server.read_memory()
    return Figures(
        name, start, idle, submit, listed, per_second, bare_per_second=_flood_bare(content, folder), loaded=loaded
    )


@dataclass(frozen=True, slots=True)
class _Server:
    url: str
    process: "subprocess.Popen[bytes]"

    def read_memory(self) -> float:
        """Return its resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1000 if found else 0.0


@contextlib.contextmanager
def _serve(url: str, folder: Path) -> Iterator[tuple[_Server, float]]:
    log = folder / "server.log"
    command = [
        str(RUNYARD),
        "server",
        "--port",
        "0",
        "--data",
        str(folder),
        "--log-level",
        "warning",
        "--max-requests",
        "100000",
    ]
    with log.open("wb") as output:
        began = time.monotonic()
        # As it is installed: with the compiled modules that Python keeps.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**environment, "RUNYARD_DATABASE": url}
        )
    try:
        while (found := re.search(r"listens on (http://\S+)", log.read_text())) is None:
            if process.poll() is not None or time.monotonic() - began > 60:
                raise RuntimeError(log.read_text()[-2000:])
            time.sleep(0.01)
        yield _Server(found[1], process), time.monotonic() - began
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def _make_run(run_id: str) -> dict[str, Any]:
    spec = {
        "task": "container+job://bench/t1",
        "args": ["--epochs", "3"],
        "resources": {"cpu": "2", "mem": "8Gi"},
        "envs": [{"name": f"NAME_{number}", "value": "value"} for number in range(5)],
        "volumes": [
            {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "1Gi"}}
        ],
    }
    return {"kind": "container+job:run", "id": run_id, "metadata": {"labels": ["bench"]}, "spec": spec}


def _prepare(url: str) -> None:
    inside = "/api/v1/-/bench"
    function = {"kind": "container", "name": "box", "id": "f1", "spec": {"image": "busybox:1.36"}}
    task = {"kind": "container+job", "id": "t1", "spec": {"function": "container://bench/box:f1"}}
    asked = [
        ("POST", "/api/v1/projects", {"kind": "project", "name": "bench"}),
        ("POST", f"{inside}/functions", function),
        ("POST", f"{inside}/tasks", task),
        ("POST", f"{inside}/runs", _make_run("seed")),
    ]
    asyncio.run(_time_all(url, asked))


def _multiply(url: str, run_sql: RunSql | None) -> None:
    """Copy one run 100,000 times inside the database, because submits would take too long."""
    statements = [
        make_copy("runs", RUNS, where="t.id = 'seed'", replaced={"uid": _COPY, "id": _COPY}),
        make_copy(
            "transitions",
            RUNS,
            where="t.run_uid = (SELECT uid FROM runs WHERE id = 'seed')",
            replaced={"run_uid": _COPY},
        ),
    ]
    statements.append(f"UPDATE run_totals SET number = number + {RUNS}")
    if run_sql is None:
        with contextlib.closing(sqlite3.connect(urlsplit(url).path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)
            connection.execute("ANALYZE")
    else:
        # Run PostgreSQL's maintenance (autovacuum, analyze) before the measurement, not during it.
        for statement in (*statements, "VACUUM ANALYZE", "CHECKPOINT"):
            run_sql(statement, database=urlsplit(url).path.removeprefix("/"))


HttpCall = tuple[str, str, Any]


class _Connection:
    """A minimal HTTP/1.1 client: it shares the cores with the server, so it must be cheap."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader, self._writer, self._host = reader, writer, host

    @classmethod
    async def open(cls, url: str) -> "_Connection":
        """To the server at that address."""
        place = urlsplit(url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        return cls(reader, writer, place.netloc)

    async def ask(self, method: str, path: str, body: Any) -> bytes:
        """The body of the answer; anything but 200 ends the measurement."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        found = re.search(r"content-length: (\d+)", answer, re.IGNORECASE)
        received = await self._reader.readexactly(int(found[1]) if found else 0)
        if " 200 " not in answer.splitlines()[0]:
            raise RuntimeError(f"{method} {path}: {answer.splitlines()[0]} {received[:500]!r}")
        return received

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def _time_all(url: str, asked: Sequence[HttpCall]) -> list[float]:
    connection = await _Connection.open(url)
    times = []
    for method, path, body in asked:
        began = time.perf_counter()
        await connection.ask(method, path, body)
        times.append((time.perf_counter() - began) * 1000)
    connection.close()
    return times


async def _submit_steadily(url: str) -> list[float]:
    connections = [await _Connection.open(url) for _ in range(CONNECTIONS * 4)]
    free: asyncio.Queue[_Connection] = asyncio.Queue()
    for connection in connections:
        free.put_nowait(connection)
    times: list[float] = []
    warm_up = SUBMITS_PER_SECOND * WARM_UP_SECONDS

    async def submit(number: int) -> None:
        began = time.perf_counter()
        connection = await free.get()
        await connection.ask("POST", "/api/v1/-/bench/runs", _make_run(f"new-{number}"))
        free.put_nowait(connection)
        if number >= warm_up:
            times.append((time.perf_counter() - began) * 1000)

    start = time.perf_counter()
    tasks = []
    for number in range(warm_up + SUBMITS_PER_SECOND * SUBMIT_SECONDS):
        await asyncio.sleep(max(0.0, start + number / SUBMITS_PER_SECOND - time.perf_counter()))
        tasks.append(asyncio.create_task(submit(number)))
    await asyncio.gather(*tasks)
    for connection in connections:
        connection.close()
    return times


async def _flood(url: str, path: str) -> tuple[float, bytes]:
    content = b""
    count = 0

    async def go_on(until: float) -> None:
        nonlocal count, content
        connection = await _Connection.open(url)
        while time.perf_counter() < until:
            content = await connection.ask("GET", path, None)
            count += 1
        connection.close()

    began = time.perf_counter()
    work: Callable[[float], Awaitable[None]] = go_on
    await asyncio.gather(*(work(began + FLOOD_SECONDS) for _ in range(CONNECTIONS)))
    return count / (time.perf_counter() - began), content


def _flood_bare(content: bytes, folder: Path) -> float:
    (folder / "content").write_bytes(content)
    (folder / "bare.py").write_text(BARE)
    port = _find_port()
    process = subprocess.Popen([sys.executable, folder / "bare.py", folder / "content", str(port)])
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            with contextlib.suppress(OSError):
                asyncio.run(_time_all(url, [("GET", "/run", None)]))
                break
            time.sleep(0.05)
        return asyncio.run(_flood(url, "/run"))[0]
    finally:
        process.terminate()
        process.wait(timeout=30)


def _find_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
