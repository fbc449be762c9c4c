from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runyard.app.core import Core
from runyard.app.entities.crud import create_entity
from runyard.app.runs.run_requests import RunRequest, read_run_request
from runyard.spec.problems import Problem, Refused
from tests.unit.app.demo import ADA, FUNCTION, RUN, TASK, open_demo


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        await create_entity(core, ADA, "workflow", "demo", {"kind": "hera", "name": "flow", "id": "w1"})
        flow = {"kind": "hera+pipeline", "id": "wt", "spec": {"workflow": "hera://demo/flow:w1"}}
        await create_entity(core, ADA, "task", "demo", flow)
        build = {"kind": "container+build", "id": "bt", "spec": {"function": FUNCTION}}
        await create_entity(core, ADA, "task", "demo", build)
        yield core


async def read(core: Core, document: dict[str, Any]) -> RunRequest:
    async with core.store.begin(is_read_only=True) as unit:
        return await read_run_request(unit.entities, "demo", document)


async def find_problems(core: Core, document: dict[str, Any]) -> tuple[Problem, ...]:
    with pytest.raises(Refused) as caught:
        await read(core, document)
    return caught.value.problems


WRONG: list[Any] = [
    ({"spec": {"task": "container+job://other/t1"}}, "spec.task", "reference.project"),
    ({"spec": {"task": TASK, "function": "container://other/box:f1"}}, "spec.function", "reference.project"),
    ({"spec": {"task": TASK, "workflow": "hera://other/x:y"}}, "spec.workflow", "reference.project"),
    ({"spec": {"task": TASK, "function": "container://demo/box:f2"}}, "spec.function", "run.function"),
    ({"spec": {"task": TASK, "workflow": "hera://demo/flow:w1"}}, "spec.workflow", "run.function"),
    ({"spec": {"task": "container+job://demo/none"}}, "spec.task", "reference.unknown"),
    ({"spec": {"task": "container+job://demo/t2"}}, "spec.task", "reference.unknown"),
    ({"spec": {"task": "nonsense"}}, "spec.task", "reference.invalid"),
    ({"spec": {"task": 5}}, "spec.task", "reference.invalid"),
    ({"spec": {}}, "spec.task", "field.missing"),
    ({"spec": {"task": TASK, "local_execution": "true"}}, "spec.local_execution", "type.boolean"),
    ({"spec": {"task": TASK, "local_execution": 1}}, "spec.local_execution", "type.boolean"),
    ({"spec": {"task": TASK, "imge": "x"}}, "spec.imge", "field.unknown"),
    ({"kind": "container+serve:run"}, "kind", "run.kind"),
    ({"kind": "python+job:run"}, "kind", "run.kind"),
    ({"kind": "container+dance:run"}, "kind", "value.option"),
    ({"project": "other"}, "project", "project.other"),
    ({"id": "R_1"}, "id", "id.invalid"),
]


async def test_run_is_refused_when_what_it_refers_to_is_wrong(core: Core) -> None:
    for change, path, code in WRONG:
        problems = await find_problems(core, {**RUN, **change})
        assert [(problem.where, problem.code) for problem in problems] == [(path, code)], change


async def test_run_is_refused_with_a_sentence_when_its_kind_is_not_run_here(core: Core) -> None:
    flow = {"kind": "hera+pipeline:run", "spec": {"task": "hera+pipeline://demo/wt"}}
    (problem,) = await find_problems(core, flow)
    assert (problem.code, problem.where) == ("run.not_run", "kind")
    assert "python and container" in problem.message
    (problem,) = await find_problems(core, {"kind": "no kind of run", "spec": {}, "name": "x"})
    assert problem.where == "kind"


@pytest.mark.parametrize("kind", ["container+job", "contaner+job:run", "job"])
async def test_kind_that_was_meant_is_told_when_a_kind_is_misspelt(core: Core, kind: str) -> None:
    (problem,) = await find_problems(core, {**RUN, "kind": kind})
    assert (problem.where, problem.suggestion) == ("kind", None if kind == "job" else "container+job:run")


async def test_missing_task_is_told_with_the_rest_when_other_fields_are_wrong(core: Core) -> None:
    problems = await find_problems(core, {"kind": RUN["kind"], "spec": {"resources": {"mem": "6Gb"}}})
    assert sorted(problem.where for problem in problems) == ["spec.resources.mem", "spec.task"]


async def test_run_is_stored_when_its_client_executes_it_whatever_its_kind(core: Core) -> None:
    spec = {"task": "hera+pipeline://demo/wt", "local_execution": True, "Anything": {"b": 1}}
    run_request = await read(core, {"kind": "hera+pipeline:run", "spec": spec})
    assert (run_request.is_local, run_request.request, run_request.workflow_reference) == (
        True,
        None,
        "hera://demo/flow:w1",
    )
    assert run_request.draft.spec == spec
    build = {"task": "container+build://demo/bt", "local_execution": True}
    assert (await read(core, {"kind": "container+build:run", "spec": build})).request is None
    problems = await find_problems(core, {"kind": "hera+pipeline:run", "spec": {"local_execution": True}})
    assert [problem.where for problem in problems] == ["spec.task"]
    other = {"task": "hera+pipeline://other/wt", "local_execution": True}
    problems = await find_problems(core, {"kind": "hera+pipeline:run", "spec": other})
    assert [problem.code for problem in problems] == ["reference.project"]


async def test_both_kinds_of_run_are_read_when_sdks_send_them(core: Core) -> None:
    new = await read(core, {**RUN, "spec": {"task": TASK, "function": FUNCTION}})
    old = await read(core, {"kind": "container+run", "spec": {"task": TASK, "function": "container://demo/box"}})
    for run_request in (new, old):
        assert run_request.request is not None
        assert (run_request.request.action, run_request.request.kind) == ("job", "container")
        assert (run_request.task_reference, run_request.function_reference) == (TASK, FUNCTION)
    assert (await read(core, {"kind": "container+run", "spec": {"task": TASK}})).id != new.id


async def test_every_problem_of_the_form_is_named_when_there_are_several(core: Core) -> None:
    spec = {"task": "container+job://other/t1", "replicas": "many", "envs": 5, "imge": "x"}
    problems = await find_problems(core, {**RUN, "id": "R", "project": "other", "spec": spec})
    assert {problem.where for problem in problems} >= {"id", "project", "spec.replicas", "spec.envs", "spec.imge"}
