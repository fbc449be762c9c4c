"""Plans over HTTP: a run is explained and rendered with drafts of its function and task, and nothing is stored."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runyard.domain.reasons import Reason
from runyard.manifests.metadata import INSTALLATION_LABEL
from runyard.spec.launcher import Launcher
from runyard.spec.registries import REGISTRIES_SECRET
from tests.engines.memory import MemoryEngine
from tests.http_servers import Server, serve

FUNCTION: dict[str, Any] = {
    "kind": "container",
    "name": "new",
    "id": "f9",
    "spec": {"image": "busybox:1.36", "resources": {"mem": "1Gi"}},
}
TASK: dict[str, Any] = {"kind": "container+job", "id": "t9", "spec": {"function": "container://demo/new:f9"}}
RUN: dict[str, Any] = {"kind": "container+job:run", "id": "r9", "spec": {"task": "container+job://demo/t9"}}
PLAN = {**RUN, "drafts": {"function": FUNCTION, "task": TASK}}
PLURALS = ("functions", "tasks", "runs")
RUNS = "/api/v1/-/demo/runs"


async def count_entities(client: httpx2.AsyncClient, project: str = "demo") -> dict[str, int]:
    answers = {plural: await client.get(f"/api/v1/-/{project}/{plural}") for plural in PLURALS}
    return {plural: answer.json()["totalElements"] for plural, answer in answers.items()}


def list_problems(answer: httpx2.Response) -> list[tuple[str, str]]:
    assert answer.status_code == 400, answer.text
    return [(problem["code"], problem["path"]) for problem in answer.json()["errors"]]


async def test_answer_is_that_of_stored_entities_when_they_are_drafts(demo: httpx2.AsyncClient) -> None:
    before = await count_entities(demo)
    drafted = {step: (await demo.post(f"{RUNS}/{step}", json=PLAN)).json() for step in ("explain", "render")}
    assert await count_entities(demo) == before
    for plural, document in (("functions", FUNCTION), ("tasks", TASK)):
        assert (await demo.post(f"/api/v1/-/demo/{plural}", json=document)).status_code == 200
    stored = {step: (await demo.post(f"{RUNS}/{step}", json=RUN)).json() for step in ("explain", "render")}
    assert drafted == stored
    assert drafted["explain"]["refusals"] == []
    owners = {leaf["path"]: leaf["set_by"] for leaf in drafted["explain"]["provenance"]}
    assert (owners["image"], owners["resources.mem.requests"]) == ("function", "function")
    assert [one["kind"] for one in drafted["render"]["objects"]] == ["Job"]


async def test_task_may_be_the_only_draft_when_the_function_is_stored(demo: httpx2.AsyncClient) -> None:
    task = {**TASK, "kind": "container+deploy", "spec": {"function": "container://demo/box:f1"}}
    run = {"kind": "container+deploy:run", "spec": {"task": "container+deploy://demo/t9"}, "drafts": {"task": task}}
    answer = await demo.post(f"{RUNS}/explain", json=run)
    assert answer.json()["effective"]["action"] == "deploy"


async def test_draft_is_found_before_a_stored_entity_when_both_have_the_id(demo: httpx2.AsyncClient) -> None:
    function = {"kind": "container", "name": "box", "id": "f1", "spec": {"image": "alpine:3.20"}}
    run = {**RUN, "spec": {"task": "container+job://demo/t1"}, "drafts": {"function": function}}
    assert (await demo.post(f"{RUNS}/explain", json=run)).json()["effective"]["image"] == "alpine:3.20"
    named = {**TASK, "spec": {"function": "container://demo/box"}}
    latest = {**RUN, "drafts": {"function": {**function, "id": "f8"}, "task": named}}
    assert (await demo.post(f"{RUNS}/explain", json=latest)).json()["effective"]["image"] == "alpine:3.20"


async def test_problems_of_drafts_and_run_are_told_at_once_when_all_are_wrong(demo: httpx2.AsyncClient) -> None:
    function = {**FUNCTION, "spec": {"imag": "busybox:1.36"}}
    task = {**TASK, "project": "other"}
    run = {**RUN, "spec": {**RUN["spec"], "resources": {"mem": "6Gb"}}, "drafts": {"function": function, "task": task}}
    assert list_problems(await demo.post(f"{RUNS}/explain", json=run)) == [
        ("field.unknown", "drafts.function.spec.imag"),
        ("project.other", "drafts.task.project"),
        ("quantity.invalid", "spec.resources.mem"),
    ]
    lost = {**TASK, "spec": {"function": "container://demo/nowhere:f7"}}
    only = {**RUN, "drafts": {"task": lost}}
    assert list_problems(await demo.post(f"{RUNS}/explain", json=only)) == [
        ("reference.unknown", "drafts.task.spec.function")
    ]


@pytest.mark.parametrize(
    ("drafts", "problems"),
    [
        ({"functoin": FUNCTION}, [("value.option", "drafts.functoin")]),
        ({"run": RUN}, [("value.option", "drafts.run")]),
        ([FUNCTION], [("type.mapping", "drafts")]),
        ({"function": "new"}, [("type.mapping", "drafts.function")]),
    ],
)
async def test_drafts_are_refused_when_they_are_no_function_or_task(
    demo: httpx2.AsyncClient, drafts: Any, problems: list[tuple[str, str]]
) -> None:
    run = {**RUN, "spec": {"task": "container+job://demo/t1"}, "drafts": drafts}
    assert list_problems(await demo.post(f"{RUNS}/explain", json=run)) == problems


async def test_drafts_are_unknown_when_a_run_is_submitted(demo: httpx2.AsyncClient) -> None:
    assert ("value.option", "drafts") in list_problems(await demo.post(RUNS, json=PLAN))


@pytest.mark.parametrize("step", ["explain", "render"])
async def test_project_is_not_made_when_a_run_in_a_new_one_is_planned(demo: httpx2.AsyncClient, step: str) -> None:
    run = {"kind": "container+job:run", "spec": {"task": "container+job://fresh/t9"}}
    task = {**TASK, "spec": {"function": "container://fresh/new:f9"}}
    plan = {**run, "drafts": {"function": FUNCTION, "task": task}}
    assert (await demo.post(f"/api/v1/-/fresh/runs/{step}", json=plan)).status_code == 404
    answer = await demo.post(f"/api/v1/new-projects/fresh/runs/{step}", json=plan)
    assert answer.status_code == 200, answer.text
    assert (await demo.get("/api/v1/projects/fresh")).status_code == 404
    exists = await demo.post(f"/api/v1/new-projects/demo/runs/{step}", json=PLAN)
    assert (exists.status_code, exists.json()["message"]) == (400, "Duplicated entity project:demo.")
    assert list_problems(await demo.post(f"/api/v1/new-projects/Not%20One/runs/{step}", json=plan))


async def test_run_is_not_rendered_when_it_would_be_refused(demo: httpx2.AsyncClient) -> None:
    run = {**PLAN, "spec": {**RUN["spec"], "profile": "1xa100", "replicas": 3}}
    explained = (await demo.post(f"{RUNS}/explain", json=run)).json()
    assert list_problems(await demo.post(f"{RUNS}/render", json=run)) == [
        (problem["code"], problem["path"]) for problem in explained["refusals"]
    ]
    ignored = {**PLAN, "spec": {**RUN["spec"], "replicas": 3}}
    rendered = await demo.post(f"{RUNS}/render", json=ignored)
    assert [problem["path"] for problem in rendered.json()["warnings"]] == ["spec.replicas"]
    strict = await demo.post(f"{RUNS}/render", json=ignored, params={"strict": "true"})
    assert list_problems(strict) == [("field.pointless", "spec.replicas")]


class ClusterLikeEngine(MemoryEngine):
    """An engine of Kubernetes objects, which is asked for nothing but where they would be."""

    installation = "lab"

    def get_namespace(self, project: str) -> str:
        return f"runyard-{project}"


async def prepare(server: Server, client: httpx2.AsyncClient) -> None:
    await client.post("/api/v1/projects", json={"kind": "project", "name": "demo"})
    await client.post("/api/v1/-/demo/secrets", json={"kind": "secret", "name": "HF_TOKEN"})
    await client.put("/api/v1/-/demo/secrets/data", json={"HF_TOKEN": "hf_very-secret"})


async def test_objects_are_those_of_the_engine_and_the_user_when_a_run_is_rendered(tmp_path: Path) -> None:
    engine = ClusterLikeEngine()
    launcher = Launcher(image="launcher:1", install=("install",), start=("/runyard/l",))
    engine.platform = replace(
        engine.platform, endpoint="http://core:8080", has_token=True, launcher=launcher, has_registry_secret=True
    )
    async with serve(tmp_path, is_open=False, engine=engine) as server:
        await server.add_user("ada")
        async with server.client("ada") as client:
            await prepare(server, client)
            run = {**PLAN, "spec": {**RUN["spec"], "secrets": ["HF_TOKEN"]}}
            answer = await client.post(f"{RUNS}/render", json=run)
            again = await client.post(f"{RUNS}/render", json=run)
            assert answer.status_code == 200, answer.text
            assert answer.content == again.content
            secret, job = answer.json()["objects"]
            assert {one["metadata"]["namespace"] for one in (secret, job)} == {"runyard-demo"}
            assert set(secret["data"]) == {"HF_TOKEN", "DHCORE_ACCESS_TOKEN", "RUNYARD_TOKEN"}
            assert set(secret["data"].values()) == {""}
            assert "hf_very-secret" not in answer.text
            container = job["spec"]["template"]["spec"]["containers"][0]
            envs = {env["name"]: env.get("value") for env in container["env"]}
            assert envs["RUNYARD_ENDPOINT"] == "http://core:8080"
            assert "ada" in str(job["metadata"])
            assert job["metadata"]["labels"][INSTALLATION_LABEL] == "lab"
            assert "imagePullSecrets" not in job["spec"]["template"]["spec"]
            await client.post("/api/v1/-/demo/secrets", json={"kind": "secret", "name": REGISTRIES_SECRET})
            auths = {"auths": {"registry.example.org": {"username": "u", "password": "registry-password"}}}
            stored = {REGISTRIES_SECRET: json.dumps(auths)}
            assert (await client.put("/api/v1/-/demo/secrets/data", json=stored)).status_code == 200
            pulled = await client.post(f"{RUNS}/render", json=run)
            assert pulled.json()["objects"][-1]["spec"]["template"]["spec"]["imagePullSecrets"]
            assert "registry-password" not in pulled.text
            assert engine.calls == []


async def test_engine_without_a_cluster_gives_no_namespace_when_a_run_is_rendered(tmp_path: Path) -> None:
    async with serve(tmp_path, engine=MemoryEngine()) as server, server.client() as client:
        await prepare(server, client)
        answer = await client.post(f"{RUNS}/render", json=PLAN)
        assert answer.status_code == 200, answer.text
        assert all("namespace" not in one["metadata"] for one in answer.json()["objects"])
        assert str(Reason.ENGINE_NONE) not in answer.text
