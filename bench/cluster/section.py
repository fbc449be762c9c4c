"""The section `cluster`: every measure beside its goal, and beside a raw client on the same cluster."""

import asyncio
import os
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from bench.cluster.active_runs import ActiveRuns, measure_active
from bench.cluster.beds import CONTROL_PLANE, open_fake_bed
from bench.cluster.drained_queue import Drained, Queues, measure_queue
from bench.cluster.followed_lines import FollowedLines, measure_follow
from bench.cluster.full_runs import FullRuns, Side, measure_full_runs
from bench.cluster.latencies import Ends, Submits, measure_submits
from bench.cluster.restarts import Restart, measure_restarts
from bench.local.first_line import find_percentile
from bench.loop.world import measure_core_share
from bench.report import Cell, Goal, Section, Table, progress

MEASURES = ("full-runs", "queue", "submit", "active", "restart", "follow")
REFERENCE_RATIO = 0.42
"""Full runs of the reference server (DigitalHub Core 0.15.1) beside a raw client, measured on a testbed."""
REFERENCE_ENDS = "p50 14.5 s, p99 26.5 s"
"""Its time from the end of a container to the state of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    full_runs: int = 48
    """Per turn."""
    full_turns: int = 4
    full_in_flight: int = 8
    queue: int = 5000
    submits: int = 200
    few_active: int = 1500
    active: int = 5000
    restarted: int = 10_000
    restart_changed: int = 500
    ends: int = 500
    ends_seconds: float = 25.0
    followers: int = 20
    follow_seconds: float = 30.0


FULL = Sizes()
SMALL = Sizes(
    full_runs=16,
    full_turns=2,
    queue=200,
    submits=40,
    few_active=100,
    active=300,
    restarted=300,
    restart_changed=20,
    ends=50,
    ends_seconds=5.0,
    followers=5,
    follow_seconds=10.0,
)
"""For development: a few minutes, and no figure to quote."""


@dataclass
class Figures:
    """Everything that was measured; None: it was not asked for."""

    full: FullRuns | None = None
    queues: Queues | None = None
    submits: Submits | None = None
    active: ActiveRuns | None = None
    restarts: Sequence[Restart] = ()
    followed: FollowedLines | None = None
    core_shares: list[float] = field(default_factory=list)
    """How much of a core was there for one busy process, before each measure."""


def measure(sizes: Sizes = FULL, *, only: Collection[str] = MEASURES) -> Section:
    """With SQLite, at one server."""
    return make_section(asyncio.run(_measure(sizes, only)), sizes)


async def _measure(sizes: Sizes, only: Collection[str]) -> Figures:
    found = Figures()
    if "full-runs" in only:
        found.core_shares.append(measure_core_share())
        found.full = await measure_full_runs(
            runs=sizes.full_runs, in_flight=sizes.full_in_flight, turns=sizes.full_turns
        )
    # A cluster of its own for each: what one measure leaves behind does not slow the next.
    if "submit" in only:
        found.core_shares.append(measure_core_share())
        async with open_fake_bed(most_pods=3 * sizes.submits) as bed:
            progress("submit: until the Job is visible")
            found.submits = await measure_submits(bed, runs=sizes.submits)
    if "queue" in only:
        found.core_shares.append(measure_core_share())
        async with open_fake_bed(most_pods=3 * sizes.queue) as bed:
            found.queues = await measure_queue(bed, runs=sizes.queue)
    if "active" in only:
        found.core_shares.append(measure_core_share())
        async with open_fake_bed(most_pods=sizes.active) as bed:
            found.active = await measure_active(
                bed, few=sizes.few_active, runs=sizes.active, events=sizes.ends, seconds=sizes.ends_seconds
            )
    if "restart" in only:
        found.core_shares.append(measure_core_share())
        async with open_fake_bed(most_pods=sizes.restarted) as bed:
            found.restarts = await measure_restarts(bed, runs=sizes.restarted, changed=sizes.restart_changed)
    if "follow" in only:
        found.core_shares.append(measure_core_share())
        found.followed = await measure_follow(followers=sizes.followers, seconds=sizes.follow_seconds)
    return found


Described = tuple[list[Table], list[Goal]]


def make_section(found: Figures, sizes: Sizes) -> Section:
    """The tables, goals and notes of what was measured."""
    described: list[Described] = []
    if found.full is not None:
        described.append(_describe_full(found.full))
    if found.submits is not None:
        described.append(_describe_submits(found.submits))
    if found.queues is not None:
        described.append(_describe_queues(found.queues))
    if found.active is not None:
        described.append(_describe_active(found.active))
    if found.restarts:
        described.append(_describe_restarts(found.restarts))
    if found.followed is not None:
        described.append(_describe_followed(found.followed))
    tables = [table for some, _ in described for table in some]
    goals = [goal for _, some in described for goal in some]
    return Section("cluster", tables, goals, _write_notes(found, sizes))


def _describe_full(full: FullRuns) -> Described:
    columns = ["", "runs/s", "beside raw", "CPU ms: own", *("etcd", "apiserver", "kubelet", "containerd", "others")]
    rows = [_make_full_row("raw client", full.raw, full), _make_full_row("server", full.server, full)]
    names = sorted({*full.requests, *full.raw_requests})
    requests: list[list[Cell]] = [
        [name, full.requests.get(name, 0.0), full.raw_requests.get(name, 0.0)]
        for name in names
        if max(full.requests.get(name, 0.0), full.raw_requests.get(name, 0.0)) >= 0.01
    ]
    totals = [sum(counts.values()) for counts in (full.requests, full.raw_requests)]
    tables = [
        Table("full runs with real containers, CPU in ms per run", columns, rows),
        Table("requests at the apiserver per run", ["", "server", "raw client"], [*requests, ["all", *totals]]),
    ]
    return tables, [Goal("full runs with real containers, beside the raw client", full.ratio, at_least=0.9)]


def _make_full_row(name: str, side: Side, full: FullRuns) -> list[Cell]:
    each = 1000 / side.runs
    shown = ("etcd", "kube-apiserver", "kubelet", "containerd")
    others = sum(used for component, used in side.cluster_cpu.items() if component not in shown)
    return [
        name,
        side.per_second,
        side.per_second / full.raw.per_second,
        side.own_cpu * each,
        *(side.cluster_cpu.get(component, 0.0) * each for component in shown),
        others * each,
    ]


def _describe_submits(submits: Submits) -> Described:
    rows: list[list[Cell]] = []
    goals = []
    for part in (50, 99):
        ours, theirs = (find_percentile(values, part) * 1000 for values in (submits.server, submits.raw))
        rows.append([f"p{part}", theirs, ours, ours / theirs])
        goals.append(Goal(f"submit → Job visible, p{part} beside a raw create", ours / theirs, at_most=3.0))
    columns = ["", "raw create ms", "submit ms", "beside raw"]
    return [Table("until a watch shows the Job", columns, rows)], goals


def _describe_queues(queues: Queues) -> Described:
    columns = ["", "runs", "seconds", "runs/s", "beside raw", "CPU ms: own", *CONTROL_PLANE, "cores busy"]
    raw = queues.same_writes
    rows = [
        _make_queue_row(name, one, raw)
        for name, one in (
            ("raw loop, the same writes", raw),
            ("server", queues.server),
            ("raw loop, Jobs only created", queues.create_only),
        )
    ]
    ratio = queues.server.per_second / raw.per_second
    goal = Goal(f"a queue of {queues.server.runs:,} runs drained, beside the raw loop", ratio, at_least=0.6)
    return [Table("a queue drained on nodes of KWOK, CPU in ms per run", columns, rows)], [goal]


def _make_queue_row(name: str, one: Drained, raw: Drained) -> list[Cell]:
    busy = (one.own_cpu + sum(one.cluster_cpu.values())) / one.seconds
    return [
        name,
        float(one.runs),
        one.seconds,
        one.per_second,
        one.per_second / raw.per_second,
        one.own_cpu_ms,
        *(one.get_cpu_ms(component) for component in CONTROL_PLANE),
        busy,
    ]


def _describe_active(active: ActiveRuns) -> Described:
    ends = active.ends
    p99 = max(find_percentile(ends.steady, 99), find_percentile(ends.burst, 99))
    goals = [
        Goal(f"pod event → state, p99 with {ends.active:,} active runs", p99, "s", at_most=1.0),
        Goal("memory per active run without its log stream", active.bytes_per_run / 1000, "KB", at_most=20.0),
    ]
    return [_make_ends_table(ends), _make_memory_table(active)], goals


def _make_ends_table(ends: Ends) -> Table:
    paces = ((f"{ends.steady_per_second:.0f} a second", ends.steady), (f"{len(ends.burst)} at once", ends.burst))
    rows: list[list[Cell]] = [
        [name, find_percentile(values, 50), find_percentile(values, 99), values[-1]] for name, values in paces
    ]
    title = f"a pod ends → the state of its run is stored, {ends.active:,} active runs"
    return Table(title, ["", "p50 s", "p99 s", "most s"], rows)


def _make_memory_table(active: ActiveRuns) -> Table:
    rows: list[list[Cell]] = [[f"{one.runs:,} active runs", one.rss / 1e6, ""] for one in active.memories]
    rows[-1][-1] = active.idle_cpu
    return Table("the server while nothing happens", ["", "RSS MB", "cores busy"], rows)


def _describe_restarts(restarts: Sequence[Restart]) -> Described:
    rows: list[list[Cell]] = [
        [
            f"{one.runs:,} active, {one.changed:,} ended meanwhile",
            one.listening_seconds,
            one.true_seconds,
            one.cpu_seconds,
            *(one.cluster_cpu.get(component, 0.0) for component in CONTROL_PLANE),
        ]
        for one in restarts
    ]
    first = restarts[0]
    true = max(one.true_seconds for one in restarts)
    goal = Goal(f"restart with {first.runs + first.changed:,} active runs to full truth", true, "s", at_most=10.0)
    return [Table("restart", ["", "listens s", "all true s", "CPU s: own", *CONTROL_PLANE], rows)], [goal]


def _describe_followed(followed: FollowedLines) -> Described:
    phases = (("quiet", followed.quiet, followed.raw_quiet), ("beside a flood", followed.flooded, followed.raw_flooded))
    rows: list[list[Cell]] = [
        [
            name,
            *(float(len(ours)), find_percentile(ours, 50), find_percentile(ours, 99), ours[-1]),
            *(find_percentile(raw, 50), find_percentile(raw, 99)),
        ]
        for name, ours, raw in phases
    ]
    title = f"a line is printed → the client that follows it has it, {followed.followers} runs, each followed"
    goals = [
        Goal(f"a followed line, p99, {name}", find_percentile(ours, 99), "s", at_most=1.0) for name, ours, _ in phases
    ]
    megabytes = f"the flood: {followed.flood_bytes / 1e6:.0f} MB were stored meanwhile"
    return [
        Table(f"{title}; {megabytes}", ["", "lines", "p50 s", "p99 s", "most s", "raw p50 s", "raw p99 s"], rows)
    ], goals


def _write_notes(found: Figures, sizes: Sizes) -> Sequence[str]:
    shares = ", ".join(f"{share:.2f}" for share in found.core_shares)
    turns = "" if found.full is None else ", ".join(f"{ratio:.2f}" for ratio in found.full.turn_ratios)
    flags = "" if found.full is None else f"Flags: {found.full.flags}."
    notes = f"""
        The raw client is one asyncio process without retries, limits or a database. It sends what the server sends
        for a run, recorded from the cluster, in the same order: POST Job (suspended), POST Secret, PATCH that
        releases it, DELETE Secret and PATCH with the TTL after a watch has shown the end. The server does that and
        stores states, log and history in SQLite; a run counts when it is settled. Both send to the same apiserver,
        in turns. Full runs: `true` in busybox, {sizes.full_in_flight} in flight, {sizes.full_turns} turns of
        {sizes.full_runs} runs each; the ratio of each turn: {turns}. The reference server has {REFERENCE_RATIO} of
        a raw client. CPU of containers and their shims is not in the table. Requests are counted in the audit log,
        for the whole life of a run. Queue: submitted over HTTP by 16 clients, which is part of the time; pods of
        KWOK end a second after they run. The raw loop drains half of its queue before the server, half after it.
        `own` is the server, or the raw client. What bounds it is the column that is busy: the cores are shared by
        the control plane and the server, and `cores busy` of {os.cpu_count()} says
        whether anything else was waited for. Submit: one at a time, in turns with a raw create, each seen by a
        watch of its own. Pod event: pods of active runs are patched to Succeeded, {sizes.ends} at an even pace,
        then {sizes.ends} at once; from the event at an independent watch to the state in the database, which the
        API reads. The reference has {REFERENCE_ENDS}, with few runs. Memory: what the server grew from
        {sizes.few_active:,} to {sizes.active:,} active runs; with both numbers it follows as many logs as it may at
        once. Followed lines: each run prints the uptime of the machine twice a second, which the client compares with
        the uptime when the line comes; all processes are on this machine, and a raw client follows a quarter of the
        pods at the apiserver meanwhile. Restart: from the start of the process
        until every run that ended meanwhile has its state; the slowest of two. {flags} Share of a core that a busy
        process got before each measure: {shares}.
    """
    return textwrap.wrap(" ".join(notes.split()), width=110)
