from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from runyard.app.core import Core
from runyard.app.entities.crud import create_entity, get_entity, update_entity
from runyard.app.entities.inventory import COUNT_LIMITS
from runyard.app.entities.secret_values import put_secret_values
from runyard.app.errors import Conflict, Duplicate, Missing, NotPossible
from runyard.app.list_query import Query
from runyard.app.log_store import Stream
from runyard.app.model import Entity
from runyard.app.projects.entity_deletion import delete_entity, delete_named
from runyard.app.projects.metrics import list_metrics, put_metric
from runyard.app.runs.submission import submit_run
from runyard.spec.problems import Refused
from tests.unit.app.demo import ADA, FUNCTION, RUN, list_audit, open_demo


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        yield core


async def find_problems(core: Core, type_name: str, document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(Refused) as caught:
        await create_entity(core, ADA, type_name, "demo", document)
    return {problem.where: problem.code for problem in caught.value.problems}


DOCUMENTS: dict[str, dict[str, Any]] = {
    "function": {"kind": "dbt", "name": "x", "id": "x"},
    "workflow": {"kind": "hera", "name": "x", "id": "x"},
    "secret": {"kind": "secret", "name": "x", "id": "x"},
    "artifact": {"kind": "artifact", "name": "x", "id": "x", "spec": {"path": "s3://a"}},
    "dataitem": {"kind": "table", "name": "x", "id": "x", "spec": {"path": "s3://a"}},
    "model": {"kind": "mlflow", "name": "x", "id": "x", "spec": {"path": "s3://a"}},
    "task": {"kind": "dbt+transform", "id": "x", "spec": {}},
}


@pytest.mark.parametrize("type_name", DOCUMENTS)
async def test_entity_is_a_duplicate_when_the_same_is_posted_again(core: Core, type_name: str) -> None:
    document = DOCUMENTS[type_name]
    await create_entity(core, ADA, type_name, "demo", document)
    with pytest.raises(Duplicate, match=rf"^Duplicated entity {type_name}:x\.$"):
        await create_entity(core, ADA, type_name, "demo", document)
    assert len(await list_audit(core, f"{type_name}.create")) == (3 if type_name == "task" else 1) + (
        type_name == "function"
    )


@pytest.mark.parametrize("type_name", [name for name in DOCUMENTS if name != "task"])
async def test_id_is_free_when_only_another_project_has_it(core: Core, type_name: str) -> None:
    for project in ("demo", "other"):
        assert (await create_entity(core, ADA, type_name, project, DOCUMENTS[type_name])).project == project
    await delete_entity(core, ADA, type_name, "demo", "x")
    assert (await get_entity(core, type_name, "other", "x")).project == "other"


async def test_task_is_a_duplicate_when_its_function_has_one_of_the_kind(core: Core) -> None:
    task = {"kind": "container+job", "id": "another", "spec": {"function": FUNCTION}}
    with pytest.raises(Duplicate) as caught:
        await create_entity(core, ADA, "task", "demo", task)
    assert str(caught.value) == (
        "Duplicated entity task:another: there is already a task of this kind for the same function or workflow."
    )


async def test_secret_is_a_duplicate_when_its_name_is_taken(core: Core) -> None:
    await create_entity(core, ADA, "secret", "demo", {"kind": "secret", "name": "x", "id": "a"})
    with pytest.raises(Duplicate) as caught:
        await create_entity(core, ADA, "secret", "demo", {"kind": "secret", "name": "x", "id": "b"})
    assert str(caught.value) == "Duplicated entity secret:b: there is already a secret of this name."
    await create_entity(core, ADA, "secret", "other", {"kind": "secret", "name": "x", "id": "c"})


async def test_spec_is_kept_word_for_word_when_the_kind_is_foreign(core: Core) -> None:
    spec = {"CamelCase": {"a": [1, {"b": "x"}]}, "resources": "any", "volumes": 5, "envs": {"A": 1}}
    for type_name, kind in (("function", "dbt"), ("workflow", "hera"), ("task", "dbt+transform")):
        made = await create_entity(core, ADA, type_name, "demo", {"kind": kind, "name": "x", "id": "x", "spec": spec})
        assert (await get_entity(core, type_name, "demo", made.id)).spec == spec
    changed = await update_entity(core, ADA, "task", "demo", "x", {"kind": "dbt+transform", "spec": {"SomeOther": 1}})
    assert changed.spec == {"SomeOther": 1}


@pytest.mark.parametrize(
    ("type_name", "document", "expected"),
    [
        ("function", {"kind": "container", "name": "f", "spec": {"imge": "x"}}, {"spec.imge": "field.unknown"}),
        ("function", {"kind": "container"}, {"name": "field.missing", "spec.image": "field.missing"}),
        ("function", {"kind": "container", "name": "f", "spec": {"command": "sh"}}, {"spec.image": "field.missing"}),
        (
            "function",
            {"kind": "python", "name": "f"},
            {"spec.python_version": "field.missing", "spec.source": "field.missing"},
        ),
        ("function", {"kind": "dbt", "name": "f", "id": "F"}, {"id": "id.invalid"}),
        (
            "function",
            {"kind": "python", "name": "f", "spec": {"python_version": "PYTHON3_11", "source": {"lang": "python"}}},
            {"spec.source.handler": "field.missing", "spec.source": "field.missing"},
        ),
        (
            "function",
            {
                "kind": "python",
                "name": "f",
                "spec": {"python_version": "PYTHON3_11", "source": {"handler": 5, "code": 1}},
            },
            {"spec.source.handler": "type.text", "spec.source.code": "type.text"},
        ),
        ("task", {"kind": "container+job", "spec": {}}, {"spec.function": "field.missing"}),
        ("task", {"kind": "container+dance", "spec": {"function": FUNCTION}}, {"kind": "value.option"}),
        ("task", {"kind": "python+job", "spec": {"function": FUNCTION}}, {"spec.function": "task.kind"}),
        ("task", {"kind": "dbt+x", "spec": {"function": "nonsense"}}, {"spec.function": "reference.invalid"}),
        ("task", {"kind": "dbt+x", "spec": {"function": 5}}, {"spec.function": "reference.invalid"}),
        ("task", {"kind": "dbt+x", "spec": {"function": "dbt://other/f:f"}}, {"spec.function": "reference.project"}),
        ("task", {"kind": "dbt+x", "spec": {"workflow": "hera://other/f:f"}}, {"spec.workflow": "reference.project"}),
        ("task", {"kind": "dbt+x", "spec": {"function": "dbt://demo/f:f"}}, {"spec.function": "reference.unknown"}),
        ("task", {"kind": "dbt+x", "spec": {"function": "dbt://demo/box:f1"}}, {"spec.function": "reference.unknown"}),
        ("secret", {"kind": "secret", "name": "s", "spec": {"value": "x"}}, {"spec.value": "field.unknown"}),
        ("secret", {"kind": "other", "name": "s"}, {"kind": "value.option"}),
        ("artifact", {"kind": "artifact", "name": "a", "spec": {"path": 5}}, {"spec.path": "field.missing"}),
        ("model", {"kind": "model", "name": "a", "spec": {"path": 5}}, {"spec.path": "field.missing"}),
    ],
)
async def test_entity_is_refused_when_its_spec_is_wrong(
    core: Core, type_name: str, document: dict[str, Any], expected: dict[str, str]
) -> None:
    assert await find_problems(core, type_name, document) == expected


FOREIGN_KINDS = (
    *("dbt", "guardrail", "openinference", "servicegraph", "mlflowserve", "sklearnserve", "huggingfaceserve"),
    *("vllmserve-text", "vllmserve-speech", "vllmserve-pooling", "kubeai-text", "kubeai-speech"),
    *("flower-app", "flower-client", "flower-server", "kfp", "hera"),
)
"""Kinds of DigitalHub's other runtimes."""


@pytest.mark.parametrize("kind", FOREIGN_KINDS)
async def test_function_is_stored_without_a_warning_when_another_runtime_has_its_kind(core: Core, kind: str) -> None:
    made = await create_entity(core, ADA, "function", "demo", {"kind": kind, "name": "x", "id": "x"})
    assert (made.kind, made.status) == (kind, {})


@pytest.mark.parametrize(
    ("kind", "meant"),
    [("contaner", "container"), ("Container", "container"), ("pyton", "python"), ("PYTHON", "python")],
)
async def test_function_is_stored_with_a_warning_when_its_kind_is_near_one_of_ours(
    core: Core, kind: str, meant: str
) -> None:
    made = await create_entity(core, ADA, "function", "demo", {"kind": kind, "name": "x", "id": "x"})
    assert made.status["warnings"] == [
        {
            "code": "kind.near",
            "path": "kind",
            "message": "functions of this kind are stored but not run here",
            "value": kind,
            "suggestion": meant,
        }
    ]
    assert (await get_entity(core, "function", "demo", "x")).kind == kind


async def test_kind_is_not_doubted_when_it_is_not_a_functions(core: Core) -> None:
    made = await create_entity(core, ADA, "workflow", "demo", {"kind": "contaner", "name": "x", "id": "x"})
    assert made.status == {}


async def test_entity_is_missing_when_it_belongs_to_another_project(core: Core) -> None:
    for act in (
        get_entity(core, "function", "other", "f1"),
        update_entity(core, ADA, "function", "other", "f1", {"kind": "container"}),
        delete_entity(core, ADA, "function", "other", "f1", is_cascading=True),
    ):
        with pytest.raises(Missing):
            await act
    assert (await get_entity(core, "function", "demo", "f1")).name == "box"


async def count_runs(core: Core) -> int:
    async with core.store.begin(is_read_only=True) as unit:
        return (await unit.runs.find_page(Query(type="run", project="demo"))).total


async def has(core: Core, type_name: str, entity_id: str) -> bool:
    async with core.store.begin(is_read_only=True) as unit:
        return await unit.entities.find(type_name, entity_id, project="demo") is not None


async def test_tasks_and_runs_go_too_when_a_function_is_deleted_with_cascade(core: Core) -> None:
    run, _ = await submit_run(core, ADA, "demo", RUN)
    await core.logs.append(Stream(run_uid=run.uid, pod="p", container="main"), b"hi\n", offset=0, at=core.clock.now())
    await delete_entity(core, ADA, "function", "demo", "f1", is_cascading=True)
    assert not await has(core, "task", "t1")
    assert not await has(core, "task", "t2")
    assert await count_runs(core) == 0
    assert await core.logs.list_streams(run.uid) == []
    assert [len(await list_audit(core, f"{kind}.delete")) for kind in ("function", "task", "run")] == [1, 2, 1]


async def test_tasks_and_runs_stay_when_a_function_is_deleted_without_cascade(core: Core) -> None:
    await submit_run(core, ADA, "demo", RUN)
    await delete_entity(core, ADA, "function", "demo", "f1")
    assert await has(core, "task", "t1")
    assert await count_runs(core) == 1


async def test_runs_go_and_the_function_stays_when_a_task_is_deleted_with_cascade(core: Core) -> None:
    await submit_run(core, ADA, "demo", RUN)
    await delete_entity(core, ADA, "task", "demo", "t1", is_cascading=True)
    assert await count_runs(core) == 0
    assert await has(core, "function", "f1")
    assert await has(core, "task", "t2")


async def test_every_version_goes_when_a_name_is_deleted(core: Core) -> None:
    second = {"kind": "container", "name": "box", "id": "f2", "spec": {"image": "a:1"}}
    await create_entity(core, ADA, "function", "demo", second)
    assert await delete_named(core, ADA, "function", "demo", "box", is_cascading=True) == 2
    assert not await has(core, "task", "t1")
    with pytest.raises(Missing):
        await delete_named(core, ADA, "function", "demo", "box")
    with pytest.raises(Missing):
        await delete_named(core, ADA, "function", "nowhere", "box")


async def test_task_of_the_newest_version_goes_only_when_the_last_version_does(core: Core) -> None:
    second = {"kind": "container", "name": "box", "id": "f2", "spec": {"image": "a:1"}}
    await create_entity(core, ADA, "function", "demo", second)
    floating = {"kind": "container+job", "id": "t3", "spec": {"function": "container://demo/box"}}
    await create_entity(core, ADA, "task", "demo", floating)
    run = {"kind": "container+job:run", "id": "r3", "spec": {"task": "container+job://demo/t3"}}
    assert (await submit_run(core, ADA, "demo", run))[0].function == "container://demo/box:f2"
    await delete_entity(core, ADA, "function", "demo", "f2", is_cascading=True)
    assert await has(core, "task", "t3")
    await delete_entity(core, ADA, "function", "demo", "f1", is_cascading=True)
    assert not await has(core, "task", "t3")
    assert await count_runs(core) == 0


async def test_trigger_runs_another_task_when_an_update_says_so(core: Core) -> None:
    spec = {"task": "container+job://demo/t1", "function": FUNCTION, "schedule": "0 0 * * *", "template": {}}
    document = {"kind": "scheduler", "name": "nightly", "id": "g1", "spec": spec}
    await create_entity(core, ADA, "trigger", "demo", document)
    other = {**document, "spec": {**spec, "task": "container+serve://demo/t2", "schedule": "@daily"}}
    changed = await update_entity(core, ADA, "trigger", "demo", "g1", other)
    assert (changed.spec["task"], changed.spec["schedule"]) == ("container+serve://demo/t2", "@daily")
    assert "warnings" not in changed.status
    beyond = {**document, "spec": {**spec, "task": "container+job://other/t1"}}
    with pytest.raises(Refused) as caught:
        await update_entity(core, ADA, "trigger", "demo", "g1", beyond)
    assert "spec.task" in {problem.where for problem in caught.value.problems}


async def test_values_go_too_when_a_secret_is_deleted(core: Core) -> None:
    await create_entity(core, ADA, "secret", "demo", {"kind": "secret", "name": "token", "id": "s1"})
    await put_secret_values(core, ADA, "demo", {"token": "x"})
    await delete_entity(core, ADA, "secret", "demo", "s1")
    await create_entity(core, ADA, "secret", "demo", {"kind": "secret", "name": "token", "id": "s2"})
    async with core.store.begin(is_read_only=True) as unit:
        assert await unit.secrets.find("demo", "token") is None


async def test_metrics_are_new_when_an_id_is_used_again(core: Core) -> None:
    await put_metric(core, ADA, "function", "demo", "f1", name="acc", given=1)
    await delete_entity(core, ADA, "function", "demo", "f1")
    await create_entity(core, ADA, "function", "demo", {"kind": "dbt", "name": "f", "id": "f1"})
    assert await list_metrics(core, "function", "demo", "f1") == {}


async def test_nothing_is_deleted_when_another_revision_was_seen(core: Core) -> None:
    with pytest.raises(Conflict):
        await delete_entity(core, ADA, "function", "demo", "f1", expected_revision=7)
    assert await has(core, "function", "f1")


async def test_nothing_is_changed_when_the_project_is_being_deleted(core: Core) -> None:
    async with core.store.begin() as unit:
        project = await unit.entities.find("project", "demo", project="demo")
        assert isinstance(project, Entity)
        await unit.entities.replace(replace(project, state="DELETING"))
        await unit.commit()
    with pytest.raises(NotPossible):
        await update_entity(core, ADA, "function", "demo", "f1", {"kind": "container"})


async def test_version_is_the_id_when_the_client_says_none(core: Core) -> None:
    made = await create_entity(core, ADA, "function", "demo", {"kind": "dbt", "name": "f", "id": "a"})
    assert made.metadata == {"version": "a", "project": "demo", "name": "f"}
    said = await create_entity(
        core, ADA, "function", "demo", {"kind": "dbt", "name": "f", "id": "b", "metadata": {"version": "brave-lion"}}
    )
    assert said.metadata["version"] == "brave-lion"
    changed = await update_entity(core, ADA, "function", "demo", "b", {"kind": "dbt", "metadata": {"labels": ["x"]}})
    assert changed.metadata == {"version": "brave-lion", "project": "demo", "name": "f", "labels": ["x"]}


async def test_path_is_required_when_the_server_stores_no_files(core: Core) -> None:
    without = replace(core, blobs=None)
    document = {"kind": "artifact", "name": "a"}
    assert await find_problems(without, "artifact", document) == {"spec.path": "field.missing"}


@pytest.mark.parametrize(
    ("type_name", "document"),
    [("secret", {"kind": "secret"}), ("configmap", {"kind": "configmap", "spec": {"data": {"a": "b"}}})],
)
async def test_name_is_refused_when_the_project_has_as_many_as_it_may(
    core: Core, type_name: str, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        await create_entity(core, ADA, type_name, "demo", {**document, "name": name})
    limit = COUNT_LIMITS[type_name]
    monkeypatch.setitem(cast("dict[str, Any]", COUNT_LIMITS), type_name, replace(limit, most=2))
    with pytest.raises(
        NotPossible, match=f"project demo has 3 {limit.plural}; allowed: at most 2: delete some"
    ) as caught:
        await create_entity(core, ADA, type_name, "demo", {**document, "name": "four"})
    assert caught.value.code == limit.code
    await create_entity(core, ADA, type_name, "other", {**document, "name": "four"})
    if type_name == "configmap":  # a version of a name that there is
        await create_entity(core, ADA, type_name, "demo", {**document, "name": "one"})
    for name in ("one", "two"):
        await delete_named(core, ADA, type_name, "demo", name)
    await create_entity(core, ADA, type_name, "demo", {**document, "name": "four"})
