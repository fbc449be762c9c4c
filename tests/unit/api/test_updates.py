"""PUT: what changes, what stays, who is told, and who was quicker."""

from typing import Any

import httpx2

BASE = "/api/v1/-/demo"
FUNCTION = f"{BASE}/functions/f1"
TASK = f"{BASE}/tasks/t1"
ARTIFACT: dict[str, Any] = {"kind": "artifact", "name": "a", "id": "a1", "spec": {"path": "s3://b/a"}}


async def put(client: httpx2.AsyncClient, path: str, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    answer = await client.put(path, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def list_warned(entity: dict[str, Any]) -> list[str]:
    return [warning["path"] for warning in entity["status"].get("warnings", [])]


async def test_function_keeps_its_spec_and_says_so_when_another_is_put(demo: httpx2.AsyncClient) -> None:
    body = {"kind": "container", "name": "box", "spec": {"image": "other:1"}, "metadata": {"description": "new"}}
    changed = await put(demo, FUNCTION, body)
    assert changed["spec"]["image"] == "busybox:1.36"
    assert changed["metadata"]["description"] == "new"
    assert list_warned(changed) == ["spec.image"]
    # The warning is part of that answer, not of the function.
    assert list_warned((await demo.get(FUNCTION)).json()) == []


async def test_nobody_is_warned_when_a_function_is_put_back_as_it_was_answered(demo: httpx2.AsyncClient) -> None:
    source = {"handler": "h", "code": "x", "lang": "python"}
    spec = {"python_version": "PYTHON3_11", "source": source, "command": ["a", "b"]}
    made = await demo.post(f"{BASE}/functions", json={"kind": "python", "name": "p", "id": "p1", "spec": spec})
    assert made.status_code == 200, made.text
    changed = await put(demo, f"{BASE}/functions/p1", made.json())
    assert list_warned(changed) == []


async def test_warnings_of_an_answer_are_not_kept_when_a_client_sends_them_back(demo: httpx2.AsyncClient) -> None:
    assert (await demo.post(f"{BASE}/artifacts", json=ARTIFACT)).status_code == 200
    body = {**ARTIFACT, "status": {"state": "READY", "warnings": [{"code": "mine"}], "files": []}}
    changed = await put(demo, f"{BASE}/artifacts/a1", body)
    assert changed["status"] == {"state": "READY", "files": []}


async def test_state_is_the_clients_when_it_is_an_artifact_and_the_servers_when_a_function(
    demo: httpx2.AsyncClient,
) -> None:
    await demo.post(f"{BASE}/artifacts", json=ARTIFACT)
    for state in ("UPLOADING", "READY", "ERROR"):
        assert (await put(demo, f"{BASE}/artifacts/a1", {**ARTIFACT, "status": {"state": state}}))["status"] == {
            "state": state
        }
    forged = {"state": "READY", "service": {"url": "evil"}, "message": "hi"}
    changed = await put(demo, FUNCTION, {"kind": "container", "name": "box", "status": forged})
    assert (changed["status"]["state"], changed["status"]["message"]) == ("CREATED", "hi")
    assert "service" not in changed["status"]
    assert sorted(list_warned(changed)) == ["status.service", "status.state"]


async def test_artifact_keeps_its_path_and_says_so_when_another_is_put(demo: httpx2.AsyncClient) -> None:
    await demo.post(f"{BASE}/artifacts", json=ARTIFACT)
    changed = await put(demo, f"{BASE}/artifacts/a1", {**ARTIFACT, "spec": {"path": "s3://b/other"}})
    assert changed["spec"] == {"path": "s3://b/a"}
    assert list_warned(changed) == ["spec.path"]


async def test_task_keeps_what_was_not_shown_when_it_is_put_back_as_it_was_answered(demo: httpx2.AsyncClient) -> None:
    volume = {"volume_type": "persistent_volume_claim", "name": "v", "mount_path": "/v", "spec": {"storage_class": "x"}}
    spec = {
        "function": "container://demo/box:f1",
        "resources": {"cpu": {"requests": 1, "limits": 2}},
        "volumes": [volume],
        "secrets": [{"name": "token", "mount_path": "/t"}],
        "envs": {"A": 1},
    }
    await put(demo, TASK, {"kind": "container+job", "spec": spec})
    shown = (await demo.get(TASK)).json()
    assert "resources" not in shown["spec"]
    await put(demo, TASK, shown)
    await demo.post(f"{BASE}/secrets", json={"kind": "secret", "name": "token"})
    run = {"kind": "container+job:run", "spec": {"task": "container+job://demo/t1"}}
    effective = (await demo.post(f"{BASE}/runs/explain", json=run)).json()["effective"]
    assert effective["resources"]["cpu"] == {"requests": "1", "limits": "2"}
    assert effective["secrets"] == [{"name": "token", "mount_path": "/t"}]
    assert effective["volumes"][0]["storage_class"] == "x"
    assert effective["envs"]["A"] == "1"


async def test_task_keeps_its_function_and_says_so_when_another_is_put(demo: httpx2.AsyncClient) -> None:
    function = {"kind": "container", "name": "other", "id": "f2", "spec": {"image": "a:1"}}
    await demo.post(f"{BASE}/functions", json=function)
    changed = await put(demo, TASK, {"kind": "container+job", "spec": {"function": "container://demo/other:f2"}})
    assert changed["spec"]["function"] == "container://demo/box:f1"
    assert list_warned(changed) == ["spec.function"]


async def test_identity_is_refused_when_an_update_says_another(demo: httpx2.AsyncClient) -> None:
    body = {"kind": "python", "name": "other", "id": "f9", "project": "elsewhere"}
    answer = await demo.put(FUNCTION, json=body)
    assert [problem["path"] for problem in answer.json()["errors"]] == ["project"]
    answer = await demo.put(FUNCTION, json={**body, "project": "demo"})
    assert [problem["path"] for problem in answer.json()["errors"]] == ["id", "name", "kind"]
    assert {problem["code"] for problem in answer.json()["errors"]} == {"field.fixed"}


async def test_second_writer_is_told_when_both_had_read_the_same_revision(demo: httpx2.AsyncClient) -> None:
    tag = (await demo.get(FUNCTION)).headers["ETag"]
    body = {"kind": "container", "name": "box"}
    first = await demo.put(FUNCTION, json={**body, "metadata": {"description": "1"}}, headers={"If-Match": tag})
    second = await demo.put(FUNCTION, json={**body, "metadata": {"description": "2"}}, headers={"If-Match": tag})
    assert (first.status_code, second.status_code) == (200, 412)
    assert first.headers["ETag"] != tag
    assert (await demo.get(FUNCTION)).headers["ETag"] == first.headers["ETag"]
    assert (await demo.get(FUNCTION)).json()["metadata"]["description"] == "1"
    # Without a tag the last one wins, as it does at DigitalHub.
    assert (await put(demo, FUNCTION, {**body, "metadata": {"description": "3"}}))["metadata"]["description"] == "3"


async def test_nothing_is_deleted_when_it_has_changed_since_it_was_read(demo: httpx2.AsyncClient) -> None:
    for path in (FUNCTION, "/api/v1/projects/demo"):
        stale = await demo.delete(path, params={"cascade": "true"}, headers={"If-Match": '"99"'})
        assert stale.status_code == 412
        tag = (await demo.get(path)).headers["ETag"]
        gone = await demo.delete(path, params={"cascade": "true"}, headers={"If-Match": tag})
        assert gone.status_code == 200


async def test_servers_metadata_is_not_the_clients_when_it_is_put(demo: httpx2.AsyncClient) -> None:
    before = (await demo.get(FUNCTION)).json()["metadata"]
    forged = {"created": "1999-01-01T00:00:00Z", "created_by": "eve", "updated_by": "eve", "name": "other", "x": 1}
    changed = await put(demo, FUNCTION, {"kind": "container", "name": "box", "metadata": forged})
    assert {**changed["metadata"], "updated": before["updated"]} == {**before, "x": 1}
    assert list_warned(changed) == ["metadata.name"]


async def test_project_takes_metadata_and_spec_when_it_is_put(demo: httpx2.AsyncClient) -> None:
    spec = {"source": "./x", "config": {"a": 1}, "functions": [{"name": "box"}], "mine": [1]}
    body = {
        "kind": "project",
        "name": "demo",
        "spec": spec,
        "metadata": {"labels": ["l"]},
        "status": {"state": "READY"},
    }
    changed = await put(demo, "/api/v1/projects/demo", body)
    assert changed["metadata"]["labels"] == ["l"]
    assert list_warned(changed) == ["status.state"]
    found = (await demo.get("/api/v1/projects/demo")).json()
    assert {key: found["spec"][key] for key in ("source", "config", "mine")} == {
        "source": "./x",
        "config": {"a": 1},
        "mine": [1],
    }
    assert [one["id"] for one in found["spec"]["functions"]] == ["f1"]
    assert "spec" not in found["spec"]["functions"][0]
    other = await demo.put("/api/v1/projects/demo", json={**body, "name": "demo2"})
    assert other.json()["errors"][0]["code"] == "field.fixed"


async def test_extensions_stay_when_an_update_has_none(demo: httpx2.AsyncClient) -> None:
    body = {"kind": "container", "name": "box", "extensions": [{"kind": "x", "name": "y"}]}
    assert (await put(demo, FUNCTION, body))["extensions"] == body["extensions"]
    assert (await put(demo, FUNCTION, {"kind": "container", "name": "box"}))["extensions"] == body["extensions"]
