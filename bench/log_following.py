"""Following a log of 100 MB: the engine alone and a whole server, against `kubectl logs -f` of the same pods."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from bench.report import Cell, Goal, Section, Table, progress
from runyard.kube import Client, load_kubeconfig
from runyard.kube.resources import NAMESPACES, PODS
from testbed.cluster import Cluster
from testbed.site import Options
from tests.cluster.server.cluster_core import (
    BASE,
    get_run,
    make_project,
    make_task,
    run_cluster_core,
    submit,
    wait_for,
)

LINES = int(os.environ.get("RUNYARD_BENCH_LOG_LINES", "1000000"))
LINE_BYTES = 100
ROUNDS = int(os.environ.get("RUNYARD_BENCH_LOG_ROUNDS", "3"))
GOAL = 2.0
NAMESPACE = "bench"
IMAGE = "busybox:1.36"
LIMIT_SECONDS = 300.0
"""When a follower that does not end is given up."""
KUBECTL, ENGINE, SERVER = "kubectl logs -f", "the engine's follow_log", "the whole server"
NOTES = (
    "Processor seconds of the process that follows, the median of the rounds; kubectl writes to a file.",
    "The server's include watching, storing the log in SQLite and its other loops from its start to its end.",
    "A kubelet flushes every line, so most of it is TLS and HTTP in small pieces; stripping timestamps is 0.2 s.",
    "The node does not rotate logs here: at its default of 10 MiB kubectl loses much of such a log.",
)


def measure(*, lines: int = LINES, rounds: int = ROUNDS) -> Section:
    """Start a cluster and compare."""
    flags = (("kubelet", "--container-log-max-size=1Gi"),)
    cluster = Cluster.up("bench-logs", Options(flags=flags), outlives_us=False)
    try:
        measured = [asyncio.run(_measure_round(cluster, number, lines, of=rounds)) for number in range(rounds)]
    finally:
        cluster.down()
    return _report(measured, lines)


def _report(rounds: Sequence[Mapping[str, tuple[float, int]]], lines: int) -> Section:
    seconds = {name: median(one[name][0] for one in rounds) for name in (KUBECTL, ENGINE, SERVER)}
    rows: list[list[Cell]] = [
        [name, f"{seconds[name]:.2f}", f"{seconds[name] / seconds[KUBECTL]:.2f}", min(one[name][1] for one in rounds)]
        for name in (KUBECTL, ENGINE, SERVER)
    ]
    table = Table(f"{lines * LINE_BYTES / 1e6:.0f} MB", ["", "CPU s", "×", "bytes read, at least"], rows)
    goals = [
        Goal(f"{name} against kubectl", seconds[name] / seconds[KUBECTL], "×", at_most=GOAL)
        for name in (ENGINE, SERVER)
    ]
    return Section("following a log", [table], goals, NOTES)


async def _measure_round(cluster: Cluster, number: int, lines: int, *, of: int) -> Mapping[str, tuple[float, int]]:
    progress(f"round {number + 1} of {of}")
    pod = f"writer-{number}"
    async with Client.connect(load_kubeconfig(cluster.kubeconfig)) as client:
        if not number:
            await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await client.create(PODS, _render_pod(pod, lines), namespace=NAMESPACE)
        await _wait_until_running(client, pod)
    alone, kubectl = await asyncio.gather(
        asyncio.to_thread(_follow_alone, cluster, pod), asyncio.to_thread(_follow_with_kubectl, cluster, pod)
    )
    return {ENGINE: alone, KUBECTL: kubectl, SERVER: await _follow_with_server(cluster, lines)}


async def _wait_until_running(client: Client, pod: str) -> None:
    while True:
        if (await client.get(PODS, pod, namespace=NAMESPACE))["status"]["phase"] != "Pending":
            return
        await asyncio.sleep(0.2)


async def _wait_until_stored(client: httpx2.AsyncClient, run_id: str) -> None:
    while True:
        if (await get_run(client, run_id))["status"].get("logs") == {"state": "complete"}:
            return
        await asyncio.sleep(0.2)


def _make_script(lines: int) -> str:
    """Waits until all followers are attached, as to a program that has just begun."""
    return f"sleep 8; yes {'x' * (LINE_BYTES - 1)} | head -n {lines}"


def _render_pod(name: str, lines: int) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", _make_script(lines)]}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}}


def _follow_alone(cluster: Cluster, pod: str) -> tuple[float, int]:
    command = [sys.executable, "-m", "bench.contestants.log_follower", str(cluster.kubeconfig), NAMESPACE, pod]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=LIMIT_SECONDS).stdout)
    return found["cpu_seconds"], found["bytes"]


def _follow_with_kubectl(cluster: Cluster, pod: str) -> tuple[float, int]:
    kubectl = str(cluster.directory / "bin/kubectl")
    command = [kubectl, "--kubeconfig", str(cluster.kubeconfig), "-n", NAMESPACE, "logs", "-f", pod]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # it does not see by itself that nobody is left
        return used.ru_utime + used.ru_stime, os.fstat(output.fileno()).st_size


async def _follow_with_server(cluster: Cluster, lines: int) -> tuple[float, int]:
    """A new server, from the submission of a run to the end of its log."""
    with tempfile.TemporaryDirectory() as folder, run_cluster_core(cluster, NAMESPACE, Path(folder)) as core:
        async with core.client(timeout=600) as client:
            await make_project(client)
            task = await make_task(client)
            began = _read_cpu_seconds(core.process.pid)
            run_id = await submit(client, task, _make_script(lines))
            await wait_for(client, run_id, "COMPLETED")
            await _wait_until_stored(client, run_id)
            used = _read_cpu_seconds(core.process.pid) - began
            tail = await client.get(f"{BASE}/runs/{run_id}/log", params={"tail": "0"})
            return used, int(tail.headers["X-Log-Offset"])


def _read_cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
