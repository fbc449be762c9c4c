"""The audit over HTTP."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.api.context import Limits
from tests.http_servers import serve
from tests.unit.app.run_world import TurnedClock

AUDIT = "/api/v1/audit"


async def test_acts_are_told_newest_first_when_something_was_done(demo: httpx2.AsyncClient) -> None:
    entries = (await demo.get(AUDIT)).json()["entries"]
    assert [one["action"] for one in entries] == ["task.create", "task.create", "function.create", "project.create"]
    assert entries[0]["id"] == "t2"
    assert entries[0]["project"] == "demo"
    assert entries[0]["result"] == "done"


async def test_pages_follow_each_other_when_there_are_more_than_asked_for(demo: httpx2.AsyncClient) -> None:
    first = (await demo.get(AUDIT, params={"limit": 3})).json()
    assert len(first["entries"]) == 3
    rest = (await demo.get(AUDIT, params={"limit": 3, "before": first["next"]})).json()
    assert [one["action"] for one in rest["entries"]] == ["project.create"]
    assert "next" not in rest


async def test_pages_are_short_when_entries_are_large(tmp_path: Path) -> None:
    async with serve(tmp_path, limits=Limits(page_bytes=8_000)) as server, server.client() as client:
        await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
        names = [f"{number:03}-{'n' * 200}" for number in range(50)]
        for name in names:
            made = await client.post("/api/v1/-/demo/secrets", json={"kind": "secret", "name": name, "spec": {}})
            assert made.status_code == 200
        values = dict.fromkeys(names, "value")
        assert (await client.put("/api/v1/-/demo/secrets/data", json=values)).status_code == 200
        found: list[dict[str, Any]] = []
        before: dict[str, int] = {}
        pages = 0
        while before or not found:
            answer = await client.get(AUDIT, params={"limit": 1000, **before})
            assert len(answer.content) < 20_000
            found += answer.json()["entries"]
            before = {"before": answer.json()["next"]} if "next" in answer.json() else {}
            pages += 1
    told = [one["details"]["names"] for one in found if one["action"] == "secret.put_values"]
    # Every name, however many there are: the audit leaves out nothing.
    assert ([len(each) for each in told[::-1]], sorted(name for each in told for name in each)) == ([20, 20, 10], names)
    sequences = [one["sequence"] for one in found]
    assert sequences == sorted(set(sequences), reverse=True)
    assert (len(found), pages) == (54, 2)


async def test_filters_hold_when_they_are_given(demo: httpx2.AsyncClient) -> None:
    await demo.put("/api/v1/profiles/small", json={})
    assert len((await demo.get(AUDIT, params={"project": "demo"})).json()["entries"]) == 4
    assert (await demo.get(AUDIT, params={"project": "other"})).json() == {"entries": []}
    assert (await demo.get(AUDIT, params={"actor": "nobody"})).json() == {"entries": []}
    newest, before = (await demo.get(AUDIT)).json()["entries"][:2]
    assert (newest["action"], newest["type"], newest["id"]) == ("profile.put", "profile", "small")
    assert (await demo.get(AUDIT, params={"action": "profile.put"})).json() == {"entries": [newest]}
    assert (await demo.get(AUDIT, params={"until": "2001-01-01T00:00:00Z"})).json() == {"entries": []}
    assert (await demo.get(AUDIT, params={"since": before["time"]})).json()["entries"][:2] == [newest, before]


@pytest.mark.parametrize(
    "parameters", ["limit=0", "limit=1001", "before=0", "before=x", "projekt=demo", "since=monday"]
)
async def test_question_is_refused_when_a_parameter_is_wrong(client: httpx2.AsyncClient, parameters: str) -> None:
    assert (await client.get(f"{AUDIT}?{parameters}")).status_code == 400


async def test_only_admins_read_it_when_there_are_accounts(tmp_path: Path) -> None:
    async with serve(tmp_path, is_open=False) as server:
        await server.add_user("root", is_admin=True)
        await server.add_user("ada")
        async with server.client("root") as root, server.client("ada") as ada, server.client() as nobody:
            assert (await ada.get(AUDIT)).status_code == 403
            assert (await nobody.get(AUDIT)).status_code == 401
            assert (await root.get(AUDIT)).status_code == 200
            assert (await root.delete(AUDIT)).status_code == 405


async def test_refused_acts_are_told_once_a_minute_when_somebody_goes_on_trying(tmp_path: Path) -> None:
    clock = TurnedClock()
    async with serve(tmp_path, is_open=False, clock=clock) as server:
        await server.add_user("root", is_admin=True)
        await server.add_user("eve")
        async with server.client("root") as root, server.client("eve") as eve:
            await root.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
            for _ in range(5):
                assert (await eve.delete("/api/v1/projects/demo")).status_code == 403
            assert (await eve.get("/api/v1/-/demo/functions")).status_code == 403
            assert (await eve.put("/api/v1/projects/demo", json={})).status_code == 403
            clock.at += timedelta(minutes=1)
            assert (await eve.delete("/api/v1/projects/demo")).status_code == 403
            entries = (await root.get(AUDIT, params={"actor": "eve"})).json()["entries"]
    told = [(one["action"], one["project"], one["result"], one["details"].get("more")) for one in entries]
    assert told == [
        ("access.manage", "demo", "refused", 4),
        ("access.manage", "demo", "refused", None),
        ("access.read", "demo", "refused", None),
        ("access.manage", "demo", "refused", None),
    ]
    assert entries[0]["details"]["act"] == "DELETE /api/v1/projects/{project}"
    assert "needs the role owner" in entries[0]["details"]["why"]
    assert entries[0]["address"] == "127.0.0.1"


async def test_run_has_one_row_a_minute_when_its_token_tries_projects_that_do_not_exist(tmp_path: Path) -> None:
    clock = TurnedClock()
    async with serve(tmp_path, is_open=False, clock=clock) as server:
        await server.add_user("root", is_admin=True)
        async with server.client("root") as root:
            await root.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
            function = {"kind": "dbt", "name": "f", "id": "f1"}
            task = {"kind": "dbt+transform", "id": "t1", "spec": {"function": "dbt://demo/f:f1"}}
            await root.post("/api/v1/-/demo/functions", json=function)
            await root.post("/api/v1/-/demo/tasks", json=task)
            spec = {"local_execution": True, "task": "dbt+transform://demo/t1"}
            run_document = {"kind": "dbt+transform:run", "id": "r1", "spec": spec}
            made = await root.post("/api/v1/-/demo/runs", json=run_document)
            assert made.status_code == 200, made.text
            token = await server.issue_run_token("demo", "r1")
            async with server.client(headers={"Authorization": f"Bearer {token}"}) as run:
                for project in ("demo", "\N{BRAIN}" * 200, *(f"made-up-{number}" for number in range(50))):
                    assert (await run.delete(f"/api/v1/projects/{project}")).status_code == 403
                clock.at += timedelta(minutes=1)
                assert (await run.delete("/api/v1/projects/made-up-again")).status_code == 403
            entries = (await root.get(AUDIT, params={"actor": "root"})).json()["entries"]
    refused = [one for one in entries if one["result"] == "refused"]
    assert {(one["type"], one["id"], one["project"]) for one in refused} == {("run", "r1", "demo")}
    told = [(one["details"].get("project"), one["details"].get("more")) for one in refused]
    assert told == [("made-up-again", 50), ("\N{BRAIN}" * 100, None), (None, None)]
