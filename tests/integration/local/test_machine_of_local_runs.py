"""What one machine gives its runs: room in order, volumes, users, time; and what it says it does not give."""

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.contract.engine.local_lab import can_mount
from tests.core_process import CoreProcess
from tests.integration.local.local_core import (
    BASE,
    SECONDS,
    get_place,
    get_run,
    read_whole_log,
    submit,
    submit_command,
    wait_for,
)

CORES = len(os.sched_getaffinity(0))
EVERYTHING = {"cpu": str(CORES)}


async def wait_for_reason(client: httpx2.AsyncClient, run_id: str, reason: str) -> dict[str, Any]:
    async with asyncio.timeout(SECONDS):
        while True:
            run = await get_run(client, run_id)
            if run["status"].get("reason") == reason:
                return run
            await asyncio.sleep(0.05)


async def test_runs_wait_in_order_and_say_for_what_when_the_machine_is_full(client: httpx2.AsyncClient) -> None:
    first = await submit_command(client, "sleep 1000", resources=EVERYTHING)
    await wait_for(client, first, "RUNNING")
    waiting = []
    for number in range(3):
        waiting.append(await submit_command(client, f"echo {number}; sleep 0.3", resources=EVERYTHING))
        run = await wait_for_reason(client, waiting[-1], "resources.waiting")
        assert run["status"]["state"] == "PENDING"
        assert f"cpu (asks for {CORES}; 0 of {CORES} free)" in run["status"]["message"]
    assert "2 runs wait before it" in (await get_run(client, waiting[-1]))["status"]["message"]
    assert (await client.post(f"{BASE}/runs/{first}/stop")).status_code == 200
    ended = [await wait_for(client, run_id, "COMPLETED") for run_id in waiting]
    started = [transition_at(run, "RUNNING") for run in ended]
    assert started == sorted(started)


def transition_at(run: dict[str, Any], state: str) -> str:
    return next(str(step["time"]) for step in run["status"]["transitions"] if step["status"] == state)


async def test_run_waits_and_says_what_the_machine_has_when_it_asks_for_more(client: httpx2.AsyncClient) -> None:
    run_id = await submit_command(client, "true", resources={"cpu": "10000"})
    run = await wait_for_reason(client, run_id, "resources.impossible")
    assert run["status"]["state"] == "PENDING"
    assert f"the machine has {CORES}" in run["status"]["message"]
    assert (await client.post(f"{BASE}/runs/{run_id}/stop")).status_code == 200
    await wait_for(client, run_id, "STOPPED")


@pytest.mark.skipif(not can_mount(), reason="processes cannot have mounts of their own here")
async def test_data_of_a_volume_is_kept_in_the_ledger_when_runs_write_and_read_it(client: httpx2.AsyncClient) -> None:
    made = await client.post(f"{BASE}/volumes", json={"kind": "volume", "name": "data", "spec": {"size": "1Gi"}})
    assert made.status_code == 200, made.text
    mounted = [
        {"volume_type": "shared_volume", "name": "v", "mount_path": "/data", "spec": {"claim_name": "data"}},
    ]
    written = await submit_command(client, "echo kept > /data/note", volumes=mounted)
    await wait_for(client, written, "COMPLETED")
    read = await submit_command(client, "cat /data/note", volumes=mounted)
    await wait_for(client, read, "COMPLETED")
    assert (await read_whole_log(client, read)).endswith("kept\n")
    (volume,) = (await client.get(f"{BASE}/volumes")).json()["content"]
    assert (volume["name"], volume["status"]["state"]) == ("data", "READY")
    assert (await client.delete(f"{BASE}/volumes/data")).status_code == 200
    async with asyncio.timeout(SECONDS):
        while True:
            if (await client.get(f"{BASE}/volumes")).json()["content"] == []:
                return
            await asyncio.sleep(0.05)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can execute runs as other users")
async def test_code_is_an_unprivileged_user_and_sees_nothing_of_others_when_the_server_is_root(
    client: httpx2.AsyncClient, core: CoreProcess
) -> None:
    place = get_place(core.folder)
    script = f"id -u; id -g; id -G; ls {core.folder}/data {place} {place}/runs 2>&1; cat {core.folder}/data/key 2>&1"
    run_id = await submit_command(client, script)
    run = await wait_for(client, run_id, "COMPLETED", "ERROR")
    lines = (await read_whole_log(client, run_id)).splitlines()
    user = next(line for line in lines if line.isdecimal())
    assert int(user) >= 600_000_000
    assert run["status"]["ends"][-1]["exit_code"] != 0
    assert not any("runyard.db" in line for line in lines)
    assert not any(line in ("place.json", "key") for line in lines)
    chosen = await submit_command(client, "id -u; id -g", run_as_user=12345, run_as_group=12346)
    await wait_for(client, chosen, "COMPLETED")
    assert (await read_whole_log(client, chosen)).endswith("12345\n12346\n")


if os.geteuid() != 0:  # `test_unprivileged_engine.py` takes this file through another user

    async def test_run_is_refused_with_the_reason_when_it_wants_another_user(client: httpx2.AsyncClient) -> None:
        run_id = await submit_command(client, "true", run_as_user=12345)
        run = await wait_for(client, run_id, "ERROR")
        assert run["status"]["reason"] == "user.impossible"
        assert "the server is not root" in run["status"]["message"]


async def test_run_is_refused_with_the_versions_that_there_are_when_its_python_is_missing(
    client: httpx2.AsyncClient,
) -> None:
    run_id = await submit(client, "def main(): pass", function={"python_version": "PYTHON3_14"})
    run = await wait_for(client, run_id, "ERROR", "COMPLETED")
    if run["status"]["state"] == "COMPLETED":
        pytest.skip("this machine has every version")
    assert run["status"]["reason"] == "python.missing"
    assert "3.11" in run["status"]["message"]


async def test_requirement_that_cannot_be_installed_is_the_message_when_the_environment_fails(
    client: httpx2.AsyncClient,
) -> None:
    requirements = ["a-package-that-nobody-has-made==1.0"]
    run_id = await submit(client, "def main(): pass", function={"requirements": requirements})
    run = await wait_for(client, run_id, "ERROR")
    assert run["status"]["reason"] == "environment.failed"
    assert "a-package-that-nobody-has-made" in run["status"]["message"]


async def test_files_of_a_run_go_when_its_ttl_is_over(client: httpx2.AsyncClient, core: CoreProcess) -> None:
    before = list_runs(core)
    run_id = await submit_command(client, "true", ttl="1s")
    await wait_for(client, run_id, "COMPLETED")
    async with asyncio.timeout(SECONDS):
        while True:
            if list_runs(core) <= before:
                break
            await asyncio.sleep(0.1)
    assert (await get_run(client, run_id))["status"]["state"] == "COMPLETED"


def list_runs(core: CoreProcess) -> set[str]:
    return {path.name for path in (get_place(core.folder) / "runs").iterdir() if not path.name.startswith(".")}


async def test_warning_says_so_when_a_run_asks_for_what_one_machine_does_not_do(client: httpx2.AsyncClient) -> None:
    run_id = await submit_command(client, "sleep 1000", node_selector={"gpu": "a100"})
    run = await wait_for(client, run_id, "RUNNING")
    warnings = [event["message"] for event in run["status"]["events"]]
    assert "node_selector has no effect: the local engine has one machine" in warnings
    assert (await client.post(f"{BASE}/runs/{run_id}/stop")).status_code == 200


async def test_folder_of_somebody_else_is_left_alone_when_it_is_among_the_runs(
    client: httpx2.AsyncClient, core: CoreProcess
) -> None:
    stranger = get_place(core.folder) / "runs" / "somebody-elses"
    stranger.mkdir()
    (stranger / "file").write_text("theirs")
    run_id = await submit_command(client, "true")
    await wait_for(client, run_id, "COMPLETED")
    assert read_text(stranger / "file") == "theirs"


def read_text(path: Path) -> str:
    return path.read_text()
