import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.app.core import Core
from runyard.app.entities import drafts
from runyard.app.entities.crud import create_entity
from runyard.app.entities.drafts import EntityDraft, read_draft
from runyard.app.errors import Duplicate, Missing, NotPossible
from runyard.app.projects.entity_deletion import delete_entity
from runyard.app.runs import explain_run, run_decisions, run_requests
from runyard.app.runs.run_deletion import delete_run
from runyard.app.runs.run_queries import get_run
from runyard.app.runs.submission import canonicalize_request, hash_request, submit_run
from runyard.spec.launcher import Launcher
from runyard.spec.problems import Refused
from tests.engines.memory import MemoryEngine
from tests.unit.app.demo import ADA, RUN, TASK, list_audit, open_demo


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        yield core


REQUEST: dict[str, Any] = {
    "kind": "container+job:run",
    "id": "r1",
    "name": "r1",
    "metadata": {"labels": ["a"]},
    "spec": {"task": TASK, "resources": {"cpu": "1"}, "parameters": {"x": None}},
}


def hash_of(document: Any) -> str:
    return hash_request(canonicalize_request(document))


@pytest.mark.parametrize(
    "aside",
    [
        {"status": {"state": "CREATED"}},
        {"status": None},
        {"key": "store://demo/run/container+job:run/r1"},
        {"user": "eve"},
        {"extensions": []},
        {"project": None},
        {"metadata": {"labels": ["a"], "created": "2026-01-01T00:00:00Z", "updated": "now"}},
        {"metadata": {"updated_by": "eve", "created_by": "eve", "labels": ["a"], "description": None}},
        {"spec": {"parameters": {"x": None}, "resources": {"cpu": "1", "mem": None}, "task": TASK}},
    ],
)
def test_hash_is_the_same_when_only_what_the_server_says_differs(aside: dict[str, Any]) -> None:
    assert hash_of({**REQUEST, **aside}) == hash_of(REQUEST)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "container+run"},
        {"id": "r2"},
        {"name": "r2"},
        {"project": "demo"},
        {"extensions": [{}]},
        {"metadata": {"labels": ["b"]}},
        {"metadata": {"labels": ["a"], "version": "2"}},
        {"metadata": {"labels": ["a", "b"]}},
        {"spec": {**REQUEST["spec"], "resources": {"cpu": 1}}},
        {"spec": {**REQUEST["spec"], "resources": {"cpu": "2"}}},
        {"spec": {**REQUEST["spec"], "parameters": {}}},
        {"spec": {**REQUEST["spec"], "parameters": {"x": 0}}},
        {"spec": {**REQUEST["spec"], "args": ["b", "a"]}},
        {"spec": {**REQUEST["spec"], "local_execution": False}},
    ],
)
def test_hash_is_another_when_anything_else_differs(change: dict[str, Any]) -> None:
    assert hash_of({**REQUEST, **change}) != hash_of(REQUEST)


@given(st.permutations(list(REQUEST.items())))
def test_hash_is_the_same_when_the_order_of_keys_differs(items: list[tuple[str, Any]]) -> None:
    assert hash_of(dict(items)) == hash_of(REQUEST)


async def test_one_run_is_made_when_the_same_is_submitted_by_many_at_once(core: Core) -> None:
    told = await asyncio.gather(*(submit_run(core, ADA, "demo", RUN) for _ in range(20)))
    runs = [run for run, _ in told]
    assert all(list(history) == list(told[0][1]) for _, history in told)
    assert {run.id for run in runs} == {"r1"}
    assert {run.created_at for run in runs} == {runs[0].created_at}
    assert len(await list_audit(core, "run.submit")) == 1


@pytest.mark.parametrize("run_id", ["r1", "r2", None])
async def test_project_is_what_is_missing_when_there_is_none(core: Core, run_id: str | None) -> None:
    await submit_run(core, ADA, "demo", RUN)
    with pytest.raises(Missing, match="project"):
        await submit_run(core, ADA, "nowhere", {**RUN, "id": run_id})


async def test_one_wins_when_two_different_runs_want_the_same_id(core: Core) -> None:
    bodies = [{**RUN, "name": f"n{number}"} for number in range(10)]
    results = await asyncio.gather(*(submit_run(core, ADA, "demo", body) for body in bodies), return_exceptions=True)
    assert sum(not isinstance(result, BaseException) for result in results) == 1
    assert all(isinstance(result, Duplicate) for result in results if isinstance(result, BaseException))


async def test_id_is_free_when_only_another_project_has_a_run_of_it(core: Core) -> None:
    """Else an answer would tell which ids other projects use, and anybody could take an id away from them."""
    function = {"kind": "container", "name": "box", "id": "f1", "spec": {"image": "busybox:1.36"}}
    await create_entity(core, ADA, "function", "other", function)
    task = {"kind": "container+job", "id": "t1", "spec": {"function": "container://other/box:f1"}}
    await create_entity(core, ADA, "task", "other", task)
    first, _ = await submit_run(core, ADA, "demo", RUN)
    other, _ = await submit_run(core, ADA, "other", {**RUN, "spec": {"task": "container+job://other/t1"}})
    assert (other.id, other.project) == ("r1", "other")
    assert other.uid != first.uid
    assert (await get_run(core, "demo", "r1"))[0] == first


async def test_same_run_is_answered_when_its_task_and_function_are_gone_since(core: Core) -> None:
    first, _ = await submit_run(core, ADA, "demo", RUN)
    await delete_entity(core, ADA, "task", "demo", "t1")
    await delete_entity(core, ADA, "function", "demo", "f1")
    assert (await submit_run(core, ADA, "demo", RUN))[0].created_at == first.created_at


async def test_id_may_be_used_again_when_its_run_was_deleted(core: Core) -> None:
    await submit_run(core, ADA, "demo", RUN)
    await delete_run(core, ADA, "demo", "r1")
    again, _ = await submit_run(core, ADA, "demo", {**RUN, "name": "again"})
    assert (again.name, again.state) == ("again", "READY")


async def test_request_and_decision_are_kept_together_when_a_run_is_stored(core: Core) -> None:
    body = {**RUN, "status": {"state": "CREATED"}, "key": "k", "user": "eve", "metadata": {"created": "x", "a": 1}}
    run, _ = await submit_run(core, ADA, "demo", body)
    assert run.request == {**RUN, "metadata": {"a": 1}}
    assert run.request_hash == hash_of(body)
    assert run.effective is not None
    assert run.effective["image"] == "busybox:1.36"
    assert {leaf["path"]: leaf["set_by"] for leaf in run.provenance}["image"] == "function"
    assert (run.user, run.function, run.task) == ("ada", "container://demo/box:f1", TASK)
    (entry,) = await list_audit(core, "run.submit")
    assert (entry.actor, entry.id, entry.details["hash"]) == ("ada", "r1", run.request_hash)


async def test_nothing_of_a_status_is_believed_when_a_run_is_submitted(core: Core) -> None:
    status = {"state": "COMPLETED", "service": {"url": "evil"}, "outputs": {"a": 1}}
    run, _ = await submit_run(core, ADA, "demo", {**RUN, "status": status})
    assert (run.state, run.status) == ("READY", {})
    assert [warning["path"] for warning in run.warnings] == ["status.service", "status.outputs", "status.state"]
    assert {warning["code"] for warning in run.warnings} == {"value.unused"}


UNUSED = {**RUN, "spec": {"task": TASK, "replicas": 2}}


async def test_values_that_are_not_used_are_told_or_refused_when_strict(core: Core) -> None:
    with pytest.raises(Refused) as caught:
        await submit_run(core, ADA, "demo", UNUSED, is_strict=True)
    assert [problem.where for problem in caught.value.problems] == ["spec.replicas"]
    run, _ = await submit_run(core, ADA, "demo", UNUSED)
    assert [warning["path"] for warning in run.warnings] == ["spec.replicas"]


async def test_unused_status_is_refused_when_strict(core: Core) -> None:
    with pytest.raises(Refused) as caught:
        await submit_run(core, ADA, "demo", {**RUN, "status": {"service": {"url": "evil"}}}, is_strict=True)
    assert [problem.where for problem in caught.value.problems] == ["status.service"]


async def test_run_is_due_when_an_engine_executes_it_and_not_its_client(core: Core) -> None:
    with_engine = replace(core, engine=MemoryEngine())
    local = {**RUN, "id": "mine", "spec": {"task": TASK, "local_execution": True}}
    mine, _ = await submit_run(with_engine, ADA, "demo", local)
    assert (mine.state, mine.due_at, mine.reason) == ("CREATED", None, None)
    ours, _ = await submit_run(with_engine, ADA, "demo", RUN)
    assert (ours.state, ours.reason) == ("READY", None)
    async with core.store.begin(is_read_only=True) as unit:
        now = await unit.read_clock()
    assert ours.due_at is not None
    assert now - timedelta(seconds=30) < ours.due_at <= now


PYTHON = {
    "kind": "python",
    "name": "fit",
    "id": "f9",
    "spec": {"python_version": "PYTHON3_11", "source": {"handler": "fit", "code": "def fit(): pass"}},
}
PYTHON_RUN = {"kind": "python+job:run", "id": "r9", "spec": {"task": "python+job://demo/t9"}}


async def test_function_without_command_is_refused_when_the_engine_has_no_launcher(core: Core) -> None:
    await create_entity(core, ADA, "function", "demo", PYTHON)
    task = {"kind": "python+job", "id": "t9", "spec": {"function": "python://demo/fit:f9"}}
    await create_entity(core, ADA, "task", "demo", task)
    engine = MemoryEngine()
    with_engine = replace(core, engine=engine)
    with pytest.raises(Refused) as caught:
        await submit_run(with_engine, ADA, "demo", PYTHON_RUN)
    assert [(problem.code, problem.where) for problem in caught.value.problems] == [
        ("launcher.missing", "spec.command")
    ]
    engine.platform = replace(engine.platform, launcher=Launcher(image="l:1", install=("l",), start=("/runyard/l",)))
    run, _ = await submit_run(with_engine, ADA, "demo", PYTHON_RUN)
    assert (run.state, run.warnings) == ("READY", ())


async def test_explanation_says_the_same_as_submitting_when_it_is_asked_first(core: Core) -> None:
    told = await explain_run(core, ADA, "demo", UNUSED)
    strict = await explain_run(core, ADA, "demo", UNUSED, is_strict=True)
    run, _ = await submit_run(core, ADA, "demo", UNUSED)
    assert (told.provenance, told.warnings) == (run.provenance, run.warnings)
    assert run.effective == {"schema_version": 3, **(told.effective or {})}
    effective = run.find_effective()
    assert effective is not None
    assert effective.to_dict() == told.effective
    assert (told.refusals, [problem["path"] for problem in strict.refusals]) == ((), ["spec.replicas"])
    assert await list_audit(core, "run.explain") == []


@pytest.mark.parametrize("document", [{"kind": "container+job:run"}, {"kind": "container+job:run", "spec": None}])
async def test_run_is_refused_when_it_has_no_spec(core: Core, document: dict[str, Any]) -> None:
    for act in (submit_run(core, ADA, "demo", document), explain_run(core, ADA, "demo", document)):
        with pytest.raises(Refused) as caught:
            await act
        assert [problem.where for problem in caught.value.problems] == ["spec.task"]


async def test_nothing_is_stored_when_the_project_is_being_deleted(core: Core) -> None:
    async with core.store.begin() as unit:
        project = await unit.entities.find("project", "demo", project="demo")
        assert project is not None
        await unit.entities.replace(replace(project, state="DELETING"))
        await unit.commit()
    with pytest.raises(NotPossible, match="being deleted"):
        await submit_run(core, ADA, "demo", RUN)
    with pytest.raises(NotPossible, match="being deleted"):
        await create_entity(core, ADA, "function", "demo", {"kind": "dbt", "name": "f"})


async def test_document_is_read_once_when_a_run_is_submitted(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def read_counted(given: Any) -> EntityDraft:
        read.append(given)
        return read_draft(given)

    for module in (drafts, run_decisions, run_requests):
        monkeypatch.setattr(module, "read_draft", read_counted)
    await submit_run(core, ADA, "demo", REQUEST)
    assert read == [REQUEST]
