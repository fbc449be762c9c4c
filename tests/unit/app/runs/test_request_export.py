from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runyard.app.core import Core
from runyard.app.projects.entity_deletion import delete_entity
from runyard.app.runs import RequestExport, RequestFilter, request_export, submit_run
from runyard.store import open_read_only
from tests.contract.store.builders import make_run
from tests.unit.app.demo import ADA, RUN, TASK, open_demo

START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with open_demo(tmp_path) as core:
        yield core


async def _export(core: Core, **wanted: object) -> tuple[list[str], dict[str, int]]:
    export = RequestExport(core.store, RequestFilter(**wanted))  # type: ignore[arg-type]
    return [document["id"] async for document in export.iter_documents()], dict(export.counts)


@pytest.mark.parametrize("slice_size", [1, 2, 3, 7, 50])
async def test_every_run_is_exported_once_when_many_were_created_at_the_same_time(
    core: Core, monkeypatch: pytest.MonkeyPatch, slice_size: int
) -> None:
    monkeypatch.setattr(request_export, "SLICE", slice_size)
    expected = []
    async with core.store.begin() as unit:
        for number in range(12):
            run_id = f"r{number:02}"
            at = START + timedelta(seconds=number // 5)
            request = {**RUN, "id": run_id}
            await unit.runs.add(make_run(run_id, project="demo", created_at=at, request=request, is_local=False), [])
            expected.append(run_id)
        await unit.commit()
    exported, counts = await _export(core)
    assert sorted(exported) == expected
    assert counts == {"exported": 12}


async def test_runs_of_two_projects_are_told_apart_when_they_have_the_same_id_and_time(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_export, "SLICE", 1)
    async with core.store.begin() as unit:
        for project in ("demo", "other"):
            run = make_run("r1", uid=f"uid of {project}", project=project, created_at=START, request=RUN)
            await unit.runs.add(run, [])
        await unit.commit()
    # The task is of one project only.
    assert await _export(core) == (["r1"], {"exported": 1, "unreadable": 1})


async def test_runs_are_left_out_and_counted_when_nothing_can_be_rehearsed_for_them(core: Core) -> None:
    await submit_run(core, ADA, "demo", RUN)
    local = {"kind": "container+job:run", "id": "r2", "spec": {"task": TASK, "local_execution": True}}
    await submit_run(core, ADA, "demo", local)
    serve = {"kind": "container+serve:run", "id": "r3", "spec": {"task": "container+serve://demo/t2"}}
    await submit_run(core, ADA, "demo", serve)
    await delete_entity(core, ADA, "task", "demo", "t2")
    assert await _export(core) == (["r1"], {"exported": 1, "local": 1, "unreadable": 1})
    assert await _export(core, project="other") == ([], {})
    assert await _export(core, until=START) == ([], {})


async def test_nothing_can_be_written_when_a_database_is_opened_for_reading_beside_a_server(
    core: Core, tmp_path: Path
) -> None:
    await submit_run(core, ADA, "demo", RUN)
    store = await open_read_only(f"sqlite:///{tmp_path}/runyard.db")
    try:
        export = RequestExport(store, RequestFilter())
        assert [document["id"] async for document in export.iter_documents()] == ["r1"]
        with pytest.raises(Exception, match="read-only"):
            async with store.begin() as unit:
                await unit.put_meta("epoch", "mine")
    finally:
        await store.close()
    await submit_run(core, ADA, "demo", {**RUN, "id": "r2"})
