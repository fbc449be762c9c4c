"""Time and memory of the testbed: build, start, idle memory, first Job."""

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.report import Cell, Goal, Section, Table, progress
from runyard.kube import Client, load_kubeconfig
from runyard.kube.resources import JOBS
from testbed import build
from testbed.cluster import Cluster, prepare
from testbed.site import Options

STARTS = 2
JOB_COUNT = 5
REST_SECONDS = 20.0
POLL_SECONDS = 0.05
JOB_DEADLINE_SECONDS = 60.0
UP_GOAL_SECONDS = 20.0
MEMORY_GOAL_GIB = 1.5
NOTES = (
    "Programs are built once and cached; packages that were not compiled came from Go's own cache.",
    "RSS counts what processes share, as the components share one program's text, once for each of them; PSS",
    "divides it among all who share it, other clusters on this machine included. The truth lies between.",
)


def measure() -> Section:
    """The section `testbed`."""
    progress("preparing programs and images, which is not part of a start")
    programs = prepare(Options())
    ups: list[float] = []
    for number in range(STARTS):
        cluster, seconds = _start()
        ups.append(seconds)
        progress(f"start {number + 1} of {STARTS}: usable after {seconds:.1f} s")
        if number < STARTS - 1:
            cluster.down()
    try:
        jobs = asyncio.run(_run_jobs(cluster))
        progress(f"resting for {REST_SECONDS:.0f} s")
        time.sleep(REST_SECONDS)
        resident, proportional = cluster.memory_bytes(), _proportional_bytes(cluster)
    finally:
        cluster.down()
    return Section(
        "testbed: a real Kubernetes on this machine",
        [
            _report_builds(programs.values()),
            _report_memory(resident, proportional),
            Table("Jobs, from create to Complete", ["", "seconds"], _report_jobs(jobs)),
        ],
        [
            Goal(f"up to a Ready node, best of {STARTS}", min(ups), "s", at_most=UP_GOAL_SECONDS),
            Goal("memory at rest, sum of RSS", sum(resident.values()) / 2**30, "GiB", at_most=MEMORY_GOAL_GIB),
        ],
        NOTES,
    )


def _report_builds(programs: Iterable[Path]) -> Table:
    records = [build.read_record(program) for program in programs]
    rows: list[list[Cell]] = [
        [f"{record.name} {record.version}", record.seconds, f"{record.compiled} of {record.packages}"]
        for record in records
    ]
    return Table("builds, as they went on this machine", ["program", "seconds", "packages compiled"], rows)


def _report_memory(resident: Mapping[str, int], proportional: Mapping[str, int]) -> Table:
    rows: list[list[Cell]] = [
        [name, size / 2**20, proportional[name] / 2**20] for name, size in sorted(resident.items())
    ]
    rows.append(["all", sum(resident.values()) / 2**20, sum(proportional.values()) / 2**20])
    return Table("memory at rest", ["component", "RSS MiB", "PSS MiB"], rows)


def _report_jobs(seconds: Sequence[float]) -> list[list[Cell]]:
    first, *others = seconds
    return [["first", first], [f"median of the next {len(others)}", median(others)]]


def _start() -> tuple[Cluster, float]:
    began_at = time.monotonic()
    cluster = Cluster.up(f"bench-{os.getpid()}", Options(), outlives_us=False, say=progress)
    return cluster, time.monotonic() - began_at


async def _run_jobs(cluster: Cluster) -> list[float]:
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as client:
        return [await _run_job(client, f"bench-{number}") for number in range(JOB_COUNT)]


async def _run_job(client: Client, name: str) -> float:
    container = {"name": "main", "image": "busybox:1.36", "command": ["true"], "imagePullPolicy": "Never"}
    pod = {"restartPolicy": "Never", "containers": [container]}
    job = {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {"spec": pod}}}
    began_at = time.monotonic()
    await client.create(JOBS, job, namespace="default")
    async with asyncio.timeout(JOB_DEADLINE_SECONDS):
        while True:
            status = (await client.get(JOBS, name, namespace="default")).get("status", {})
            conditions = {
                condition["type"] for condition in status.get("conditions", []) if condition["status"] == "True"
            }
            if "Failed" in conditions:
                raise RuntimeError(f"the Job {name} failed: {status}")
            if "Complete" in conditions:
                return time.monotonic() - began_at
            await asyncio.sleep(POLL_SECONDS)


def _proportional_bytes(cluster: Cluster) -> dict[str, int]:
    """The memory of each component, with shared pages divided among those who share them."""
    sizes = {}
    for component in cluster.components().values():
        if component.is_running:
            line = cluster.run_inside(["grep", "^Pss:", f"/proc/{component.pid}/smaps_rollup"])
            sizes[component.name] = int(line.split()[1]) * 1024
    return sizes
