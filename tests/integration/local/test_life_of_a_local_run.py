"""A python function through server, local engine, supervisor and launcher, by HTTP."""

import httpx2

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
    wait_until_gone,
)


async def test_job_completes_with_its_log_and_its_result_when_it_is_submitted(
    client: httpx2.AsyncClient, core: CoreProcess
) -> None:
    code = "def main(n):\n    print('twice', n)\n    return {'double': 2 * n}\n"
    run_id = await submit(client, code, parameters={"n": 21})
    # Follows from before its start to its very end.
    followed = await client.get(f"{BASE}/runs/{run_id}/log", params={"follow": "true"}, timeout=SECONDS)
    run = await wait_for(client, run_id, "COMPLETED")
    assert "twice 21\n" in followed.text
    assert "twice 21\n" in await read_whole_log(client, run_id)
    assert run["status"]["results"]["double"] == 42
    assert [step["status"] for step in run["status"]["transitions"]] == [
        "COMPLETED",
        "RUNNING",
        "PENDING",
        "READY",
        "CREATED",
    ]
    (end,) = run["status"]["ends"]
    assert (end["container"], end["exit_code"], end["is_out_of_memory"]) == ("main", 0, False)
    assert end["peak_bytes"] > 1_000_000
    assert (await client.delete(f"{BASE}/runs/{run_id}")).status_code == 200
    await wait_until_gone(client, run_id)
    uids = [path.name for path in (get_place(core.folder) / "runs").iterdir()]
    assert not any(run["status"].get("uid", run_id) in uid for uid in uids)


async def test_exception_is_the_message_and_its_traceback_is_in_the_log_when_a_handler_raises(
    client: httpx2.AsyncClient,
) -> None:
    run_id = await submit(client, "def main():\n    raise ValueError('no such column')\n")
    run = await wait_for(client, run_id, "ERROR")
    assert run["status"]["reason"] == "run.failed"
    assert "ValueError: no such column" in run["status"]["message"]
    assert "Traceback" in await read_whole_log(client, run_id)


async def test_exit_code_is_told_when_a_command_fails(client: httpx2.AsyncClient) -> None:
    run_id = await submit_command(client, "echo oh; exit 3")
    run = await wait_for(client, run_id, "ERROR")
    assert (run["status"]["reason"], run["status"]["message"]) == (
        "run.failed",
        "the process ended with exit code 3",
    )
    assert (await read_whole_log(client, run_id)).endswith("oh\n")


async def test_next_request_is_proposed_when_a_run_uses_more_memory_than_it_may(client: httpx2.AsyncClient) -> None:
    code = "def main():\n    return len(bytearray(400 << 20))\n"
    run_id = await submit(client, code, resources={"mem": "128Mi"})
    run = await wait_for(client, run_id, "ERROR")
    assert run["status"]["reason"] == "memory.exceeded"
    assert "try resources.mem: " in run["status"]["message"]
    assert run["status"]["ends"][-1]["is_out_of_memory"]


async def test_service_is_reached_at_its_url_when_it_runs_and_stops_when_it_is_stopped(
    client: httpx2.AsyncClient,
) -> None:
    code = "def main(x: int = 1):\n    return {'next': x + 1}\n"
    run_id = await submit(client, code, action="serve")
    run = await wait_for(client, run_id, "RUNNING")
    url = f"http://{run['status']['service']['url']}"
    async with httpx2.AsyncClient(trust_env=False) as caller:
        answer = await caller.post(url, json={"x": 41})
        assert (answer.status_code, answer.json()) == (200, {"next": 42})
    assert (await client.post(f"{BASE}/runs/{run_id}/stop")).status_code == 200
    await wait_for(client, run_id, "STOPPED")
    assert "service" not in (await get_run(client, run_id))["status"]
    assert (await client.post(f"{BASE}/runs/{run_id}/resume")).status_code == 200
    resumed = await wait_for(client, run_id, "RUNNING")
    assert resumed["status"]["service"]["url"].startswith("127.0.0.1:")
    assert (await client.delete(f"{BASE}/runs/{run_id}")).status_code == 200
    await wait_until_gone(client, run_id)
