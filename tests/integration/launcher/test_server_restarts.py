"""A result that is ready while the server is dead: it is there when the server is back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.integration.launcher.launching_core import SECONDS, find_free_port, make_project, submit, wait_for
from tests.integration.local.local_core import end_runs, run_local_core

AWAY_SECONDS = 12.0
pytestmark = pytest.mark.timeout(240)
CODE = """
from pathlib import Path
import time
def main(context):
    print("begun", time.time())
    time.sleep(5)
    context.log_metric("loss", 0.5)
    Path("model.txt").write_text("weights")
    return {"answer": 42, "model": Path("model.txt")}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Of the server; what runs there ends with the test."""
    yield tmp_path
    end_runs(tmp_path)


async def test_result_metric_and_file_are_stored_when_the_server_was_killed_meanwhile(folder: Path) -> None:
    port = str(find_free_port())
    with run_local_core(folder, "--port", port) as core:
        async with core.client() as client:
            await make_project(client, "demo")
            run_id = await submit(client, "demo", CODE)
            # Not before: a launcher that has not read its run yet would begin when the server is back.
            async with asyncio.timeout(SECONDS):
                while "begun" not in await read_stored_log(client, run_id):  # noqa: ASYNC110 - the server has no event for it
                    await asyncio.sleep(0.05)
        core.kill()
    await asyncio.sleep(AWAY_SECONDS)
    with run_local_core(folder, "--port", port) as core:
        async with core.client() as client:
            run = await wait_for(client, "demo", run_id, "COMPLETED", "ERROR", "STOPPED")
            assert run["status"]["state"] == "COMPLETED", run["status"]
            assert run["status"]["results"] == {"answer": 42}
            metrics = await client.get(f"/api/v1/-/demo/runs/{run_id}/metrics")
            assert metrics.json() == {"loss": [0.5]}
            entity_id = run["status"]["outputs"]["model"].rpartition(":")[2]
            file = await client.get(f"/api/v1/-/demo/artifacts/{entity_id}/files/content/model.txt")
            assert file.text == "weights"
            assert len((await client.get("/api/v1/-/demo/artifacts")).json()["content"]) == 1
            assert "to the server failed, trying again: Connection refused" in await read_stored_log(client, run_id)


async def read_stored_log(client: httpx2.AsyncClient, run_id: str) -> str:
    """What the server has of the function's output so far."""
    return (await client.get(f"/api/v1/-/demo/runs/{run_id}/log", params={"container": "main"})).text
