"""The policy over HTTP: read by everybody, written and rehearsed by admins."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.app.runs import policy_rehearsal
from tests.http_servers import serve

POLICY = "/api/v1/policy"
REHEARSE = f"{POLICY}/rehearse"
CAPPED = {"resources": {"mem": {"max": "4Gi"}}}


async def _submit(client: httpx2.AsyncClient, run_id: str, mem: str, **spec: Any) -> None:
    run = {
        "kind": "container+job:run",
        "id": run_id,
        "spec": {"task": "container+job://demo/t1", "resources": {"mem": {"requests": mem, "limits": mem}}, **spec},
    }
    answer = await client.post("/api/v1/-/demo/runs", json=run)
    assert answer.status_code == 200, answer.text


async def test_built_in_rules_are_told_when_no_policy_was_written(client: httpx2.AsyncClient) -> None:
    answer = await client.get(POLICY)
    found = answer.json()
    assert (found["is_built_in"], found["document"], found["revision"]) == (True, {}, 0)
    assert answer.headers["ETag"] == '"0"'
    assert found["built_in"]["platform"]["pod_security"] == "restricted"
    assert (await client.delete(POLICY)).status_code == 404


async def test_policy_holds_for_new_runs_when_it_was_put(demo: httpx2.AsyncClient) -> None:
    put = await demo.put(POLICY, json=CAPPED)
    assert (put.status_code, put.json()["is_built_in"], put.json()["document"]) == (200, False, CAPPED)
    spec = {"task": "container+job://demo/t1", "resources": {"mem": "8Gi"}}
    refused = await demo.post("/api/v1/-/demo/runs", json={"kind": "container+job:run", "id": "r1", "spec": spec})
    assert refused.json()["errors"][0]["code"] == "policy.max"
    await demo.delete(POLICY)
    assert (await demo.get(POLICY)).json()["is_built_in"] is True
    history = (await demo.get(f"{POLICY}/revisions")).json()
    assert [(one["revision"], one["is_deleted"]) for one in history] == [(2, True), (1, False)]
    assert (await demo.get(f"{POLICY}/revisions/1")).json()["document"] == CAPPED


async def test_stale_writer_is_refused_when_it_names_the_revision_it_read(client: httpx2.AsyncClient) -> None:
    assert (await client.put(POLICY, json=CAPPED, headers={"If-Match": '"0"'})).status_code == 200
    assert (await client.put(POLICY, json={}, headers={"If-Match": '"0"'})).status_code == 412
    assert (await client.delete(POLICY, headers={"If-Match": '"1"'})).status_code == 200


async def test_doubts_are_told_when_a_rule_does_nothing_or_a_profile_is_missing(client: httpx2.AsyncClient) -> None:
    await client.put("/api/v1/profiles/large", json={"resources": {"mem": "8Gi"}})
    policy = {**CAPPED, "profile": {"default": "larg"}, "projects": {"vision": {"resources": {"mem": {"max": "8Gi"}}}}}
    put = await client.put(POLICY, json=policy)
    told = {one["code"]: one for one in put.json()["warnings"][::-1]}
    assert told["policy.idle"]["path"] == "projects.vision[resources.mem].max"
    assert told["profile.unknown"]["suggestion"] == "large"
    assert told["profile.refused"]["path"] == "profiles.large.resources.mem.requests"
    assert (await client.put(POLICY, json={**policy, "labels": {}}, params={"strict": "1"})).status_code == 400


@pytest.mark.parametrize(
    "document", [{"resources": {"memory": {}}}, [], "x", {"projects": {"A b": {}}}, {"platform": 1}]
)
async def test_policy_is_refused_whole_when_something_is_wrong_with_it(
    client: httpx2.AsyncClient, document: Any
) -> None:
    assert (await client.put(POLICY, json=document)).status_code == 400
    assert (await client.get(POLICY)).json()["revision"] == 0


async def test_rehearsal_counts_and_names_runs_when_a_policy_would_change_them(demo: httpx2.AsyncClient) -> None:
    await _submit(demo, "large", "8Gi")
    await _submit(demo, "small", "1Gi")
    answer = await demo.post(REHEARSE, json={"policy": CAPPED})
    found = answer.json()
    assert answer.status_code == 200, answer.text
    assert (found["counts"]["refused"], found["counts"]["unchanged"], found["total"]) == (1, 1, 2)
    assert [(one["id"], one["outcome"]) for one in found["runs"]] == [("large", "refused")]
    assert found["runs"][0]["refusals"][0]["code"] == "policy.max"
    locked = {"resources": {"mem": {"default": "2Gi", "locked": True}, "mem.limit": {"default": "2Gi", "locked": True}}}
    counts = (await demo.post(REHEARSE, json={"policy": locked})).json()["counts"]
    assert (counts["changed"], counts["smaller"], counts["larger"]) == (2, 1, 1)
    assert (await demo.get(POLICY)).json()["revision"] == 0
    audit = (await demo.get("/api/v1/audit")).json()["entries"]
    assert [one["action"] for one in audit[:2]] == ["policy.rehearse", "policy.rehearse"]


async def test_rehearsal_takes_profiles_beside_those_that_hold_when_it_names_some(demo: httpx2.AsyncClient) -> None:
    await demo.put("/api/v1/profiles/p", json={"node_selector": {"pool": "a"}})
    await _submit(demo, "r1", "1Gi", profile="p")
    await _submit(demo, "r2", "1Gi")
    changed = (await demo.post(REHEARSE, json={"profiles": {"p": {"node_selector": {"pool": "b"}}}})).json()
    assert [(one["id"], one["changes"][0]["path"]) for one in changed["runs"]] == [("r1", "node_selector.pool")]
    gone = (await demo.post(REHEARSE, json={"profiles": {"p": None}})).json()
    assert (gone["counts"]["refused"], gone["runs"][0]["refusals"][0]["code"]) == (1, "profile.unknown")


async def test_run_is_named_as_unreadable_when_its_task_is_gone(demo: httpx2.AsyncClient) -> None:
    await _submit(demo, "r1", "8Gi")
    assert (await demo.delete("/api/v1/-/demo/tasks/t1")).status_code == 200
    found = (await demo.post(REHEARSE, json={"policy": CAPPED})).json()
    assert found["counts"]["unreadable"] == 1
    assert (found["runs"][0]["outcome"], found["runs"][0]["refusals"][0]["code"]) == ("unreadable", "reference.unknown")


async def test_secret_that_is_gone_is_no_refusal_when_the_run_had_it(demo: httpx2.AsyncClient) -> None:
    secret = (await demo.post("/api/v1/-/demo/secrets", json={"kind": "secret", "name": "token"})).json()
    await _submit(demo, "r1", "1Gi", secrets=["token"])
    await demo.delete(f"/api/v1/-/demo/secrets/{secret['id']}")
    found = (await demo.post(REHEARSE, json={"policy": CAPPED})).json()
    assert (found["counts"]["unchanged"], found["runs"]) == (1, [])


async def test_rehearsal_says_why_when_the_current_policy_and_the_candidate_refuse_a_run(
    demo: httpx2.AsyncClient,
) -> None:
    await _submit(demo, "r1", "8Gi")
    await demo.put("/api/v1/policy", json=CAPPED)
    found = (await demo.post(REHEARSE, json={"policy": CAPPED})).json()
    assert (found["counts"]["refused_by_both"], found["counts"]["unchanged"], found["runs"]) == (1, 0, [])
    assert [(cause["code"], cause["runs"]) for cause in found["refused_by_both"]] == [("policy.max", 1)] * len(
        found["refused_by_both"]
    )
    assert "resources.mem.requests" in {cause["path"] for cause in found["refused_by_both"]}


async def test_rehearsal_is_bounded_when_there_are_many_runs(
    demo: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_rehearsal, "SLICE", 2)
    monkeypatch.setattr(policy_rehearsal, "MOST_DETAILS", 1)
    for number in range(5):
        await _submit(demo, f"r{number}", "8Gi")
    found = (await demo.post(REHEARSE, json={"policy": CAPPED, "limit": 3})).json()
    assert (found["counts"]["refused"], found["total"], len(found["runs"]), found["left_out"]) == (3, 5, 1, 2)
    assert found["runs"][0]["id"] == "r4"
    every = (await demo.post(REHEARSE, json={"policy": CAPPED})).json()
    assert (every["counts"]["refused"], every["left_out"]) == (5, 4)


async def test_only_the_time_span_and_project_are_played_when_they_are_named(demo: httpx2.AsyncClient) -> None:
    await _submit(demo, "r1", "8Gi")
    for span in ({"until": "2020-01-01T00:00:00Z"}, {"since": "2999-01-01T00:00:00Z"}, {"project": "other"}):
        assert (await demo.post(REHEARSE, json={"policy": CAPPED, **span})).json()["total"] == 0
    found = await demo.post(REHEARSE, json={"policy": CAPPED, "since": "2020-01-01", "project": "demo"})
    assert found.json()["total"] == 1


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, ""),
        ({"policy": {"nonsense": 1}}, "policy.nonsense"),
        ({"policy": 7}, "policy"),
        ({"profiles": {"p": {"nonsense": 1}}}, "profiles.p.nonsense"),
        ({"profiles": {"a b": {}}}, "profiles.[a b]"),
        ({"profiles": [1]}, "profiles"),
        ({"policy": {}, "polici": {}}, "polici"),
        ({"policy": {}, "since": "yesterday"}, "since"),
        ({"policy": {}, "since": "2026-01-02", "until": "2026-01-01"}, "until"),
        ({"policy": {}, "limit": 0}, "limit"),
        ({"policy": {}, "limit": 100000}, "limit"),
        ([], ""),
    ],
)
async def test_rehearsal_is_refused_when_its_body_is_wrong(client: httpx2.AsyncClient, body: Any, path: str) -> None:
    answer = await client.post(REHEARSE, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"][0]["path"].replace("[", ".[").replace("..", ".").startswith(path)


async def test_rules_of_other_projects_are_hidden_when_a_user_reads_the_policy(tmp_path: Path) -> None:
    names = ("adas", "open-to-all", "bobs", "gone")
    rules = {name: {"resources.mem": {"max": "9Gi" if name == "gone" else "2Gi"}} for name in names}
    async with serve(tmp_path, is_open=False) as server:
        for name, is_admin in (("root", True), ("ada", False), ("bob", False), ("eve", False)):
            await server.add_user(name, is_admin=is_admin)
        async with (
            server.client("root") as root,
            server.client("ada") as ada,
            server.client("bob") as bob,
            server.client("eve") as eve,
        ):
            for client, name in ((ada, "adas"), (bob, "bobs"), (bob, "open-to-all")):
                made = await client.post("/api/v1/projects", json={"kind": "project", "name": name})
                assert made.status_code == 200, made.text
            shared = await bob.post("/api/v1/projects/open-to-all/share", params={"user": "*", "role": "viewer"})
            assert shared.status_code == 200, shared.text
            put = (await root.put(POLICY, json={**CAPPED, "projects": rules})).json()
            assert "gone" in str(put["warnings"])
            shown = {}
            for name, client in (("root", root), ("ada", ada), ("bob", bob), ("eve", eve)):
                answer = (await client.get(POLICY)).json()
                shown[name] = sorted(answer["document"]["projects"])
                assert answer["document"]["resources"] == CAPPED["resources"]
                assert ("gone" in str(answer["warnings"])) is (name == "root")
    assert shown == {
        "root": ["adas", "bobs", "gone", "open-to-all"],
        "ada": ["adas", "open-to-all"],
        "bob": ["bobs", "open-to-all"],
        "eve": ["open-to-all"],
    }


async def test_users_read_and_admins_write_when_there_are_accounts(tmp_path: Path) -> None:
    async with serve(tmp_path, is_open=False) as server:
        await server.add_user("root", is_admin=True)
        await server.add_user("ada")
        async with server.client("root") as root, server.client("ada") as ada, server.client() as nobody:
            assert (await root.put(POLICY, json=CAPPED)).json()["user"] == "root"
            assert (await ada.get(POLICY)).json()["document"] == CAPPED
            refused = [
                await ada.put(POLICY, json={}),
                await ada.delete(POLICY),
                await ada.get(f"{POLICY}/revisions"),
                await ada.get(f"{POLICY}/revisions/1"),
                await ada.post(REHEARSE, json={"policy": {}}),
            ]
            assert [one.status_code for one in refused] == [403] * 5
            assert (await nobody.get(POLICY)).status_code == 401
