"""The section `node`: the virtual node beside its provider, every measure beside its goal."""

import asyncio
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from bench.local.first_line import find_percentile
from bench.loop.world import measure_core_share
from bench.node.beds import LOG_FLAG, open_fake_bed, open_real_bed
from bench.node.full_node import FullNode, measure_full_node
from bench.node.pod_starts import Starts, measure_starts
from bench.node.throughput import Stream, measure_streams
from bench.report import Cell, Goal, Section, Table, progress
from testbed.pytest_plugin import kubernetes_version

MEASURES = ("starts", "streams", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    starts: int = 30
    exec_bytes: int = 150_000_000
    log_bytes: int = 100_000_000
    turns: int = 10
    pods: int = 1000
    idle_seconds: float = 30.0


FULL = Sizes()
SMALL = Sizes(starts=6, exec_bytes=30_000_000, log_bytes=20_000_000, turns=2, pods=100, idle_seconds=5.0)
"""For development: a few minutes, and no figure to quote."""


@dataclass
class Figures:
    """Everything that was measured; None: it was not asked for."""

    starts: Starts | None = None
    streams: Sequence[Stream] | None = None
    full: FullNode | None = None
    core_shares: list[float] = field(default_factory=list)
    """How much of a core was there for one busy process, before each measure."""


def measure(sizes: Sizes = FULL, *, only: Collection[str] = MEASURES) -> Section:
    """One agent, a Kubernetes provider."""
    return make_section(asyncio.run(_measure(sizes, only)), sizes)


async def _measure(sizes: Sizes, only: Collection[str]) -> Figures:
    found = Figures()
    if "starts" in only or "streams" in only:
        with open_real_bed() as bed:
            if "starts" in only:
                progress("pod starts")
                found.core_shares.append(measure_core_share())
                with bed.profiled("starts"):
                    found.starts = await measure_starts(bed, pods=sizes.starts)
            if "streams" in only:
                found.core_shares.append(measure_core_share())
                found.streams = await measure_streams(
                    bed, exec_bytes=sizes.exec_bytes, log_bytes=sizes.log_bytes, turns=sizes.turns
                )
    if "memory" in only:
        found.core_shares.append(measure_core_share())
        with open_fake_bed(pods=sizes.pods) as bed, bed.profiled("memory"):
            found.full = await measure_full_node(bed, pods=sizes.pods, idle_seconds=sizes.idle_seconds)
    return found


Described = tuple[Table, list[Goal]]


def make_section(found: Figures, sizes: Sizes) -> Section:
    """The tables, goals and notes of what was measured."""
    described: list[Described] = []
    if found.starts is not None:
        described.append(_describe_starts(found.starts))
    if found.streams is not None:
        described.append(_describe_streams(found.streams))
    if found.full is not None:
        described.append(_describe_full(found.full))
    goals = [goal for _, some in described for goal in some]
    return Section("node", [table for table, _ in described], goals, _write_notes(found, sizes))


def _describe_starts(starts: Starts) -> Described:
    measures = (
        ("direct: bound", starts.direct.bound),
        ("virtual node: bound", starts.virtual.bound),
        ("direct: Running", starts.direct.running),
        ("virtual node: Running at the provider", starts.remote.running),
        ("virtual node: Running", starts.virtual.running),
        ("from Running there to Running here", starts.returns),
        ("overhead: Running, less the direct pod of the turn", starts.overheads),
    )
    rows: list[list[Cell]] = [
        [name, *(find_percentile(sorted(values), part) * 1000 for part in (50, 95, 100))] for name, values in measures
    ]
    rows.append(["CPU of the agent per pod", starts.agent_cpu * 1000, "", ""])
    bound = find_percentile(sorted(starts.virtual.bound), 50) * 1000
    overhead = find_percentile(starts.overheads, 50) * 1000
    goals = [
        Goal("create → bound, p50", bound, "ms", at_most=300.0),
        Goal("pod start overhead beside a direct create, p50", overhead, "ms", at_most=300.0),
    ]
    return Table("ms after the create was sent, real containers", ["", "p50", "p95", "most"], rows), goals


def _describe_streams(streams: Sequence[Stream]) -> Described:
    rows: list[list[Cell]] = [
        [
            one.name,
            one.size / 1e6,
            *one.find_speeds(one.direct),
            *one.find_speeds(one.virtual),
            one.ratio,
            one.agent_cpu / one.size * 1e9,
        ]
        for one in streams
    ]
    columns = ["", "MB", "direct MB/s", "best", "virtual node MB/s", "best", "beside direct", "agent CPU ms per MB"]
    goals = [Goal(f"{one.name}: throughput beside direct", one.ratio, at_least=0.9) for one in streams]
    return Table("bytes of a container to kubectl", columns, rows), goals


def _describe_full(full: FullNode) -> Described:
    rows: list[list[Cell]] = [
        ["RSS without pods, MB", full.empty.rss / 1e6],
        [f"RSS with {full.pods:,} pods, MB", full.full.rss / 1e6],
        ["RSS per pod, KB", (full.full.rss - full.empty.rss) / full.pods / 1e3],
        ["seconds until all run", full.seconds],
        ["pods a second", full.pods / full.seconds],
        ["CPU of the agent per pod, ms", full.agent_cpu * 1000],
        ["cores busy while nothing happens", full.idle_cores],
    ]
    goal = Goal(f"memory of the agent with {full.pods:,} pods (RSS)", full.full.rss / 1e6, "MB", at_most=200.0)
    return Table("a full node, KWOK at the provider", ["", "is"], rows), [goal]


def _write_notes(found: Figures, sizes: Sizes) -> Sequence[str]:
    shares = ", ".join(f"{share:.2f}" for share in found.core_shares)
    notes = f"""
        Kubernetes {kubernetes_version()}. Two clusters of this machine: a local one without a node, and a provider;
        `runyard node` is a process between them, with the printed rights. Starts: one pod at a time, {sizes.starts}
        of each side, in turns; the same pod is created at the local cluster and directly at the provider, and a watch
        of each cluster says when it was bound and ran. The direct one is placed by the provider's scheduler, as the
        mirrored one is. Streams: kubectl reads from the same container, through the virtual node and directly;
        {sizes.turns} turns of each, the medians count. The way through the node has one more apiserver and the agent,
        which decrypt and encrypt every byte, on the same cores. Its log is one piece ({" ".join(LOG_FLAG)}). A full
        node: {sizes.pods:,} pods on nodes of KWOK, created by 16 clients at once. Share of a core that a busy process
        got before each measure: {shares}.
    """
    return textwrap.wrap(" ".join(notes.split()), width=110)
