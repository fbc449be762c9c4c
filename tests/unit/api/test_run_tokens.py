"""The token of a run, over HTTP: it reads its project, and writes what is its own."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.http_servers import Server, serve

MODEL: dict[str, Any] = {"kind": "model", "name": "net", "spec": {"path": "s3://bucket/net/"}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serve(tmp_path, is_open=False) as server:
        await server.add_user("ada")
        async with server.client("ada") as ada:
            answers = [await ada.post("/api/v1/projects", json={"kind": "project", "name": "demo"})]
            inside = "/api/v1/-/demo"
            function = {"kind": "container", "name": "box", "id": "f1", "spec": {"image": "busybox:1.36"}}
            answers.append(await ada.post(f"{inside}/functions", json=function))
            task = {"kind": "container+job", "id": "t1", "spec": {"function": "container://demo/box:f1"}}
            answers.append(await ada.post(f"{inside}/tasks", json=task))
            secrets = [{"kind": "secret", "name": name} for name in ("named", "other")]
            answers += [await ada.post(f"{inside}/secrets", json=secret) for secret in secrets]
            answers.append(await ada.put(f"{inside}/secrets/data", json={"named": "1", "other": "2"}))
            spec = {"task": "container+job://demo/t1", "secrets": ["named"]}
            for run_id in ("r1", "r2"):
                run = {"kind": "container+job:run", "id": run_id, "spec": spec}
                answers.append(await ada.post(f"{inside}/runs", json=run))
            answers.append(await ada.post(f"{inside}/models", json={**MODEL, "id": "adas"}))
            assert all(answer.is_success for answer in answers), [answer.text for answer in answers]
        yield server


@pytest.fixture
async def run(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with the token of r1."""
    token = await server.issue_run_token("demo", "r1")
    async with server.client(headers={"Authorization": f"Bearer {token}"}) as client:
        yield client


async def test_run_changes_what_it_made_when_it_writes(run: httpx2.AsyncClient) -> None:
    made = await run.post("/api/v1/-/demo/models", json={**MODEL, "id": "m1", "status": {"state": "UPLOADING"}})
    assert made.json()["metadata"]["produced_by_run"] == "r1"
    ready = {**MODEL, "id": "m1", "metadata": {"produced_by_run": "r9"}, "status": {"state": "READY"}}
    changed = await run.put("/api/v1/-/demo/models/m1", json=ready)
    assert (changed.json()["status"]["state"], changed.json()["metadata"]["produced_by_run"]) == ("READY", "r1")
    assert (await run.put("/api/v1/-/demo/models/m1/metrics/acc", json=0.5)).is_success
    assert (await run.put("/api/v1/-/demo/models/m1/files/info", json=[{"path": "a"}])).is_success
    assert (await run.put("/api/v1/-/demo/runs/r1/metrics/loss", json=[0.5])).is_success
    assert (await run.delete("/api/v1/-/demo/models/m1")).is_success


async def test_run_changes_nothing_else_when_it_tries(run: httpx2.AsyncClient) -> None:
    tried = [
        await run.put("/api/v1/-/demo/models/adas", json={**MODEL, "id": "adas"}),
        await run.delete("/api/v1/-/demo/models/adas"),
        await run.delete("/api/v1/-/demo/models", params={"name": "net"}),
        await run.put("/api/v1/-/demo/models/adas/metrics/acc", json=0.5),
        await run.put("/api/v1/-/demo/models/adas/files/info", json=[]),
        await run.put("/api/v1/-/demo/runs/r2/metrics/loss", json=[0.5]),
        await run.put("/api/v1/-/demo/runs/r2", json={"kind": "container+job:run", "id": "r2", "spec": {}}),
        await run.get("/api/v1/-/demo/secrets/data", params={"keys": "other"}),
        await run.get("/api/v1/-/demo/secrets/data", params={"keys": "named,other"}),
    ]
    assert [answer.status_code for answer in tried] == [403] * len(tried)


async def test_run_reads_its_project_and_the_secrets_it_names_when_it_asks(run: httpx2.AsyncClient) -> None:
    assert (await run.get("/api/v1/-/demo/functions/f1")).is_success
    answer = await run.get("/api/v1/-/demo/secrets/data", params={"keys": "named"})
    assert answer.json() == {"named": "1"}


async def test_token_is_of_no_use_when_its_run_has_ended(server: Server, run: httpx2.AsyncClient) -> None:
    async with server.client("ada") as ada:
        assert (await ada.post("/api/v1/-/demo/runs/r1/stop")).is_success
    assert (await run.get("/api/v1/-/demo/functions/f1")).status_code == 401
