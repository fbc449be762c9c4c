"""A server that starts while thousands of runs are active, some of which ended while no server lived."""

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cluster.active_runs import SEED, grow
from bench.cluster.beds import Bed
from bench.cluster.fake_kubelet import HELD
from bench.cluster.latencies import end_some
from bench.cluster.server import ClusterServer, open_server
from bench.report import progress

RESTARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A server that starts while so many runs are active."""

    runs: int
    changed: int
    """How many of them had ended while no server lived."""
    listening_seconds: float
    true_seconds: float
    """From the start of the process until every stored state is the cluster's."""
    cpu_seconds: float
    cluster_cpu: Mapping[str, float]
    """CPU seconds of the control plane until then, by component."""


async def measure_restarts(bed: Bed, *, runs: int, changed: int) -> Sequence[Restart]:
    """Submit so many runs; then one server after the other starts on them."""
    folder = Path(tempfile.mkdtemp(prefix="runyard-bench-"))
    try:
        async with bed.connect("bench") as api:
            await bed.create_namespace(api, HELD)
        async with open_server(bed, namespace=HELD, folder=folder) as server:
            tasks = dict(server.tasks)
            await grow(server, runs)
        return [await _restart(bed, folder, tasks, changed=changed) for _ in range(RESTARTS)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _restart(bed: Bed, folder: Path, tasks: Mapping[str, str], *, changed: int) -> Restart:
    """Runs end while no server lives; then one starts."""
    async with bed.connect("bench") as api:
        ended = await end_some(bed, api, HELD, count=changed, seed=SEED)
    progress(f"restart: {len(ended)} runs have ended meanwhile")
    before, began = bed.read_cpu(), time.perf_counter()
    async with open_server(bed, namespace=HELD, folder=folder, tasks=tasks) as server:
        listening = time.perf_counter() - began
        seconds, used = await server.profile(_wait_true(server, ended, began), phase="restart", is_from_start=True)
        after = bed.read_cpu()
        cluster_cpu = {component: after[component] - before[component] for component in before}
        runs = server.count("state = 'RUNNING'")
        progress(f"restart: listens after {listening:.1f} s, true after {seconds:.1f} s, {used:.1f} s of CPU")
        await server.wait_none("state = 'COMPLETED' AND settled_at IS NULL")
    return Restart(
        runs=runs,
        changed=len(ended),
        listening_seconds=listening,
        true_seconds=seconds,
        cpu_seconds=used,
        cluster_cpu=cluster_cpu,
    )


async def _wait_true(server: ClusterServer, ended: Sequence[str], began: float) -> tuple[float, float]:
    """Until the runs that have ended are known to; returns the seconds, and the CPU seconds of the server."""
    ids = ", ".join(f"'{run_id}'" for run_id in ended)
    await server.wait_count(f"id IN ({ids}) AND state = 'COMPLETED'", len(ended), pause=0.05)
    return time.perf_counter() - began, server.read_cpu().own
