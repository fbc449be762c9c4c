"""The section `local`: every measure beside its goal, and beside the same work without Runyard."""

import asyncio
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.local.first_line import find_percentile, measure_first_line
from bench.local.full_runs import FullRuns, measure_runs
from bench.local.idle_runs import WATCHED_SECONDS, Idle, measure_idle
from bench.local.plain_loop import PlainRuns, Writes, measure_plain, record_writes
from bench.local.printing import LINE as PRINTED
from bench.local.printing import Printing, measure_printing
from bench.local.server import LINE, LINE_HANDLER, PASS, PASS_HANDLER, LocalServer, open_server
from bench.loop.world import measure_core_share
from bench.report import Cell, Goal, Section, Table, progress

LARGEST_PER_RUN_MB = 12.0
"""The goal for the memory of the server per run, and for that of a supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    lone_runs: int = 40
    runs: int = 200
    in_flight: int = 8
    lines: int = 100
    idle_runs: int = 50
    idle_seconds: float = WATCHED_SECONDS
    printed_bytes: int = 100_000_000


FULL = Sizes()


@dataclass(frozen=True, slots=True)
class Load:
    """Full runs at so many in flight, with and without the launcher, beside the plain loop."""

    in_flight: int
    plain: PlainRuns
    command: FullRuns
    handler: FullRuns

    @property
    def supervisor_cpu_ms(self) -> float:
        """What is left of the processes' time without `python -c pass`, as the plain loop runs it."""
        return self.command.processes_cpu_ms - self.plain.process_cpu_ms


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that was measured."""

    writes: Writes
    loads: Sequence[Load]
    line: Sequence[float]
    line_handler: Sequence[float]
    idle: Idle
    printing: Printing
    core_shares: Sequence[float]
    """How much of a core was there for one busy process, between the measurements."""


def measure(sizes: Sizes = FULL) -> Section:
    """With SQLite, at one server."""
    return _make_section(asyncio.run(_measure(sizes)), sizes)


async def _measure(sizes: Sizes) -> Figures:
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as name:
        folder = Path(name)
        async with open_server() as server:
            shares = [measure_core_share()]
            writes = await record_writes(server, folder)
            loads = [
                await _measure_load(server, writes, folder, runs=runs, in_flight=in_flight)
                for runs, in_flight in ((sizes.lone_runs, 1), (sizes.runs, sizes.in_flight))
            ]
            shares.append(measure_core_share())
            progress("the first line")
            line = await measure_first_line(server, LINE, runs=sizes.lines)
            line_handler = await measure_first_line(server, LINE_HANDLER, runs=sizes.lines)
            progress("printing")
            printing = await measure_printing(server, folder, size=sizes.printed_bytes)
            shares.append(measure_core_share())
        async with open_server() as server:
            progress("idle runs")
            idle = await measure_idle(server, runs=sizes.idle_runs, seconds=sizes.idle_seconds)
    return Figures(writes, loads, line, line_handler, idle, printing, shares)


async def _measure_load(server: LocalServer, writes: Writes, folder: Path, *, runs: int, in_flight: int) -> Load:
    progress(f"full runs, {in_flight} in flight")
    plain = await asyncio.to_thread(measure_plain, writes, folder, runs=runs, in_flight=in_flight)
    command = await measure_runs(server, PASS, runs=runs, in_flight=in_flight)
    handler = await measure_runs(server, PASS_HANDLER, runs=runs, in_flight=in_flight)
    return Load(in_flight, plain, command, handler)


def _make_section(found: Figures, sizes: Sizes) -> Section:
    tables = [_make_runs_table(found), _make_line_table(found), _make_idle_table(found), _make_printing_table(found)]
    return Section("local", tables, _list_goals(found), _write_notes(found, sizes))


def _make_runs_table(found: Figures) -> Table:
    columns = ["", "in flight", "runs/s", "beside plain", "CPU ms: server", "supervisor", "program", "bench"]
    rows: list[list[Cell]] = []
    for load in found.loads:
        plain, command, handler, at = load.plain, load.command, load.handler, str(load.in_flight)
        supervisor = load.supervisor_cpu_ms
        rows += [
            ["python -c pass, plain loop", at, plain.per_second, 1.0, "", "", plain.process_cpu_ms, plain.loop_cpu_ms],
            [
                "python -c pass, run",
                at,
                command.per_second,
                command.per_second / plain.per_second,
                command.server_cpu_ms,
                supervisor,
                plain.process_cpu_ms,
                command.client_cpu_ms,
            ],
            [
                "def main(): pass, run by the launcher",
                at,
                handler.per_second,
                handler.per_second / plain.per_second,
                handler.server_cpu_ms,
                supervisor,
                handler.processes_cpu_ms - supervisor,
                handler.client_cpu_ms,
            ],
        ]
    return Table("full runs, CPU in ms per run", columns, rows)


def _make_line_table(found: Figures) -> Table:
    rows: list[list[Cell]] = [
        [name, find_percentile(values, 50), find_percentile(values, 99), values[0]]
        for name, values in (("command", found.line), ("handler, by the launcher", found.line_handler))
    ]
    return Table("submit → first line of the program, through log?follow", ["", "p50 ms", "p99 ms", "best ms"], rows)


def _make_idle_table(found: Figures) -> Table:
    idle, goal = found.idle, f"≤ {LARGEST_PER_RUN_MB:g}"
    rows: list[list[Cell]] = [
        [name, memory.rss / 1e6, "not readable" if memory.pss is None else memory.pss / 1e6, goal, f"{cpu:.3f}"]
        for name, memory, cpu in (
            ("server, per run", idle.server, idle.server_cpu),
            ("supervisor of a run", idle.supervisor, idle.supervisor_cpu),
        )
    ]
    return Table("a run that is idle", ["", "RSS MB", "PSS MB", "goal", "CPU ms per s"], rows)


def _make_printing_table(found: Figures) -> Table:
    one = found.printing
    rows: list[list[Cell]] = [
        ["cat > file", one.cat, 1.0, ""],
        ["supervisor, without a server", one.alone, one.alone / one.cat, one.alone_wall],
        ["supervisor, with a server", one.supervisor, one.supervisor / one.cat, ""],
        ["server: reads, stores, notifies", one.server, one.server / one.cat, one.server_wall],
    ]
    return Table("a run that prints", ["", "CPU s", "beside cat", "wall s"], rows)


def _list_goals(found: Figures) -> Sequence[Goal]:
    idle = found.idle
    return [
        Goal("memory of the server per run (RSS)", idle.server.rss / 1e6, "MB", at_most=LARGEST_PER_RUN_MB),
        Goal("memory of a supervisor (RSS)", idle.supervisor.rss / 1e6, "MB", at_most=LARGEST_PER_RUN_MB),
    ]


def _write_notes(found: Figures, sizes: Sizes) -> Sequence[str]:
    shares = ", ".join(f"{share:.2f}" for share in found.core_shares)
    notes = f"""
        A run is submitted over HTTP, executed, COMPLETED, and settled: log stored, result stored, nothing left to do.
        The plain loop calls subprocess.run on the same interpreter and makes the writes of such a run:
        {found.writes.text}.
        In flight: threads of the plain loop, and clients that submit again when their run is settled. The CPU of the
        supervisor is that of all processes of a run less the program's in the plain loop: so it includes the fork,
        the cgroup and the mount namespace of the program. `bench` is this process: the plain loop, or the HTTP client
        that polls; it shares the cores. First line: {sizes.lines} runs, one after another. Idle: {sizes.idle_runs}
        runs that sleep; the server's memory is by how much it grew. Printing: {sizes.printed_bytes:,} bytes in lines of
        {len(PRINTED) + 1} bytes by `yes | head`; CPU of `cat` alone, of the supervisor alone, and of the server from
        the submit until all is stored. Share of a core that a busy process got: {shares}.
    """
    return textwrap.wrap(" ".join(notes.split()), width=110)
