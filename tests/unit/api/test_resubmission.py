"""A response that is posted again, under another id, is the same request."""

import copy
from typing import Any

import httpx2
import pytest

RUNS = "/api/v1/-/demo/runs"
JOB: dict[str, Any] = {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://demo/t1"}}

CLAIM = {"volume_type": "persistent_volume_claim", "name": "a", "mount_path": "/a"}
REQUESTS: dict[str, dict[str, Any]] = {
    "limits": {"resources": {"cpu": {"requests": "1", "limits": "2"}, "mem": {"limits": "2Gi"}, "gpu": {"limits": 1}}},
    "sides by Kubernetes names": {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 2, "memory": "1Gi"}}},
    "other spelling": {"resources": {"cpu": {"request": 1, "limit": 2}}},
    "disk": {"resources": {"cpu": 1.5, "mem": {"requests": "1Gi", "limits": "3Gi"}, "disk": "10Gi"}},
    "volumes of SDKs": {"volumes": [{**CLAIM, "spec": {"size": "1Gi"}}, {**CLAIM, "name": "b", "mount_path": "/b"}]},
    "volumes that SDKs do not know": {
        "volumes": [
            {**CLAIM, "spec": {"size": "1Gi", "storage_class": "fast", "lifetime": "7d", "sub_path": "x"}},
            {"volume_type": "config_map", "name": "c", "mount_path": "/c", "spec": {"data": {"a.toml": "x = 1"}}},
            {"volume_type": "image", "name": "i", "mount_path": "/i", "spec": {"image": "busybox:1.36"}},
        ]
    },
    "secrets": {"secrets": ["token", {"name": "kaggle", "mount_path": "/secrets/kaggle.json"}]},
    "envs": {"envs": {"EPOCHS": 3, "DEBUG": True, "NAME": "x"}},
    "profile": {"profile": "large", "resources": {"mem": {"requests": "1Gi", "limits": "9Gi"}}},
    "command of several words": {"command": ["sh", "-c", "echo 'a b'"], "args": [1, True, "x"]},
    "camelCase": {"nodeSelector": {"zone": "a"}, "runAsUser": "1000", "workingDir": "/tmp"},
    "placement": {
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                    }
                ]
            }
        },
    },
    "durations": {"timeout": "2h", "ttl": 90, "backoff_limit": 2},
}


@pytest.fixture
async def ready(demo: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The client of `demo`, which also has two secrets and a profile that leaves the memory limit to users."""
    for name in ("token", "kaggle"):
        await demo.post("/api/v1/-/demo/secrets", json={"kind": "secret", "name": name})
    await demo.put("/api/v1/profiles/large", json={"resources": {"mem": "8Gi"}})
    return demo


async def _get_effective(client: httpx2.AsyncClient, run_id: str) -> Any:
    answer = await client.get(f"{RUNS}/{run_id}/effective")
    return answer.json()["effective"]


@pytest.mark.parametrize("name", REQUESTS)
async def test_effective_spec_is_the_same_when_a_run_is_read_and_posted_again(
    ready: httpx2.AsyncClient, name: str
) -> None:
    submitted = await ready.post(RUNS, json={**JOB, "spec": {**JOB["spec"], **REQUESTS[name]}})
    assert submitted.status_code == 200, submitted.text
    read = (await ready.get(f"{RUNS}/r1")).json()

    again = await ready.post(RUNS, json={**read, "id": "r2"})

    assert again.status_code == 200, again.text
    assert await _get_effective(ready, "r2") == await _get_effective(ready, "r1")
    assert again.json()["spec"] == read["spec"]
    assert again.json()["status"].get("warnings") == read["status"].get("warnings")


@pytest.mark.parametrize("name", REQUESTS)
async def test_effective_spec_is_the_same_when_a_run_of_an_old_kind_is_posted_again(
    ready: httpx2.AsyncClient, name: str
) -> None:
    first = {**JOB, "kind": "container+run", "spec": {**JOB["spec"], **REQUESTS[name]}}
    assert (await ready.post(RUNS, json=first)).status_code == 200
    read = (await ready.get(f"{RUNS}/r1")).json()

    assert (await ready.post(RUNS, json={**read, "id": "r2"})).status_code == 200
    assert await _get_effective(ready, "r2") == await _get_effective(ready, "r1")


async def test_listed_run_is_the_same_request_when_it_is_posted_again(ready: httpx2.AsyncClient) -> None:
    await ready.post(RUNS, json={**JOB, "spec": {**JOB["spec"], **REQUESTS["limits"]}})
    (listed,) = (await ready.get(RUNS)).json()["content"]

    assert (await ready.post(RUNS, json={**listed, "id": "r2"})).status_code == 200
    assert await _get_effective(ready, "r2") == await _get_effective(ready, "r1")


async def test_run_has_no_original_when_every_client_can_read_its_spec(ready: httpx2.AsyncClient) -> None:
    spec = {**JOB["spec"], "resources": {"cpu": "1", "mem": "1Gi", "gpu": 1}, "envs": {"A": 1}, "secrets": ["token"]}
    await ready.post(RUNS, json={**JOB, "spec": spec})

    assert "original" not in (await ready.get(f"{RUNS}/r1")).json()["spec"]


async def test_original_has_only_what_the_clients_form_loses_when_a_run_is_read(ready: httpx2.AsyncClient) -> None:
    resources = {"cpu": {"requests": "1", "limits": "2"}}
    await ready.post(RUNS, json={**JOB, "spec": {**JOB["spec"], "resources": resources, "args": ["x"]}})

    spec = (await ready.get(f"{RUNS}/r1")).json()["spec"]
    assert spec["resources"] == {"cpu": "1"}
    assert spec["original"] == {"resources": resources}


def _change(spec: dict[str, Any], edit: str) -> dict[str, Any]:
    changed = copy.deepcopy(spec)
    match edit:
        case "the shown value":
            changed["resources"]["cpu"] = "3"
        case "the shown value of another resource":
            changed["resources"]["mem"] = "4Gi"
        case "the shown field is removed":
            del changed["resources"]
        case "the original value":
            changed["original"]["resources"]["cpu"]["limits"] = "8"
    return changed


@pytest.mark.parametrize(
    "edit",
    ["the shown value", "the shown value of another resource", "the shown field is removed", "the original value"],
)
async def test_run_is_refused_when_only_one_of_shown_and_original_was_changed(
    ready: httpx2.AsyncClient, edit: str
) -> None:
    resources = {"cpu": {"requests": "1", "limits": "2"}}
    await ready.post(RUNS, json={**JOB, "spec": {**JOB["spec"], "resources": resources}})
    read = (await ready.get(f"{RUNS}/r1")).json()
    body = {**read, "id": "r2", "spec": _change(read["spec"], edit)}

    if edit == "the original value":
        # Nothing tells it from a request for these limits: the shown form of both is the same.
        assert (await ready.post(RUNS, json=body)).status_code == 200
        assert (await _get_effective(ready, "r2"))["resources"]["cpu"] == {"requests": "1", "limits": "8"}
        return
    for path in (RUNS, f"{RUNS}/explain"):
        answer = await ready.post(path, json=body)
        assert answer.status_code == 400
        (problem,) = answer.json()["errors"]
        assert (problem["code"], problem["path"]) == ("original.differs", "spec.resources")
        assert problem["message"] == (
            "`resources` and `original.resources` differ: only one of them was changed; "
            "remove `original.resources` and write the complete value in `resources`"
        )
    assert (await ready.get(f"{RUNS}/r2")).status_code == 404


async def test_new_value_holds_when_the_original_was_removed(ready: httpx2.AsyncClient) -> None:
    await ready.post(
        RUNS, json={**JOB, "spec": {**JOB["spec"], "resources": {"cpu": {"requests": "1", "limits": "2"}}}}
    )
    read = (await ready.get(f"{RUNS}/r1")).json()
    spec = {**read["spec"], "resources": {"cpu": {"requests": "3", "limits": "4"}}}
    del spec["original"]

    assert (await ready.post(RUNS, json={**read, "id": "r2", "spec": spec})).status_code == 200
    assert (await _get_effective(ready, "r2"))["resources"]["cpu"] == {"requests": "3", "limits": "4"}


@pytest.mark.parametrize(
    ("original", "code", "path"),
    [
        (7, "type.mapping", "spec.original"),
        ({f"k{index}": 1 for index in range(300)}, "size.entries", "spec.original"),
        ({"resourcs": {"cpu": 1}}, "original.differs", "spec.resourcs"),
        ({"original": {"image": "x"}}, "original.differs", "spec.original"),
        (
            {"volumes": [{"volume_type": "config_mop", "name": "a", "mount_path": "/a"}]},
            "value.option",
            "spec.volumes[0].volume_type",
        ),
    ],
)
async def test_run_is_refused_when_its_original_is_no_set_of_fields(
    ready: httpx2.AsyncClient, original: Any, code: str, path: str
) -> None:
    answer = await ready.post(RUNS, json={**JOB, "spec": {**JOB["spec"], "original": original}})

    assert answer.status_code == 400
    assert (code, path) in [(each["code"], each["path"]) for each in answer.json()["errors"]]


async def test_update_changes_nothing_when_a_run_is_sent_back_as_it_was_read(ready: httpx2.AsyncClient) -> None:
    await ready.post(RUNS, json={**JOB, "spec": {**JOB["spec"], **REQUESTS["limits"]}})
    read = (await ready.get(f"{RUNS}/r1")).json()

    answer = await ready.put(f"{RUNS}/r1", json=read)

    assert answer.status_code == 200
    assert answer.json()["spec"] == read["spec"]
    assert "warnings" not in answer.json()["status"]


ASKED: dict[str, Any] = {"resources": {"cpu": {"requests": "1", "limits": "2"}}, "command": ["sh", "-c"]}


async def test_nothing_is_lost_when_a_function_is_put_and_posted_again(ready: httpx2.AsyncClient) -> None:
    path = "/api/v1/-/demo/functions"
    document = {"kind": "container", "name": "other", "id": "e1", "spec": {"image": "busybox:1.36", **ASKED}}
    await ready.post(path, json=document)
    read = (await ready.get(f"{path}/e1")).json()

    updated = await ready.put(f"{path}/e1", json=read)
    again = await ready.post(path, json={**read, "id": "e2"})

    assert (read["spec"]["command"], read["spec"]["original"]) == ("sh -c", {"command": ["sh", "-c"]})
    assert again.json()["spec"] == updated.json()["spec"] == read["spec"]
    assert "warnings" not in updated.json()["status"]
    task = {"kind": "container+job", "id": "t9", "spec": {"function": "container://demo/other:e2"}}
    await ready.post("/api/v1/-/demo/tasks", json=task)
    await ready.post(RUNS, json={**JOB, "spec": {"task": "container+job://demo/t9"}})
    effective = await _get_effective(ready, "r1")
    assert (effective["resources"]["cpu"], effective["command"]) == (ASKED["resources"]["cpu"], ["sh", "-c"])


async def test_nothing_is_lost_when_a_task_is_put_and_posted_again(ready: httpx2.AsyncClient) -> None:
    path = "/api/v1/-/demo/tasks"
    await ready.put(
        f"{path}/t1", json={"kind": "container+job", "spec": {"function": "container://demo/box:f1", **ASKED}}
    )
    read = (await ready.get(f"{path}/t1")).json()

    updated = await ready.put(f"{path}/t1", json=read)
    await ready.delete(f"{path}/t1")
    again = await ready.post(path, json={**read, "id": "t9"})

    assert read["spec"]["original"] == ASKED
    assert again.json()["spec"] == updated.json()["spec"] == read["spec"]
    await ready.post(RUNS, json={**JOB, "spec": {"task": "container+job://demo/t9"}})
    effective = await _get_effective(ready, "r1")
    assert (effective["resources"]["cpu"], effective["command"]) == (ASKED["resources"]["cpu"], ["sh", "-c"])


async def test_strict_submit_is_accepted_when_a_response_is_posted_again(ready: httpx2.AsyncClient) -> None:
    await ready.post(RUNS, json={**JOB, "spec": {**JOB["spec"], **REQUESTS["limits"]}})
    read = (await ready.get(f"{RUNS}/r1")).json()

    assert (await ready.post(RUNS, params={"strict": "true"}, json={**read, "id": "r2"})).status_code == 200
