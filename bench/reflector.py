"""Our reflector against the official client's informer and lightkube's watch, on the same pods."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from bench.pods import create_pods, relabel_pods, render_pod
from bench.report import Cell, Goal, Section, Table, progress
from runyard.kube import Client, load_kubeconfig
from runyard.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS
from testbed.cluster import Cluster
from testbed.site import Options

PODS_COUNT = int(os.environ.get("RUNYARD_BENCH_PODS", "10000"))
ROUNDS = 3
NAMESPACE = "bench"
OURS, VIEW, OFFICIAL, LIGHTKUBE = "ours", "ours_view", "official", "lightkube_watch"
NAMES: Mapping[str, str] = {
    OURS: "runyard Reflector, whole objects",
    VIEW: "runyard Reflector, five fields",
    OFFICIAL: "kubernetes SharedInformer",
    LIGHTKUBE: "lightkube list + watch",
}
SPEED_GOAL = 3.0
MEMORY_GOAL = 0.5
NOTES = (
    "× is the ratio to the official client; each contestant runs in a fresh process, in turns.",
    "bytes/object is the growth of the resident set, after garbage collection.",
    "A watch is judged by the contestant's own CPU time, because the apiserver's writing sets its pace.",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one contestant took in one round, or its best of several."""

    import_cpu_seconds: float
    sync_seconds: float
    sync_cpu_seconds: float
    held_bytes: float
    peak_bytes: float
    watch_seconds: float
    watch_cpu_seconds: float

    @classmethod
    def best(cls, rounds: Sequence["Figures"]) -> Self:
        """Return the minimum of each figure: disturbances only add to a measurement."""
        return cls(*(min(getattr(figures, field.name) for figures in rounds) for field in fields(cls)))


class Process:
    """A contestant in its own process, told what to do line by line."""

    def __init__(self, name: str, kubeconfig: Path) -> None:
        self.name = name
        argv = [sys.executable, "-m", "bench.contestants", name, str(kubeconfig), NAMESPACE, str(PODS_COUNT)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def tell(self, command: str) -> None:
        """Give a command; its answer is read by `hear`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, float]:
        """Wait for the answer to the last command, or to the start."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the contestant {self.name} ended: see its traceback above")
        figures: dict[str, float] = json.loads(line)
        return figures


def measure() -> Section:
    """The section `reflector`."""
    with _pods_on_a_control_plane() as kubeconfig:
        pod_bytes = asyncio.run(_pod_bytes(kubeconfig))
        rounds = [_run_round(kubeconfig, number) for number in range(ROUNDS)]
    best = {name: Figures.best([figures[name] for figures in rounds]) for name in NAMES}
    return _report(best, pod_bytes=pod_bytes)


@contextmanager
def _pods_on_a_control_plane() -> Iterator[Path]:
    progress("starting a control plane without a node")
    cluster = Cluster.up(f"bench-{os.getpid()}", Options(node=False), outlives_us=False, say=progress)
    try:
        asyncio.run(_create(cluster))
        yield cluster.kubeconfig
    finally:
        cluster.down()


async def _create(cluster: Cluster) -> None:
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        # Stop everything else that would change the pods or use the CPU. Pods need their service account, though.
        await client.apply(
            SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace=NAMESPACE, field_manager="bench"
        )
        cluster.stop("kube-controller-manager")
        cluster.stop("kube-scheduler")
        await create_pods(client, namespace=NAMESPACE, count=PODS_COUNT)


async def _pod_bytes(kubeconfig: Path) -> int:
    """The size of one pod as it travels, managedFields included."""
    async with Client.connect(load_kubeconfig(kubeconfig)) as client:
        path = PODS.path(namespace=NAMESPACE, name=render_pod(0)["metadata"]["name"])
        return len(await client.transport.request("GET", path))


def _run_round(kubeconfig: Path, number: int) -> dict[str, Figures]:
    """Each lists alone, one after the other; then all watch the same changes at once."""
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(name, kubeconfig)) for name in NAMES]
        imported = {process.name: process.hear() for process in processes}
        synced = {}
        for process in processes[number % len(processes) :] + processes[: number % len(processes)]:
            progress(f"round {number + 1} of {ROUNDS}: {NAMES[process.name]} lists")
            process.tell("sync")
            synced[process.name] = process.hear()
        for process in processes:
            process.tell("watch")
            process.hear()
        asyncio.run(_relabel(kubeconfig, f"round-{number}"))
        for process in processes:
            process.tell("seen")
        watched = {process.name: process.hear() for process in processes}
    return {
        name: Figures(
            import_cpu_seconds=imported[name]["import_cpu_seconds"],
            sync_seconds=synced[name]["wall_seconds"],
            sync_cpu_seconds=synced[name]["cpu_seconds"],
            held_bytes=synced[name]["held_bytes"],
            peak_bytes=synced[name]["peak_bytes"],
            watch_seconds=watched[name]["wall_seconds"],
            watch_cpu_seconds=watched[name]["cpu_seconds"],
        )
        for name in NAMES
    }


async def _relabel(kubeconfig: Path, value: str) -> None:
    async with Client.connect(load_kubeconfig(kubeconfig)) as client:
        await relabel_pods(client, namespace=NAMESPACE, count=PODS_COUNT, value=value)


def _report(best: Mapping[str, Figures], *, pod_bytes: int) -> Section:
    official = best[OFFICIAL]
    lists: list[list[Cell]] = []
    watches: list[list[Cell]] = []
    goals: list[Goal] = []
    for name, figures in best.items():
        speed = official.sync_seconds / figures.sync_seconds
        cpu = official.sync_cpu_seconds / figures.sync_cpu_seconds
        memory = figures.held_bytes / official.held_bytes
        watch = official.watch_cpu_seconds / figures.watch_cpu_seconds
        rate, cpu_rate = PODS_COUNT / figures.sync_seconds, PODS_COUNT / figures.sync_cpu_seconds
        held, peak = figures.held_bytes / PODS_COUNT, figures.peak_bytes / 2**20
        lists.append([NAMES[name], rate, speed, cpu_rate, cpu, held, memory, peak])
        watches.append([NAMES[name], PODS_COUNT / figures.watch_cpu_seconds, watch, figures.import_cpu_seconds])
        if name in (OURS, VIEW):
            goals.append(Goal(f"{NAMES[name]}: speed of a list ÷ official", speed, at_least=SPEED_GOAL))
            goals.append(Goal(f"{NAMES[name]}: speed of a watch ÷ official", watch, at_least=SPEED_GOAL))
            goals.append(Goal(f"{NAMES[name]}: memory ÷ official", memory, at_most=MEMORY_GOAL))
    list_columns = ["", "objects/s", "×", "objects/CPU s", "×", "bytes/object", "×", "peak MiB"]
    tables = [
        Table("list, until all objects are held", list_columns, lists),
        Table("watch, and import", ["", "events/CPU s", "×", "import CPU s"], watches),
    ]
    title = f"reflector: {PODS_COUNT:,} pods of {pod_bytes / 1000:.1f} kB, best of {ROUNDS} rounds"
    return Section(title, tables, goals, NOTES)
