"""The section `loop`: every measure beside its goal, for both databases."""

import asyncio
import statistics
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.loop.events import CREATE_SECONDS, Burst, Hints, measure_burst, measure_hints
from bench.loop.lives import Lives, measure_lives
from bench.loop.restart import Restart, run_restart
from bench.loop.world import LIMIT_SECONDS, measure_core_share, open_world
from bench.report import Cell, Goal, Section, Table, progress
from tests.postgres import NoPostgres, run_postgres


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    lone_lives: int = 20
    lives: int = 200
    events: int = 500
    creates: int = 400
    hinted_runs: int = 500
    hint_rounds: int = 20
    restarted: int = 10_000
    changed: int = 1000
    """How many of the restarted runs ended while no loop ran."""
    few: int = 1000
    """The smaller number of active runs, for the memory of one."""
    repeats: int = 3
    quiet_seconds: float = 0.5
    """A loop that has written nothing for so long has nothing to do."""


FULL = Sizes()


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one database; bursts and restarts once per repetition."""

    name: str
    lives: Lives
    burst: Sequence[Burst]
    behind_creates: Sequence[Burst]
    hints: Hints
    few: Restart
    restarts: Sequence[Restart]
    core_share: float
    """How much of a core was there for it, between the measurements."""

    @property
    def bytes_per_run(self) -> float:
        """Growth per active run, from the smaller to the larger restart."""
        return min((one.grown_bytes - self.few.grown_bytes) / (one.active - self.few.active) for one in self.restarts)


def measure(sizes: Sizes = FULL, *, has_postgresql: bool = True) -> Section:
    """SQLite, then PostgreSQL where there is one."""
    found = [_measure_sqlite(sizes)]
    if has_postgresql:
        try:
            with run_postgres() as server, tempfile.TemporaryDirectory() as folder:
                found.append(_measure_one("PostgreSQL", server.create_database, Path(folder), sizes))
        except NoPostgres as error:
            progress(f"no PostgreSQL: {error}")
    return _make_section(found, sizes)


def _measure_sqlite(sizes: Sizes) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        return _measure_one("SQLite", lambda: f"sqlite:///{tempfile.mkdtemp(dir=folder)}/bench.db", Path(folder), sizes)


def _measure_one(name: str, make_url: Callable[[], str], folder: Path, sizes: Sizes) -> Figures:
    shares = [measure_core_share()]
    lives, burst, behind, hints = asyncio.run(_measure_running(name, make_url(), folder, sizes))
    shares.append(measure_core_share())
    progress(f"{name}: restarts")
    few = _measure_restarts(make_url(), folder, active=sizes.few, changed=max(1, sizes.changed // 10), repeats=1)
    many = _measure_restarts(make_url(), folder, active=sizes.restarted, changed=sizes.changed, repeats=sizes.repeats)
    shares.append(measure_core_share())
    return Figures(name, lives, burst, behind, hints, few[0], many, statistics.median(shares))


async def _measure_running(
    name: str, url: str, folder: Path, sizes: Sizes
) -> tuple[Lives, Sequence[Burst], Sequence[Burst], Hints]:
    async with open_world(url, folder, quiet_seconds=sizes.quiet_seconds) as world:
        progress(f"{name}: lives")
        lives = await measure_lives(world, lone=sizes.lone_lives, burst=sizes.lives)
        run = await world.lead_to_running()
        progress(f"{name}: events")
        rounds = range(sizes.repeats)
        burst = [await measure_burst(world, run, events=sizes.events, name=f"burst{number}") for number in rounds]
        progress(f"{name}: events behind creates")
        behind = [
            await measure_burst(world, run, events=sizes.events, creates=sizes.creates, name=f"behind{number}")
            for number in rounds
        ]
        progress(f"{name}: hints")
        hints = await measure_hints(world, run, runs=sizes.hinted_runs, rounds=sizes.hint_rounds)
    return lives, burst, behind, hints


def _measure_restarts(url: str, folder: Path, *, active: int, changed: int, repeats: int) -> list[Restart]:
    """Every restart leaves fewer active runs, so there are more at the beginning; the last one has `active`."""
    asyncio.run(_populate(url, folder, active + changed * (repeats - 1)))
    return [run_restart(url, folder, changed=changed) for _ in range(repeats)]


async def _populate(url: str, folder: Path, count: int) -> None:
    async with open_world(url, folder) as world:
        run = await world.lead_to_running()
        await world.multiply(run, count - 1, name="restarted")


@dataclass(frozen=True, slots=True)
class _Measure:
    name: str
    unit: str
    read: Callable[[Figures], float]
    at_most: float | Mapping[str, float] | None = None
    """One goal for all databases, or by name; None: shown for comparison."""

    def find_goal(self, database: str) -> float | None:
        return self.at_most.get(database) if isinstance(self.at_most, Mapping) else self.at_most


def _list_measures(sizes: Sizes) -> Sequence[_Measure]:
    restart = f"restart with {sizes.restarted:,} active runs"
    cpu_goal = {"SQLite": 8.0, "PostgreSQL": 12.0}
    return (
        _Measure(f"CPU per life, {sizes.lives} at once", "ms", lambda one: one.lives.burst.cpu_ms, cpu_goal),
        _Measure("CPU per life, alone", "ms", lambda one: one.lives.lone.cpu_ms),
        _Measure("CPU per submit, beside it", "ms", lambda one: one.lives.submit_cpu_ms),
        _Measure(f"write transactions per life, {sizes.lives} at once", "", lambda one: one.lives.burst.commits, 4),
        _Measure("write transactions per life, alone", "", lambda one: one.lives.lone.commits, 4),
        _Measure("statements per life, alone", "", lambda one: one.lives.lone.statements),
        *_list_event_measures(f"{sizes.events} events at once", lambda one: one.burst),
        *_list_event_measures(f"{sizes.events} events behind {sizes.creates} creates", lambda one: one.behind_creates),
        _Measure("CPU per hint without a change", "ms", lambda one: one.hints.cpu_ms, 0.05),
        _Measure("transactions per hint without a change", "", lambda one: one.hints.commits, 0),
        _Measure(restart, "s", lambda one: statistics.median(found.seconds for found in one.restarts), 10),
        _Measure(f"{restart}, best", "s", lambda one: min(found.seconds for found in one.restarts)),
        _Measure(f"{restart}: CPU", "s", lambda one: min(found.cpu_seconds for found in one.restarts)),
        _Measure("memory per active run", "KB", lambda one: one.bytes_per_run / 1000, 8),
        _Measure("share of a core that a busy process got", "", lambda one: one.core_share),
    )


def _list_event_measures(name: str, find: Callable[[Figures], Sequence[Burst]]) -> Sequence[_Measure]:
    def list_percentiles(one: Figures, part: int) -> list[float]:
        return [burst.find_percentile(part) for burst in find(one)]

    return (
        _Measure(f"{name}: p50", "s", lambda one: statistics.median(list_percentiles(one, 50))),
        _Measure(f"{name}: p99", "s", lambda one: statistics.median(list_percentiles(one, 99)), 0.5),
        _Measure(f"{name}: p99, best", "s", lambda one: min(list_percentiles(one, 99))),
        _Measure(f"{name}: CPU", "s", lambda one: min(burst.cpu_seconds for burst in find(one))),
    )


def _make_section(found: Sequence[Figures], sizes: Sizes) -> Section:
    measures = _list_measures(sizes)
    columns = ["", "unit", *(text for one in found for text in (one.name, "goal", "is/goal"))]
    rows = [[measure.name, measure.unit, *_make_cells(measure, found)] for measure in measures]
    goals = [
        Goal(f"{one.name}: {measure.name}", measure.read(one), measure.unit, at_most=goal)
        for one in found
        for measure in measures
        if (goal := measure.find_goal(one.name)) is not None
    ]
    return Section(
        "loop", [Table("the life of a run, with an engine in memory", columns, rows)], goals, _write_notes(sizes)
    )


def _make_cells(measure: _Measure, found: Sequence[Figures]) -> list[Cell]:
    cells: list[Cell] = []
    for one in found:
        value, goal = measure.read(one), measure.find_goal(one.name)
        ratio = f"{value / goal:.2f}" if goal else ""
        cells += [f"{value:.3f}" if value < 1 else f"{value:.2f}", "" if goal is None else f"≤ {goal:g}", ratio]
    return cells


def _write_notes(sizes: Sizes) -> Sequence[str]:
    create_ms = CREATE_SECONDS * 1000
    notes = f"""
        CPU is the time of this process, all threads, without the bench's own reads; a PostgreSQL server's own time is
        not in it. A life is PENDING, RUNNING and COMPLETED; the engine goes on when the state is stored. The life ends
        when nothing is left to do. Write transactions are the commits that SQLAlchemy reports, without the submit's.
        Events are runs that end at the engine. The time ends when a second connection, which reads every few ms, finds
        the state stored. Creates take {create_ms:.0f} ms each at the engine, and are queued before the events.
        A hint repeats an observation that is stored already; an idle loop's cost is subtracted.
        Restart: a fresh process; {sizes.changed:,} runs ended while it was away. The time ends when all stored states
        are the engine's. Memory: how much more that process grows with these runs than with {sizes.few:,}, in resident
        bytes per run, after the loop is quiet; the engine's objects exist before.
        Wall times are medians of {sizes.repeats} rounds, with the best and the CPU time below: other processes on these
        cores add to them, as the share of a core shows. A wait ends after {LIMIT_SECONDS:.0f} s; events that are not
        stored by then count as that.
    """
    return textwrap.wrap(" ".join(notes.split()), width=110)
