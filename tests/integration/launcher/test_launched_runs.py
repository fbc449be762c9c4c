"""The launcher against a real server: the run's own token, results, metrics, files, failures and stops."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import httpx2
import pytest

from tests.integration.launcher.launching_core import LaunchingCore, make_project, run_launching_core, submit, wait_for

_numbers = count(1)
ENDS = ("COMPLETED", "ERROR", "STOPPED")


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaunchingCore]:
    with run_launching_core(tmp_path_factory.mktemp("core")) as running:
        yield running


@pytest.fixture
async def client(core: LaunchingCore) -> AsyncIterator[httpx2.AsyncClient]:
    async with core.client() as client:
        yield client


@pytest.fixture
async def project(client: httpx2.AsyncClient) -> str:
    name = f"vision-{next(_numbers)}"
    await make_project(client, name)
    return name


async def read_log(client: httpx2.AsyncClient, project: str, run_id: str) -> str:
    return (await client.get(f"/api/v1/-/{project}/runs/{run_id}/log", params={"follow": "true"})).text


async def test_results_and_log_are_there_when_a_job_completes(client: httpx2.AsyncClient, project: str) -> None:
    code = "def main(x: int, name):\n    print('hello', name)\n    return {'next': x + 1}\n"
    run_id = await submit(client, project, code, parameters={"x": "41", "name": "ada"})
    run = await wait_for(client, project, run_id, *ENDS)
    assert run["status"]["state"] == "COMPLETED", run["status"]
    assert run["status"]["results"] == {"next": 42}
    assert await read_log(client, project, run_id) == "hello ada\n"
    assert run["status"]["ends"][0]["peak_bytes"] > 1 << 20


async def test_message_is_the_exception_when_a_job_fails(client: httpx2.AsyncClient, project: str) -> None:
    run_id = await submit(client, project, "def main():\n    return {}['missing']\n")
    run = await wait_for(client, project, run_id, *ENDS)
    assert (run["status"]["state"], run["status"]["message"]) == ("ERROR", "KeyError: 'missing' (main.py:2)")


async def test_metrics_and_files_are_stored_when_a_job_logs_them(client: httpx2.AsyncClient, project: str) -> None:
    code = """
from pathlib import Path
def main(context):
    for step in range(5):
        context.log_metric("loss", 1 / (step + 1))
    Path("out").mkdir()
    Path("out/a.txt").write_text("a")
    Path("out/deep").mkdir()
    Path("out/deep/b.txt").write_text("b")
    context.log_artifact("folder", "out")
    context.log_model("net", "out/a.txt")
    Path("report.html").write_text("<p>")
    return {"report": Path("report.html"), "accuracy": 0.5}
"""
    run_id = await submit(client, project, code)
    run = await wait_for(client, project, run_id, *ENDS)
    assert run["status"]["state"] == "COMPLETED", await read_log(client, project, run_id)
    assert run["status"]["results"] == {"accuracy": 0.5}
    outputs = run["status"]["outputs"]
    assert sorted(outputs) == ["folder", "net", "report"]
    metrics = await client.get(f"/api/v1/-/{project}/runs/{run_id}/metrics")
    assert metrics.json() == {"loss": [1 / (step + 1) for step in range(5)]}
    for name, plural, path, content in (
        ("folder", "artifacts", "deep/b.txt", "b"),
        ("net", "models", "a.txt", "a"),
        ("report", "artifacts", "report.html", "<p>"),
    ):
        entity_id = outputs[name].rpartition(":")[2]
        file = await client.get(f"/api/v1/-/{project}/{plural}/{entity_id}/files/content/{path}")
        assert (file.status_code, file.text) == (200, content)
        entity = (await client.get(f"/api/v1/-/{project}/{plural}/{entity_id}")).json()
        assert (entity["key"], entity["status"]["state"]) == (outputs[name], "READY")
        assert entity["metadata"]["relationships"] == [
            {"type": "produced_by", "dest": f"store://{project}/run/python+job:run/{run_id}:{run_id}"}
        ]


async def test_files_of_a_run_are_local_paths_when_another_run_has_them_as_inputs(
    client: httpx2.AsyncClient, project: str
) -> None:
    code = """
from pathlib import Path
def main():
    Path("weights.bin").write_bytes(bytes(range(256)) * 10_000)
    Path("more").mkdir()
    for name in ("x", "y"):
        Path("more", name).write_text(name)
    return {"weights": Path("weights.bin"), "more": Path("more")}
"""
    first = await wait_for(client, project, await submit(client, project, code), *ENDS)
    outputs = first["status"]["outputs"]
    code = """
from pathlib import Path
def main(weights: Path, more, text: str):
    return weights.name, weights.stat().st_size, sorted(path.name for path in more.iterdir()), text
"""
    inputs = {"weights": outputs["weights"], "more": outputs["more"], "text": outputs["weights"]}
    run_id = await submit(client, project, code, inputs=inputs)
    run = await wait_for(client, project, run_id, *ENDS)
    assert run["status"]["state"] == "COMPLETED", await read_log(client, project, run_id)
    results = run["status"]["results"]
    assert (results["output_0"], results["output_1"], results["output_2"]) == ("weights.bin", 2_560_000, ["x", "y"])
    assert results["output_3"].endswith("/inputs/text/weights.bin")


async def test_run_says_so_when_an_input_does_not_exist(client: httpx2.AsyncClient, project: str) -> None:
    key = f"store://{project}/artifact/artifact/nothing:0123"
    run_id = await submit(client, project, "def main(x):\n    pass\n", inputs={"x": key})
    run = await wait_for(client, project, run_id, *ENDS)
    assert run["status"]["state"] == "ERROR"
    assert run["status"]["message"].startswith(f"input x ({key}) cannot be read: ")


async def test_token_is_refused_when_the_run_reads_another_project(client: httpx2.AsyncClient, project: str) -> None:
    await make_project(client, f"{project}-other")
    code = f"""
import os, urllib.request, urllib.error
def main():
    address = os.environ["RUNYARD_ENDPOINT"] + "/api/v1/-/{project}-other/runs"
    headers = {{"Authorization": "Bearer " + os.environ["RUNYARD_TOKEN"]}}
    try:
        urllib.request.urlopen(urllib.request.Request(address, headers=headers))
    except urllib.error.HTTPError as error:
        return error.code
"""
    run = await wait_for(client, project, await submit(client, project, code), *ENDS)
    assert run["status"]["results"]["output_0"] in (403, 404)


async def test_clean_up_runs_when_a_run_is_stopped(client: httpx2.AsyncClient, project: str, tmp_path: Path) -> None:
    code = f"""
import time
def main():
    print("begun", flush=True)
    try:
        time.sleep(60)
    finally:
        open("{tmp_path}/cleaned", "w").close()
"""
    run_id = await submit(client, project, code)
    await wait_for(client, project, run_id, "RUNNING")
    async with client.stream("GET", f"/api/v1/-/{project}/runs/{run_id}/log", params={"follow": "true"}) as log:
        async for text in log.aiter_text():
            if "begun" in text:
                break
    assert (await client.post(f"/api/v1/-/{project}/runs/{run_id}/stop")).status_code == 200
    await wait_for(client, project, run_id, "STOPPED")
    deadline = asyncio.get_running_loop().time() + 60
    while not (tmp_path / "cleaned").exists() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.05)
    assert (tmp_path / "cleaned").exists()
