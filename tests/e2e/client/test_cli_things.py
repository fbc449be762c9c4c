"""Commands about one run and about what a project has, against a real server with the local engine."""

import json
from pathlib import Path

import pytest

import runyard as ry
from tests.e2e.client.conftest import SECONDS
from tests.unit.cli.conftest import Call


@pytest.fixture
def run(server: str) -> ry.Run:
    func = ry.get_or_create_project("demo").new_function("hello", code_src="program.py", handler="hello")
    submitted = func.run(profile="small", resources={"mem": "6Gi"}, parameters={"name": "Ada"})
    return submitted.wait(timeout=SECONDS)


def test_run_is_told_in_every_form_when_it_has_ended(call: Call, run: ry.Run) -> None:
    described = call("describe", run.id)
    assert described.code == 0, described.err
    lines = [" ".join(line.split()) for line in described.out.splitlines()]
    assert {f"run: {run.id}", "state: COMPLETED", "result greeting: hello Ada"} <= set(lines)
    assert "resources.mem.requests 256Mi profile small 6Gi (you)" in lines
    data = json.loads(call("describe", "-o", "json").out)
    assert data["id"] == run.id
    assert data["explanation"]["effective"]["resources"]["mem"]["requests"] == "256Mi"
    events = json.loads(call("events", run.id, "-o", "json").out)
    assert [event["status"] for event in events] == ["CREATED", "READY", "PENDING", "RUNNING", "COMPLETED"]
    assert call("events", run.id).out.splitlines()[0].split() == ["TIME", "AGE", "STATE", "BY", "REASON", "MESSAGE"]
    assert call("why", run.id[:10]).out.startswith(f"run {run.id} is COMPLETED\nwarning: ")
    waited = call("wait", run.id)
    assert (waited.code, waited.out) == (0, "")
    refused = call("resume", run.id)
    assert (refused.code, "a job cannot be resumed" in refused.err) == (1, True)
    assert call("rm", run.id, "--yes").out == f"deleted: {run.id}\n"


def test_time_is_over_when_a_run_takes_longer(call: Call, server: str) -> None:
    func = ry.get_or_create_project("demo").new_function("sleep", code_src="program.py", handler="sleep")
    sleeping = func.run()
    over = call("wait", sleeping.id, "--timeout", "1s")
    assert (over.code, "it goes on" in over.err) == (4, True)
    assert call("wait", sleeping.id, "--until", "running").code == 0
    assert call("wait", sleeping.id, "--timeout", "1").code == 4
    assert "did you mean" in call("wait", sleeping.id, "--timeout", "5 minutes").err
    assert call("stop", sleeping.id, "--yes").code == 0
    assert call("wait", sleeping.id).code == 3


def test_project_is_listed_when_it_was_created(call: Call, server: str) -> None:
    assert call("project", "create", "speech", "--label", "new").out == "created: speech\n"
    assert call("project", "create", "speech").err == "error: there is a project speech already\n"
    assert "speech" in call("project", "ls", "-o", "name").out.split()
    assert call("project", "rm", "speech", "--yes").out == "deleted: speech\n"
    assert "there is no project speech" in call("project", "rm", "speech", "--yes").err


def test_secret_comes_from_standard_input_when_it_is_set(call: Call, server: str) -> None:
    ry.get_or_create_project("demo")
    assert call("secret", "set", "HF_TOKEN", "--stdin", stdin="s3cr3t\n").out == "stored: HF_TOKEN\n"
    assert ry.get_project("demo").get_secret("HF_TOKEN") == "s3cr3t"
    assert call("secret", "ls", "-o", "name").out == "HF_TOKEN\n"
    assert call("secret", "ls", "--columns", "name,by").out.splitlines()[1].split() == ["HF_TOKEN", "anonymous"]
    assert "s3cr3t" not in call("secret", "ls", "-o", "json").out
    assert "use --stdin" in call("secret", "set", "HF_TOKEN").err
    assert "did you mean HF_TOKEN?" in call("secret", "rm", "HF_TOKN", "--yes").err
    assert call("secret", "rm", "HF_TOKEN", "--yes").code == 0
    assert call("secret", "ls", "-o", "json").out == "[]\n"


def test_functions_and_profiles_are_shown_when_asked(call: Call, run: ry.Run) -> None:
    assert "hello" in call("function", "ls", "-o", "name").out.split()
    shown = json.loads(call("function", "show", "hello", "-o", "json").out)
    assert (shown["name"], shown["spec"]["source"]["handler"]) == ("hello", "hello")
    assert "did you mean hello?" in call("function", "show", "helo").err
    assert call("function", "rm", "hello", "--yes").out == f"deleted: python://demo/hello:{shown['id']}\n"
    assert call("profile", "ls", "-o", "name").out == "small\n"
    assert call("profile", "ls", "--columns", "name,by").out.splitlines()[1].split() == ["small", "files"]
    assert json.loads(call("profile", "show", "small", "-o", "json").out)["name"] == "small"
    assert call("profile", "show", "smal").err == "error: there is no profile smal; did you mean small?\n"


def test_every_form_of_a_list_is_legal_when_it_is_asked_for(call: Call, run: ry.Run, tmp_path: Path) -> None:
    for form in ("table", "wide", "json", "yaml", "name"):
        listed = call("ps", "--all", "-o", form)
        assert (listed.code, run.id in listed.out) == (0, True), form
    assert "PROFILE" in call("ps", "--all", "-o", "wide").out


def test_file_comes_back_when_it_was_put(call: Call, server: str, tmp_path: Path) -> None:
    ry.get_or_create_project("demo")
    (tmp_path / "points.csv").write_text("1,2\n")
    key = call("artifact", "put", "points", "points.csv", "--type", "dataitem").out.strip()
    assert key.startswith("store://demo/dataitem/dataitem/points:")
    assert "points" in call("artifact", "ls", "--type", "dataitem", "-o", "name").out.split()
    got = call("artifact", "get", "points", "back", "--type", "dataitem")
    assert (got.out, (tmp_path / "back" / "points.csv").read_text()) == ("back/points.csv\n", "1,2\n")
    assert "points.csv exists; use --overwrite" in call("artifact", "get", "points", "back", "--type", "dataitem").err
    assert call("artifact", "get", "points", "back", "--type", "dataitem", "--overwrite").code == 0


def test_table_has_the_columns_that_were_named_when_runs_are_listed(call: Call, run: ry.Run) -> None:
    listed = call("ps", "--all", "--columns", "state,run")
    assert listed.out.splitlines()[0].split() == ["STATE", "RUN"]
    assert f"COMPLETED  {run.id}" in listed.out.splitlines()
    refused = call("ps", "--columns", "stat")
    assert (refused.code, "unknown column `stat`; did you mean `state`?" in refused.err) == (2, True)
