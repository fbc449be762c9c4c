"""Volumes that a project keeps."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.http_servers import Server, serve

VOLUMES = "/api/v1/-/demo/volumes"
DATA: dict[str, Any] = {"name": "data", "spec": {"size": "10Gi", "storage_class": "fast"}}


def _run(run_id: str, **volume: Any) -> dict[str, Any]:
    mounted = {"volume_type": "shared_volume", "name": "data", "mount_path": "/data", **volume}
    spec = {"task": "container+job://demo/t1", "volumes": [mounted]}
    return {"kind": "container+job:run", "id": run_id, "spec": spec}


async def test_volume_is_created_once_when_its_name_is_free(demo: httpx2.AsyncClient) -> None:
    created = await demo.post(VOLUMES, json={**DATA, "metadata": {"description": "ours", "labels": ["a"]}})
    assert created.status_code == 200, created.text
    volume = created.json()
    assert volume["spec"] == DATA["spec"]
    assert (volume["status"]["state"], volume["kind"], volume["metadata"]["labels"]) == ("CREATED", "volume", ["a"])
    again = await demo.post(VOLUMES, json=DATA)
    assert (again.status_code, again.json()["message"]) == (400, "Duplicated entity volume:data.")
    assert (await demo.get(f"{VOLUMES}/data")).json() == volume
    page = (await demo.get(VOLUMES)).json()
    assert (page["totalElements"], page["content"]) == (1, [volume])


async def test_run_mounts_the_volume_when_it_names_it(demo: httpx2.AsyncClient) -> None:
    unknown = await demo.post("/api/v1/-/demo/runs", json=_run("r1"))
    assert unknown.json()["errors"][0]["code"] == "volume.unknown"
    volume = (await demo.post(VOLUMES, json=DATA)).json()
    assert (await demo.post("/api/v1/-/demo/runs", json=_run("r1"))).status_code == 200
    effective = (await demo.get("/api/v1/-/demo/runs/r1/effective")).json()["effective"]
    assert effective["volumes"][0]["claim_name"] == f"vol-{volume['id']}"


async def test_volume_stays_when_a_run_that_has_not_ended_uses_it(demo: httpx2.AsyncClient) -> None:
    await demo.post(VOLUMES, json=DATA)
    await demo.post("/api/v1/-/demo/runs", json=_run("r1"))
    refused = await demo.delete(f"{VOLUMES}/data")
    assert (refused.status_code, refused.json()["errorCode"]) == (400, "volume.in_use")
    assert "r1" in refused.json()["message"]
    await demo.post("/api/v1/-/demo/runs/r1/stop")
    assert (await demo.delete(f"{VOLUMES}/data", headers={"If-Match": '"7"'})).status_code == 412
    assert (await demo.delete(f"{VOLUMES}/data")).status_code == 200
    assert (await demo.get(f"{VOLUMES}/data")).status_code == 404
    assert (await demo.delete(f"{VOLUMES}/data")).status_code == 404
    assert (await demo.post(VOLUMES, json=DATA)).status_code == 200


async def test_volume_stays_when_a_stopped_service_can_still_be_resumed(demo: httpx2.AsyncClient) -> None:
    await demo.post(VOLUMES, json=DATA)
    run = _run("r1")
    spec = {**run["spec"], "task": "container+serve://demo/t2", "service_ports": [{"port": 80, "target_port": 80}]}
    made = await demo.post("/api/v1/-/demo/runs", json={**run, "kind": "container+serve:run", "spec": spec})
    assert made.status_code == 200, made.text
    assert (await demo.post("/api/v1/-/demo/runs/r1/stop")).json()["status"]["state"] == "STOPPED"
    refused = await demo.delete(f"{VOLUMES}/data")
    assert (refused.status_code, refused.json()["errorCode"]) == (400, "volume.in_use")
    assert (await demo.delete("/api/v1/-/demo/runs/r1")).status_code == 200
    assert (await demo.delete(f"{VOLUMES}/data")).status_code == 200


async def test_policy_fills_and_bounds_when_it_rules_volumes(demo: httpx2.AsyncClient) -> None:
    rules = {"volumes": {"size": {"max": "4Gi", "default": "1Gi"}, "storage_class": {"default": "slow"}}}
    assert (await demo.put("/api/v1/policy", json=rules)).status_code == 200
    refused = await demo.post(VOLUMES, json=DATA)
    assert [(one["code"], one["path"]) for one in refused.json()["errors"]] == [("policy.max", "spec.size")]
    made = await demo.post(VOLUMES, json={"name": "data"})
    assert made.json()["spec"] == {"size": "1Gi", "storage_class": "slow"}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"spec": {"size": "1Gi"}}, "name"),
        ({"name": "Data_1"}, "name"),
        ({"name": "runyard-x"}, "name"),
        ({"name": "data", "spec": {"sise": "1Gi"}}, "spec.sise"),
        ({"name": "data", "spec": {"size": "lots"}}, "spec.size"),
        ({"name": "data", "spec": {"size": "-1Gi"}}, "spec.size"),
        ({"name": "data", "spec": {"size": 0}}, "spec.size"),
        ({"name": "data", "spec": {"storage_class": "../etc"}}, "spec.storage_class"),
        ({"name": "data", "spec": []}, "spec"),
        ({"name": "data", "id": "x"}, "id"),
        ({"name": "data", "kind": "pvc"}, "kind"),
        ({"name": "data", "project": "other"}, "project"),
        ({"name": "data", "status": {"state": "READY"}}, "status"),
        ([], ""),
    ],
)
async def test_volume_is_refused_when_something_is_wrong_with_it(
    demo: httpx2.AsyncClient, body: Any, path: str
) -> None:
    answer = await demo.post(VOLUMES, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"][0]["path"] == path
    assert (await demo.get(VOLUMES)).json()["totalElements"] == 0


async def test_nothing_is_found_when_there_is_no_such_project(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/api/v1/-/none/volumes")).status_code == 404
    assert (await client.post("/api/v1/-/none/volumes", json=DATA)).status_code == 404


async def _add_member(server: Server, owner: httpx2.AsyncClient, name: str, role: str) -> None:
    await server.add_user(name)
    shared = await owner.post("/api/v1/projects/demo/share", params={"user": name, "role": role})
    assert shared.status_code == 200


async def test_roles_decide_when_there_are_accounts(tmp_path: Path) -> None:
    async with serve(tmp_path, is_open=False) as server:
        await server.add_user("ada")
        await server.add_user("eve")
        async with server.client("ada") as ada, server.client("eve") as eve, server.client("vic") as vic:
            await ada.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
            await _add_member(server, ada, "vic", "viewer")
            assert (await ada.post(VOLUMES, json=DATA)).status_code == 200
            assert (await vic.get(f"{VOLUMES}/data")).status_code == 200
            assert (await vic.post(VOLUMES, json=DATA)).status_code == 403
            assert (await vic.delete(f"{VOLUMES}/data")).status_code == 403
            assert (await eve.get(VOLUMES)).status_code == 403


async def test_one_volume_is_made_when_several_ask_for_the_name_at_once(demo: httpx2.AsyncClient) -> None:
    answers = await asyncio.gather(*(demo.post(VOLUMES, json=DATA) for _ in range(8)))
    assert sorted(one.status_code for one in answers) == [200] + [400] * 7
    assert (await demo.get(VOLUMES)).json()["totalElements"] == 1
