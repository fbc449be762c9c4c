"""What clients say is used, told or refused: texts that cannot be kept, reports of runs, `strict`, `If-Match`."""

from typing import Any

import httpx2
import pytest

BASE = "/api/v1/-/demo"
RUN: dict[str, Any] = {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://demo/t1"}}
LOCAL: dict[str, Any] = {**RUN, "spec": {**RUN["spec"], "local_execution": True}}
ARTIFACT: dict[str, Any] = {"kind": "artifact", "name": "a", "id": "a1", "spec": {"path": "s3://b/a"}}
WIDE = "𝔸" * 151
"""604 bytes, 151 characters."""


async def make(client: httpx2.AsyncClient, path: str, body: dict[str, Any], **query: str) -> dict[str, Any]:
    answer = await client.post(f"{BASE}/{path}", json=body, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def find_codes(answer: httpx2.Response) -> dict[str, str]:
    assert answer.status_code == 400, answer.text
    return {error["path"]: error["code"] for error in answer.json()["errors"]}


def list_warned(entity: dict[str, Any]) -> list[str]:
    return [warning["path"] for warning in entity["status"].get("warnings", [])]


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("artifacts", {**ARTIFACT, "metadata": {"labels": [WIDE]}}, "metadata.labels[0]"),
        ("artifacts", {**ARTIFACT, "spec": {"path": "x", "function": WIDE}}, "spec.function"),
        ("artifacts", {**ARTIFACT, "spec": {"path": "x", "workflow": "x" * 2000}}, "spec.workflow"),
        ("artifacts", {**ARTIFACT, "spec": {"path": "x", "task": "x+" + "y" * 700}}, "spec.task"),
        ("tasks", {"kind": "foo+bar", "spec": {"task": "x" * 2000}}, "spec.task"),
        ("runs", {**RUN, "metadata": {"labels": [WIDE]}}, "metadata.labels[0]"),
    ],
)
async def test_text_is_refused_when_it_is_too_long_to_be_found_by(
    demo: httpx2.AsyncClient, path: str, body: dict[str, Any], where: str
) -> None:
    assert await find_codes(await demo.post(f"{BASE}/{path}", json=body)) == {where: "text.long"}


async def test_names_in_addresses_are_refused_when_they_are_too_long(demo: httpx2.AsyncClient) -> None:
    await make(demo, "runs", RUN)
    assert await find_codes(await demo.put(f"{BASE}/runs/r1/metrics/{WIDE}", json=1)) == {"": "text.long"}
    share = await demo.post("/api/v1/projects/demo/share", params={"user": WIDE})
    assert await find_codes(share) == {"query.user": "text.long"}
    for name in ("name", "kind", "user", "labels", "action"):
        found = await demo.get(f"{BASE}/runs", params={name: WIDE})
        assert await find_codes(found) == {f"query.{name}": "text.long"}


async def test_answer_is_a_refusal_without_the_text_when_the_store_cannot_keep_it(
    demo: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.app.entities.drafts.MOST_NAME_BYTES", 10_000)
    answer = await demo.post(f"{BASE}/artifacts", json={**ARTIFACT, "metadata": {"labels": [WIDE]}})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "unstorable")
    assert "𝔸" not in answer.text


async def test_client_is_told_when_a_report_of_a_remote_run_wants_more_than_it_may(demo: httpx2.AsyncClient) -> None:
    run = await make(
        demo, "runs", {**RUN, "spec": {**RUN["spec"], "replicas": 1, "envs": [{"name": "A", "value": "1"}]}}
    )
    before = list_warned(run)
    run["spec"] |= {"args": ["other"], "profile": "nope"}
    run["status"] |= {"service": {"url": "http://evil"}, "results": {"n": 1}}
    body = {**run, "extensions": [{"kind": "x"}], "metadata": {**run["metadata"], "name": "other"}}
    answer = (await demo.put(f"{BASE}/runs/r1", json=body)).json()
    assert list_warned(answer) == [
        *before,
        *("metadata.name", "spec.args", "spec.profile", "status.service", "extensions"),
    ]
    assert list_warned((await demo.get(f"{BASE}/runs/r1")).json()) == before


async def test_nobody_is_warned_when_a_run_is_put_back_as_it_was_answered(demo: httpx2.AsyncClient) -> None:
    spec = {**RUN["spec"], "resources": {"cpu": {"requests": 1, "limits": 2}}, "args": ["a"], "envs": {"A": 1}}
    run = await make(demo, "runs", {**RUN, "spec": spec})
    before = list_warned(run)
    run["spec"] |= {"local_execution": False, "inputs": {}, "volumes": [], "secrets": None}
    run["status"] |= {"state": "CREATED", "message": "stale", "results": {"n": 1}}
    answer = await demo.put(f"{BASE}/runs/r1", json=run)
    assert (answer.status_code, list_warned(answer.json())) == (200, before)


async def test_spec_of_a_local_run_is_read_strictly_when_it_is_put(demo: httpx2.AsyncClient) -> None:
    await make(demo, "runs", LOCAL)
    bad = {"bogus": 1, "parameters": 3}
    codes = await find_codes(await demo.put(f"{BASE}/runs/r1", json={"kind": RUN["kind"], "spec": bad}))
    assert set(codes) == {"spec.bogus", "spec.parameters"}
    merged = {"source": {"handler": "h", "base64": "eA=="}, "image": "busybox:1.36", "parameters": {"x": 1}}
    answer = await demo.put(f"{BASE}/runs/r1", json={"kind": RUN["kind"], "spec": merged})
    assert (answer.status_code, list_warned(answer.json())) == (200, [])


async def test_unused_values_are_told_with_the_true_state_when_a_run_is_submitted(demo: httpx2.AsyncClient) -> None:
    said = {"metadata": {"name": "other"}, "status": {"service": {"url": "x"}, "state": "COMPLETED"}}
    run = await make(demo, "runs", {**RUN, **said})
    assert list_warned(run) == ["metadata.name", "status.service", "status.state"]
    assert "`READY`" in run["status"]["warnings"][-1]["message"]
    strict = await demo.post(f"{BASE}/runs", json={**RUN, **said, "id": "r2"}, params={"strict": "true"})
    assert set(await find_codes(strict)) == {"metadata.name", "status.service", "status.state"}
    explained = (await demo.post(f"{BASE}/runs/explain", json={**RUN, **said}, params={"strict": "true"})).json()
    assert [each["path"] for each in explained["refusals"]] == list_warned(run)


async def test_created_is_no_wish_when_a_run_is_submitted_strictly(demo: httpx2.AsyncClient) -> None:
    run = await make(demo, "runs", {**RUN, "status": {"state": "CREATED"}}, strict="true")
    assert list_warned(run) == []


async def test_run_stays_when_it_is_deleted_as_of_another_revision(demo: httpx2.AsyncClient) -> None:
    await make(demo, "runs", RUN)
    path, read = f"{BASE}/runs/r1", await demo.get(f"{BASE}/runs/r1")
    assert (await demo.delete(path, headers={"If-Match": '"99"'})).status_code == 412
    assert await find_codes(await demo.delete(path, params={"cascade": "banana"})) == {"query.cascade": "value.option"}
    assert (await demo.get(path)).status_code == 200
    assert (await demo.delete(path, headers={"If-Match": read.headers["ETag"]})).status_code == 200
    assert (await demo.get(path)).status_code == 404


async def test_files_stay_when_they_are_put_as_of_another_revision(demo: httpx2.AsyncClient) -> None:
    await make(demo, "artifacts", ARTIFACT)
    path, read = f"{BASE}/artifacts/a1/files/info", await demo.get(f"{BASE}/artifacts/a1")
    assert (await demo.put(path, json=[{"path": "x"}], headers={"If-Match": '"99"'})).status_code == 412
    assert (await demo.get(path)).json() == []
    right = {"If-Match": read.headers["ETag"]}
    assert (await demo.put(path, json=[{"path": "x"}], headers=right)).status_code == 200


async def test_if_match_is_refused_when_metrics_are_put(demo: httpx2.AsyncClient) -> None:
    await make(demo, "runs", RUN)
    answer = await demo.put(f"{BASE}/runs/r1/metrics/m", json=5, headers={"If-Match": '"1"'})
    assert await find_codes(answer) == {"header.If-Match": "header.if_match"}
