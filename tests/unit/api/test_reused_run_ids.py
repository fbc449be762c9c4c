"""A run's id may be used again, by anybody: nothing of the earlier run may reach the later one, or vice versa."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.app.log_store import Stream
from runyard.app.times import SystemClock
from runyard.logs import LogsUnavailable
from tests.http_servers import Server, serve

DEMO = "/api/v1/-/demo"


class BusyLogs:
    """A log store of which `delete` fails while it is busy; the rest works."""

    def __init__(self, logs: Any) -> None:
        self._logs = logs
        self.is_busy = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logs, name)

    async def delete(self, run_uid: str) -> None:
        if self.is_busy:
            raise LogsUnavailable("the log store is busy")
        await self._logs.delete(run_uid)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Ada's project `demo`, in which Bob is an editor, with one secret of each; and Bob's project `bobs`."""
    async with serve(tmp_path, is_open=False, wrap_logs=BusyLogs) as server:
        for name in ("ada", "bob"):
            await server.add_user(name)
        async with server.client("ada") as ada, server.client("bob") as bob:
            answers = [await ada.post("/api/v1/projects", json={"kind": "project", "name": "demo"})]
            answers.append(await ada.post("/api/v1/projects/demo/share", params={"user": "bob", "role": "editor"}))
            answers.append(await bob.post("/api/v1/projects", json={"kind": "project", "name": "bobs"}))
            for client, project in ((ada, "demo"), (bob, "bobs")):
                inside = f"/api/v1/-/{project}"
                function = {"kind": "container", "name": "box", "id": f"f-{project}", "spec": {"image": "busybox:1.36"}}
                answers.append(await client.post(f"{inside}/functions", json=function))
                reference = f"container://{project}/box:f-{project}"
                task = {"kind": "container+job", "id": f"t-{project}", "spec": {"function": reference}}
                answers.append(await client.post(f"{inside}/tasks", json=task))
            answers += [await bob.post(f"{DEMO}/secrets", json={"kind": "secret", "name": "bobs"})]
            answers += [await bob.put(f"{DEMO}/secrets/data", json={"bobs": "hush"})]
            assert all(answer.is_success for answer in answers), [answer.text for answer in answers]
        yield server


@pytest.fixture
async def ada(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    async with server.client("ada") as client:
        yield client


@pytest.fixture
async def bob(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    async with server.client("bob") as client:
        yield client


async def submit(client: httpx2.AsyncClient, project: str, run_id: str, **spec: Any) -> None:
    run = {
        "kind": "container+job:run",
        "id": run_id,
        "spec": {"task": f"container+job://{project}/t-{project}", **spec},
    }
    answer = await client.post(f"/api/v1/-/{project}/runs", json=run)
    assert answer.is_success, answer.text


async def write_log(server: Server, project: str, run_id: str, content: bytes) -> None:
    stream = Stream((await server.find_run(project, run_id)).uid, "pod", "main")
    await server.core.logs.append(stream, content, offset=0, at=SystemClock().now())


async def read_with(server: Server, token: str) -> httpx2.Response:
    """Bob's secret, by a token."""
    async with server.client(headers={"Authorization": f"Bearer {token}"}) as client:
        return await client.get(f"{DEMO}/secrets/data", params={"keys": "bobs"})


async def test_old_token_is_refused_when_somebody_else_creates_the_id_again(
    server: Server, ada: httpx2.AsyncClient, bob: httpx2.AsyncClient
) -> None:
    await submit(ada, "demo", "r1")
    token = await server.issue_run_token("demo", "r1")
    assert (await ada.delete(f"{DEMO}/runs/r1")).is_success
    await submit(bob, "demo", "r1", secrets=["bobs"])

    answer = await read_with(server, token)

    assert answer.status_code == 401, answer.text
    assert "issued for an earlier run of this id" in answer.text
    assert "hush" not in answer.text
    assert (await read_with(server, await server.issue_run_token("demo", "r1"))).json() == {"bobs": "hush"}


async def test_token_is_refused_when_it_names_no_uid(server: Server, bob: httpx2.AsyncClient) -> None:
    await submit(bob, "demo", "r1", secrets=["bobs"])
    run = await server.find_run("demo", "r1")
    signed = await server.context.issuer.issue_run_token(replace(run, uid=""), timedelta(hours=1))
    answer = await read_with(server, signed.text)
    assert answer.status_code == 401
    assert "issued for an earlier run of this id" in answer.text


async def test_token_is_refused_when_its_users_share_is_removed(
    server: Server, ada: httpx2.AsyncClient, bob: httpx2.AsyncClient
) -> None:
    await submit(bob, "demo", "r1", secrets=["bobs"])
    token = await server.issue_run_token("demo", "r1")
    assert (await read_with(server, token)).json() == {"bobs": "hush"}
    [share] = (await ada.get("/api/v1/projects/demo/share")).json()
    assert (await ada.delete("/api/v1/projects/demo/share", params={"id": share["id"]})).is_success

    answer = await read_with(server, token)

    assert answer.status_code == 401
    assert "bob may no longer run things in project demo" in answer.text


async def test_token_is_refused_when_its_user_may_only_read(
    server: Server, ada: httpx2.AsyncClient, bob: httpx2.AsyncClient
) -> None:
    await submit(bob, "demo", "r1", secrets=["bobs"])
    token = await server.issue_run_token("demo", "r1")
    assert (await ada.post("/api/v1/projects/demo/share", params={"user": "bob", "role": "viewer"})).is_success
    assert (await read_with(server, token)).status_code == 401
    assert (await ada.post("/api/v1/projects/demo/share", params={"user": "*", "role": "editor"})).is_success
    assert (await read_with(server, token)).json() == {"bobs": "hush"}


async def test_token_follows_its_users_account_when_an_admin_is_demoted(server: Server) -> None:
    await server.add_user("root", is_admin=True)
    async with server.client("root") as root:
        await submit(root, "demo", "r1", secrets=["bobs"])
    token = await server.issue_run_token("demo", "r1")
    assert (await read_with(server, token)).json() == {"bobs": "hush"}
    async with server.core.store.begin() as unit:
        account = await unit.accounts.find("root")
        assert account is not None
        await unit.accounts.put(replace(account, is_admin=False))
        await unit.commit()
    assert (await read_with(server, token)).status_code == 401


async def test_log_stays_with_its_run_when_the_store_is_busy_and_the_id_is_used_elsewhere(
    server: Server, ada: httpx2.AsyncClient, bob: httpx2.AsyncClient
) -> None:
    await submit(ada, "demo", "r1")
    await write_log(server, "demo", "r1", b"ada's secret output\n")
    logs: Any = server.core.logs
    logs.is_busy = True

    first = await ada.delete(f"{DEMO}/runs/r1")

    assert first.status_code == 503, first.text
    kept = await ada.get(f"{DEMO}/runs/r1")
    assert (kept.status_code, kept.json()["status"]["state"]) == (200, "DELETING")
    taken = {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://bobs/t-bobs"}}
    await bob.post("/api/v1/-/bobs/runs", json=taken)
    stolen = await bob.get("/api/v1/-/bobs/runs/r1/log")
    assert b"secret output" not in stolen.content

    logs.is_busy = False
    assert (await ada.delete(f"{DEMO}/runs/r1")).status_code == 200
    assert (await ada.get(f"{DEMO}/runs/r1")).status_code == 404
    await submit(bob, "bobs", "r1")
    assert (await bob.get("/api/v1/-/bobs/runs/r1/log")).content == b""
    await submit(ada, "demo", "r1")
    assert (await ada.get(f"{DEMO}/runs/r1/log")).content == b""


async def test_log_written_late_is_out_of_reach_when_the_id_is_used_again(
    server: Server, ada: httpx2.AsyncClient
) -> None:
    await submit(ada, "demo", "r1")
    earlier = Stream((await server.find_run("demo", "r1")).uid, "pod", "main")
    assert (await ada.delete(f"{DEMO}/runs/r1")).is_success
    await server.core.logs.append(earlier, b"too late\n", offset=0, at=SystemClock().now())
    await submit(ada, "demo", "r1")
    assert (await ada.get(f"{DEMO}/runs/r1/log")).content == b""
    assert (await ada.get(f"{DEMO}/runs/r1/logs")).json() == []
