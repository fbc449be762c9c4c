"""kill -9 of the server, whose runs go on and are adopted; of supervisors, whose runs are lost and leave nothing."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from runyard.procs import read_state
from tests.core_process import CoreProcess
from tests.integration.local.local_core import (
    BASE,
    end_runs,
    get_place,
    get_run,
    make_project,
    read_log,
    read_whole_log,
    run_local_core,
    submit,
    submit_command,
    wait_for,
)

LINES = 400
COUNTING = f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line $i; sleep 0.005; done; exit 7"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    end_runs(tmp_path)


@contextmanager
def run_server(folder: Path) -> Iterator[CoreProcess]:
    with run_local_core(folder) as core:
        yield core


async def wait_for_output(client: httpx2.AsyncClient, run_id: str) -> None:
    async with asyncio.timeout(60):
        while True:
            if "line 1\n" in await read_log(client, run_id):
                return
            await asyncio.sleep(0.05)


async def test_exit_codes_and_every_line_are_known_when_the_server_was_killed_meanwhile(folder: Path) -> None:
    with run_server(folder) as core:
        async with core.client() as client:
            await make_project(client)
            run_ids = [await submit_command(client, COUNTING) for _ in range(4)]
            for run_id in run_ids:
                await wait_for(client, run_id, "RUNNING")
                await wait_for_output(client, run_id)
        core.kill()
    with run_server(folder) as core:
        async with core.client() as client:
            for run_id in run_ids:
                run = await wait_for(client, run_id, "ERROR")
                assert run["status"]["message"] == "the process ended with exit code 7"
                numbers = re.findall(r"^line (\d+)$", await read_whole_log(client, run_id), re.MULTILINE)
                assert numbers == [str(number) for number in range(1, LINES + 1)]


async def test_end_is_known_when_a_run_ended_while_no_server_was_there(folder: Path) -> None:
    with run_server(folder) as core:
        async with core.client() as client:
            await make_project(client)
            run_id = await submit_command(client, "echo begun; sleep 1; echo done; exit 5")
            await wait_for(client, run_id, "RUNNING")
        core.kill()
    await asyncio.sleep(2)
    with run_server(folder) as core:
        async with core.client() as client:
            run = await wait_for(client, run_id, "ERROR")
            assert run["status"]["ends"][-1]["exit_code"] == 5
            assert (await read_whole_log(client, run_id)).endswith("begun\ndone\n")


async def test_result_is_stored_when_the_server_was_away_at_the_end_of_the_run(folder: Path) -> None:
    code = (
        "import time\ndef main():\n    print('working', flush=True)\n    time.sleep(1.5)\n    return {'answer': 42}\n"
    )
    with run_server(folder) as core:
        port = core.url.rpartition(":")[2]
        async with core.client() as client:
            await make_project(client)
            run_id = await submit(client, code)
            await wait_for(client, run_id, "RUNNING")
            async with asyncio.timeout(60):
                while True:
                    if "working" in await read_log(client, run_id):
                        break
                    await asyncio.sleep(0.05)
        core.kill()
    await asyncio.sleep(2.5)
    with run_local_core(folder, "--port", port) as core:
        async with core.client() as client:
            run = await wait_for(client, run_id, "COMPLETED")
            assert run["status"]["results"]["answer"] == 42


async def test_run_is_lost_and_nothing_of_it_is_left_when_its_supervisor_is_killed(folder: Path) -> None:
    with run_server(folder) as core:
        async with core.client() as client:
            await make_project(client)
            run_id = await submit_command(client, "setsid sleep 1000 & echo begun; sleep 1000")
            await wait_for(client, run_id, "RUNNING")
            supervision = find_supervision(folder)
            state = read_state(supervision)
            assert state is not None
            assert state.supervisor_pid is not None
            os.kill(state.supervisor_pid, signal.SIGKILL)
            run = await wait_for(client, run_id, "ERROR")
            assert run["status"]["reason"] == "supervisor.lost"
            assert not list(iter_marked(state.mark))
            assert (await client.delete(f"{BASE}/runs/{run_id}")).status_code == 200


async def test_run_is_lost_when_its_supervisor_was_killed_while_no_server_was_there(folder: Path) -> None:
    with run_server(folder) as core:
        async with core.client() as client:
            await make_project(client)
            run_id = await submit_command(client, "sleep 1000")
            await wait_for(client, run_id, "RUNNING")
        core.kill()
    state = read_state(find_supervision(folder))
    assert state is not None
    assert state.supervisor_pid is not None
    os.kill(state.supervisor_pid, signal.SIGKILL)
    with run_server(folder) as core:
        async with core.client() as client:
            run = await wait_for(client, run_id, "ERROR")
            assert run["status"]["reason"] == "supervisor.lost"
            assert not list(iter_marked(state.mark))


async def test_run_that_waits_starts_when_the_server_was_killed_meanwhile(folder: Path) -> None:
    cores = os.cpu_count() or 1
    everything = {"cpu": str(cores)}
    with run_server(folder) as core:
        async with core.client() as client:
            await make_project(client)
            first = await submit_command(client, "sleep 1000", resources=everything)
            await wait_for(client, first, "RUNNING")
            second = await submit_command(client, "echo second", resources=everything)
            async with asyncio.timeout(60):
                while True:
                    if (await get_run(client, second))["status"].get("reason") == "resources.waiting":
                        break
                    await asyncio.sleep(0.05)
        core.kill()
    with run_server(folder) as core:
        async with core.client() as client:
            assert (await client.post(f"{BASE}/runs/{first}/stop")).status_code == 200
            await wait_for(client, second, "COMPLETED")


def find_supervision(folder: Path) -> Path:
    (found,) = (get_place(folder) / "runs").glob("*/releases/1/supervision")
    return found


def iter_marked(mark: str) -> Iterator[int]:
    """The processes of a supervision."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"RUNYARD_SUPERVISION={mark}".encode() in (path / "environ").read_bytes():
                yield int(path.name)
        except OSError:
            continue
