"""The commands that people use every day, against a real server with the local engine."""

import json
import re
from pathlib import Path

import pytest

import runyard as ry
from tests.unit.cli.conftest import Call

HELLO = """\
source: {source: program.py, handler: hello}
parameters: {name: Ada}
profile: small
resources:
  mem: 6Gi
"""


def test_plan_log_and_outcome_are_shown_when_a_file_is_run(call: Call, server: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(HELLO)
    done = call("run", "-f", "run.yaml", "--yes")
    assert done.code == 0, done.err
    # The first run of a server makes the environment; the plan and the state are not part of the output.
    assert [line for line in done.out.splitlines() if "environment" not in line] == ["hello Ada"]
    assert re.search(r"^resources\.mem\.requests +256Mi +profile small +6Gi \(you\)$", done.err, re.MULTILINE)
    assert (
        "run.yaml:5:8: warning: resources.mem.requests: profile small sets 256Mi; 6Gi from you is ignored" in done.err
    )
    assert re.search(r"^run hello-[0-9a-f]{10}: COMPLETED\n  result greeting: hello Ada$", done.err, re.MULTILINE)


def test_times_have_their_age_when_people_read_them(call: Call, server: str) -> None:
    project = ry.get_or_create_project("demo")
    run = project.new_function("hello", code_src="program.py", handler="hello").run().wait()
    times = [re.escape(event["time"]) for event in run.events()]
    created = re.escape(run.metadata["created"])
    age = r"(?:now|\d+ (?:s|min|h) ago)"
    assert re.search(rf"^created: +{created} \({age}\)$", call("describe", run.id).out, re.MULTILINE)
    assert json.loads(call("describe", run.id, "-o", "json").out)["metadata"]["created"] == run.metadata["created"]
    head, *rows = call("events", run.id).out.splitlines()
    assert head.split() == ["TIME", "AGE", "STATE", "BY", "REASON", "MESSAGE"]
    assert len(rows) == len(times) > 1
    for row, time in zip(rows, times, strict=True):
        assert re.match(rf"{time}  {age}  ", row), row
    assert [event["time"] for event in json.loads(call("events", run.id, "-o", "json").out)] == [
        event["time"] for event in run.events()
    ]
    why = call("why", run.id).out
    assert re.search(rf"^  {times[-1]} \({age}\)  COMPLETED", why, re.MULTILINE)
    assert re.search(rf"^  {times[-1]}  COMPLETED", run.why(), re.MULTILINE), "the SDK's text can be compared"


def test_nothing_is_submitted_when_the_plan_is_refused(call: Call, server: str, tmp_path: Path) -> None:
    wrong = "source: {source: program.py, handler: hello}\nprofile: smal\nresources: {mem: 512Gi}\n"
    (tmp_path / "bad.yaml").write_text(wrong)
    before = call("ps", "--all", "-o", "name").out
    done = call("run", "-f", "bad.yaml", "--yes")
    assert done.code == 1
    assert "bad.yaml:2:10: error: profile: there is no profile `smal`\n    allowed: small\n    try: small" in done.err
    assert "bad.yaml:3:18: error: resources.mem.requests: 512Gi from you is above the policy's max" in done.err
    assert call("ps", "--all", "-o", "name").out == before
    strict = call("run", "-f", "-", "--yes", "--strict", stdin=HELLO)
    assert strict.code == 1
    assert "error: resources.mem.requests: profile small sets 256Mi; 6Gi from you is ignored" in strict.err


def test_answer_is_wanted_when_nobody_can_give_one(call: Call, server: str, tmp_path: Path) -> None:
    done = call("run", "-f", "-", stdin=HELLO)
    assert done.code == 2
    assert "no answer on standard input: use --yes" in done.err
    (tmp_path / "run.yaml").write_text(HELLO)
    refused = call("run", "-f", "run.yaml", stdin="n\n")
    assert (refused.code, refused.out) == (130, "")
    agreed = call("run", "-f", "run.yaml", stdin="y\n")
    assert (agreed.code, agreed.out) == (0, "hello Ada\n")


def test_plan_is_the_answer_when_the_run_is_dry(call: Call, server: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(HELLO)
    before = call("ps", "--all", "-o", "name").out
    done = call("run", "-f", "run.yaml", "--dry-run")
    assert done.code == 0
    assert done.out.endswith("would start, 1 warning\n")
    assert call("ps", "--all", "-o", "name").out == before


def test_nothing_is_stored_when_the_question_is_not_answered_with_yes(
    call: Call, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.yaml").write_text(HELLO + "project: later\n")
    monkeypatch.delenv("RUNYARD_PROJECT")
    with ry.Client() as client:
        projects = {project.name for project in client.list_projects()}
        dry = call("run", "-f", "run.yaml", "--dry-run")
        assert dry.code == 0, dry.err
        assert dry.out.startswith(f"hello, job, new project later, by {server}\n")
        assert call("run", "-f", "run.yaml", stdin="n\n").code == 130
        assert {project.name for project in client.list_projects()} == projects
        functions = {function.id for function in client.get_project("demo").list_functions()}
        (tmp_path / "other.yaml").write_text(
            HELLO.replace("Ada", "Eve") + "python_version: PYTHON3_11\nproject: demo\n"
        )
        assert call("run", "-f", "other.yaml", "--dry-run").code == 0
        assert {function.id for function in client.get_project("demo").list_functions()} == functions
    missing = call("run", "--function", "nobody", "--project", "later", "--dry-run")
    assert (missing.code, missing.err.startswith("error: there is no project later")) == (1, True), missing.err


def test_exit_code_is_3_when_the_run_fails(call: Call, server: str, tmp_path: Path) -> None:
    (tmp_path / "fail.yaml").write_text("source: {source: program.py, handler: fail}\n")
    done = call("run", "-f", "fail.yaml", "--yes")
    assert done.code == 3
    assert "ValueError: no luck" in done.out
    run = re.search(r"^run (fail-\w+): ERROR: run\.failed", done.err, re.MULTILINE)
    assert run is not None
    followed = call("logs", "-f", run[1][:9])
    assert (followed.code, followed.out) == (3, done.out)
    assert call("logs", "--tail", "1", "--container", "main").out == "runyard: ValueError: no luck (program.py:10)\n"


def test_id_is_printed_when_the_run_is_detached(call: Call, server: str, tmp_path: Path) -> None:
    (tmp_path / "sleep.yaml").write_text("source: {source: program.py, handler: sleep}\n")
    done = call("run", "-f", "sleep.yaml", "--yes", "--detach")
    assert done.code == 0
    run = done.out.strip()
    assert run in call("ps", "-o", "name").out.split()
    (shown,) = [each for each in json.loads(call("ps", "-o", "json").out) if each["id"] == run]
    assert shown["kind"] == "python+job:run"
    assert re.search(rf"^{run} +sleep +job +[A-Z]+", call("ps").out, re.MULTILINE)
    stopped = call("stop", run, "--yes", "--reason", "enough")
    assert (stopped.code, stopped.out.startswith(f"{run}: STOPPED: user.stop")) == (0, True), stopped.out
    assert run not in call("ps", "-o", "name").out.split()
    assert run in call("ps", "--all", "-o", "name").out.split()


def test_nearest_run_is_named_when_it_is_unknown(call: Call, server: str) -> None:
    missing = call("logs", "nothing-here")
    assert missing.code == 1
    assert "project demo has no run nothing-here" in missing.err
    assert "there is no project demu; did you mean demo?" in call("ps", "-p", "demu").err
    usage = call("run")
    assert (usage.code, "names nothing to run" in usage.err) == (2, True)


def test_one_line_says_why_when_the_server_is_not_there(call: Call, server: str) -> None:
    done = call("ps", "--endpoint", "http://127.0.0.1:9")
    assert (done.code, done.err) == (1, "error: http://127.0.0.1:9: connection refused; is the server running?\n")


def test_context_is_stored_when_the_server_has_no_accounts(call: Call, server: str, tmp_path: Path) -> None:
    done = call("login", server, "--name", "here", "--project", "demo")
    assert done.code == 0, done.err
    assert done.out == f"signed in at {server} without an account (context here)\n"
    listed = json.loads(call("context", "-o", "json").out)
    assert listed == [{"is_current": True, "name": "here", "endpoint": server, "user": "", "project": "demo"}]
    who = json.loads(call("whoami", "--context", "here", "-o", "json").out)
    assert (who["user"], who["context"], who["endpoint"]) == ("anonymous", "here", server)
    assert call("whoami", "--context", "her").err == "error: unknown context her; did you mean here?\n"
    assert call("logout").out == "signed out: context here is removed\n"
    assert call("logout").code == 1
