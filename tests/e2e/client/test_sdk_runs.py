"""The SDK against a real server with the local engine, sync and async."""

import asyncio
from pathlib import Path

import pytest

import runyard as ry
from testbed.faults import FaultPlan, FaultProxy, LoseAnswer, Rule
from tests.e2e.client.conftest import SECONDS


def test_six_lines_run_a_function_when_they_are_typed(server: str) -> None:
    project = ry.get_or_create_project("demo")
    func = project.new_function("hello", code_src="program.py", handler="hello")
    run = func.run(action="job", parameters={"name": "Ada"}, profile="small", resources={"mem": "6Gi"})
    run.wait(timeout=SECONDS)
    assert run.logs(container="main") == "hello Ada\n"
    assert run.results.greeting == "hello Ada"
    assert (run.state, run.has_failed, run.status.state) == ("COMPLETED", False, "COMPLETED")
    memory = run.explain().find("resources.mem.requests")
    assert memory is not None
    assert (memory.value, memory.set_by, memory.replaced) == ("256Mi", "profile", ({"by": "you", "value": "6Gi"},))
    assert [event.status for event in run.events()][-1] == "COMPLETED"
    assert "is COMPLETED" in run.why()
    assert "profile small sets 256Mi" in run.why()
    assert run.effective()["resources"]["mem"]["requests"] == "256Mi"
    assert run.id in [other.id for other in project.list_runs(function="hello")]
    assert project.get_run(run.id).results == run.results


def test_same_lines_work_when_they_are_awaited(server: str) -> None:
    async def work() -> tuple[str, list[str]]:
        async with ry.AsyncClient() as client:
            project = await client.get_or_create_project("demo")
            func = await project.new_function("hello", code_src="program.py", handler="hello")
            run = await func.run(action="job", parameters={"name": "Bob"})
            lines = [line async for line in run.logs(follow=True, container="main")]
            await run.wait(timeout=SECONDS, check=True)
            return await run.logs(container="main"), lines

    assert asyncio.run(work()) == ("hello Bob\n", ["hello Bob"])


LEARN = """
def main(context, rounds: int):
    for number in range(rounds):
        context.log_metrics({"loss": 1 / (number + 1), "rate": 0.5})
    return {"rounds": rounds, "best": {"loss": 1 / rounds}}
"""


def test_metrics_and_results_are_there_when_a_run_has_reported_them(
    server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    func = ry.get_or_create_project("demo").new_function("learn", code=LEARN, handler="main")
    run = func.run(parameters={"rounds": 4}).wait(timeout=SECONDS, check=True, progress=True)
    assert run.results == {"rounds": 4, "best": {"loss": 0.25}}
    assert run.results.best.loss == 0.25
    assert run.metrics() == {"loss": [1.0, 0.5, 1 / 3, 0.25], "rate": [0.5] * 4}
    assert capsys.readouterr().err.splitlines()[-1] == f"{run.id}: COMPLETED"

    async def measure() -> tuple[ry.Section, ry.Section, ry.Section, int]:
        async with ry.AsyncClient() as client:
            same = await (await client.get_project("demo")).get_run(run.id)
            events = await same.events()
            return await same.metrics(), same.results, await same.effective(), len(events)

    metrics, results, effective, events = asyncio.run(measure())
    assert (metrics, results) == (run.metrics(), run.results)
    assert effective["parameters"] == {"rounds": 4}
    assert events == len(run.events()) >= 4


def test_failure_is_raised_when_it_is_checked(server: str) -> None:
    func = ry.get_or_create_project("demo").new_function("fail", code_src="program.py", handler="fail")
    run = func.run()
    with pytest.raises(ry.RunFailed, match=f"run {run.id}: ERROR: run.failed") as raised:
        run.wait(timeout=SECONDS, check=True)
    assert raised.value.run.has_failed
    assert "ValueError: no luck" in run.logs()


def test_all_problems_are_told_when_a_run_is_refused(server: str) -> None:
    func = ry.get_or_create_project("demo").new_function("hello", code_src="program.py", handler="hello")
    with pytest.raises(ry.Refused) as raised:
        func.run(profile="smal", resources={"mem": "6Gb"})
    assert {(problem.path, problem.suggestion) for problem in raised.value.problems} == {
        ("spec.profile", "small"),
        ("spec.resources.mem", "6Gi"),
    }
    with pytest.raises(ry.ArgumentError, match="did you mean `resources`"):
        func.run(resorces={})  # type: ignore[call-arg]
    explained = func.explain(profile="small", resources={"mem": {"requests": "6Gi"}})
    (warning,) = explained.warnings
    assert explained.would_start
    assert str(warning) == "spec.resources.mem.requests: profile small sets 256Mi; 6Gi from you is ignored"
    assert not func.explain(resources={"mem": "512Gi"}).would_start
    with pytest.raises(ry.Refused, match="ignored"):
        func.run(profile="small", resources={"mem": "6Gi"}, strict=True)


def test_id_of_the_client_makes_one_run_when_it_is_submitted_twice(server: str) -> None:
    func = ry.get_or_create_project("demo").new_function("hello", code_src="program.py", handler="hello")
    first, second = func.run(id="once"), func.run(id="once")
    assert first.id == second.id == "once"
    with pytest.raises(ry.AlreadyExists):
        func.run(id="once", parameters={"name": "Ada"})
    first.wait(timeout=SECONDS).delete()


def test_each_thing_is_made_once_when_every_answer_is_lost_once(server: str) -> None:
    plural = ("projects", "functions", "tasks", "runs", "secrets")
    lost = [Rule(LoseAnswer(), method="POST", path=f"*/{name}") for name in plural]
    with FaultProxy(server, plan=FaultPlan(rules=lost)) as proxy, ry.Client(proxy.url) as client:
        project = client.get_or_create_project("lost")
        func = project.new_function("hello", code_src="program.py", handler="hello")
        run = func.run(parameters={"name": "Ada"})
        project.new_secret("TOKEN", "x")
        assert proxy.counts["lose-answer"] == len(plural)
        assert run.wait(timeout=SECONDS, check=True).results.greeting == "hello Ada"
        assert [each.id for each in project.list_runs()] == [run.id]
        assert [each.id for each in project.list_functions()] == [func.id]
        assert (project.list_secrets(), project.get_secret("TOKEN")) == (["TOKEN"], "x")


def test_run_is_stopped_when_asked(server: str) -> None:
    func = ry.get_or_create_project("demo").new_function("sleep", code_src="program.py", handler="sleep")
    run = func.run()
    with pytest.raises(ry.WaitTimeout, match="it goes on"):
        run.wait(timeout=0.1)
    run.stop(reason="enough").wait(timeout=SECONDS)
    assert (run.state, run.has_failed) == ("STOPPED", True)
    assert run.stop().state == "STOPPED"


def test_secret_is_stored_when_it_is_new_or_known(server: str) -> None:
    project = ry.get_or_create_project("demo")
    project.new_secret("TOKEN", "one")
    project.new_secret("TOKEN", "two")
    assert (project.get_secret("TOKEN"), project.list_secrets()) == ("two", ["TOKEN"])
    project.delete_secret("TOKEN")
    with pytest.raises(ry.NotFound):
        project.delete_secret("TOKEN")


def test_same_version_is_taken_when_a_function_has_the_same_content(server: str, tmp_path: Path) -> None:
    project = ry.get_or_create_project("demo")
    wanted = {"source": {"source": "program.py", "handler": "hello"}}
    first = project.ensure_function("same", "python", wanted, folder=tmp_path)
    second = project.ensure_function("same", "python", wanted, folder=tmp_path)
    assert first.id == second.id == project.get_function("same").id


def test_files_come_back_as_they_were_when_they_are_logged(server: str, tmp_path: Path) -> None:
    project = ry.get_or_create_project("demo")
    folder = tmp_path / "net"
    (folder / "weights").mkdir(parents=True)
    (folder / "weights" / "ä 1.bin").write_bytes(bytes(range(256)) * 20_000)
    (folder / "config.json").write_text("{}")
    model = project.log_model("net", folder, description="first")
    assert (model.state, sorted(file.path for file in model.list_files())) == (
        "READY",
        ["config.json", "weights/ä 1.bin"],
    )
    target = project.get_model("net").download(tmp_path / "back")
    assert (target / "weights" / "ä 1.bin").read_bytes() == (folder / "weights" / "ä 1.bin").read_bytes()
    assert (target / "config.json").read_text() == "{}"
    with pytest.raises(ry.NotFound, match="did you mean net"):
        project.get_model("nett")
    model.delete()


def test_entities_are_listed_when_they_are_of_any_type(server: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    project = ry.get_or_create_project("listed")
    for name, log in (("a", project.log_artifact), ("d", project.log_dataitem), ("m", project.log_model)):
        assert log(name, tmp_path / "a.txt").state == "READY"
    elsewhere = project.new_artifact("elsewhere", path="https://example.org/a.txt", description="not here")
    assert (elsewhere.spec.path, elsewhere.list_files()) == ("https://example.org/a.txt", [])
    project.new_dataitem("table", kind="table", path="s3://bucket/table.parquet")
    project.new_model("net", path="s3://bucket/net/")
    project.new_secret("TOKEN", "x")
    listed = (project.list_artifacts(), project.list_dataitems(), project.list_models())
    assert [sorted(each.name for each in found) for found in listed] == [
        ["a", "elsewhere"],
        ["d", "table"],
        ["m", "net"],
    ]
    assert "<td>elsewhere</td>" in listed[0]._repr_html_()  # type: ignore[attr-defined]
    assert project.list_secrets()._repr_html_() == (  # type: ignore[attr-defined]
        "<table><tr><th>name</th></tr><tr><td>TOKEN</td></tr></table>"
    )


def test_file_is_an_input_and_a_path_an_output_when_a_function_runs(server: str, tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("1,2\n3,4\n")
    code = (
        "def main(points):\n    text = open(points).read()\n    open('sum.txt', 'w').write(str(len(text)))\n"
        "    import pathlib\n    return {'total': pathlib.Path('sum.txt')}\n"
    )
    project = ry.get_or_create_project("demo")
    points = project.log_dataitem("points", tmp_path / "points.csv")
    func = project.new_function("sum", code=code, handler="main")
    run = func.run(inputs={"points": points}).wait(timeout=SECONDS, check=True)
    name = run.outputs["total"].rpartition("/")[2].partition(":")[0]
    assert project.get_artifact(name).download(tmp_path / "out").read_text() == "8"


def count_stored(project: str) -> dict[str, int]:
    """How many functions and tasks a project has; none if it does not exist."""
    with ry.Client() as client:
        if project not in {other.name for other in client.list_projects()}:
            return {}
        plurals = ("functions", "tasks")
        return {plural: client.request("GET", f"/api/v1/-/{project}/{plural}")["totalElements"] for plural in plurals}


def test_nothing_is_stored_when_a_stored_function_is_explained(server: str) -> None:
    func = ry.get_or_create_project("asked").new_function("box", "container", image="busybox:1.36")
    before = count_stored("asked")
    assert func.explain(resources={"mem": "64Mi"}).effective.image == "busybox:1.36"
    (deployment,) = (each for each in func.render("deploy").objects if each["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 1
    with pytest.raises(ry.Refused, match="there is no profile `smal`"):
        func.render(profile="smal")
    with pytest.raises(ry.ArgumentError, match="resources"):
        func.explain(resourcs={})  # type: ignore[call-arg]
    assert count_stored("asked") == before == {"functions": 1, "tasks": 0}


def test_everything_is_stored_once_when_a_draft_is_submitted(server: str) -> None:
    def draft(client: ry.Client) -> ry.RunDraft:
        source = {"source": "program.py", "handler": "hello"}
        spec = {"parameters": {"name": "Eve"}, "profile": "small"}
        return client.draft_run("drafted", "hello", "python", function={"source": source}, spec=spec)

    with ry.Client() as client:
        first = draft(client)
        assert first.explain().would_start
        assert first.makes_project
        assert [each["kind"] for each in first.render(id="one").objects][-1] == "Job"
        assert count_stored("drafted") == {}
        run = first.submit(id="one")
        assert count_stored("drafted") == {"functions": 1, "tasks": 1}
        again = draft(client)
        assert again.explain().find("profile") == first.explain().find("profile")
        assert not again.makes_project
        assert again.submit(id="one").id == run.id  # the same run: nothing is made twice
        assert count_stored("drafted") == {"functions": 1, "tasks": 1}
        run.wait(timeout=SECONDS, check=True)
        assert run.results.greeting == "hello Eve"


def test_draft_is_the_same_when_it_is_awaited(server: str) -> None:
    async def work() -> tuple[str, bool]:
        async with ry.AsyncClient() as client:
            box = {"image": "busybox:1.36"}
            draft = client.draft_run("awaited", "box", "container", function=box, spec={}, action="serve")
            explanation = await draft.explain()
            return str(explanation.effective.action), draft.makes_project

    assert asyncio.run(work()) == ("serve", True)
    assert count_stored("awaited") == {}
