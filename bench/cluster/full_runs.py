"""Full runs with real containers, by the server and by the raw client, in turns on the same cluster."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.cluster.audit import count_requests
from bench.cluster.beds import Bed, open_real_bed
from bench.cluster.raw_runs import RawRuns, watch_runs
from bench.cluster.recorded_objects import record_template
from bench.cluster.server import ClusterServer, open_server
from bench.loop.world import measure_core_share
from bench.report import progress

NAMESPACE = "bench"
RAW_NAMESPACE = "bench-raw"
RAW_AGENT = "bench-raw"
POLL_SECONDS = 0.02
SETTLE_SECONDS = 120.0
"""When a measure gives up waiting for one run."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two, over all its turns."""

    runs: int
    seconds: float
    cluster_cpu: Mapping[str, float]
    """CPU seconds by component."""
    own_cpu: float
    """CPU seconds of the server; of the raw client those of this process."""

    @property
    def per_second(self) -> float:
        """Full runs a second."""
        return self.runs / self.seconds


@dataclass(frozen=True, slots=True)
class FullRuns:
    """Both sides."""

    raw: Side
    server: Side
    turn_ratios: Sequence[float]
    requests: Mapping[str, float]
    """Of the server at the apiserver, by verb and resource, per run."""
    raw_requests: Mapping[str, float]
    flags: str
    core_share: float

    @property
    def ratio(self) -> float:
        """The server's speed beside the raw client's."""
        return self.server.per_second / self.raw.per_second


async def measure_full_runs(*, runs: int, in_flight: int, turns: int) -> FullRuns:
    """So many runs per turn, so many at a time; each side has so many turns."""
    with open_real_bed(has_audit=True) as bed:
        async with bed.connect("bench") as api, bed.connect(RAW_AGENT) as raw_api:
            for namespace in (NAMESPACE, RAW_NAMESPACE):
                await bed.create_namespace(api, namespace)
            async with open_server(bed, namespace=NAMESPACE) as server:
                template = await record_template(server, api)
                async with watch_runs(raw_api, template, namespace=RAW_NAMESPACE) as raw:
                    return await _take_turns(bed, server, raw, runs=runs, in_flight=in_flight, turns=turns)


async def _take_turns(
    bed: Bed, server: ClusterServer, raw: RawRuns, *, runs: int, in_flight: int, turns: int
) -> FullRuns:
    names = iter(f"raw-{number}" for number in range(runs * turns + in_flight))
    share = measure_core_share()
    async with _watch_settled(server) as live:
        # The first containers of a node take longer.
        await _run_all(lambda: raw.live(next(names)), in_flight, in_flight=in_flight)
        await _run_all(live, in_flight, in_flight=in_flight)
        before = _count_sides(bed)
        found: dict[str, list[Side]] = {"raw": [], "server": []}
        for turn in range(turns):
            progress(f"full runs: turn {turn + 1} of {turns}")
            order = ("raw", "server") if turn % 2 == 0 else ("server", "raw")
            for side in order:
                act = live if side == "server" else lambda: raw.live(next(names))
                pid_cpu = (lambda: server.read_cpu().own) if side == "server" else time.process_time
                found[side].append(await _measure_turn(bed, act, pid_cpu, runs=runs, in_flight=in_flight))
    await asyncio.sleep(1.0)  # the audit log is written behind the answers
    after, total = _count_sides(bed), runs * turns
    requests, raw_requests = (
        {name: (after[side][name] - before[side][name]) / total for name in after[side]} for side in ("server", "raw")
    )
    return FullRuns(
        raw=_add(found["raw"]),
        server=_add(found["server"]),
        turn_ratios=[
            ours.per_second / theirs.per_second for ours, theirs in zip(found["server"], found["raw"], strict=True)
        ],
        requests=requests,
        raw_requests=raw_requests,
        flags=bed.describe_flags(),
        core_share=share,
    )


async def _measure_turn(
    bed: Bed, act: Callable[[], Awaitable[None]], read_own: Callable[[], float], *, runs: int, in_flight: int
) -> Side:
    cluster, own = bed.read_cpu(), read_own()
    began = time.perf_counter()
    await _run_all(act, runs, in_flight=in_flight)
    seconds = time.perf_counter() - began
    own, after = read_own() - own, bed.read_cpu()
    return Side(runs, seconds, {name: after[name] - cluster.get(name, 0.0) for name in after}, own)


async def _run_all(act: Callable[[], Awaitable[None]], count: int, *, in_flight: int) -> None:
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await act()

    await asyncio.gather(*(work() for _ in range(in_flight)))


class _watch_settled:  # noqa: N801 - used like a function
    """Submits runs and waits until they are settled; one query a moment for all of them."""

    def __init__(self, server: ClusterServer) -> None:
        self._server = server
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Callable[[], Awaitable[None]]:
        self._task = asyncio.create_task(self._poll())
        return self._live

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _live(self) -> None:
        run_id = await self._server.submit("short")
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[run_id] = ended
        async with asyncio.timeout(SETTLE_SECONDS):
            if (state := await ended) != "COMPLETED":
                raise RuntimeError(f"a run of the bench ended as {state}")

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if not self._waiting:
                continue
            ids = ", ".join(f"'{run_id}'" for run_id in self._waiting)
            rows = self._server.fetch(f"SELECT id, state FROM runs WHERE id IN ({ids}) AND settled_at IS NOT NULL")
            for run_id, state in rows:
                self._waiting.pop(run_id).set_result(state)


def _add(turns: Sequence[Side]) -> Side:
    cluster: Counter[str] = Counter()
    for turn in turns:
        cluster.update(turn.cluster_cpu)
    runs, seconds = sum(turn.runs for turn in turns), sum(turn.seconds for turn in turns)
    return Side(runs, seconds, dict(cluster), sum(turn.own_cpu for turn in turns))


def _count_sides(bed: Bed) -> Mapping[str, Counter[str]]:
    return {
        "server": count_requests(bed.audit_log, agent="runyard/"),
        "raw": count_requests(bed.audit_log, agent=RAW_AGENT),
    }
