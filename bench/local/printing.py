"""The CPU time of a run that prints much, beside `cat > file` of the same bytes from the same program."""

import asyncio
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bench.local.processes import read_cpu
from bench.local.server import IDLE, LIMIT_SECONDS, LocalServer
from runyard.procs import Command, Plan, log_path, read_state, request_stop, start

LINE = "step 00000 loss 0.0000 accuracy 0.0000 learning rate 0.0000 memory 0000 MiB ok"


@dataclass(frozen=True, slots=True)
class Printing:
    """Seconds."""

    cat: float
    """CPU of `cat > file`."""
    alone: float
    """CPU of the supervisor, without a server."""
    alone_wall: float
    supervisor: float
    server: float
    """Its CPU from the submit until every byte is stored."""
    server_wall: float


async def measure_printing(server: LocalServer, folder: Path, *, size: int) -> Printing:
    """A shell prints so many bytes and then waits, so that its supervisor can be looked at."""
    script = f"yes '{LINE}' | head -c {size}"
    cat = await asyncio.to_thread(_measure_cat, script, folder)
    alone, alone_wall = await asyncio.to_thread(_measure_alone, script, folder, size)
    before = await server.read_cpu()
    began = time.perf_counter()
    run_id = await server.submit(IDLE, command="sh", args=["-c", f"{script}; sleep 3600"])
    await server.wait_log_bytes(run_id, size)
    server_wall = time.perf_counter() - began
    supervisors = [read_cpu(pid).own for pid in server.list_supervisors()]
    used = await server.read_cpu() - before
    await server.stop(run_id)
    return Printing(cat, alone, alone_wall, max(supervisors), used.own, server_wall)


def _measure_cat(script: str, folder: Path) -> float:
    with (folder / "cat").open("wb") as file:
        printer = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
        cat = subprocess.Popen(["cat"], stdin=printer.stdout, stdout=file)
        _, _, usage = os.wait4(cat.pid, 0)
        cat.returncode = 0
    assert printer.stdout is not None
    printer.stdout.close()
    printer.wait()
    return usage.ru_utime + usage.ru_stime


def _measure_alone(script: str, folder: Path, size: int) -> tuple[float, float]:
    supervision = folder / "supervision"
    supervision.mkdir()
    command = Command(
        name="main",
        argv=("sh", "-c", f"{script}; sleep 3600"),
        env={"PATH": os.environ.get("PATH", os.defpath)},
        cwd="/",
    )
    began = time.perf_counter()
    pid = start(supervision, Plan(main=command, grace_seconds=1), listeners=folder / "listeners")
    log = log_path(supervision, "main", 0)
    try:
        while not log.exists() or log.stat().st_size < size:
            if time.perf_counter() - began > LIMIT_SECONDS:
                raise TimeoutError(f"the log did not get so long: {read_state(supervision)}")
            time.sleep(0.005)
        wall = time.perf_counter() - began
        return read_cpu(pid).own, wall
    finally:
        request_stop(supervision)
        os.waitpid(pid, 0)
