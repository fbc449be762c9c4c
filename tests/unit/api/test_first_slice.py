"""Project, function, task, run and secret over HTTP."""

from typing import Any

import httpx2
import pytest

RUN: dict[str, Any] = {"kind": "container+job:run", "id": "r1", "spec": {"task": "container+job://demo/t1"}}


async def test_run_is_ready_and_says_that_no_engine_is_configured_when_it_is_submitted(
    demo: httpx2.AsyncClient,
) -> None:
    answer = await demo.post("/api/v1/-/demo/runs", json=RUN)
    assert answer.status_code == 200
    run = answer.json()
    assert run["status"]["state"] == "READY"
    assert run["status"]["reason"] == "engine.none"
    assert [step["status"] for step in run["status"]["transitions"]] == ["READY", "CREATED"]
    assert answer.headers["X-Api-Level"] == "16"


async def test_same_run_is_answered_when_it_is_submitted_again(demo: httpx2.AsyncClient) -> None:
    first = (await demo.post("/api/v1/-/demo/runs", json=RUN)).json()
    later = {**RUN, "status": {"state": "CREATED"}, "metadata": {"created": "2026-01-01T00:00:00Z"}}
    again = await demo.post("/api/v1/-/demo/runs", json=later)
    assert again.json() == first
    other = await demo.post("/api/v1/-/demo/runs", json={**RUN, "name": "other"})
    assert (other.status_code, other.json()["message"]) == (400, "Duplicated entity run:r1.")


async def test_every_problem_is_named_when_a_run_has_several(demo: httpx2.AsyncClient) -> None:
    spec = {**RUN["spec"], "profile": "1xa100", "secrets": ["token"], "resources": {"mem": "1Gi"}}
    answer = await demo.post("/api/v1/-/demo/runs", json={**RUN, "spec": spec})
    assert answer.status_code == 400
    assert [problem["code"] for problem in answer.json()["errors"]] == ["profile.unknown", "secret.unknown"]
    assert (await demo.get("/api/v1/-/demo/runs")).json()["totalElements"] == 0


@pytest.mark.parametrize(
    ("function", "paths"),
    [
        ({"kind": "container"}, ["spec.image"]),
        ({"kind": "container", "spec": None}, ["spec.image"]),
        ({"kind": "container", "spec": {"command": "sh"}}, ["spec.image"]),
        ({"kind": "python"}, ["spec.python_version", "spec.source"]),
        (
            {"kind": "python", "spec": {"python_version": "PYTHON3_11", "source": {"lang": "python"}}},
            ["spec.source.handler", "spec.source"],
        ),
    ],
)
async def test_function_is_refused_in_the_words_of_sdks_when_it_lacks_what_its_kind_needs(
    demo: httpx2.AsyncClient, function: dict[str, Any], paths: list[str]
) -> None:
    answer = await demo.post("/api/v1/-/demo/functions", json={"name": "new", "id": "new", **function})
    assert answer.status_code == 400
    assert [problem["path"] for problem in answer.json()["errors"]] == paths
    # SDKs raise MissingSpecError for a 400 whose text has these two words.
    assert all("missing spec" in problem["message"] for problem in answer.json()["errors"])
    assert (await demo.get("/api/v1/-/demo/functions/new")).status_code == 404


async def test_nothing_is_stored_when_a_run_is_explained(demo: httpx2.AsyncClient) -> None:
    spec = {**RUN["spec"], "resources": {"cpu": {"requests": "1", "limits": "2"}}}
    answer = await demo.post("/api/v1/-/demo/runs/explain", json={**RUN, "spec": spec})
    assert answer.json()["effective"]["resources"] == {"cpu": {"requests": "1", "limits": "2"}}
    assert {leaf["path"]: leaf["set_by"] for leaf in answer.json()["provenance"]}["image"] == "function"
    assert (await demo.get("/api/v1/-/demo/runs/r1")).status_code == 404


async def test_value_comes_back_when_a_secret_has_one(demo: httpx2.AsyncClient) -> None:
    await demo.post("/api/v1/-/demo/secrets", json={"kind": "secret", "name": "token"})
    assert (await demo.put("/api/v1/-/demo/secrets/data", json={"token": "s3cr3t"})).status_code == 200
    answer = await demo.get("/api/v1/-/demo/secrets/data", params={"keys": "token"})
    assert answer.json() == {"token": "s3cr3t"}
    missing = await demo.put("/api/v1/-/demo/secrets/data", json={"tokken": "s3cr3t"})
    assert missing.status_code == 400
    assert missing.json()["errors"][0]["suggestion"] == "token"
    assert "s3cr3t" not in missing.text


async def test_project_goes_with_everything_when_it_is_deleted_with_cascade(demo: httpx2.AsyncClient) -> None:
    await demo.post("/api/v1/-/demo/runs", json=RUN)
    refused = await demo.delete("/api/v1/projects/demo")
    assert refused.status_code == 400
    assert "1 functions" in refused.json()["message"]
    assert (await demo.delete("/api/v1/projects/demo", params={"cascade": "true"})).status_code == 200
    assert (await demo.get("/api/v1/-/demo/runs/r1")).status_code == 404
    assert (await demo.post("/api/v1/projects", json={"kind": "project", "name": "demo"})).status_code == 200


async def test_web_page_is_refused_when_the_server_has_no_accounts(demo: httpx2.AsyncClient) -> None:
    evil = await demo.get("/api/v1/projects", headers={"Origin": "https://evil.example"})
    assert evil.status_code == 403
    bent = await demo.get("/api/v1/projects", headers={"Host": "evil.example:8080"})
    assert bent.status_code == 403
    form = await demo.post("/api/v1/projects", content=b"{}", headers={"Content-Type": "text/plain"})
    assert form.status_code == 415


async def test_form_and_policy_are_told_together_when_both_are_wrong(demo: httpx2.AsyncClient) -> None:
    spec = {**RUN["spec"], "profile": "1xa10", "resources": {"mem": "6Gb"}, "secrets": ["token"]}
    answer = await demo.post("/api/v1/-/demo/runs", json={**RUN, "spec": spec})
    assert [(each["code"], each["path"]) for each in answer.json()["errors"]] == [
        ("quantity.invalid", "spec.resources.mem"),
        ("profile.unknown", "spec.profile"),
        ("secret.unknown", "spec.secrets.token"),
    ]


@pytest.mark.parametrize(
    ("resources", "code", "path"),
    [
        ({"cpu": {"request": "1", "limit": "2"}}, "field.spelling", "spec.resources.cpu.request"),
        ({}, "resources.empty", "spec.resources"),
        ({"cpu": {}}, "resources.empty", "spec.resources.cpu"),
    ],
)
async def test_run_is_stored_with_a_warning_when_its_amounts_are_empty_or_spelled_otherwise(
    demo: httpx2.AsyncClient, resources: dict[str, Any], code: str, path: str
) -> None:
    answer = await demo.post("/api/v1/-/demo/runs", json={**RUN, "spec": {**RUN["spec"], "resources": resources}})

    assert answer.status_code == 200
    assert (code, path) in [(each["code"], each["path"]) for each in answer.json()["status"]["warnings"]]
    effective = (await demo.get("/api/v1/-/demo/runs/r1/effective")).json()["effective"]
    assert effective.get("resources") == (
        {"cpu": {"requests": "1", "limits": "2"}} if "limit" in str(resources) else None
    )
