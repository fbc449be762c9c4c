"""The audit over HTTP."""

from pathlib import Path

import httpx2
import pytest

from tests.serving import serve

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


async def test_filters_hold_when_they_are_given(demo: httpx2.AsyncClient) -> None:
    await demo.put("/api/v1/profiles/small", json={})
    assert len((await demo.get(AUDIT, params={"project": "demo"})).json()["entries"]) == 4
    assert (await demo.get(AUDIT, params={"project": "other"})).json() == {"entries": []}
    assert (await demo.get(AUDIT, params={"actor": "nobody"})).json() == {"entries": []}
    newest = (await demo.get(AUDIT)).json()["entries"][0]
    assert (newest["action"], newest["type"], newest["id"]) == ("profile.put", "profile", "small")


@pytest.mark.parametrize("parameters", ["limit=0", "limit=1001", "before=0", "before=x", "projekt=demo"])
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
