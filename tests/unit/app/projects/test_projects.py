from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runyard.app.core import Core
from runyard.app.entities.crud import create_entity
from runyard.app.entities.secret_values import put_secret_values
from runyard.app.errors import Conflict, Duplicate, Missing, NotPossible
from runyard.app.list_query import Query
from runyard.app.log_store import Stream
from runyard.app.projects import projects
from runyard.app.projects.project_deletion import delete_project, finish_project_deletion
from runyard.app.projects.projects import (
    ProjectView,
    create_project,
    get_project,
    list_projects,
    update_project,
)
from runyard.app.runs.submission import submit_run
from runyard.app.volumes.kept_volumes import create_volume
from runyard.spec.problems import Refused
from tests.contract.store.builders import claim
from tests.engines.memory import MemoryEngine
from tests.unit.app.demo import ADA, RUN, list_audit, open_demo

PAGE_BYTES = 16 << 20


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        yield core


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"kind": "project"}, {"name": "field.missing"}),
        ({"kind": "project", "name": "A"}, {"name": "project.name"}),
        ({"kind": "project", "name": "a"}, {"name": "project.name"}),
        ({"kind": "project", "name": "x" * 39}, {"name": "project.name"}),
        ({"kind": "project", "name": "a_b"}, {"name": "project.name"}),
        ({"kind": "projet", "name": "demo2"}, {"kind": "value.option"}),
        ({"kind": "project", "name": "demo2", "id": "demo3"}, {"id": "project.id"}),
        ({"kind": "project", "name": "demo2", "spec": {"config": 5}}, {"spec.config": "dict.type"}),
    ],
)
async def test_project_is_refused_when_it_is_wrong(
    core: Core, document: dict[str, Any], expected: dict[str, str]
) -> None:
    with pytest.raises(Refused) as caught:
        await create_project(core, ADA, document)
    assert {problem.where: problem.code for problem in caught.value.problems} == expected


async def test_project_is_a_duplicate_when_its_name_is_taken(core: Core) -> None:
    with pytest.raises(Duplicate, match=r"Duplicated entity project:demo\."):
        await create_project(core, ADA, {"kind": "project", "name": "demo"})


async def test_listed_things_are_not_the_projects_when_a_client_sends_them(core: Core) -> None:
    spec = {"source": "./", "functions": [{"name": "x"}], "models": [], "config": {"default_files_store": "s3://a"}}
    made = await create_project(core, ADA, {"kind": "project", "name": "p1", "spec": spec})
    assert made.spec == {"source": "./", "config": {"default_files_store": "s3://a"}}


async def test_newest_of_everything_is_listed_when_a_project_is_read(core: Core) -> None:
    for number in range(2):
        body = {"kind": "artifact", "name": "a", "id": f"a{number}", "spec": {"path": "s3://a"}}
        await create_entity(core, ADA, "artifact", "demo", body)
    view = await get_project(core, "demo", most_bytes=PAGE_BYTES)
    assert _list_ids(view) == {
        "functions": ["f1"],
        "artifacts": ["a1"],
        "workflows": [],
        "dataitems": [],
        "models": [],
    }
    assert view.bound is None


async def test_only_the_newest_are_listed_and_it_is_said_when_they_are_too_large_or_too_many(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    for plural, metadata in (("artifact", {"description": "x" * 30_000}), ("model", {})):
        for number in range(5):
            name = f"{plural}{number}"
            body = {"kind": plural, "name": name, "id": name, "spec": {"path": "s3://a"}, "metadata": metadata}
            await create_entity(core, ADA, plural, "demo", body)
    # Of five types each has a fifth: room for three of the artifacts.
    view = await get_project(core, "demo", most_bytes=500_000)
    assert _list_ids(view)["artifacts"] == ["artifact4", "artifact3", "artifact2"]
    assert (_list_ids(view)["functions"], len(view.lists["models"])) == (["f1"], 5)
    assert view.bound == "the newest 3 of 5 artifacts are listed"
    monkeypatch.setattr(projects, "MOST_LISTED", 2)
    view = await get_project(core, "demo", most_bytes=500_000)
    assert view.bound == "the newest 2 of 5 artifacts are listed; the newest 2 of 5 models are listed"
    view = await get_project(core, "demo", most_bytes=1)
    assert {plural: len(listed) for plural, listed in view.lists.items() if listed} == {
        "functions": 1,
        "artifacts": 1,
        "models": 1,
    }


async def test_embedded_entities_are_in_short_when_the_metadata_of_others_needs_the_room(core: Core) -> None:
    for number in range(3):
        metadata = {"description": "x" * 30_000, "embedded": number == 2}
        name = f"a{number}"
        body = {"kind": "artifact", "name": name, "id": name, "spec": {"path": "s3://a"}, "metadata": metadata}
        await create_entity(core, ADA, "artifact", "demo", body)
    for most_bytes, is_whole in ((500_000, True), (30_000, False)):
        view = await get_project(core, "demo", most_bytes=most_bytes)
        assert view.lists["artifacts"][0].is_whole is is_whole, most_bytes


def _list_ids(view: ProjectView) -> dict[str, list[str]]:
    return {plural: [one.entity.id for one in listed] for plural, listed in view.lists.items()}


async def test_project_stays_when_it_is_not_empty_and_nobody_said_cascade(core: Core) -> None:
    await submit_run(core, ADA, "demo", RUN)
    with pytest.raises(NotPossible, match="1 functions, 2 tasks, 1 runs") as caught:
        await delete_project(core, ADA, "demo")
    assert caught.value.code == "project.not_empty"


async def test_project_stays_when_it_has_only_volumes_and_nobody_said_cascade(core: Core) -> None:
    await create_volume(core, ADA, "other", {"kind": "volume", "name": "data", "spec": {"size": "1Gi"}})
    with pytest.raises(NotPossible, match="1 volumes"):
        await delete_project(core, ADA, "other")


async def test_everything_goes_when_a_project_is_deleted_with_cascade(core: Core) -> None:
    run, _ = await submit_run(core, ADA, "demo", RUN)
    await core.logs.append(Stream(run_uid=run.uid, pod="p", container="main"), b"hi\n", offset=0, at=core.clock.now())
    await create_entity(core, ADA, "secret", "demo", {"kind": "secret", "name": "token"})
    await put_secret_values(core, ADA, "demo", {"token": "x"})
    await delete_project(core, ADA, "demo", is_cascading=True)
    with pytest.raises(Missing):
        await get_project(core, "demo", most_bytes=PAGE_BYTES)
    async with core.store.begin(is_read_only=True) as unit:
        assert await unit.secrets.find("demo", "token") is None
        assert await unit.runs.find("r1", project="demo") is None
        assert await unit.entities.find("function", "f1", project="demo") is None
    assert await core.logs.list_streams(run.uid) == []
    await create_project(core, ADA, {"kind": "project", "name": "demo"})
    view = await get_project(core, "demo", most_bytes=PAGE_BYTES)
    assert not any(view.lists.values())


async def test_project_stays_when_another_revision_was_seen(core: Core) -> None:
    with pytest.raises(Conflict):
        await delete_project(core, ADA, "demo", is_cascading=True, expected_revision=7)
    assert await list_audit(core, "project.delete") == []


async def test_project_is_deleting_until_its_runs_are_gone_when_an_engine_holds_them(tmp_path: Path) -> None:
    async with open_demo(tmp_path, engine=MemoryEngine()) as core:
        run, _ = await submit_run(core, ADA, "demo", RUN)
        async with core.store.begin() as unit:
            assert await claim(unit, place="memory/1")
            await unit.commit()
        await delete_project(core, ADA, "demo", is_cascading=True)
        view = await get_project(core, "demo", most_bytes=PAGE_BYTES)
        assert view.entity.state == "DELETING"
        assert not await finish_project_deletion(core, None, "demo")
        for act in (
            submit_run(core, ADA, "demo", {**RUN, "id": "r2"}),
            submit_run(core, ADA, "demo", RUN),
            update_project(core, ADA, "demo", {"kind": "project", "name": "demo"}),
            create_entity(core, ADA, "function", "demo", {"kind": "dbt", "name": "f"}),
            put_secret_values(core, ADA, "demo", {}),
        ):
            with pytest.raises(NotPossible, match="being deleted"):
                await act
        with pytest.raises(Duplicate):
            await create_project(core, ADA, {"kind": "project", "name": "demo"})
        async with core.store.begin() as unit:
            await unit.runs.delete([run.uid])
            await unit.commit()
        assert await finish_project_deletion(core, None, "demo")
        assert not await finish_project_deletion(core, None, "demo")
        page = await list_projects(core, Query(type="project"))
        assert [one.name for one in page.content] == ["other"]
