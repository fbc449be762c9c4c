"""Stored requests exported beside a server that serves, and a policy rehearsed against them."""

import json
from pathlib import Path

import yaml

from tests.core_process import CoreProcess, call_runyard
from tests.integration.core.conftest import Place, fill, make_run

VALUE = "hunter2-the-value"


async def test_policy_is_rehearsed_against_stored_requests_when_they_are_exported_from_a_server_in_use(
    core: CoreProcess, place: Place, tmp_path: Path
) -> None:
    async with core.client() as client:
        for project in ("demo", "other"):
            await fill(client, project)
        function = {
            "kind": "container",
            "name": "big",
            "id": "big",
            "spec": {"image": "a:1", "resources": {"mem": "8Gi"}},
        }
        task = {"kind": "container+job", "id": "big", "spec": {"function": "container://demo/big:big"}}
        await client.post("/api/v1/-/demo/functions", json=function)
        await client.post("/api/v1/-/demo/tasks", json=task)
        secret = {"kind": "secret", "name": "TOKEN", "spec": {"provider": "runyard", "path": "secret://TOKEN"}}
        await client.post("/api/v1/-/demo/secrets", json=secret)
        assert (await client.put("/api/v1/-/demo/secrets/data", json={"TOKEN": VALUE})).status_code == 200
        spec = {"task": "container+job://demo/big", "secrets": ["TOKEN"], "parameters": {"x": "a parameter"}}
        runs = [
            ("demo", {"kind": "container+job:run", "id": "big", "spec": spec}),
            ("demo", make_run("demo", "small")),
            ("other", make_run("other", "elsewhere")),
        ]
        for project, document in runs:
            answer = await client.post(f"/api/v1/-/{project}/runs", json=document)
            assert answer.status_code == 200, answer.text

        exported = call_runyard("db", "export-requests", "--project", "demo", environment=place.environment)
        assert (exported.code, exported.err) == (0, "note: 2 requests exported\n")
        assert VALUE not in exported.out
        assert "a parameter" not in exported.out
        documents = list(yaml.safe_load_all(exported.out))
        assert [document["id"] for document in documents] == ["big", "small"]
        assert documents[0]["run"]["spec"]["secrets"] == ["TOKEN"]
        assert documents[0]["function"] == {"kind": "container", "spec": {"image": "a:1", "resources": {"mem": "8Gi"}}}
        # The server was not disturbed.
        assert (await client.post("/api/v1/-/demo/runs", json=make_run("demo", "later"))).status_code == 200

    (tmp_path / "requests.yaml").write_text(exported.out)
    (tmp_path / "new.yaml").write_text("resources.mem: {default: 1Gi, max: 4Gi}\n")
    diff = call_runyard(
        "policy", "diff", "none", str(tmp_path / "new.yaml"), "--runs", str(tmp_path / "requests.yaml"), "-o", "json"
    )
    shown = json.loads(diff.out)
    # The function asks for too much, and the run itself for nothing.
    assert [(run["id"], run["outcome"]) for run in shown["runs"]] == [("big", "refused"), ("small", "changed")]
    assert shown["summary"]["refused_by_both"] == 0

    times = ("--since", documents[0]["created"], "--until", "2000-01-01")
    assert call_runyard("db", "export-requests", *times, environment=place.environment).out == ""
    every = call_runyard("db", "export-requests", "--since", "2000-01-01", environment=place.environment)
    assert every.err == "note: 4 requests exported\n"
