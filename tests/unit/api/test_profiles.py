"""Profiles over HTTP: written by admins, read by everybody, every revision kept."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.http_servers import serve

PROFILES = "/api/v1/profiles"
SMALL: dict[str, Any] = {"description": "little", "resources": {"mem": "1Gi"}, "node_selector": {"pool": "cheap"}}


async def test_profile_is_answered_as_read_and_as_written_when_it_was_put(client: httpx2.AsyncClient) -> None:
    put = await client.put(f"{PROFILES}/small", json=SMALL)
    assert (put.status_code, put.headers["ETag"]) == (200, '"1"')
    found = (await client.get(f"{PROFILES}/small")).json()
    assert found == put.json()
    assert found["name"] == "small"
    assert found["description"] == "little"
    assert found["fields"]["resources"] == {"mem": {"requests": "1Gi"}}
    assert found["document"] == {"id": "small", **SMALL}
    assert (found["revision"], found["is_deleted"], found["warnings"]) == (1, False, [])
    assert [one["name"] for one in (await client.get(PROFILES)).json()] == ["small"]


async def test_run_gets_the_profile_when_it_names_it(demo: httpx2.AsyncClient) -> None:
    await demo.put(f"{PROFILES}/small", json=SMALL)
    spec = {"task": "container+job://demo/t1", "profile": "small"}
    run = {"kind": "container+job:run", "id": "r1", "spec": spec}
    assert (await demo.post("/api/v1/-/demo/runs", json=run)).status_code == 200
    effective = (await demo.get("/api/v1/-/demo/runs/r1/effective")).json()
    assert effective["effective"]["node_selector"] == {"pool": "cheap"}
    assert effective["profile_revision"] == 1


async def test_base_objects_are_kept_when_they_stand_beside_the_profile(client: httpx2.AsyncClient) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    put = await client.put(f"{PROFILES}/based", json={"documents": [{"description": "x"}, job]})
    assert put.status_code == 200, put.text
    assert put.json()["base"]["Job"]["node_selector"] == {"a": "b"}
    assert (await client.get(f"{PROFILES}/based")).json()["document"]["documents"][0]["id"] == "based"
    assert (await client.get(PROFILES)).status_code == 200


async def test_every_revision_is_kept_when_a_profile_changes_and_goes(client: httpx2.AsyncClient) -> None:
    await client.put(f"{PROFILES}/small", json=SMALL)
    await client.put(f"{PROFILES}/small", json={**SMALL, "description": "less"})
    assert (await client.delete(f"{PROFILES}/small")).status_code == 200
    assert (await client.get(f"{PROFILES}/small")).status_code == 404
    history = (await client.get(f"{PROFILES}/small/revisions")).json()
    assert [(one["revision"], one["is_deleted"]) for one in history] == [(3, True), (2, False), (1, False)]
    first = (await client.get(f"{PROFILES}/small/revisions/1")).json()
    assert first["document"]["description"] == "little"
    assert (await client.get(f"{PROFILES}/small/revisions/9")).status_code == 404
    assert (await client.get(f"{PROFILES}/small/revisions/x")).status_code == 400
    assert (await client.get(f"{PROFILES}/never/revisions")).status_code == 404
    assert (await client.delete(f"{PROFILES}/small")).status_code == 404
    assert (await client.put(f"{PROFILES}/small", json=SMALL)).json()["revision"] == 4


async def test_no_revision_is_made_when_the_document_is_the_same(client: httpx2.AsyncClient) -> None:
    await client.put(f"{PROFILES}/small", json=SMALL)
    assert (await client.put(f"{PROFILES}/small", json=SMALL)).headers["ETag"] == '"1"'


async def test_stale_writer_is_refused_when_it_names_the_revision_it_read(client: httpx2.AsyncClient) -> None:
    new = {"If-Match": '"0"'}
    assert (await client.put(f"{PROFILES}/small", json=SMALL, headers=new)).status_code == 200
    assert (await client.put(f"{PROFILES}/small", json={}, headers=new)).status_code == 412
    assert (await client.put(f"{PROFILES}/small", json={}, headers={"If-Match": '"1"'})).status_code == 200
    assert (await client.delete(f"{PROFILES}/small", headers={"If-Match": '"1"'})).status_code == 412
    assert (await client.put(f"{PROFILES}/small", json={}, headers={"If-Match": "no"})).status_code == 400


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"resources": {"memory": "1Gi"}}, "resources.memory"),
        ({"nodeselector": {}}, "nodeselector"),
        ({"id": "other"}, "id"),
        ({"profile": "other"}, "profile"),
        ({"documents": 5}, ""),
        ({"documents": []}, ""),
        ([], ""),
        ({"documents": [{"documents": []}, 7]}, "documents[0]"),
    ],
)
async def test_profile_is_refused_whole_when_something_is_wrong_with_it(
    client: httpx2.AsyncClient, document: Any, path: str
) -> None:
    answer = await client.put(f"{PROFILES}/small", json=document)
    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"][0]["path"].startswith(path)
    assert (await client.get(PROFILES)).json() == []


async def test_name_is_refused_when_it_is_none(client: httpx2.AsyncClient) -> None:
    assert (await client.put(f"{PROFILES}/a%20b", json=SMALL)).status_code == 400
    assert (await client.put(f"{PROFILES}/{'a' * 300}", json=SMALL)).status_code == 400


async def test_yaml_is_refused_when_json_cannot_keep_it(client: httpx2.AsyncClient) -> None:
    yaml = {"Content-Type": "application/yaml"}
    assert (await client.put(f"{PROFILES}/small", content="description: hi\n", headers=yaml)).status_code == 200
    assert (await client.put(f"{PROFILES}/small", content="envs: {1: a}\n", headers=yaml)).status_code == 400


async def test_contradiction_is_told_when_the_policy_locks_or_forbids_what_a_profile_sets(
    client: httpx2.AsyncClient,
) -> None:
    policy = {
        "resources": {"mem": {"default": "1Gi", "locked": True}, "cpu": {"max": "2"}},
        "projects": {"vision": {"node_selector": {"default": {"pool": "gpu"}, "locked": True}}},
    }
    assert (await client.put("/api/v1/policy", json=policy)).status_code == 200
    big = {"resources": {"mem": "8Gi", "cpu": 4}, "node_selector": {"pool": "cheap"}}
    refused = await client.put(f"{PROFILES}/big", json=big, params={"strict": "true"})
    assert refused.status_code == 400
    put = await client.put(f"{PROFILES}/big", json=big)
    told = {(one["code"], one["path"]): one["message"] for one in put.json()["warnings"]}
    assert set(told) == {
        ("profile.overridden", "resources.mem.requests"),
        ("profile.refused", "resources.cpu.requests"),
        ("profile.overridden", "node_selector.pool"),
    }
    assert "in project vision" in told["profile.overridden", "node_selector.pool"]
    read = (await client.get(f"{PROFILES}/big")).json()["warnings"]
    assert {one["path"] for one in read} == {"resources.mem.requests", "resources.cpu.requests"}


async def test_profile_stays_when_the_policy_gives_it_to_runs(client: httpx2.AsyncClient) -> None:
    await client.put(f"{PROFILES}/small", json=SMALL)
    await client.put("/api/v1/policy", json={"profile": {"default": "small"}})
    answer = await client.delete(f"{PROFILES}/small")
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "profile.in_use")
    await client.delete("/api/v1/policy")
    assert (await client.delete(f"{PROFILES}/small")).status_code == 200


async def test_users_read_and_admins_write_when_there_are_accounts(tmp_path: Path) -> None:
    async with serve(tmp_path, is_open=False) as server:
        await server.add_user("root", is_admin=True)
        await server.add_user("ada")
        async with server.client("root") as root, server.client("ada") as ada, server.client() as nobody:
            assert (await ada.put(f"{PROFILES}/small", json=SMALL)).status_code == 403
            put = await root.put(f"{PROFILES}/small", json=SMALL)
            assert put.json()["user"] == "root"
            assert (await ada.get(f"{PROFILES}/small")).json()["fields"] == put.json()["fields"]
            assert (await ada.get(f"{PROFILES}/small/revisions")).status_code == 403
            assert (await ada.delete(f"{PROFILES}/small")).status_code == 403
            assert (await nobody.get(PROFILES)).status_code == 401


async def test_one_writer_wins_when_several_replace_the_same_revision(client: httpx2.AsyncClient) -> None:
    writes = [
        client.put(f"{PROFILES}/small", json={"description": f"{number}"}, headers={"If-Match": '"0"'})
        for number in range(8)
    ]
    statuses = sorted(one.status_code for one in await asyncio.gather(*writes))
    assert statuses == [200] + [412] * 7
    assert len((await client.get(f"{PROFILES}/small/revisions")).json()) == 1
